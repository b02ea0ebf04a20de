"""Restarts after a stop or a crash, and starts from damaged or changed directories."""

import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import threading
import time

from client import Client
from daemon import SANITIZED, DaemonTest, encode, free_port, read_lines


def ask(daemon, *words):
    with daemon.connect() as connection:
        connection.sendall(encode(*words))
        return read_lines(connection, 1)[0]


class RestartTest(DaemonTest):
    def test_a_stop_saves_and_a_start_loads(self):
        daemon = self.start()
        self.assertEqual(ask(daemon, "BF.ADD", "users", "alice"), b":1")
        self.assertEqual(ask(daemon, "BF.RESERVE", "big", "0.01", "10000000"), b"+OK")
        self.assertEqual(ask(daemon, "BF.ADD", "big", "bob"), b":1")
        self.assertEqual(daemon.stop(), 0)
        daemon = self.start()
        self.assertIn("loaded: keys=2", daemon.text())
        self.assertEqual(ask(daemon, "BF.EXISTS", "users", "alice"), b":1")
        self.assertEqual(ask(daemon, "BF.EXISTS", "big", "bob"), b":1")
        self.assertEqual(ask(daemon, "BF.EXISTS", "big", "carol"), b":0")
        self.assertEqual(ask(daemon, "BF.CARD", "big"), b":1")

    def test_the_order_of_keys_tells_nothing_about_the_seed(self):
        """A client that could learn the seed of the table of keys could choose keys that collide."""
        orders = []
        for _ in range(2):
            daemon = self.start()
            with Client.of(daemon) as client:
                client.pipeline([("BF.ADD", "key-%d" % number, "a") for number in range(64)])
                orders.append(client.call("KEYS", "*"))
            self.assertEqual(daemon.stop(), 0)
        self.assertEqual(sorted(orders[0]), sorted(orders[1]))
        self.assertNotEqual(orders[0], orders[1])

    def test_a_save_survives_a_crash(self):
        daemon = self.start()
        ask(daemon, "BF.ADD", "users", "alice")
        self.assertEqual(ask(daemon, "SAVE"), b"+OK")
        daemon.kill()
        self.assertEqual(ask(self.start(), "BF.EXISTS", "users", "alice"), b":1")

    def test_a_server_that_is_full_starts_again_under_its_own_limit(self):
        daemon = self.start("--maxmemory", "1mb")
        created = 0
        while ask(daemon, "BF.RESERVE", "user:%d" % created, "0.01", "100") == b"+OK":
            created += 1
        self.assertGreater(created, 1000)
        self.assertEqual(daemon.stop(), 0)
        daemon = self.start("--maxmemory", "1mb")
        self.assertIn("loaded: keys=%d" % created, daemon.text())

    def test_a_save_over_the_limit_of_file_sizes_fails_and_the_next_one_succeeds(self):
        daemon = self.start()
        ask(daemon, "BF.RESERVE", "big", "0.01", "10000000")
        ask(daemon, "BF.ADD", "big", "alice")
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        self.assertIn(b"-ERR", ask(daemon, "SAVE"))
        self.assertEqual(ask(daemon, "BF.EXISTS", "big", "alice"), b":1")
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.assertEqual(ask(daemon, "SAVE"), b"+OK")
        daemon.kill()
        self.assertEqual(ask(self.start(), "BF.EXISTS", "big", "alice"), b":1")

    def test_each_save_that_fails_says_why(self):
        daemon = self.start("--save-interval", "1")
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        ask(daemon, "BF.RESERVE", "big", "0.01", "10000000")
        ask(daemon, "BF.ADD", "big", "alice")
        failures = lambda reason: re.findall("error .*save failed: reason=%s .*File too large" % reason, daemon.text())
        self.eventually("each save by the interval says why", lambda: len(failures("interval")) >= 2)
        with daemon.connect() as connection:
            connection.sendall(encode("SHUTDOWN"))
        self.assertEqual(daemon.wait(), 1)
        self.assertEqual(len(failures("stop")), 1, daemon.text())

    def test_without_a_journal_shutdown_nosave_forgets_and_shutdown_saves(self):
        daemon = self.start("--journal", "off")
        ask(daemon, "BF.ADD", "k", "a")
        with daemon.connect() as connection:
            connection.sendall(encode("SHUTDOWN", "NOSAVE"))
        self.assertEqual(daemon.wait(), 0)
        daemon = self.start("--journal", "off")
        self.assertEqual(ask(daemon, "DBSIZE"), b":0")
        ask(daemon, "BF.ADD", "k", "a")
        with daemon.connect() as connection:
            connection.sendall(encode("SHUTDOWN"))
        self.assertEqual(daemon.wait(), 0)
        self.assertEqual(ask(self.start(), "DBSIZE"), b":1")

    def test_the_journal_holds_what_shutdown_nosave_does_not_save(self):
        daemon = self.start()
        ask(daemon, "BF.ADD", "k", "a")
        with daemon.connect() as connection:
            connection.sendall(encode("SHUTDOWN", "NOSAVE"))
        self.assertEqual(daemon.wait(), 0)
        self.assertEqual(ask(self.start(), "BF.EXISTS", "k", "a"), b":1")

    def test_data_without_its_seed_is_a_warning(self):
        warning = "warning .*SEED is missing beside data: .*advice="
        daemon = self.start()
        self.assertNotRegex(daemon.text(), warning)
        ask(daemon, "BF.ADD", "k", "a")
        self.assertEqual(daemon.stop(), 0)
        seed = os.path.join(self.directory, "SEED")
        for arguments, warns in ((["--seed", "7"], False), ([], True)):
            os.remove(seed)
            daemon = self.start(*arguments)
            self.assertEqual(bool(re.search(warning, daemon.text())), warns, daemon.text())
            self.assertEqual(daemon.stop(), 0)
        daemon = self.start()
        self.assertNotRegex(daemon.text(), warning)

    def test_the_log_says_where_the_data_is(self):
        daemon = self.start()
        self.assertIn("nothing to load: ", daemon.text())
        daemon.kill()
        daemon = self.start()
        self.assertIn("nothing to load: ", daemon.text())
        ask(daemon, "BF.ADD", "k", "a")
        daemon.kill()
        daemon = self.start()
        self.assertIn("no save yet: the data is in the journal", daemon.text())
        self.assertNotIn("nothing to load", daemon.text())
        self.assertEqual(daemon.stop(), 0)
        self.assertNotRegex(self.start().text(), "no save yet|nothing to load")

    def test_shutdown_is_asked_for_before_the_stop_begins(self):
        for _ in range(5):
            daemon = self.start()
            with daemon.connect() as connection:
                connection.sendall(encode("SHUTDOWN", "NOSAVE"))
                self.assertEqual(daemon.wait(), 0)
            text = daemon.text()
            self.assertEqual(text.count("stop requested: by=SHUTDOWN"), 1)
            self.assertLess(text.index("stop requested: "), text.index("stopping: "))

    def test_nothing_answered_is_lost_by_a_stop_under_load(self):
        connections, batch = 50, 20
        daemon = self.start("--threads", "2")
        answered = [[] for _ in range(connections)]
        started = threading.Barrier(connections + 1)

        def add(worker):
            with daemon.connect() as connection:
                number = 0
                started.wait()
                while True:
                    items = ["%d:%d" % (worker, number + i) for i in range(batch)]
                    try:
                        connection.sendall(b"".join(encode("BF.ADD", "seen", item) for item in items))
                        data = b""
                        while data.count(b"\r\n") < batch:
                            piece = connection.recv(65536)
                            if not piece:
                                answered[worker] += items[:data.count(b"\r\n")]
                                return
                            data += piece
                    except OSError:
                        answered[worker] += items[:data.count(b"\r\n")]
                        return
                    answered[worker] += items
                    number += batch

        threads = [threading.Thread(target=add, args=(i,)) for i in range(connections)]
        for thread in threads:
            thread.start()
        started.wait()
        self.eventually("few adds are answered", lambda: sum(map(len, answered)) > connections * batch)
        threads[0].join(1.0)
        self.assertEqual(daemon.stop(), 0)
        for thread in threads:
            thread.join(30)
        self.assertGreater(sum(map(len, answered)), connections * batch)

        daemon = self.start()
        with daemon.connect() as connection:
            for items in answered:
                for at in range(0, len(items), 1000):
                    some = items[at:at + 1000]
                    connection.sendall(encode("BF.MEXISTS", "seen", *some))
                    self.assertEqual(read_lines(connection, 1 + len(some))[1:], [b":1"] * len(some))

    def held_back(self, daemon):
        """A connection that never reads its replies, so that a stop has to wait for it."""
        connection = daemon.connect(self)
        # More than the buffers of the system hold.
        connection.sendall(encode("ECHO", b"x" * 100_000) * 300)

    def test_a_second_signal_stops_at_once(self):
        daemon = self.start()
        self.held_back(daemon)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait_for_line("stopping:")
        daemon.send_signal(signal.SIGINT)
        self.assertEqual(daemon.wait(), 1)
        self.assertIn("a second signal", daemon.text())

    def test_the_same_signal_twice_at_once_is_one(self):
        """So does timeout(1): it sends the signal to the process, and then to its group."""
        for _ in range(5):
            daemon = self.start()
            with Client.of(daemon) as client:
                client.call("BF.ADD", "seen", "a")
            sent_at = time.monotonic()
            daemon.send_signal(signal.SIGTERM)
            daemon.send_signal(signal.SIGTERM)
            was_at_once = time.monotonic() - sent_at < 0.05
            status = daemon.wait()
            if not was_at_once:
                continue  # the machine held this test up
            self.assertEqual(status, 0)
            self.assertNotIn("a second signal", daemon.text())

    def stopped_at_once(self, *arguments, prepare=lambda daemon: None):
        """Stops a sepald at once. Returns what its log says about changes, and which changes the next start has."""
        shutil.rmtree(self.directory)
        daemon = self.start(*arguments)
        prepare(daemon)
        ask(daemon, "BF.ADD", "k", "a")
        self.held_back(daemon)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait_for_line("stopping:")
        daemon.send_signal(signal.SIGINT)
        self.assertEqual(daemon.wait(), 1)
        line = daemon.wait_for_line("stopped at once")
        daemon = self.start()
        kept = ask(daemon, "BF.EXISTS", "k", "a")
        self.assertEqual(daemon.stop(), 0)
        return "nothing is lost" in line, "what changed since the last save is lost" in line, kept

    def test_a_stop_at_once_says_truly_what_is_lost(self):
        for policy in ("everysec", "always"):
            self.assertEqual(self.stopped_at_once("--journal", policy), (True, False, b":1"))
        self.assertEqual(self.stopped_at_once("--journal", "off"), (False, True, b":0"))

    def test_a_stop_at_once_of_a_journal_that_was_off_until_a_save(self):
        def switch_on(daemon):
            with Client.of(daemon) as client:
                client.call("CONFIG", "SET", "journal", "everysec")
                # The journal counts on the save a moment after the line that tells of its end.
                self.eventually("no save", lambda: client.call("WAITAOF", 1, 0, 0) == [1, 0])

        def switch_off(daemon):
            ask(daemon, "CONFIG", "SET", "journal", "off")

        self.assertEqual(self.stopped_at_once("--journal", "off", prepare=switch_on), (True, False, b":1"))
        self.assertEqual(self.stopped_at_once("--journal", "everysec", prepare=switch_off), (False, True, b":0"))

    def test_a_client_that_reads_nothing_delays_a_stop_for_a_bounded_time(self):
        daemon = self.start()
        ask(daemon, "BF.ADD", "k", "a")
        self.held_back(daemon)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(ask(self.start(), "BF.EXISTS", "k", "a"), b":1")


class RefusedStartTest(DaemonTest):
    def refused(self):
        """The last words of a sepald that does not start."""
        daemon = self.start(wait=False)
        self.assertNotEqual(daemon.wait(), 0)
        return daemon.text()

    def saved(self):
        """Makes a directory with one saved filter, which has a file of its own. Returns its generation folder."""
        daemon = self.start()
        ask(daemon, "BF.RESERVE", "users", "0.01", "10000000")
        ask(daemon, "BF.ADD", "users", "alice")
        self.assertEqual(daemon.stop(), 0)
        (generation,) = pathlib.Path(self.directory).glob("generation-*")
        return generation

    def test_a_directory_in_use(self):
        first = self.start()
        said = self.refused()
        self.assertIn("in use", said)
        self.assertIn(str(first.process.pid), said)

    def test_a_flipped_bit_in_any_file_is_refused_by_name_and_changes_nothing(self):
        generation = self.saved()
        for path in sorted(generation.iterdir()):
            data = path.read_bytes()
            at = len(data) // 2
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
            said = self.refused()
            self.assertIn(path.name, said)
            self.assertIn("offset", said)
            path.write_bytes(data)
        self.assertEqual(ask(self.start(), "BF.EXISTS", "users", "alice"), b":1")

    def test_a_missing_generation_is_refused(self):
        shutil.rmtree(self.saved())
        self.assertIn("generation-", self.refused())


class ConnectionTest(DaemonTest):
    def test_a_unix_socket_serves_beside_tcp(self):
        path = os.path.join(self.directory, "sepal.sock")
        daemon = self.start("--unixsocket", path, "--port", str(free_port()))
        self.assertEqual(ask(daemon, "PING"), b"+PONG")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(encode("PING"))
            self.assertEqual(read_lines(connection, 1), [b"+PONG"])
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse(os.path.exists(path))

    def open_files(self, daemon):
        folder = "/proc/%d/fd" % daemon.process.pid
        names = set()
        for descriptor in os.listdir(folder):
            try:
                names.add(os.readlink(os.path.join(folder, descriptor)))
            except FileNotFoundError:  # the server has closed the connection meanwhile
                pass
        return names

    def test_port_0_beside_a_unix_socket_means_no_tcp(self):
        path = os.path.join(self.directory, "sepal.sock")
        daemon = self.start("--unixsocket", path, "--port", "0")
        self.assertTrue(daemon.wait_for_line("ready: address=").endswith("address=" + path))
        inodes = self.open_files(daemon)
        with open("/proc/%d/net/tcp" % daemon.process.pid) as table:
            of_daemon = [line for line in table if "socket:[%s]" % line.split()[9] in inodes]
        self.assertEqual(of_daemon, [])
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(encode("CONFIG", "GET", "port"))
            self.assertEqual(read_lines(connection, 5), [b"*2", b"$4", b"port", b"$1", b"0"])
        self.assertEqual(daemon.stop(), 0)

    def test_a_client_that_never_reads_takes_bounded_memory_and_others_are_served(self):
        daemon = self.start("--threads", "1", "--maxmemory-clients", "32mb")
        slow = daemon.connect(self)
        request = encode("ECHO", b"x" * 100_000) * 10
        with self.assertRaises(OSError):
            while True:
                slow.sendall(request)
                self.assertEqual(ask(daemon, "PING"), b"+PONG")
        self.assertIn("this client has most of them", daemon.wait_for_line("client closed"))
        with open("/proc/%d/status" % daemon.process.pid) as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        if not SANITIZED:
            self.assertLess(resident, 150 * 1024)
