"""redis-cli, as Debian packages it: single commands, a session on a terminal, and its tools."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import client_test
from client_test import BATCH, BINARY_ITEM, BINARY_KEY, ITEMS_BETWEEN, PASSWORD, USER, USER_PASSWORD
from daemon import encode, free_port
from programs import missing

KEYS = 300
TERMINAL_SECONDS_MAX = 300
ADD_SCRIPT = "return redis.call('BF.ADD', KEYS[1], ARGV[1])"


class Terminal:
    """redis-cli on a terminal of 40 lines and 200 columns."""

    def __init__(self, words):
        self.seen = b""
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", HOME="/nonexistent", REDISCLI_AUTH=PASSWORD)
            os.execvp(words[0], words)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))

    def wait_for(self, pattern):
        """Reads until the pattern appears behind what was waited for before. Wait for the prompt before typing: redis-cli
        drops what it finds typed when it begins to read a line."""
        deadline = time.monotonic() + TERMINAL_SECONDS_MAX
        while True:
            found = re.search(pattern, self.seen)
            if found:
                self.seen = self.seen[found.end():]
                return
            if not select.select([self._file], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("no %r in %r" % (pattern, self.seen[-2000:]))
            self.seen += os.read(self._file, 65536)

    def type(self, text):
        os.write(self._file, text.encode())

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._file)


class RedisCliTest(client_test.ClientTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.daemon = self.start_locked(self.port)
        self.client = self.connect(self.daemon)

    def cli(self, *words, data=None, password=PASSWORD, status=0):
        environment = dict(os.environ, REDISCLI_AUTH=password) if password else os.environ
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], input=data, capture_output=True, timeout=300,
                              stdin=subprocess.DEVNULL if data is None else None, env=environment)
        self.assertEqual(done.returncode, status, done)
        return (done.stdout + done.stderr).decode(errors="replace").rstrip("\n")

    def terminal(self, *words):
        terminal = Terminal(["redis-cli", "-p", str(self.port), *words])
        self.addCleanup(terminal.close)
        return terminal

    def fill(self):
        self.client.pipeline([("BF.ADD", "key:%d" % number, "a") for number in range(KEYS)])

    def test_it_authenticates(self):
        self.assertEqual(self.cli("PING", password=None), "NOAUTH Authentication required.")
        self.assertIn("WRONGPASS", self.cli("--user", "default", "--pass", "wrong", "--no-auth-warning", "PING", password=None))
        self.assertEqual(self.cli("--pass", PASSWORD, "--no-auth-warning", "PING", password=None), "PONG")
        self.assertEqual(self.cli("-3", "--user", "default", "PING"), "PONG")
        self.client.call("ACL", "SETUSER", USER, "on", ">" + USER_PASSWORD, "~*", "+@all")
        self.assertEqual(self.cli("--user", USER, "ACL", "WHOAMI", password=USER_PASSWORD), USER)

    def test_every_bloom_command(self):
        self.assertEqual(self.cli("BF.RESERVE", "users", "0.001", "1000", "EXPANSION", "4"), "OK")
        self.assertEqual(self.cli("BF.ADD", "users", "alice"), "1")
        self.assertEqual(self.cli("-3", "--no-raw", "BF.ADD", "users", "alice"), "(false)")
        self.assertEqual(self.cli("BF.MADD", "users", "alice", "bob"), "0\n1")
        self.assertEqual(self.cli("BF.INSERT", "other", "CAPACITY", "500", "ERROR", "0.01", "ITEMS", "x", "y"), "1\n1")
        self.assertEqual(self.cli("BF.EXISTS", "users", "alice"), "1")
        self.assertEqual(self.cli("-3", "--no-raw", "BF.MEXISTS", "users", "alice", "carol"), "1) (true)\n2) (false)")
        self.assertEqual(self.cli("BF.CARD", "users"), "2")
        self.assertEqual(self.cli("BF.INFO", "users", "ITEMS"), "2")
        self.assertEqual(json.loads(self.cli("-3", "--json", "BF.INFO", "users"))["Number of items inserted"], 2)
        self.assertIn('"Number of items inserted",2', self.cli("--csv", "BF.INFO", "users"))
        self.assertEqual(self.cli("-e", "BF.RESERVE", "users", "0.001", "1000", status=1), "ERR item exists")
        self.assertTrue(self.cli("--no-raw", "BF.SCANDUMP", "users", "0").startswith("1) (integer) 1"))

    def test_a_session_moves_a_filter_and_runs_a_transaction(self):
        self.client.call("BF.MADD", "source", "a", "b")
        lines = self.cli("--no-raw", "BF.SCANDUMP", "source", "0").split("\n")
        header = lines[1].removeprefix("2) ")
        data = self.cli("--no-raw", "BF.SCANDUMP", "source", "1").split("\n")
        iterator, bits = data[0].rpartition(" ")[2], data[1].removeprefix("2) ")
        typed = ("BF.LOADCHUNK moved 1 %s\nBF.LOADCHUNK moved %s %s\nWATCH counted\nMULTI\nBF.ADD counted a\nBF.EXISTS counted a\nEXEC\n"
                 % (header, iterator, bits))
        self.assertEqual(self.cli(data=typed.encode()), "OK\nOK\nOK\nOK\nQUEUED\nQUEUED\n1\n1")
        self.assertEqual(self.client.call("BF.MEXISTS", "moved", "a", "b", "c"), [1, 1, 0])

    def test_binary_items(self):
        self.assertEqual(self.cli("-x", "BF.ADD", "typed", data=BINARY_ITEM), "1")
        self.assertEqual(self.client.call("BF.EXISTS", "typed", BINARY_ITEM), 1)
        self.assertEqual(self.cli("-X", "word", "BF.ADD", "word", "an item", data=BINARY_KEY), "1")
        self.assertEqual(self.client.call("BF.EXISTS", BINARY_KEY, "an item"), 1)
        self.assertIn(r'"binary:\x00\x01', self.cli("--no-raw", "KEYS", "binary:*"))

    def test_a_script(self):
        path = os.path.join(self.scratch, "add.lua")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ADD_SCRIPT)
        self.assertEqual(self.cli("--eval", path, "scripted", ",", "a"), "1")
        digest = self.cli("SCRIPT", "LOAD", ADD_SCRIPT)
        self.assertEqual(self.cli("EVALSHA", digest, "1", "scripted", "a"), "0")

    def test_pipe_sends_a_batch(self):
        self.client.call("BF.RESERVE", "batch", "0.000001", str(BATCH))
        requests = [encode("BF.ADD", "batch", "b:%d" % number) for number in range(BATCH)]
        self.assertIn("errors: 0, replies: %d" % BATCH, self.cli("--pipe", data=b"".join(requests)))
        answers = self.client.call("BF.MEXISTS", "batch", *("b:%d" % number for number in range(BATCH)))
        self.assertEqual(answers, [1] * BATCH)
        self.assertIn("errors: 1, replies: 2", self.cli("--pipe", data=b"BF.ADD batch x\r\nNOSUCH\r\n", status=1))

    def test_the_tools_that_walk_through_the_keys(self):
        self.fill()
        self.assertEqual(set(self.cli("--scan").split("\n")), {"key:%d" % number for number in range(KEYS)})
        self.assertEqual(len(self.cli("--scan", "--pattern", "key:1?").split("\n")), 10)
        self.assertIn("%d MBbloom--s with" % KEYS, self.cli("--bigkeys"))
        told = self.cli("--memkeys")
        self.assertIn("%d MBbloom--s with" % KEYS, told)
        self.assertRegex(told, r"Biggest MBbloom-- found '\"key:\d+\"' has [1-9]\d* bytes")

    def test_stat_shows_a_line_each_interval(self):
        self.fill()
        terminal = self.terminal("--stat", "-i", "0.1")
        for _ in range(3):
            terminal.wait_for(rb"%d +\d+\.\d+K +\d+ +0 +\d+ \(\+\d+\) +\d+" % KEYS)

    def test_latency(self):
        self.terminal("--latency").wait_for(rb"min: \d+, max: \d+, avg: [\d.]+ \(5 samples\)")
        self.terminal("--latency-history", "-i", "1").wait_for(rb"min: \d+, max: \d+, avg: [\d.]+ \(5 samples\)")

    def test_the_hints_of_a_session_come_from_the_server(self):
        terminal = self.terminal()
        terminal.wait_for(rb"%d> " % self.port)
        terminal.type("BF.RESERVE ")
        terminal.wait_for(rb"key error_rate capacity \[EXPANSION expansion\] \[NONSCALING\]")
        terminal.type("k 0.01 ")
        terminal.wait_for(rb"capacity \[EXPANSION")
        terminal.type("100\r")
        terminal.wait_for(rb"OK\r\n.*> ")
        terminal.type("bf.mir\t")
        terminal.wait_for(rb"BF.MIRROR")
        terminal.type("\x15HELP BF.MADD\r")
        terminal.wait_for(rb"Adds items to a filter")
        terminal.type("exit\r")

    def test_a_session_reconnects(self):
        self.client.call(*client_test.WRITTEN)
        terminal = self.terminal()
        terminal.wait_for(rb"%d> " % self.port)
        numbers = iter(range(10 * ITEMS_BETWEEN))
        answered = []
        for stop in (signal.SIGTERM, signal.SIGKILL):
            for number in [next(numbers) for _ in range(10)]:
                terminal.type("BF.ADD written w:%d\r" % number)
                terminal.wait_for(rb"\(integer\) [01]\r\n.*> ")
                answered.append(number)
            self.daemon.send_signal(stop)
            self.daemon.wait()
            self.daemon.kill()
            terminal.type("PING\r")
            terminal.wait_for(rb"not connected> ")
            self.daemon = self.start_locked(self.port)
            self.assert_written(self.daemon, answered)
            terminal.type("PING\r")
            terminal.wait_for(rb"PONG\r\n.*> ")


if __name__ == "__main__":
    client_test.main(missing("redis_cli"))
