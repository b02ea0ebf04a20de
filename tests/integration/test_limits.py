"""Clients that make the server hold memory: before they log in, by requests that do not end, by replies not read."""

import re
import socket

from client import Client, Refused
from daemon import SANITIZED, DaemonTest, encode

MIB = 1 << 20
STRANGERS = 1_000
STRANGER_BYTES = 147_000
STRANGER_MEMORY_MAX = 48 << 20


def resident_bytes(daemon):
    with open("/proc/%d/status" % daemon.process.pid) as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) * 1024


def peak_bytes(daemon):
    """The most that was resident since the last call of forget_peak()."""
    with open("/proc/%d/status" % daemon.process.pid) as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1)) * 1024


def forget_peak(daemon):
    with open("/proc/%d/clear_refs" % daemon.process.pid, "w") as file:
        file.write("5")


def unfinished_login(byte_count):
    text = b"*10\r\n$4\r\nAUTH\r\n"
    while len(text) < byte_count:
        text += b"$16384\r\n" + b"x" * 16384 + b"\r\n"
    return text[:byte_count]


class LimitsTest(DaemonTest):
    def closed(self, connection):
        """Waits until the server has closed. Returns what came before."""
        data = b""
        try:
            while piece := connection.recv(65536):
                data += piece
        except ConnectionError:
            pass
        return data

    def told(self, connections):
        """To how many of them the server has said that they sent too much."""
        count = 0
        for connection in connections:
            try:
                count += connection.recv(100, socket.MSG_PEEK).startswith(b"-ERR clients that have not logged in have sent")
            except BlockingIOError:
                pass
            except ConnectionError:
                count += 1
        return count

    def test_strangers_hold_little_and_keep_no_client_out(self):
        daemon = self.start("--requirepass", "secret")
        before = resident_bytes(daemon)
        connections = []
        for _ in range(STRANGERS):
            connection = daemon.connect(self)
            connection.setblocking(False)
            try:
                connection.send(unfinished_login(STRANGER_BYTES))
            except (BlockingIOError, ConnectionError):
                pass
            connections.append(connection)
        with Client.of(daemon) as client:
            self.assertEqual(client.call("AUTH", "secret"), b"OK")
            self.assertEqual(client.call("BF.ADD", "f", "x" * STRANGER_BYTES), 1)
            held = int(client.info()["mem_clients_normal"])
            self.assertLessEqual(held, 9 << 20)
        if not SANITIZED:
            self.assertLess(resident_bytes(daemon) - before, STRANGER_MEMORY_MAX)
        self.eventually("most strangers still hold memory", lambda: self.told(connections) > STRANGERS // 2)
        line = daemon.wait_for_line("clients closed that had not logged in")
        self.assertRegex(line, r'count=\d+ bytes_max=\d+ reason="they sent more than all such clients may together"')

    def test_a_client_that_does_not_log_in_is_closed_in_time(self):
        daemon = self.start("--requirepass", "secret", "--login-timeout", "1")
        stranger = daemon.connect(self)
        with Client.of(daemon) as client:
            client.call("AUTH", "secret")
            self.assertEqual(self.closed(stranger), b"")
            self.assertEqual(client.call("PING"), b"PONG")
        line = daemon.wait_for_line("clients closed that had not logged in")
        self.assertRegex(line, 'count=1 reason="they took longer than login_timeout"')

    def send(self, daemon, data):
        """A client that sends this, or as much as it may before it is closed, and reads nothing."""
        connection = daemon.connect(self)
        try:
            connection.sendall(data)
        except ConnectionError:
            pass

    def check_bound(self, daemon, client, bytes_max, peak_max):
        def holds():
            info = client.info()
            return int(info["evicted_clients"]) > 0 and int(info["mem_clients_normal"]) <= bytes_max

        self.eventually("the clients hold too much", holds)
        if not SANITIZED:
            self.assertLess(peak_bytes(daemon), peak_max)

    def test_many_clients_of_several_workers_are_closed_until_the_bound_holds(self):
        daemon = self.start("--maxmemory-clients", "16mb", "--threads", "2")
        forget_peak(daemon)
        before = resident_bytes(daemon)
        queue = encode("MULTI") + encode("SET", "k", "x" * 3_000) * 80
        for _ in range(300):
            self.send(daemon, queue)
        with Client.of(daemon) as client:
            self.check_bound(daemon, client, 16 * MIB, before + 40 * MIB)

    def test_unfinished_requests_of_many_words_count_with_their_words(self):
        daemon = self.start("--maxmemory-clients", "16mb", "--threads", "2")
        forget_peak(daemon)
        before = resident_bytes(daemon)
        words = b"*100001\r\n$4\r\nMGET\r\n" + b"$1\r\nk\r\n" * 99_999
        for _ in range(40):
            self.send(daemon, words)
        with Client.of(daemon) as client:
            self.check_bound(daemon, client, 16 * MIB, before + 40 * MIB)

    def test_names_of_many_keys_that_clients_do_not_read_are_bounded(self):
        daemon = self.start("--maxmemory-clients", "32mb", "--threads", "2")
        with Client.of(daemon) as client:
            name = "k" * 194
            for first in range(0, 50_000, 1_000):
                client.pipeline([("SET", "%s%06d" % (name, number), "") for number in range(first, first + 1_000)])
            forget_peak(daemon)
            before = resident_bytes(daemon)
            for _ in range(20):
                reader = socket.socket()
                self.addCleanup(reader.close)
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.connect(("127.0.0.1", daemon.port))
                reader.sendall(encode("KEYS", "*"))
            # Each reply takes 10 MB, so three of them fit.
            self.eventually("the readers stay", lambda: int(client.info()["evicted_clients"]) >= 17)
            self.check_bound(daemon, client, 32 * MIB, before + 80 * MIB)
            client.call("CONFIG", "SET", "maxmemory-clients", "8mb")
            with self.assertRaisesRegex(Refused, "longer than maxmemory-clients"):
                client.call("KEYS", "*")

    def test_unread_long_replies_are_bounded(self):
        daemon = self.start("--maxmemory-clients", "16mb", "--threads", "2")
        readers = []
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "f", "0.01", 8_000_000)  # 10 MB: the system's own buffers take some of it
            for _ in range(10):
                reader = socket.socket()
                self.addCleanup(reader.close)
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.connect(("127.0.0.1", daemon.port))
                reader.sendall(encode("DUMP", "f"))
                readers.append(reader)
            daemon.wait_for_line("client closed")
            self.eventually("too much is held", lambda: int(client.info()["mem_clients_normal"]) <= 20 << 20)
            self.assertEqual(client.call("BF.ADD", "f", "x"), 1)
        self.assertIn("exceed maxmemory_clients", daemon.text())
