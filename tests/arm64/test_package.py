"""The package for arm64, made on another machine: what it is for, what it needs, and what is in it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ELF_MACHINE = slice(18, 20)
AARCH64 = (183).to_bytes(2, "little")


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


class PackageTest(unittest.TestCase):
    def test_the_package_is_one_for_arm64(self):
        folder = tempfile.TemporaryDirectory(prefix="sepal-arm64-")
        self.addCleanup(folder.cleanup)
        package = run(ROOT / "scripts" / "package", "--arm64", "--as-built", folder.name).split()[-1]
        self.assertRegex(package, r"_arm64\.deb$")
        self.assertEqual(run("dpkg-deb", "--field", package, "Architecture"), "arm64\n")
        depends = {one.split()[0] for one in run("dpkg-deb", "--field", package, "Depends").split(", ")}
        self.assertLessEqual({"libc6", "libstdc++6", "libssl3", "libjemalloc2", "libzstd1", "adduser"}, depends)
        root = pathlib.Path(folder.name) / "root"
        run("dpkg-deb", "--extract", package, root)
        for path in ("usr/bin/sepald", "usr/bin/sepal", "usr/lib/sepal/sepal.so"):
            self.assertEqual((root / path).read_bytes()[ELF_MACHINE], AARCH64, path)
        self.assertRegex(run(os.environ["QEMU"], root / "usr/bin/sepald", "--version"), r"^sepald \d")
        self.assertTrue((root / "usr/lib/systemd/system/sepald.service").exists())


if __name__ == "__main__":
    unittest.main()
