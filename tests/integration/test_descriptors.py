"""A low limit of file descriptors: clients get the rest, and never the descriptors of the journal and the saves."""

import os
import re
import resource
import socket
import threading

from client import Client, Refused
from daemon import Daemon, DaemonTest

OPEN_FILES = 96
# With this limit, sepald must leave at least so many descriptors to clients.
CLIENTS_MIN = 40
SURPLUS = 200
WRITES = 500
ROUNDS = 10
REFUSAL = b"-ERR max number of clients reached\r\n"
SECONDS_MAX = 300


def receive_all(connection):
    """All bytes that the server sends until it closes."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


class DescriptorsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.imports = os.path.join(self.directory, "imports")
        os.mkdir(self.imports)
        self.config = os.path.join(self.directory, "sepald.toml")
        with open(self.config, "w") as file:
            file.write('journal_segment = "2mb"\nthreads = 2\n')

    def start_limited(self):
        daemon = self.start("--config", self.config, "--import-dir", self.imports, directory=self.data,
                            open_files=OPEN_FILES)
        line = daemon.wait_for_line("maxclients lowered")
        self.assertIn("requested=10000", line)
        self.assertIn("descriptors=%d" % OPEN_FILES, line)
        return daemon, int(re.search(r" maxclients=(\d+)", line).group(1))

    def take_all_places(self, daemon, clients_max):
        """Connects as many clients as possible, and checks that all are served."""
        clients = []
        for _ in range(clients_max):
            clients.append(Client.of(daemon))
            self.addCleanup(clients[-1].close)
            self.assertEqual(clients[-1].call("PING"), b"PONG")
        return clients

    def connect(self, daemon):
        connection = socket.create_connection(("127.0.0.1", daemon.port), timeout=SECONDS_MAX)
        self.addCleanup(connection.close)
        return connection

    def call_rounds(self, client, failures, requests, rounds=ROUNDS):
        for number in range(rounds):
            for request in requests(number):
                reply = client.pipeline([request])[0]
                if isinstance(reply, Refused) and "in progress" not in str(reply):
                    failures.append((request[0], str(reply)))

    def work_of_all_kinds(self, clients):
        """Opens files in every way at once: segments of the journal, saves, copies, exports, imports, the settings file."""
        failures = []
        kinds = [
            lambda number: [("BF.MADD", "w%d" % number, *range(number, number + 40_000))],
            lambda number: [("SAVE",), ("BF.ADD", "more", number)],
            lambda number: [("COPY", "big", "copy%d" % number), ("DEL", "copy%d" % (number - 1))],
            lambda number: [("BF.EXPORT", "big", "big.sepal", "REPLACE"),
                            ("BF.IMPORT", "imported", "big.sepal", "REPLACE")],
            lambda number: [("CONFIG", "REWRITE")],
            lambda number: [("INFO",)],
            lambda number: [("INFO",)],
        ]
        threads = [threading.Thread(target=self.call_rounds, args=(client, failures, kind))
                   for client, kind in zip(clients, kinds)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return failures

    def test_the_largest_number_of_clients_stops_neither_writes_nor_saves_nor_copies(self):
        daemon, clients_max = self.start_limited()
        self.assertGreaterEqual(clients_max, CLIENTS_MIN)
        clients = self.take_all_places(daemon, clients_max)
        client = clients[0]
        self.assertEqual(client.call("CONFIG", "GET", "maxclients"), [b"maxclients", b"%d" % clients_max])
        surplus = [self.connect(daemon) for _ in range(SURPLUS)]

        client.call("BF.RESERVE", "big", "0.001", "4000000")
        client.call("BF.ADD", "big", "alice")
        replies = client.pipeline([("BF.ADD", "key%d" % number, "item") for number in range(WRITES)])
        self.assertEqual([reply for reply in replies if reply != 1], [])
        client.save()
        self.assertEqual(client.call("COPY", "big", "copy"), 1)
        self.assertEqual(self.work_of_all_kinds(clients), [])

        self.assertEqual({receive_all(connection) for connection in surplus}, {REFUSAL})
        self.assertEqual(client.info()["rejected_connections"], str(SURPLUS))
        self.assertEqual([other for other in clients if other.call("PING") != b"PONG"], [])
        self.assertNotIn("Too many open files", daemon.text())
        self.assertEqual(daemon.stop(), 0)

    def test_a_client_that_leaves_makes_room_for_the_next(self):
        daemon, clients_max = self.start_limited()
        clients = self.take_all_places(daemon, clients_max)
        self.assertEqual(receive_all(self.connect(daemon)), REFUSAL)
        for number in range(3):
            clients.pop().close()
            # The server notices some time after the client has closed.
            while True:
                newcomer = Client.of(daemon, self)
                try:
                    self.assertEqual(newcomer.call("PING"), b"PONG")
                    break
                except (Refused, ConnectionError):
                    pass
        self.assertEqual(clients[0].call("PING"), b"PONG")

    def test_config_set_maxclients_is_bounded_by_the_descriptors(self):
        daemon, clients_max = self.start_limited()
        client = Client.of(daemon, self)
        refusal = client.pipeline([("CONFIG", "SET", "maxclients", clients_max + 1, "timeout", "7")])[0]
        self.assertEqual(str(refusal),
                         "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is "
                         "not able to handle the specified number of clients, try with %d" % clients_max)
        self.assertEqual(client.call("CONFIG", "GET", "timeout"), [b"timeout", b"0"])
        self.assertEqual(client.call("CONFIG", "SET", "maxclients", 7), b"OK")
        self.assertEqual(client.call("CONFIG", "SET", "maxclients", clients_max), b"OK")
        self.take_all_places(daemon, clients_max - 1)
        self.assertEqual(receive_all(self.connect(daemon)), REFUSAL)

    def test_config_set_maxclients_raises_the_limit_again(self):
        daemon, clients_max = self.start_limited()
        client = Client.of(daemon, self)
        self.assertEqual(client.call("CONFIG", "SET", "maxclients", 7), b"OK")
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (OPEN_FILES - 10, OPEN_FILES))
        self.assertEqual(client.call("CONFIG", "SET", "maxclients", clients_max), b"OK")
        self.assertEqual(resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE), (OPEN_FILES, OPEN_FILES))

    def test_limits_too_low_for_a_single_client_are_an_error_that_says_how_many_it_takes(self):
        least = None
        for open_files in range(8, OPEN_FILES):
            daemon = Daemon(self.data, "--config", self.config, open_files=open_files, wait=False)
            self.addCleanup(daemon.kill)
            if "listening" in self.first_words(daemon):
                break
            self.assertEqual(daemon.wait(), 1, daemon.text())
            self.assertRegex(daemon.text().split("\n")[-1], "ulimit -n")
            least = int(re.search(r"needs at least (\d+)", daemon.text()).group(1))
        # The number in the message is right.
        self.assertEqual(open_files, least)
        client = Client.of(self.started(daemon))
        self.assertEqual(client.call("CONFIG", "GET", "maxclients"), [b"maxclients", b"1"])
        client.close()

    def first_words(self, daemon):
        """The line with "listening", or an empty text if the daemon ended before."""
        try:
            return daemon.wait_for_line("listening")
        except AssertionError:
            return ""

    def started(self, daemon):
        line = daemon.wait_for_line("ready: address=")
        daemon.port = int(re.search(r"address=[^ ]*:(\d+)", line).group(1))
        return daemon
