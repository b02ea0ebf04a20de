"""The Debian package in a plain Debian: installed with its dependencies, upgraded, removed, purged. With the argument
`debian13`, in Debian 13, where it is built first."""

import atexit
import functools
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import debian13
import systems

sys.path.append(str(systems.ROOT / "tests" / "integration"))
systems.require_root_and("mmdebstrap", "chroot", "dpkg-shlibdeps", "lintian")
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="sepal-debian-"))
atexit.register(shutil.rmtree, FOLDER)
ON_DEBIAN_13 = "debian13" in sys.argv
if ON_DEBIAN_13:
    sys.argv.remove("debian13")
    BUILDER = debian13.builder()
    SYSTEM = systems.unpack(FOLDER / "system", systems.base(debian13.RELEASE))
else:
    SYSTEM = systems.unpack(FOLDER / "system")
os.environ["SEPALD"] = systems.server_script(FOLDER / "sepald", SYSTEM, "sepal:sepal")

from client import Client  # noqa: E402: it starts the sepald that is named above
from daemon import Daemon  # noqa: E402

NEWER = "999.0"
UNIT = "etc/systemd/system/multi-user.target.wants/sepald.service"


def inside(*words):
    return systems.run("chroot", SYSTEM, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", *words)


def install(package):
    shutil.copy(package, SYSTEM / "tmp" / package.name)
    return inside("apt-get", "-q", "install", "-y", "--no-install-recommends", "/tmp/" + package.name)


def owner_of(path):
    status = (SYSTEM / path).stat()
    names = {line.split(":")[2]: line.split(":")[0] for line in (SYSTEM / "etc/passwd").read_text().splitlines()}
    groups = {line.split(":")[2]: line.split(":")[0] for line in (SYSTEM / "etc/group").read_text().splitlines()}
    return names[str(status.st_uid)], groups[str(status.st_gid)], stat.S_IMODE(status.st_mode)


class DebianTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = functools.partial(*((debian13.package, BUILDER) if ON_DEBIAN_13 else (systems.package, FOLDER)))
        cls.package = made()
        cls.newer = made(NEWER)

    def serve(self, *arguments):
        """The server of the package, with its configuration, as its user."""
        daemon = Daemon("/var/lib/sepal", "--config", "/etc/sepal/sepald.toml", *arguments)
        self.addCleanup(daemon.kill)
        return daemon

    def health(self):
        return inside("setpriv", "--reuid=sepal", "--regid=sepal", "--clear-groups",
                      "sepald", "--healthcheck", "--config", "/etc/sepal/sepald.toml")

    def test_lintian_finds_no_error(self):
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", self.package], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_life_of_the_package(self):
        for step in (self.install_it, self.use_it, self.upgrade_it, self.remove_it, self.install_it_again, self.purge_it):
            with self.subTest(step.__name__):
                step()

    def install_it(self):
        install(self.package)
        self.assertEqual(inside("dpkg", "--audit"), "")
        self.assertEqual(owner_of("var/lib/sepal"), ("sepal", "sepal", 0o700))
        self.assertEqual(owner_of("etc/sepal/sepald.toml"), ("root", "sepal", 0o640))
        self.assertEqual(inside("sepald", "--version").split()[0], "sepald")
        self.assertIn("whole", inside("sepal", "--help"))
        self.assertTrue((SYSTEM / UNIT).is_symlink(), "the service is not enabled")
        self.assertTrue((SYSTEM / os.readlink(SYSTEM / UNIT).lstrip("/")).exists())

    def use_it(self):
        daemon = self.serve()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "users", "alice")
        self.assertRegex(self.health(), r"^healthy: 127.0.0.1:%d: it answers PONG$" % daemon.port)
        self.assertEqual(daemon.stop(), 0)
        config = SYSTEM / "etc/sepal/sepald.toml"
        config.write_text(config.read_text().replace("maxclients = 10000", "maxclients = 77"))

    def upgrade_it(self):
        printed = install(self.newer)
        self.assertIn("Setting up sepal (%s" % NEWER, printed)
        daemon = self.serve()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.EXISTS", "users", "alice"), 1)
            self.assertEqual(client.call("CONFIG", "GET", "maxclients")[1], b"77")
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(owner_of("etc/sepal/sepald.toml")[1:], ("sepal", 0o640))

    def remove_it(self):
        inside("apt-get", "-q", "remove", "-y", "sepal")
        self.assertFalse((SYSTEM / "usr/bin/sepald").exists())
        self.assertFalse((SYSTEM / "usr/lib/systemd/system/sepald.service").exists())
        self.assertTrue((SYSTEM / "var/lib/sepal/CURRENT").exists())
        self.assertIn("maxclients = 77", (SYSTEM / "etc/sepal/sepald.toml").read_text())

    def install_it_again(self):
        install(self.newer)
        daemon = self.serve()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.EXISTS", "users", "alice"), 1)
        self.assertEqual(daemon.stop(), 0)

    def purge_it(self):
        inside("apt-get", "-q", "purge", "-y", "sepal")
        for path in ("var/lib/sepal", "etc/sepal", UNIT):
            self.assertFalse(os.path.lexists(SYSTEM / path), path)
        self.assertNotIn("sepal", inside("dpkg-query", "-W", "-f", "${Package}\n"))


if __name__ == "__main__":
    unittest.main()
