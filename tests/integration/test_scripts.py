"""The arguments of the scripts: help and mistakes, without building or installing anything."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The programs of the system that the scripts need before they build or install, besides the shell's own.
PROGRAMS = ("bash", "cat", "dirname", "env", "nproc", "sed", "tr")


class ScriptsTest(unittest.TestCase):
    """Runs in a tree that has only the scripts, on a system without apt and without a compiler."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="sepal-test-"))
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        shutil.copy(ROOT / "CMakePresets.json", self.root)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for name in PROGRAMS:
            (self.bin / name).symlink_to(shutil.which(name))
        (self.bin / "python3").symlink_to(sys.executable)

    def provide(self, name, script):
        """Makes a fake program of the system."""
        (self.bin / name).write_text("#!/bin/sh\n%s\n" % script, encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def run_script(self, name, *arguments, **environment):
        done = subprocess.run([str(self.root / "scripts" / name), *arguments], env={"PATH": str(self.bin), **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertFalse((self.root / "build").exists(), "%s %s: built something" % (name, arguments))
        return done

    def test_every_script_tells_what_it_does(self):
        for script in sorted(ROOT.joinpath("scripts").iterdir()):
            for flag in ("--help", "-h"):
                with self.subTest(script=script.name, flag=flag):
                    done = self.run_script(script.name, flag)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn("scripts/" + script.name, done.stdout)
                    self.assertNotIn("set -", done.stdout)

    def test_a_mistake_is_reported_before_anything_is_done(self):
        for words, told in ((["build", "relase"], "unknown preset 'relase'; there are: release dev asan tsan arm64"),
                            (["build", "--test"], "unknown option '--test'"),
                            (["build", "--tests", "--help-me"], "unknown option '--help-me'"),
                            (["build", "base"], "unknown preset 'base'"),
                            (["build", ""], "unknown preset ''"),
                            (["test", "--slow"], "unknown option '--slow'"),
                            (["check", "--slow"], "unknown option '--slow'"),
                            (["check-layers", "--slow"], "unrecognized arguments: --slow"),
                            (["package", "--slow"], "unknown option '--slow'"),
                            (["write-manuals", "--slow"], "unrecognized arguments: --slow"),
                            (["install-dependencies", "--slow"], "unknown option '--slow'")):
            with self.subTest(words=words):
                done = self.run_script(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(told, done.stderr)

    def provide_packages(self, *missing):
        self.provide("apt-get", "echo apt-get was run; exit 1")
        self.provide("apt-cache", "echo '  Candidate: 1.83'")
        self.provide("dpkg", 'case $1 in --print-architecture) echo amd64 ;; esac')
        # It is called with -W -f FORMAT PACKAGE...
        self.provide("dpkg-query", 'shift 3\nfor package; do case " %s " in *" $package "*) ;; *:arm64) echo "ii $package" ;; '
                                   '*) echo "ii $package:amd64" ;; esac; done'
                     % " ".join(missing))
        self.provide("id", "echo 1000")

    def test_missing_packages_are_named_when_they_cannot_be_installed(self):
        self.provide_packages("libzstd-dev")
        done = self.run_script("install-dependencies")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("Packages are missing (libzstd-dev) and there is no sudo", done.stderr)

    def test_what_would_be_installed_is_printed(self):
        self.provide_packages("libzstd-dev", "catch2", "cmake", "npm", "dpkg-dev", "debhelper", "buildah", "libzstd-dev:arm64", "pkgconf:arm64")
        self.provide("node", "exit 0")
        for flags, packages in ((["--print"], "cmake\nlibzstd-dev\n"), (["--print", "--tests"], "cmake\nlibzstd-dev\ncatch2\n"),
                                (["--tests", "--print"], "cmake\nlibzstd-dev\ncatch2\n"),
                                (["--debian", "--print"], "cmake\nlibzstd-dev\ndpkg-dev\ndebhelper\n"),
                                (["--packages", "--print"], "cmake\nlibzstd-dev\ncatch2\ndpkg-dev\ndebhelper\nbuildah\n"),
                                (["--clients", "--print"], "cmake\nlibzstd-dev\ncatch2\nnpm\n")):
            done = self.run_script("install-dependencies", *flags)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, packages, ""))

    def test_packages_of_another_architecture_are_asked_for_by_it(self):
        self.provide_packages("libzstd-dev:arm64")
        done = self.run_script("install-dependencies", "--arm64", "--print")
        # Boost is looked for in the folders of the system, not among the packages.
        self.assertRegex(done.stdout, r"\Alibzstd-dev:arm64\n(libboost-dev:arm64\nlibboost-context-dev:arm64\n)?\Z")

    def test_ubuntu_has_all_packages_that_are_asked_for_there(self):
        self.provide("apt-get", "exit 1")
        self.provide("apt-cache", "echo '  Candidate: 1.83'")
        self.provide("dpkg", 'case $1 in --print-architecture) echo amd64 ;; esac')
        self.provide("dpkg-query", "exit 1")  # nothing is installed
        (self.root / "os-release").write_text("VERSION_CODENAME=noble\n", encoding="utf-8")
        done = self.run_script("install-dependencies", "--packages", "--clients", "--arm64", "--print", SEPAL_OS_RELEASE=str(self.root / "os-release"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        asked_for = {name.removesuffix(":arm64") for name in done.stdout.split()}
        self.assertIn("clang-tidy-14", asked_for)
        known = pathlib.Path(__file__).with_name("noble-packages.txt").read_text(encoding="utf-8").splitlines()
        self.assertEqual(asked_for - {name for name in known if not name.startswith("#")}, set())

    def test_nothing_is_printed_or_installed_when_nothing_is_missing(self):
        self.provide_packages()
        for flags in ([], ["--tests"], ["--print"]):
            done = self.run_script("install-dependencies", *flags)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
