"""sepald for arm64 serves, saves and stops, run by QEMU. sepald of this machine loads its data, and back."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from client import Client  # noqa: E402
from daemon import Daemon  # noqa: E402

QEMU = os.environ["QEMU"]
ITEMS = ["item-%d" % number for number in range(20_000)]


def arm64(page_bytes=4096):
    return [QEMU, "-p", str(page_bytes), os.environ["SEPALD_ARM64"]]


def digest(client):
    """What is the same where the data is the same."""
    return [client.call("DUMP", key) for key in ("small", "large", "forgetful", "cuckoo", "bits")]


class DataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sepal-arm64-")
        self.addCleanup(folder.cleanup)
        self.directory = folder.name + "/data"

    def serve(self, program=None):
        daemon = Daemon(self.directory, program=program)
        self.addCleanup(daemon.kill)
        return daemon

    def fill(self, client):
        client.call("BF.ADD", "small", "alice")
        client.call("BF.RESERVE", "large", "0.001", "3000000")
        client.call("BF.RESERVE", "forgetful", "0.01", "1000", "LAST", "GENERATIONS", "3")
        client.call("CF.RESERVE", "cuckoo", "100000")
        client.call("SETBIT", "bits", str(8 << 20), "1")

    def add(self, client, items):
        self.assertEqual(client.call("BF.MADD", "large", *items), [1] * len(items))
        client.call("CF.INSERT", "cuckoo", "ITEMS", *items)
        client.call("BF.MADD", "forgetful", *items[:100])
        client.call("SETBIT", "bits", str(len(items)), "1")

    def check(self, client, items):
        self.assertEqual(client.call("BF.EXISTS", "small", "alice"), 1)
        self.assertEqual(client.call("BF.MEXISTS", "large", *items), [1] * len(items))
        self.assertEqual(client.call("CF.MEXISTS", "cuckoo", *items), [1] * len(items))
        self.assertEqual(client.call("GETBIT", "bits", str(8 << 20)), 1)

    def test_data_moves_between_processors(self):
        half = len(ITEMS) // 2
        daemon = self.serve(arm64())
        with Client.of(daemon) as client:
            self.assertRegex(client.info("server")["os"], r"aarch64$")
            self.fill(client)
            client.save()
            self.add(client, ITEMS[:half])  # in the journal only
            known = digest(client)
        daemon.send_signal(9)
        daemon.wait()

        daemon = self.serve()
        with Client.of(daemon) as client:
            self.assertEqual(digest(client), known)
            self.check(client, ITEMS[:half])
            self.add(client, ITEMS[half:])
            known = digest(client)
        self.assertEqual(daemon.stop(), 0)

        # Pages of 16 KiB, as some systems have them.
        daemon = self.serve(arm64(page_bytes=16384))
        with Client.of(daemon) as client:
            self.assertEqual(digest(client), known)
            self.check(client, ITEMS)
            client.call("BF.ADD", "small", "bob")
        self.assertEqual(daemon.stop(), 0)
        verified = subprocess.run([QEMU, os.environ["SEPAL_ARM64"], "verify", self.directory], capture_output=True, text=True, check=False)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        with Client.of(self.serve()) as client:
            self.assertEqual(client.call("BF.MEXISTS", "small", "alice", "bob", "carol"), [1, 1, 0])


if __name__ == "__main__":
    unittest.main()
