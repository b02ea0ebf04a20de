"""redis-benchmark, as Debian packages it: its own load with BF commands, with a password, in RESP3."""

import csv
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import client_test
from client_test import PASSWORD
from programs import missing

REQUESTS = 20_000


class RedisBenchmarkTest(client_test.ClientTest):
    def benchmark(self, *words):
        """What it writes. It ends if a reply is an error."""
        done = subprocess.run(["redis-benchmark", "-p", str(self.daemon.port), "-n", str(REQUESTS), *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, "ERR" in done.stdout + done.stderr, done.stderr), (0, False, ""), done.stdout)
        return done.stdout

    def setUp(self):
        super().setUp()
        self.daemon = self.start_locked()
        self.client = self.connect(self.daemon)

    def test_it_adds_and_asks_in_pipelines(self):
        self.client.call("BF.RESERVE", "seen", "0.0001", "1000000")
        for words in (["-P", "16"], ["-3", "-P", "100", "-c", "8"], ["--threads", "2"], ["--user", "default"]):
            self.benchmark("-a", PASSWORD, "-q", *words, "-r", "1000000", "BF.ADD", "seen", "item:__rand_int__")
        added = self.client.call("BF.CARD", "seen")
        # Two runs may draw the same numbers.
        self.assertGreater(added, 0.9 * REQUESTS)
        self.benchmark("-a", PASSWORD, "-q", "-P", "16", "-r", "1000000", "BF.EXISTS", "seen", "item:__rand_int__")
        self.assertEqual(self.client.call("BF.CARD", "seen"), added)

    def test_its_figures_can_be_read(self):
        rows = list(csv.DictReader(self.benchmark("-a", PASSWORD, "-t", "ping", "-P", "16", "--csv").splitlines()))
        self.assertEqual([row["test"] for row in rows], ["PING_INLINE", "PING_MBULK"])
        self.assertTrue(all(float(row["rps"]) > 0 for row in rows), rows)

    def test_it_reads_an_item_from_its_input(self):
        done = subprocess.run(["redis-benchmark", "-p", str(self.daemon.port), "-a", PASSWORD, "-q", "-n", "100", "-x", "BF.ADD", "typed"],
                              input=b"an item\r\n\xff", capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.client.call("BF.EXISTS", "typed", b"an item\r\n\xff"), 1)

    def test_a_missing_password_is_told(self):
        done = subprocess.run(["redis-benchmark", "-p", str(self.daemon.port), "-n", "10", "BF.ADD", "k", "a"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertIn("NOAUTH", done.stdout + done.stderr)


if __name__ == "__main__":
    client_test.main(missing("redis_benchmark"))
