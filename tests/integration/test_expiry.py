"""Keys expire while the server runs, across restarts, and a great many in the same second."""

import os
import subprocess
import time

from client import Client
from daemon import SANITIZED, DaemonTest, beside, sized

SEPAL = os.environ["SEPAL"]
MANY = sized(20_000, 100_000)


class ExpiryTest(DaemonTest):
    def test_a_key_expires_without_a_request_for_it(self):
        with Client.of(self.start()) as client:
            client.call("BF.ADD", "stays", "a")
            # In one round, so that not half a second passes before the question.
            self.assertEqual(client.pipeline([("BF.RESERVE", "goes", "0.01", "100", "EX", "1"), ("TTL", "goes")]), [b"OK", 1])
            client.call("BF.ADD", "soon", "a")
            client.call("PEXPIRE", "soon", "20")
            self.eventually("keys stay", lambda: client.call("DBSIZE") == 1)
            self.assertEqual(client.call("KEYS", "*"), [b"stays"])
            self.eventually("they are not counted", lambda: client.info("stats")["expired_keys"] == "2")
            self.assertEqual(client.info("keyspace")["db0"], "keys=1,expires=0,avg_ttl=0,subexpiry=0")

    def test_expiries_are_synced_under_always_though_no_client_waits(self):
        with Client.of(self.start("--journal", "always")) as client:
            def position():
                return int(client.info()["journal_position"])

            for key in ("a", "b"):
                client.call("BF.RESERVE", key, "0.01", "100")
            before = position()
            client.call("PEXPIRE", "a", "3600000")
            after = position()
            # Each deadline takes the same number of bytes in the journal. The record after the second is the key's removal.
            client.call("PEXPIRE", "b", "20")

            def synced():
                info = client.info()
                return after + (after - before) < int(info["journal_position"]) == int(info["journal_synced_position"])

            self.eventually("the removal is not synced", synced)

    def set_deadlines(self, client):
        for key in ("soon", "later", "persisted", "renamed"):
            client.call("BF.ADD", key, "a")
        client.call("PEXPIRE", "soon", "300")
        for key in ("later", "persisted", "renamed"):
            client.call("PEXPIREAT", key, "33177117420123")

    def change_deadlines(self, client):
        client.call("PERSIST", "persisted")
        client.call("RENAME", "renamed", "new")
        client.call("BF.RESERVE", "reserved", "0.01", "10", "EX", "1000")

    def check_after_start(self, daemon):
        with Client.of(daemon) as client:
            self.eventually("keys stay", lambda: client.call("DBSIZE") == 4)
            self.assertEqual(client.call("BF.EXISTS", "soon", "a"), 0)
            self.assertEqual(client.call("PEXPIRETIME", "later"), 33177117420123)
            self.assertEqual(client.call("PEXPIRETIME", "new"), 33177117420123)
            self.assertEqual(client.call("TTL", "persisted"), -1)
            self.assertGreater(client.call("TTL", "reserved"), 900)
            self.assertEqual(client.call("BF.EXISTS", "later", "a"), 1)

    def test_deadlines_are_those_of_before_after_a_stop(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            self.set_deadlines(client)
            self.change_deadlines(client)
        self.assertEqual(daemon.stop(), 0)
        time.sleep(0.3)
        self.check_after_start(self.start())

    def test_deadlines_are_those_of_before_after_a_kill(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            self.set_deadlines(client)
            client.save()
            self.change_deadlines(client)
        daemon.kill()
        time.sleep(0.3)
        daemon = self.start()
        self.check_after_start(daemon)
        # The removals were recorded, so expired keys do not come back, whatever the clock says.
        daemon.kill()
        daemon = self.start()
        self.check_after_start(daemon)
        daemon.kill()
        verified = subprocess.run([SEPAL, "verify", daemon.directory], capture_output=True, text=True, check=False)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_an_expired_key_is_made_anew_at_once(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            for _ in range(50):
                client.call("BF.ADD", "k", "a")
                client.call("PEXPIRE", "k", "1")
                time.sleep(0.002)
                self.assertEqual(client.call("BF.ADD", "k", "a"), 1)
                self.assertEqual(client.call("PTTL", "k"), -1)
                client.call("DEL", "k")

    def test_many_keys_that_expire_together_are_gone_soon_and_delay_no_client(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            batches = [range(first, first + 500) for first in range(0, MANY, 500)]
            started = time.time()
            for numbers in batches:
                client.pipeline([("BF.RESERVE", "key:%d" % n, "0.01", "100") for n in numbers])
            # It takes about so long to set the deadlines, and no deadline may be in the past when it is set.
            due = int(1000 * (time.time() + 1 + 2 * (time.time() - started)))
            for numbers in batches:
                client.pipeline([("PEXPIREAT", "key:%d" % n, str(due)) for n in numbers])
            client.call("BF.ADD", "stays", "a")
            expires = int(client.info("keyspace")["db0"].split("expires=")[1].split(",")[0])
            self.assertGreater(expires, 0)
            worst = self.worst_answer(daemon, lambda: client.call("DBSIZE") == 1)
            # If all keys were removed at once, this would take seconds. The limit leaves room for other work on the machine.
            if not SANITIZED:
                self.assertLess(worst, 5.0)
            self.eventually("they are not counted", lambda: client.info("stats")["expired_keys"] == str(MANY))
            self.assertEqual(client.call("BF.EXISTS", "stays", "a"), 1)

    def worst_answer(self, daemon, done):
        """Returns the longest wait of a client for one answer, until `done`."""
        times = []

        def ask(ended):
            with Client.of(daemon) as asking:
                while not ended.is_set():
                    start = time.monotonic()
                    asking.call("BF.EXISTS", "stays", "a")
                    times.append(time.monotonic() - start)

        with beside(ask):
            self.eventually("keys stay", done)
        return max(times)
