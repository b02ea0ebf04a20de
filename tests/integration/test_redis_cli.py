"""The first minute of a user: redis-cli against a new sepald."""

import subprocess
import unittest

from daemon import DaemonTest


class RedisCliTest(DaemonTest):
    def cli(self, *words, options=()):
        done = subprocess.run(["redis-cli", "-p", str(self.daemon.port), *options, *words],
                              capture_output=True, text=True, timeout=300, check=True)
        return done.stdout.strip()

    def setUp(self):
        super().setUp()
        self.daemon = self.start()

    def test_a_filter_is_reserved_filled_asked_and_described(self):
        self.assertEqual(self.cli("BF.RESERVE", "users", "0.001", "1000000"), "OK")
        self.assertEqual(self.cli("BF.MADD", "users", "a", "b", "c"), "1\n1\n1")
        self.assertEqual(self.cli("BF.MEXISTS", "users", "a", "x"), "1\n0")
        self.assertEqual(self.cli("BF.ADD", "users", "a"), "0")
        self.assertEqual(self.cli("BF.CARD", "users"), "3")
        self.assertIn("Number of items inserted\n3", self.cli("BF.INFO", "users"))

    def test_a_new_filter_takes_the_place_of_the_old_by_rename(self):
        self.cli("BF.ADD", "users", "old")
        self.cli("BF.ADD", "users:next", "new")
        self.assertEqual(self.cli("RENAME", "users:next", "users"), "OK")
        self.assertEqual(self.cli("BF.EXISTS", "users", "new"), "1")
        self.assertEqual(self.cli("BF.EXISTS", "users", "old"), "0")
        self.assertEqual(self.cli("EXISTS", "users:next"), "0")

    def test_resp3_answers_in_booleans(self):
        self.assertEqual(self.cli("BF.ADD", "k", "a", options=["-3", "--no-raw"]), "(true)")

    def test_it_can_be_asked_for_its_commands_and_its_state(self):
        self.assertIn("BF.MEXISTS".lower(), self.cli("COMMAND", "LIST").lower())
        self.assertIn("redis_version:", self.cli("INFO"))
        self.assertEqual(self.cli("CONFIG", "GET", "maxmemory"), "maxmemory\n0")

    def test_the_tools_of_redis_cli_work(self):
        for i in range(30):
            self.cli("BF.ADD", "key:%d" % i, "a")
        self.assertEqual(len(self.cli("--scan").splitlines()), 30)
        pipe = subprocess.run(["redis-cli", "-p", str(self.daemon.port), "--pipe"],
                              input="".join("BF.ADD bulk item%d\r\n" % i for i in range(1000)),
                              capture_output=True, text=True, timeout=300, check=True)
        self.assertIn("errors: 0, replies: 1000", pipe.stdout)
        # One item in a hundred may be a false positive, which is not counted.
        self.assertIn(int(self.cli("BF.CARD", "bulk")), range(970, 1001))

    def test_a_mistake_gets_a_clear_answer(self):
        self.assertEqual(self.cli("BF.RESERVE", "k", "2", "100"),
                         "ERR error rate must be in the range (0.000000, 1.000000)")
        self.assertEqual(self.cli("BF.RESERVE", "k", "0.01", "18446744073709551615"),
                         "ERR Insufficient memory to create filter")
        self.assertEqual(self.cli("LPUSH", "k", "a"),
                         'ERR Sepal has no lists: keys hold Bloom filters and strings only '
                         '(docs/protocol.md, "What Sepal does not have")')
        self.assertIn("ERR unknown command 'NOSUCH'", self.cli("NOSUCH", "k"))


if __name__ == "__main__":
    unittest.main()
