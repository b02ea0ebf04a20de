"""The Debian package in a plain Debian: installed with its dependencies, upgraded from 0.1.0 with its data, downgraded, removed,
purged. With the argument `debian13`, in Debian 13, where it is built first."""

import atexit
import functools
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import debian13
import systems

sys.path.append(str(systems.ROOT / "tests" / "integration"))
systems.require_root_and("mmdebstrap", "chroot", "dh", "lintian")
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

# The package of 0.1.0 is the same programs under that version: dpkg sees an upgrade, and the data is what 0.1.0 wrote.
OLDER, NEWER = "0.1.0", "999.0"
FORMATS = systems.ROOT / "tests" / "golden" / "formats"
PROGRAMS = ("usr/bin/sepald", "usr/bin/sepal", "usr/lib/sepal/sepal.so")
DATA = SYSTEM / "var/lib/sepal"
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


def as_root(*words):
    """Runs a program with the mounts of a container, as root of the system."""
    return systems.run(sys.executable, systems.INSIDE, SYSTEM, "root", *words)


def take_data_of(version):
    """Puts a golden data directory in the place of the data, as if its version had run here."""
    shutil.rmtree(DATA)
    shutil.copytree(FORMATS / version, DATA)
    inside("chown", "-R", "sepal:sepal", "/var/lib/sepal")
    inside("chmod", "700", "/var/lib/sepal")


class DebianTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = functools.partial(*((debian13.package, BUILDER) if ON_DEBIAN_13 else (systems.package, FOLDER)))
        os.environ["DEB_BUILD_OPTIONS"] = "noautodbgsym"
        cls.older = made(OLDER)
        del os.environ["DEB_BUILD_OPTIONS"]
        cls.package = made(NEWER)
        cls.symbols = cls.package.with_name(cls.package.name.replace("sepal_", "sepal-dbgsym_"))
        cls.files = FOLDER / "files"
        systems.run("dpkg-deb", "--extract", cls.package, cls.files)

    def serve(self, *arguments, **options):
        """The server of the package, with its configuration, as its user."""
        daemon = Daemon("/var/lib/sepal", "--config", "/etc/sepal/sepald.toml", *arguments, **options)
        self.addCleanup(daemon.kill)
        return daemon

    def health(self):
        return inside("setpriv", "--reuid=sepal", "--regid=sepal", "--clear-groups",
                      "sepald", "--healthcheck", "--config", "/etc/sepal/sepald.toml")

    def test_lintian_finds_nothing(self):
        # That of Debian 12 does not know Static-Built-Using, which its dpkg knows.
        done = subprocess.run(["lintian", "--allow-root", "--suppress-tags", "unknown-field", "--fail-on", "error,warning", self.package, self.symbols], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_programs_are_hardened(self):
        if ON_DEBIAN_13:
            self.skipTest("debian13.py builds a type that is optimised less, and not hardened")
        for path in PROGRAMS:
            with self.subTest(path):
                printed = systems.run("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", "--dyn-syms", self.files / path)
                self.assertRegex(printed, r"Type: +DYN ")
                self.assertRegex(printed, r"\n +GNU_RELRO ")
                self.assertRegex(printed, r"\(FLAGS(_1)?\).*\bNOW\b")
                self.assertRegex(printed, r"\n +GNU_STACK [^\n]* RW +0x")
                self.assertRegex(printed, r" __(memcpy|memmove|memset|read|snprintf|vsnprintf|fprintf|printf|strcpy|strncpy|strcat|recv)_chk@")

    def test_a_debugger_finds_the_lines_of_the_programs(self):
        folder = FOLDER / "symbols"
        systems.run("dpkg-deb", "--extract", self.symbols, folder)
        for path in PROGRAMS:
            name = re.search(r"Build ID: ([0-9a-f]+)", systems.run("readelf", "--notes", self.files / path)).group(1)
            symbols = folder / "usr/lib/debug/.build-id" / name[:2] / (name[2:] + ".debug")
            sections = systems.run("readelf", "--wide", "--sections", symbols)
            self.assertIn(".debug_line", sections)
            self.assertNotIn(".gnu_debugaltlink", sections, "addr2line would need another file")

    def test_the_bill_of_materials_has_what_spdx_asks_for(self):
        if ON_DEBIAN_13:
            self.skipTest("it is about the packages of the system that built the programs")
        text = systems.run(systems.ROOT / "scripts" / "write-sbom", systems.BUILD, self.package, env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"))
        bill = json.loads(text)
        self.assertEqual((bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertEqual(bill["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        self.assertRegex(bill["creationInfo"]["creators"][0], r"^Tool: \S+$")
        self.assertRegex(bill["documentNamespace"], r"^https://[^#]+$")
        names = {package["SPDXID"]: package["name"] for package in bill["packages"]}
        self.assertEqual(len(names), len(bill["packages"]))
        for package in bill["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertTrue(package["name"] and package["versionInfo"] and package["supplier"].startswith("Organization: "))
            self.assertEqual((package["downloadLocation"], package["filesAnalyzed"]), ("NOASSERTION", False))
            for reference in package.get("externalRefs", ()):
                self.assertRegex(reference["referenceLocator"], r"^pkg:deb/\w+/[a-z0-9.+%-]+@[\w.%~-]+\?arch=\w+$")
        linked = {}
        for one in bill["relationships"]:
            self.assertLessEqual({one["spdxElementId"], one["relatedSpdxElement"]} - {"SPDXRef-DOCUMENT"}, set(names))
            linked.setdefault(one["relationshipType"], set()).add(names[one["spdxElementId" if one["relationshipType"] == "BUILD_TOOL_OF" else "relatedSpdxElement"]])
        self.assertEqual(linked["DESCRIBES"], {"sepal"})
        self.assertLessEqual({"liblua5.1-0-dev", "libcli11-dev"}, linked["STATIC_LINK"])
        self.assertLessEqual({"libssl3", "libjemalloc2", "libstdc++6"}, linked["DYNAMIC_LINK"])
        self.assertIn("cmake", linked["BUILD_TOOL_OF"])
        # The package says the same of what is inside the programs.
        inside_of = {package["sourceInfo"].split()[2] for package in bill["packages"] if package["name"] in linked["STATIC_LINK"]}
        said = systems.run("dpkg-deb", "--field", self.package, "Static-Built-Using")
        self.assertEqual({one.split()[0] for one in said.split(", ")}, inside_of)
        # And it has the notices of each of them.
        with tarfile.open(fileobj=io.BytesIO(subprocess.run(["dpkg-deb", "--fsys-tarfile", self.package], capture_output=True, check=True).stdout)) as files:
            notices = gzip.decompress(files.extractfile("./usr/share/doc/sepal/THIRD-PARTY.gz").read()).decode()
        self.assertEqual(set(re.findall(r"(?m)^={80}\n(\S+) \S+$\n={80}$", notices)), linked["STATIC_LINK"])
        self.assertIn("Permission is hereby granted, free of charge", notices)

    def test_a_compiler_may_be_known_by_its_name_alone(self):
        """As in a build folder that scripts/build has configured a second time, for another machine."""
        folder = FOLDER / "configured-again"
        (folder / "CMakeFiles").mkdir(parents=True)
        for name in ("build.ninja", ".ninja_deps", ".ninja_log", "CMakeFiles/rules.ninja"):
            shutil.copy(systems.BUILD / name, folder / name)
        for name in ("sepald", "sepal", "sepal.so"):
            (folder / name).symlink_to(systems.BUILD / name)
        cache = (systems.BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
        (folder / "CMakeCache.txt").write_text(re.sub(r"(?m)^(CMAKE_CXX_COMPILER:\w+=).*/", r"\1", cache), encoding="utf-8")
        told = [systems.run(systems.ROOT / "scripts" / "write-sbom", "--static", build) for build in (systems.BUILD, folder)]
        self.assertEqual(told[0], told[1])

    def test_a_life_of_the_package(self):
        for step in (self.install_it, self.use_it, self.upgrade_it, self.read_data_of_every_version, self.back_it_up, self.rotate_the_log,
                     self.downgrade_it, self.remove_it, self.install_it_again, self.purge_it):
            with self.subTest(step.__name__):
                step()

    def install_it(self):
        install(self.older)
        self.assertEqual(inside("dpkg", "--audit"), "")
        self.assertEqual(owner_of("var/lib/sepal"), ("sepal", "sepal", 0o700))
        self.assertEqual(owner_of("etc/sepal/sepald.toml"), ("root", "sepal", 0o640))
        self.assertEqual(inside("sepald", "--version").split()[0], "sepald")
        self.assertIn("whole", inside("sepal", "--help"))
        self.assertTrue((SYSTEM / UNIT).is_symlink(), "the service is not enabled")
        self.assertTrue((SYSTEM / os.readlink(SYSTEM / UNIT).lstrip("/")).exists())
        # Nothing else starts by itself.
        self.assertEqual([path.name for path in (SYSTEM / "etc/systemd/system").rglob("*sepal*")], ["sepald.service"])
        kept = inside("dpkg-query", "--show", "--showformat", "${Conffiles}", "sepal")
        self.assertEqual(re.findall(r"^ (\S+) ", kept, re.M), ["/etc/logrotate.d/sepal", "/etc/sepal/sepald.toml"])

    def use_it(self):
        take_data_of("version-5")  # which 0.1.0 wrote
        daemon = self.serve()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "users", "alice")
        self.assertRegex(self.health(), r"^healthy: 127.0.0.1:%d: it answers PONG$" % daemon.port)
        self.assertEqual(daemon.stop(), 0)
        config = SYSTEM / "etc/sepal/sepald.toml"
        config.write_text(config.read_text().replace("maxclients = 10000", "maxclients = 77"))

    def require_data_and_settings(self, daemon):
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.EXISTS", "users", "alice"), 1)
            self.assertEqual(client.call("CONFIG", "GET", "maxclients")[1], b"77")
            client.call("SELECT", "5")
            self.assertEqual(client.call("BF.CARD", "moved"), 3)

    def upgrade_it(self):
        printed = install(self.package)
        self.assertIn("Setting up sepal (%s" % NEWER, printed)
        daemon = self.serve()
        self.require_data_and_settings(daemon)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(owner_of("etc/sepal/sepald.toml")[1:], ("sepal", 0o640))

    def read_data_of_every_version(self):
        aside = DATA.with_name("aside")
        shutil.copytree(DATA, aside)
        versions = sorted((path.name for path in FORMATS.iterdir()), key=lambda name: int(name.removeprefix("version-")))
        self.assertEqual((versions[0], len(versions) >= 11), ("version-5", True))
        for version in versions:
            with self.subTest(version):
                take_data_of(version)
                daemon = self.serve()
                with Client.of(daemon) as client:
                    client.call("SELECT", "5")
                    self.assertEqual(client.call("BF.CARD", "moved"), 3)
                self.assertEqual(daemon.stop(), 0)
                # What the new version has written, it reads again, and so does its tool.
                inside("sepal", "verify", "/var/lib/sepal")
        shutil.rmtree(DATA)
        aside.rename(DATA)
        inside("chown", "-R", "sepal:sepal", "/var/lib/sepal")

    def back_it_up(self):
        """The command of sepal-backup@.service, with the folder that systemd would make."""
        unit = (SYSTEM / "usr/lib/systemd/system/sepal-backup@.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)
        daemon = self.serve()
        for word, value in (("${SEPAL_SERVER}", "redis://127.0.0.1:%d" % daemon.port), ("${SEPAL_KEEP}", "2"), ("%i", "sepald")):
            self.assertIn(word, command)
            command = command.replace(word, value)
        folder = SYSTEM / "var/lib/sepal-backups/sepald"
        inside("install", "-d", "-m", "700", "-o", "sepal", "-g", "sepal", "/var/lib/sepal-backups", "/var/lib/sepal-backups/sepald")
        for _ in range(3):
            printed = systems.run(sys.executable, systems.INSIDE, SYSTEM, "sepal:sepal", *command.split())
        self.assertIn("kept     2, removed 1\n", printed)
        self.assertIn("they are links", printed)
        self.assertEqual(daemon.stop(), 0)
        newest = max(path.name for path in folder.glob("backup-*"))
        inside("sepal", "verify", "/var/lib/sepal-backups/sepald/" + newest)

    def rotate_the_log(self):
        inside("apt-get", "-q", "install", "-y", "--no-install-recommends", "logrotate")
        inside("install", "-d", "-m", "750", "-o", "sepal", "-g", "sepal", "/var/log/sepal")
        log = SYSTEM / "var/log/sepal/sepald.log"
        daemon = self.serve("--log-file", "/var/log/sepal/sepald.log", wait=False)
        self.await_text(log, "ready: address=")
        as_root("logrotate", "--force", "/etc/logrotate.d/sepal")
        self.assertIn("ready", log.with_name("sepald.log.1").read_text())
        self.await_text(log, "log reopened")
        self.assertEqual(owner_of("var/log/sepal/sepald.log"), ("sepal", "sepal", 0o600))
        self.assertEqual(daemon.stop(), 0)

    def await_text(self, path, text):
        deadline = time.monotonic() + 300
        while not path.exists() or text not in path.read_text():
            self.assertLess(time.monotonic(), deadline, "%s does not say %r" % (path, text))
            time.sleep(0.05)

    def downgrade_it(self):
        """Back to the older package: the configuration and the data stay. What a newer version wrote is refused, and stays whole."""
        shutil.copy(self.older, SYSTEM / "tmp" / self.older.name)
        inside("apt-get", "-q", "install", "-y", "--allow-downgrades", "/tmp/" + self.older.name)
        self.assertEqual(inside("dpkg-query", "--show", "--showformat", "${Version}", "sepal"), OLDER + "-1")
        daemon = self.serve()
        self.require_data_and_settings(daemon)
        self.assertEqual(daemon.stop(), 0)
        manifest = next(DATA.glob("generation-*/MANIFEST"))
        before = manifest.read_bytes()
        version = int.from_bytes(before[8:12], "little")
        manifest.write_bytes(before[:8] + (version + 1).to_bytes(4, "little") + before[12:])
        done = subprocess.run([os.environ["SEPALD"], "--config", "/etc/sepal/sepald.toml", "--port", "0"], capture_output=True, text=True, timeout=60, check=False)
        manifest.write_bytes(before)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"MANIFEST was written by a newer version of Sepal \(format %d, this version reads up to %d\)" % (version + 1, version))
        self.assertIn("or restore the data directory from a backup", done.stderr)
        daemon = self.serve()
        self.require_data_and_settings(daemon)
        self.assertEqual(daemon.stop(), 0)

    def remove_it(self):
        inside("apt-get", "-q", "remove", "-y", "sepal")
        self.assertFalse((SYSTEM / "usr/bin/sepald").exists())
        self.assertFalse((SYSTEM / "usr/lib/systemd/system/sepald.service").exists())
        self.assertTrue((SYSTEM / "var/lib/sepal/CURRENT").exists())
        self.assertIn("maxclients = 77", (SYSTEM / "etc/sepal/sepald.toml").read_text())

    def install_it_again(self):
        install(self.package)
        daemon = self.serve()
        self.require_data_and_settings(daemon)
        self.assertEqual(daemon.stop(), 0)

    def purge_it(self):
        # A mount point is emptied, and stays.
        self.assertNotEqual(list(DATA.iterdir()), [])
        systems.run("unshare", "--mount", "sh", "-ec", 'mount --bind "$1/var/lib/sepal" "$1/var/lib/sepal"; chroot "$1" sh /var/lib/dpkg/info/sepal.postrm purge', "sh", SYSTEM)
        self.assertEqual(list(DATA.iterdir()), [])
        (DATA / "more").mkdir()
        wanted = [SYSTEM / "etc/systemd/system" / link for link in ("multi-user.target.wants/sepald@a.service", "timers.target.wants/sepal-backup@a.timer")]
        for link in wanted:
            link.parent.mkdir(exist_ok=True)
            link.symlink_to("/usr/lib/systemd/system/" + link.name.replace("@a", "@"))
        inside("apt-get", "-q", "purge", "-y", "sepal")
        for path in ("var/lib/sepal", "etc/sepal", "etc/logrotate.d/sepal", UNIT, *wanted):
            self.assertFalse(os.path.lexists(SYSTEM / path), path)
        self.assertTrue((SYSTEM / "var/lib/sepal-backups/sepald").exists(), "a purge keeps backups")
        self.assertNotIn("sepal", inside("dpkg-query", "-W", "-f", "${Package}\n"))


if __name__ == "__main__":
    unittest.main()
