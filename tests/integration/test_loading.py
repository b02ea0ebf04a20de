"""Clients during the load of the data, and a stop or an error during the load."""

import os
import pathlib
import random
import signal
import subprocess
import time

from client import Client, Refused
from daemon import SANITIZED, SEPALD, DaemonTest, free_port, say, sized

# Enough data that a client can ask before the load is over. Sanitizers make a load slow with less data.
BIG_FILTERS = 1 if SANITIZED else sized(2, 4)
BIG_CAPACITY = 80_000_000  # 96 MB at 1 %
SMALL_FILTERS = 10_000 if SANITIZED else sized(30_000, 100_000)
# On a busy machine the test may look too late.
STARTS_MAX = 20
SECONDS_MAX = 300

LOADING = "LOADING Redis is loading the dataset in memory"


class LoadingTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.socket_path = os.path.join(self.directory, "sepal.sock")
        daemon = self.start()
        with Client.of(daemon) as client:
            for number in range(BIG_FILTERS):
                client.call("BF.RESERVE", "big:%d" % number, "0.01", BIG_CAPACITY)
                client.call("BF.ADD", "big:%d" % number, "alice")
            for at in range(0, SMALL_FILTERS, 1000):
                client.pipeline([("BF.ADD", "small:%d" % number, "bob") for number in range(at, at + 1000)])
        self.assertEqual(daemon.stop(), 0)

    def generation(self):
        """Every file of the data, with the time of its last write."""
        return {str(path): path.stat().st_mtime_ns for path in sorted(pathlib.Path(self.directory).glob("generation-*/*"))}

    def begin(self, *arguments):
        """Starts a daemon, and a client that connects as soon as possible."""
        daemon = self.start("--unixsocket", self.socket_path, "--port", str(free_port()), *arguments, wait=False)
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                return daemon, Client.at_path(self.socket_path)
            except OSError:
                time.sleep(0.001)
        raise AssertionError("no server listens; it said:\n%s" % daemon.text())

    def in_time(self, attempt):
        """Calls `attempt` until it returns that it began before the end of the load."""
        for _ in range(STARTS_MAX):
            if attempt():
                return
        self.fail("%d loads were over before anybody looked" % STARTS_MAX)

    def check_data(self, daemon):
        daemon.wait_for_line("ready: address=")
        with Client.at_path(self.socket_path) as client:
            self.assertEqual(client.call("DBSIZE"), BIG_FILTERS + SMALL_FILTERS)
            self.assertEqual(client.call("BF.EXISTS", "big:0", "alice"), 1)
            self.assertEqual(client.call("BF.EXISTS", "small:7", "bob"), 1)
            self.assertEqual(client.call("BF.CARD", "small:7"), 1)

    def test_commands_are_refused_and_info_tells_how_far_the_load_is(self):
        def attempt():
            item = random.randbytes(8)  # an attempt that looked too late has added its own
            daemon, client = self.begin()
            with client:
                replies = client.pipeline([("BF.ADD", "big:0", item), ("PING",), ("ECHO", "hello"), ("SELECT", "0"),
                                           ("BF.ADD", "big:0"), ("INFO", "persistence")])
                fields = dict(line.split(":", 1) for line in replies.pop().decode().split("\r\n") if ":" in line)
                caught = fields["loading"] == "1"
                if caught:
                    self.assertEqual([str(reply) for reply in replies[:2]], [LOADING] * 2)
                    self.assertEqual(replies[2:4], [b"hello", b"OK"])
                    self.assertEqual(str(replies[4]), "ERR wrong number of arguments for 'bf.add' command")
                    self.assertGreaterEqual(int(fields["loading_eta_seconds"]), 0)
                    self.assertLess(abs(int(fields["loading_start_time"]) - time.time()), SECONDS_MAX)
                    self.watch(client)
                self.check_data(daemon)
                self.assertNotIn("loading_eta_seconds", client.info("persistence"))
                self.assertEqual(client.call("BF.EXISTS", "big:0", item), 0 if caught else 1)
            listening, ready = ([line for line in daemon.log if text in line] for text in ("listening:", "ready:"))
            self.assertEqual((len(listening), len(ready)), (1, 1))
            self.assertEqual(daemon.stop(), 0)
            return caught

        self.in_time(attempt)

    def watch(self, client):
        """Asks until the load is over."""
        loaded, longest, asked = [], 0, 0
        while True:
            began = time.monotonic()
            fields = client.info("persistence")
            longest, asked = max(longest, time.monotonic() - began), asked + 1
            if fields["loading"] == "0":
                break
            loaded.append(int(fields["loading_loaded_bytes"]))
            time.sleep(0.001)
            self.assertLessEqual(loaded[-1], int(fields["loading_total_bytes"] or 0))
        self.assertEqual(loaded, sorted(loaded))
        say("INFO was asked %d times during a load and waited %.1f ms at most" % (asked, longest * 1000))

    def test_a_hang_up_signal_during_the_load_reads_the_password_anew(self):
        password = pathlib.Path(self.directory, "password")

        def attempt():
            password.write_text("first\n")
            daemon, client = self.begin("--requirepass-file", str(password))
            with client:
                password.write_text("second\n")
                daemon.send_signal(signal.SIGHUP)
                daemon.wait_for_line("password read anew")
                caught = "ready: address=" not in daemon.text()
                self.assertEqual(client.call("AUTH", "second"), b"OK")
            daemon.wait_for_line("ready: address=")
            self.assertEqual(daemon.stop(), 0)
            return caught

        self.in_time(attempt)

    def test_a_health_check_tells_a_server_that_loads_from_one_that_has_loaded(self):
        def check():
            done = subprocess.run([SEPALD, "--healthcheck", "--unixsocket", self.socket_path, "--port", "0"], capture_output=True,
                                  text=True, timeout=SECONDS_MAX, check=False)
            return done.returncode, (done.stdout + done.stderr).strip()

        def attempt():
            daemon, client = self.begin()
            client.close()
            during = check()
            daemon.wait_for_line("ready: address=")
            self.assertEqual(check(), (0, "healthy: %s: it answers PONG" % self.socket_path))
            self.assertEqual(daemon.stop(), 0)
            return during == (1, "sepald: not healthy: %s: it still loads its data" % self.socket_path)

        self.in_time(attempt)

    def test_a_stop_while_loading_ends_soon_and_leaves_the_data_as_it_was(self):
        before = self.generation()

        def stop_by_signal(daemon, client):
            daemon.stop()

        def stop_by_command(daemon, client):
            client.send(("SHUTDOWN", "SAVE"))

        for stop in (stop_by_signal, stop_by_command):
            def attempt():
                daemon, client = self.begin()
                with client:
                    stop(daemon, client)
                    self.assertEqual(daemon.wait(), 0)
                self.assertEqual(self.generation(), before)
                self.assertFalse(os.path.exists(self.socket_path))
                return "stopped while loading" in daemon.text() and "ready:" not in daemon.text()

            self.in_time(attempt)
        daemon, client = self.begin()
        client.close()
        self.check_data(daemon)

    def test_a_load_that_fails_closes_the_connections_and_ends_the_process(self):
        # The file that is read last, so that the other filters are loaded already.
        path = max(pathlib.Path(self.directory).glob("generation-*/filter-*"), key=lambda path: path.name)
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size - 100)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))

        def attempt():
            daemon, client = self.begin()
            with client:
                refused = False
                try:
                    while True:
                        reply = client.pipeline([("BF.EXISTS", "big:0", "alice")])[0]
                        self.assertIsInstance(reply, Refused)
                        refused = True
                except OSError:
                    pass
            self.assertEqual(daemon.wait(), 1)
            self.assertIn(path.name, daemon.text())
            self.assertNotIn("ready:", daemon.text())
            return refused

        self.in_time(attempt)
