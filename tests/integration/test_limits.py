"""Clients that make the server hold memory: before they log in, by requests that do not end, by replies not read."""

import re
import socket
import unittest

from client import Client
from daemon import SANITIZED, DaemonTest, encode

STRANGERS = 1_000
STRANGER_BYTES = 147_000
STRANGER_MEMORY_MAX = 48 << 20


def resident_bytes(daemon):
    with open("/proc/%d/status" % daemon.process.pid) as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) * 1024


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
            connection = daemon.connect()
            self.addCleanup(connection.close)
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
        stranger = daemon.connect()
        self.addCleanup(stranger.close)
        with Client.of(daemon) as client:
            client.call("AUTH", "secret")
            self.assertEqual(self.closed(stranger), b"")
            self.assertEqual(client.call("PING"), b"PONG")
        line = daemon.wait_for_line("clients closed that had not logged in")
        self.assertRegex(line, 'count=1 reason="they took longer than login_timeout"')

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
