"""MONITOR, CLIENT PAUSE, CLIENT REPLY and SLOWLOG, with clients of several workers."""

import re
import threading
import time

from client import Client
from daemon import SANITIZED, DaemonTest, encode

THREADS = 4


class ObservingTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.daemon = self.start("--threads", str(THREADS))

    def client(self):
        client = Client.of(self.daemon, self)
        return client

    def monitors(self):
        with Client.of(self.daemon) as client:
            return int(client.info()["monitors"])

    def test_a_monitor_sees_the_commands_of_all_workers(self):
        clients = [self.client() for _ in range(2 * THREADS)]
        monitors = [self.client() for _ in range(THREADS)]
        for monitor in monitors:
            self.assertEqual(monitor.call("MONITOR"), b"OK")
        count = 500
        for number, client in enumerate(clients):
            client.send(*[("BF.ADD", "k", "%d-%d" % (number, at)) for at in range(count)])
        for client in clients:
            for _ in range(count):
                client.receive()
        for monitor in monitors:
            seen = {}
            for _ in range(count * len(clients)):
                line = monitor.receive().decode()
                found = re.fullmatch(r'\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] "BF\.ADD" "k" "(\d+)-(\d+)"', line)
                self.assertTrue(found, line)
                seen.setdefault(int(found[1]), []).append(int(found[2]))
            self.assertEqual(seen, {number: list(range(count)) for number in range(len(clients))})
        # A RESET ends it: no line follows.
        self.assertEqual(monitors[0].call("RESET"), b"RESET")
        clients[0].call("PING", "again")
        self.assertEqual(monitors[0].call("PING"), b"PONG")
        self.assertIn(b'"RESET"', monitors[1].receive())
        self.assertIn(b'"PING" "again"', monitors[1].receive())
        for monitor in monitors[1:]:
            monitor.close()
        self.eventually("monitors are left", lambda: self.monitors() == 0)

    def test_a_monitor_that_does_not_read_is_closed_at_the_bound(self):
        monitor = self.client()
        self.assertEqual(monitor.call("MONITOR"), b"OK")
        client = self.client()
        client.call("CONFIG", "SET", "maxmemory-clients", "4mb")
        request = encode("BF.EXISTS", "k", "z" * 1000) * 1000
        for _ in range(60):
            client.connection.sendall(request)
            for _ in range(1000):
                self.assertEqual(client.receive(), 0)
        self.daemon.wait_for_line("client closed: id=")
        self.eventually("the monitor is still there", lambda: self.monitors() == 0)
        self.assertEqual(client.call("PING"), b"PONG")

    def test_a_pause_holds_all_clients_and_loses_nothing(self):
        clients = [self.client() for _ in range(2 * THREADS)]
        control = self.client()
        control.call("BF.RESERVE", "k", "0.0000001", "10000")
        self.assertEqual(control.call("CLIENT", "PAUSE", "600000", "WRITE"), b"OK")
        for number, client in enumerate(clients):
            client.send(("PING",), *[("BF.ADD", "k", "%d-%d" % (number, at)) for at in range(100)], ("PING",))
        for client in clients:
            self.assertEqual(client.receive(), b"PONG")
        self.assertEqual(control.info()["paused_actions"], "write")
        self.assertEqual(control.call("BF.CARD", "k"), 0)
        self.assertEqual(control.call("CLIENT", "UNPAUSE"), b"OK")
        for client in clients:
            self.assertEqual([client.receive() for _ in range(100)], [1] * 100)
            self.assertEqual(client.receive(), b"PONG")
        began = time.monotonic()
        self.assertEqual(control.call("CLIENT", "PAUSE", "300"), b"OK")
        for client in clients + [control]:
            client.send(("PING",))
        for client in clients + [control]:
            self.assertEqual(client.receive(), b"PONG")
        # The server counts whole milliseconds, by another clock.
        self.assertGreater(time.monotonic() - began, 0.29)

    def test_writers_that_give_up_in_a_pause_do_not_use_up_the_connections(self):
        control = self.client()
        control.call("CONFIG", "SET", "maxclients", "20")
        control.call("CLIENT", "PAUSE", "600000", "WRITE")
        for _ in range(5):
            writers = [Client.of(self.daemon) for _ in range(15)]
            for number, writer in enumerate(writers):
                writer.send(("BF.ADD", "k", number))
            self.eventually("the writers wait", lambda: control.info()["connected_clients"] == "16")
            for writer in writers:
                writer.close()
            self.eventually("the writers keep their places", lambda: control.info()["connected_clients"] == "1")
        with Client.of(self.daemon) as another:
            self.assertEqual(another.call("CLIENT", "UNPAUSE"), b"OK")
        self.assertEqual(control.call("EXISTS", "k"), 0)

    def test_a_stop_does_not_wait_for_a_pause(self):
        client = self.client()
        client.call("BF.ADD", "k", "a")
        client.call("CLIENT", "PAUSE", "600000")
        client.send(("BF.ADD", "k", "b"))
        self.assertEqual(self.daemon.stop(), 0)
        with self.assertRaises(ConnectionError):
            client.receive()
        self.daemon = self.start("--threads", str(THREADS))
        with Client.of(self.daemon) as client:
            self.assertEqual(client.call("BF.MEXISTS", "k", "a", "b"), [1, 0])

    def test_a_kill_loses_no_add_that_was_answered_around_pauses(self):
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon = self.start("--threads", str(THREADS), "--journal", "always")
        answered = []
        control = self.client()

        def add(number, mine):
            with Client.of(self.daemon) as client:
                try:
                    for at in range(1_000_000):
                        item = "%d-%d" % (number, at)
                        client.call("BF.ADD", "k", item)
                        mine.append(item)
                except (ConnectionError, OSError):
                    pass

        lists = [[] for _ in range(THREADS)]
        threads = [threading.Thread(target=add, args=(number, mine)) for number, mine in enumerate(lists)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            control.call("CLIENT", "PAUSE", "600000", "WRITE")
            control.call("CLIENT", "UNPAUSE")
        self.eventually("nothing is added", lambda: all(len(mine) > 50 for mine in lists))
        control.call("CLIENT", "PAUSE", "600000", "WRITE")
        self.daemon.kill()
        for thread in threads:
            thread.join()
        for mine in lists:
            answered += mine
        self.daemon = self.start("--threads", str(THREADS))
        with Client.of(self.daemon) as client:
            self.assertEqual(client.call("BF.MEXISTS", "k", *answered), [1] * len(answered))

    def test_a_client_without_replies_loads_a_filter(self):
        client = self.client()
        client.send(("BF.RESERVE", "k", "0.001", "200000"))
        self.assertEqual(client.receive(), b"OK")
        count = 20_000 if SANITIZED else 200_000
        client.send(("CLIENT", "REPLY", "OFF"))
        client.connection.sendall(b"".join(encode("BF.ADD", "k", "%d" % at) for at in range(count)))
        client.send(("CLIENT", "REPLY", "ON"))
        self.assertEqual(client.receive(), b"OK")
        self.assertEqual(client.call("BF.EXISTS", "k", "0"), 1)
        self.assertGreater(client.call("BF.CARD", "k"), count * 0.99)
        client.send(("CLIENT", "REPLY", "SKIP"), ("PING", "skipped"), ("PING", "shown"))
        self.assertEqual(client.receive(), b"shown")

    def test_the_slow_log_names_the_request_and_its_client(self):
        client = self.client()
        client.call("CLIENT", "SETNAME", "loader")
        client.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
        client.call("BF.ADD", "k", "item")
        client.call("CONFIG", "SET", "slowlog-log-slower-than", "-1")
        entries = client.call("SLOWLOG", "GET", "-1")
        self.assertEqual([entry[3] for entry in entries],
                         [[b"BF.ADD", b"k", b"item"], [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"]])
        address = "%s:%d" % client.connection.getsockname()
        self.assertEqual((entries[0][4].decode(), entries[0][5]), (address, b"loader"))
