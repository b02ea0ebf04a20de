"""The images of docker/Dockerfile, built by Buildah without a daemon, and the servers in them.

The base is a plain Debian from the mirror of this machine. In the place of the sources, the build gets the package of the
programs that are built already: what `scripts/package` would make in the image, the tests of the build have compiled.
"""

import atexit
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import systems

try:
    import yaml
except ImportError as problem:
    systems.skip("%s; scripts/install-dependencies --packages installs it" % problem)

sys.path.append(str(systems.ROOT / "tests" / "integration"))
systems.require_root_and("mmdebstrap", "buildah", "chroot", "dpkg-shlibdeps", "redis-cli")
BASE = systems.base()
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="sepal-image-"))
UID = 6379
# How far above its port a node of a cluster listens for the other nodes.
BUS_OFFSET = 10_000


def store(driver):
    return ["buildah", "--storage-driver", driver, "--root", FOLDER / driver, "--runroot", FOLDER / ("run-" + driver)]


def usable_store():
    """With overlays, a layer shares the files below it. Not every machine can: then each layer is a copy of all files."""
    overlays = store("overlay")
    if subprocess.run([*overlays, "from", "--name", "probe", "scratch"], capture_output=True, check=False).returncode == 0 \
            and subprocess.run([*overlays, "mount", "probe"], capture_output=True, check=False).returncode == 0:
        return overlays
    return store("vfs")


STORE = usable_store()


def forget():
    mounted = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    for place in reversed([place for place in mounted if place.startswith(str(FOLDER) + "/")]):
        subprocess.run(["umount", place], check=False)
    shutil.rmtree(FOLDER)


atexit.register(forget)
DATA = FOLDER / "data"
os.environ["SEPALD"] = str(FOLDER / "sepald")  # written when the image is there

from client import Client  # noqa: E402: it starts the sepald that is named above
from daemon import Daemon, free_port  # noqa: E402


def buildah(*words):
    return systems.run(*STORE, *words)


def import_base():
    container = buildah("from", "scratch").strip()
    buildah("add", "--quiet", container, BASE, "/")
    buildah("commit", "--quiet", "--rm", container, "localhost/base")


def make_context():
    context = FOLDER / "context"
    for folder in ("scripts", "cmake"):
        (context / folder).mkdir(parents=True)
    systems.package(context)
    for name, script in (("install-dependencies", "true"), ("package", 'grep -qx abc cmake/commit.txt && cp sepal_*.deb "$1"')):
        (context / "scripts" / name).write_text("#!/bin/sh\n%s\n" % script, encoding="utf-8")
        (context / "scripts" / name).chmod(0o755)
    return context


def build_image(context, name, *options):
    # With its network and names, as Docker builds it. Layers that the images share are made once.
    buildah("build", "--isolation", "chroot", "--format", "docker", "--layers", "--build-arg", "BASE=localhost/base", "--build-arg", "COMMIT=abc",
            "--file", systems.ROOT / "docker" / "Dockerfile", "--tag", name, *options, context)
    config = json.loads(buildah("inspect", "--type", "image", name))["Docker"]["config"]
    container = buildah("from", name).strip()
    return config, container, buildah("mount", container).strip()


import_base()
CONTEXT = make_context()


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.config, cls.container, cls.root = build_image(CONTEXT, "localhost/sepal")
        # The entrypoint of the image, and the arguments that Daemon adds.
        words = [sys.executable, str(systems.INSIDE), "--read-only", "--data", str(DATA), cls.root, cls.config["User"], *cls.config["Entrypoint"]]
        script = FOLDER / "sepald"
        script.write_text('#!/bin/sh\nexec %s "$@"\n' % " ".join(words), encoding="utf-8")
        script.chmod(0o755)

    def setUp(self):
        DATA.mkdir()
        os.chown(DATA, UID, UID)
        self.addCleanup(shutil.rmtree, DATA)

    def serve(self, *arguments, wait=True):
        daemon = Daemon("/data", *arguments, wait=wait)
        self.addCleanup(daemon.kill)
        return daemon

    def health(self, **environment):
        """The exit status and the line of the image's health check, run as the engine runs it: without the server's flags."""
        kind, *words = self.config["Healthcheck"]["Test"]
        self.assertEqual(kind, "CMD")
        done = subprocess.run([sys.executable, systems.INSIDE, "--read-only", "--data", str(DATA), self.root, self.config["User"], *words],
                              env=dict(os.environ, **environment), capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()

    def test_what_the_image_says_about_itself(self):
        labels = {name.removeprefix("org.opencontainers.image."): value for name, value in self.config["Labels"].items()}
        self.assertEqual((labels["version"], labels["licenses"], labels["revision"]), (os.environ["SEPAL_VERSION"], "BSD-3-Clause", "abc"))
        self.assertEqual(self.config["User"], "%d:%d" % (UID, UID))
        self.assertEqual(list(self.config["Volumes"]), ["/data"])
        self.assertEqual(list(self.config["ExposedPorts"]), ["6379/tcp"])
        self.assertEqual(self.config["StopSignal"], "SIGTERM")

    def test_the_folder_of_the_data_is_the_user_s(self):
        status = os.stat(self.root + "/data")
        self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o7777), (UID, UID, 0o700))

    def test_the_engine_runs_the_programs(self):
        for program in ("sepald", "sepal"):
            self.assertIn(os.environ["SEPAL_VERSION"], buildah("run", "--isolation", "chroot", self.container, "--", program, "--version"))
        self.assertEqual(buildah("run", "--isolation", "chroot", self.container, "--", "id", "-u").strip(), str(UID))

    def test_the_server_serves_as_its_user_from_a_read_only_root_and_keeps_its_data(self):
        daemon = self.serve()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("PING"), b"PONG")
            client.call("BF.ADD", "users", "alice")
        status = pathlib.Path("/proc/%d/status" % daemon.process.pid).read_text()
        self.assertIn("\nUid:\t%d\t%d\t%d\t%d\n" % (UID, UID, UID, UID), status)
        self.assertRegex(status, r"\nCapEff:\t0+\n")
        self.assertRegex(subprocess.run([sys.executable, systems.INSIDE, "--read-only", self.root, "0:0", "touch", "/file"],
                                        capture_output=True, text=True, check=False).stderr, "Read-only file system")
        self.assertEqual(daemon.stop(), 0)
        with Client.of(self.serve()) as client:
            self.assertEqual(client.call("BF.EXISTS", "users", "alice"), 1)

    def test_the_health_check_follows_the_server(self):
        unused = (1, "sepald: not healthy: no sepald uses the data directory /data")
        self.assertEqual(self.health(), unused)
        port = free_port()
        daemon = self.serve("--port", str(port))
        self.assertEqual(self.health(), (0, "healthy: 0.0.0.0:%d: it answers PONG" % port))
        daemon.send_signal(signal.SIGSTOP)
        self.assertEqual(self.health(), (1, "sepald: not healthy: 0.0.0.0:%d: no answer within 5 seconds" % port))
        daemon.send_signal(signal.SIGCONT)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(self.health(), unused)

    def test_the_health_check_logs_in(self):
        daemon = self.serve("--requirepass", "sesame")
        self.assertEqual(self.health(SEPAL_REQUIREPASS="sesame"), (0, "healthy: 0.0.0.0:%d: it answers PONG" % daemon.port))
        status, told = self.health()
        self.assertEqual((status, "another login" in told), (0, True), told)

    def test_a_folder_that_the_user_may_not_write_to_is_named(self):
        os.chown(DATA, 0, 0)
        daemon = self.serve(wait=False)
        self.assertEqual(daemon.wait(), 1)
        self.assertRegex(daemon.text(), r"/data/LOCK: Permission denied")


class ClusterTest(unittest.TestCase):
    """The image of docker/cluster-compose.yml: its nodes and the command that joins them, with ports of one machine."""

    def call(self, port, *words):
        return subprocess.run(["redis-cli", "-c", "-p", str(port), *words], capture_output=True, text=True, timeout=300, check=False).stdout.strip()

    def eventually(self, what, condition):
        deadline = time.monotonic() + 300
        while not condition():
            self.assertLess(time.monotonic(), deadline, what + "".join(path.read_text()[-2000:] for path in FOLDER.glob("*.log")))
            time.sleep(0.1)

    def test_the_nodes_of_the_file_make_a_cluster(self):
        config, _, root = build_image(CONTEXT, "localhost/redis", "--target", "redis")
        self.assertEqual(config["User"], "%d:%d" % (UID, UID))
        services = yaml.safe_load((systems.ROOT / "docker" / "cluster-compose.yml").read_text(encoding="utf-8"))["services"]
        joined = services.pop("create")
        self.assertEqual(len(services), 6)
        ports = {}
        for service in services.values():
            address = service["networks"]["cluster"]["ipv4_address"]
            port = ports[address] = free_port(offset=BUS_OFFSET)
            data = FOLDER / ("data-%d" % port)
            data.mkdir()
            os.chown(data, UID, UID)
            log = open(str(data) + ".log", "wb")
            self.addCleanup(log.close)
            process = subprocess.Popen(
                [sys.executable, str(systems.INSIDE), "--read-only", "--data", str(data), root, config["User"], *config["Entrypoint"],
                 *service["command"], "--port", str(port), "--bind", "127.0.0.1"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.addCleanup(process.wait, 60)
            self.addCleanup(process.kill)  # a node that writes its first AOF refuses SIGTERM
            self.eventually("a node does not start", lambda: self.call(port, "PING") == "PONG")
        script = joined["command"][0]
        for address, port in ports.items():
            script = script.replace(address + ":6379", "127.0.0.1:%d" % port).replace("-h " + address, "-p %d" % port)
        self.assertNotRegex(script, r"10\.79\.")
        for _ in range(2):  # the second run finds the cluster there
            systems.run(*joined["entrypoint"], script)
            for port in ports.values():
                self.eventually("a node is not in the cluster", lambda: "cluster_state:ok" in self.call(port, "CLUSTER", "INFO"))
        self.assertEqual(self.call(port, "BF.ADD", "users", "alice"), "1")
        self.assertEqual(self.call(min(ports.values()), "BF.EXISTS", "users", "alice"), "1")
        roles = [self.call(port, "ROLE").split("\n")[0] for port in ports.values()]
        self.assertEqual((roles.count("master"), roles.count("slave")), (3, 3))


if __name__ == "__main__":
    unittest.main()
