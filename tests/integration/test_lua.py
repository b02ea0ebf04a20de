"""Scripts with the real daemon: one that runs for long, beside other clients, other workers, a save and a stop."""

import json
import os
import re
import resource
import threading
import time
import unittest
import urllib.request

from client import Client, Refused
from daemon import SANITIZED, DaemonTest, free_port

FOR_EVER = "while true do end"
BUSY = "BUSY Redis is busy running a script"
TRIES_MAX = 20


class LuaTest(DaemonTest):
    def busy(self, script, *arguments):
        """A server with two workers whose script `script` is suspended, and the client that waits for it."""
        daemon = self.start("--threads", "2", "--busy-reply-threshold", "20", *arguments)
        runner = Client.of(daemon, self)
        runner.send(("EVAL", script, "0"))
        self.client = Client.of(daemon, self)
        self.eventually("the script is never busy", lambda: isinstance(self.client.pipeline([("PING",)])[0], Refused))
        return daemon, runner

    def test_clients_of_all_workers_are_told_that_a_script_runs(self):
        daemon, runner = self.busy(FOR_EVER)
        clients = [Client.of(daemon) for _ in range(8)]
        for client in clients:
            for command in (("PING",), ("BF.ADD", "key", "item"), ("DEL", "key"), ("EVAL", "return 1", "0"), ("INFO",)):
                self.assertIn(BUSY, str(client.pipeline([command])[0]), command)
        self.assertEqual(clients[0].call("SCRIPT", "KILL"), b"OK")
        self.assertIn("Script killed by user", str(runner.receive()))
        for client in clients:
            self.assertEqual(client.pipeline([("PING",), ("BF.ADD", "key", id(client))]), [b"PONG", 1])
            client.close()
        self.assertEqual(daemon.stop(), 0)

    def test_a_script_that_holds_up_clients_is_told(self):
        port = free_port()

        def ask(path):
            with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=300) as answer:
                return answer.read().decode()

        def told():
            return json.loads(ask("/api/server"))["busy_script"], float(re.search(r"^sepal_busy_script_seconds (\S+)$", ask("/metrics"), re.M).group(1))

        daemon, runner = self.busy(FOR_EVER, "--http-port", str(port))
        self.assertRegex(daemon.wait_for_line("a script holds up"), r"warning .*a script holds up all other clients.*: command=eval address=127\.0\.0\.1:\d+ id=\d+ seconds=[0-9.]+ advice=\"send SCRIPT KILL, or SHUTDOWN NOSAVE")
        self.eventually("the script is told", lambda: told()[0])
        script, seconds = told()
        self.assertFalse(script["has_written"])
        self.assertGreater(script["running_seconds"], 0)
        self.assertGreater(seconds, 0)
        self.assertNotIn("has ended", daemon.text())
        self.client.call("SCRIPT", "KILL")
        self.assertIn("Script killed by user", str(runner.receive()))
        daemon.wait_for_line("the script that held up all other clients has ended: id=")
        self.eventually("the end of the script is told", lambda: told() == (None, 0))
        runner.send(("EVAL", "redis.call('BF.ADD', 'k', 'x') while true do end", "0"))
        self.eventually("the script is told to have written", lambda: (told()[0] or {}).get("has_written"))
        self.client.send(("SHUTDOWN", "NOSAVE"))
        self.assertEqual(daemon.wait(), 0)

    def test_a_script_whose_client_goes_runs_to_its_end(self):
        # On a busy machine the script may be at its end before the test asks.
        for _ in range(TRIES_MAX):
            daemon, runner = self.busy("redis.call('BF.ADD', 'k', 'x') for i = 1, 2e8 do end redis.call('BF.ADD', 'k', 'y')")
            runner.close()
            refusal = str(self.client.pipeline([("SCRIPT", "KILL")])[0])
            if "NOTBUSY" not in refusal:
                break
            self.client.call("FLUSHALL")
            self.assertEqual(daemon.stop(), 0)
        self.assertIn("UNKILLABLE", refusal)
        self.eventually("the script never ends", lambda: self.client.pipeline([("PING",)])[0] == b"PONG")
        self.assertEqual(self.client.call("BF.CARD", "k"), 2)
        daemon.kill()
        daemon = self.start("--threads", "2")
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.CARD", "k"), 2)
        self.assertEqual(daemon.stop(), 0)

    def test_a_stop_ends_a_script(self):
        daemon, _ = self.busy(FOR_EVER)
        began = time.monotonic()
        self.assertEqual(daemon.stop(), 0)
        self.assertLess(time.monotonic() - began, 20)

    def test_a_stop_ends_a_script_that_has_changed_something_and_never_ends(self):
        daemon, _ = self.busy("redis.call('BF.ADD', 'k', 'x') while true do end")
        self.assertIn(BUSY, str(self.client.pipeline([("SHUTDOWN", "SAVE")])[0]))
        self.client.send(("SHUTDOWN", "NOSAVE"))
        self.assertEqual(daemon.wait(), 0)

    def test_a_kill_while_a_script_is_suspended_leaves_nothing_of_it(self):
        daemon, _ = self.busy("redis.call('BF.ADD', 'k', 'x') while true do end")
        daemon.kill()
        daemon = self.start()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("EXISTS", "k"), 0)
        self.assertEqual(daemon.stop(), 0)

    @unittest.skipIf(SANITIZED, "a sanitizer ends the process when there is no memory")
    def test_a_script_is_refused_when_the_system_has_no_memory_for_it(self):
        daemon = self.start("--threads", "1")
        refusal = "ERR the system has no memory for scripts"
        with Client.of(daemon) as client:
            client.call("SET", "key", "value")
            with open("/proc/%d/statm" % daemon.process.pid, encoding="ascii") as text:
                mapped = int(text.read().split()[0]) * resource.getpagesize()
            # Room for small things, and not for the stack of scripts.
            resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (mapped + (2 << 20), resource.RLIM_INFINITY))
            for command in (("EVAL", "return 1", "0"), ("SCRIPT", "LOAD", "return 1")):
                self.assertEqual(str(client.pipeline([command])[0]), refusal)
            transaction = [("MULTI",), ("GET", "key"), ("EVAL", "return 1", "0"), ("GET", "key"), ("EXEC",), ("PING",)]
            *_, answers, pong = client.pipeline(transaction)
            self.assertEqual([answers[0], str(answers[1]), answers[2], pong], [b"value", refusal, b"value", b"PONG"])
            self.assertEqual(int(client.info("stats")["total_error_replies"]), 3)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            self.assertEqual(client.call("EVAL", "return redis.call('GET', 'key')", "0"), b"value")
        self.assertEqual(daemon.stop(), 0)

    @unittest.skipIf(SANITIZED, "a sanitizer ends the process when there is no memory")
    def test_whatever_memory_is_left_a_script_is_run_or_refused(self):
        """The libraries below, OpenSSL's for the digest of the script, may be the first that find none."""
        for left in range(0, 2 << 20, 128 << 10):
            daemon = self.start("--threads", "1", directory=os.path.join(self.directory, str(left)))
            with Client.of(daemon) as client:
                client.call("SET", "key", "value")
                with open("/proc/%d/statm" % daemon.process.pid, encoding="ascii") as text:
                    mapped = int(text.read().split()[0]) * resource.getpagesize()
                resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (mapped + left, resource.RLIM_INFINITY))
                for command in (("EVAL", "return 1", "0"), ("SCRIPT", "LOAD", "return 1"), ("PING",)):
                    try:
                        client.pipeline([command])
                    except ConnectionError as error:
                        daemon.kill()
                        self.fail("%d bytes were left, %s: %s\n%s" % (left, command, error, daemon.text()))
                resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                self.assertEqual(client.call("EVAL", "return redis.call('GET', 'key')", "0"), b"value")
            self.assertEqual(daemon.stop(), 0, daemon.text())

    def test_many_clients_run_scripts_at_once(self):
        daemon = self.start("--threads", "2", "--journal", "always")
        counts = []

        def run(number):
            with Client.of(daemon) as client:
                digest = client.call("SCRIPT", "LOAD", "return redis.call('BF.ADD', KEYS[1], ARGV[1])")
                replies = []
                for first in range(0, 2000, 100):
                    replies += client.pipeline(
                        [("EVALSHA", digest, 1, "shared", item) for item in range(first, first + 100)])
                counts.append(sum(replies))

        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "shared", "0.000000001", "10000")
            threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # Of the clients that add one item at the same time, one is told that it is new.
            self.assertEqual(sum(counts), 2000)
            self.assertEqual(client.call("BF.CARD", "shared"), 2000)
        self.assertEqual(daemon.stop(), 0)
