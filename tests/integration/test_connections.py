"""Very many connections at once, storms of short and rude ones, and what they leave behind."""

import os
import resource
import socket
import struct
import threading
import time

from daemon import SANITIZED, DaemonTest, encode, free_port, read_lines, say, sized

# With the watching connection, as many as a server with default settings takes.
CONNECTIONS_WANTED = 10_000
# Descriptors of the server or the test that are no connections.
DESCRIPTORS_SPARE = 100
STORM_CONNECTIONS = sized(4_000, 20_000)
STORM_THREADS = 4
SURPLUS_CONNECTIONS = sized(1_000, 5_000)
IDLE_CONNECTION_BYTES_MAX = 1200
# A second storm may add so much memory to what the first one left.
STORM_GROWTH_BYTES_MAX = 2 * 1024 * 1024
SECONDS_MAX = 300
# Sanitizers take memory of their own for every allocation, so the test does not measure memory under them.

PING = encode("PING")
PONG = b"+PONG\r\n"
REFUSAL = b"-ERR max number of clients reached\r\n"
IP_BIND_ADDRESS_NO_PORT = 24


def receive(connection, byte_count):
    """Receives so many bytes, or fewer if the server closes."""
    data = b""
    while len(data) < byte_count:
        piece = connection.recv(byte_count - len(data))
        if not piece:
            break
        data += piece
    return data


def answers(connection):
    connection.sendall(PING)
    return receive(connection, len(PONG)) == PONG


def info(connection, field):
    """A field of INFO, as text."""
    connection.sendall(encode("INFO"))
    header = b""
    while not header.endswith(b"\r\n"):
        header += receive(connection, 1)
    text = receive(connection, int(header[1:]) + 2).decode()
    return next(line.split(":", 1)[1] for line in text.split("\r\n") if line.startswith(field + ":"))


def reset(connection):
    """Closes the connection with a reset, so that bytes in flight are lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class ConnectionsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.descriptors_max = hard

    def descriptors(self, daemon):
        return len(os.listdir("/proc/%d/fd" % daemon.process.pid))

    def descriptors_at_rest(self, daemon):
        """Without those of files that the server opens for a moment, at its start and now and then."""
        counts = []
        for _ in range(10):
            counts.append(self.descriptors(daemon))
            time.sleep(0.01)
        return min(counts)

    def resident_bytes(self, daemon):
        with open("/proc/%d/status" % daemon.process.pid) as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))

    def await_only(self, watcher):
        self.eventually("connections are left", lambda: info(watcher, "connected_clients") == "1")

    def connect_many(self, daemon, count):
        connections = []
        for _ in range(count):
            connections.append(daemon.connect())
            self.addCleanup(connections[-1].close)
        return connections

    def exchange(self, connections, requests, byte_count):
        """Sends to all connections before it reads the first reply."""
        for connection, request in zip(connections, requests):
            connection.sendall(request)
        return [receive(connection, byte_count) for connection in connections]

    def test_thousands_are_served_at_once_for_little_memory_each(self):
        daemon = self.start("--journal", "off")
        watcher = daemon.connect(self)
        watcher.sendall(encode("BF.RESERVE", "crowd", "1e-9", str(CONNECTIONS_WANTED)))
        self.assertEqual(read_lines(watcher, 1), [b"+OK"])
        # Memory that the server allocates only once must be allocated before the measurement.
        warm = self.connect_many(daemon, 100)
        self.exchange(warm, [PING] * len(warm), len(PONG))
        for connection in warm:
            connection.close()
        self.await_only(watcher)

        descriptors_before = self.descriptors(daemon)
        resident_before = self.resident_bytes(daemon)
        connections_max = min(CONNECTIONS_WANTED, self.descriptors_max - DESCRIPTORS_SPARE)
        if connections_max < CONNECTIONS_WANTED:
            say("NOT TRIED with %d connections: the hard limit of descriptors allows %d (ulimit -Hn)"
                % (CONNECTIONS_WANTED, connections_max))
        crowd = self.connect_many(daemon, connections_max - 1)
        self.assertEqual(set(self.exchange(crowd, [PING] * len(crowd), len(PONG))), {PONG})
        adds = [encode("BF.ADD", "crowd", "item:%d" % number) for number in range(len(crowd))]
        self.assertEqual(set(self.exchange(crowd, adds, len(b":1\r\n"))), {b":1\r\n"})
        watcher.sendall(encode("BF.CARD", "crowd"))
        self.assertEqual(read_lines(watcher, 1), [b":%d" % len(crowd)])
        self.assertEqual(info(watcher, "connected_clients"), str(connections_max))

        each_bytes = (self.resident_bytes(daemon) - resident_before) / len(crowd)
        say("%d connections at once, %.0f bytes of memory for each" % (connections_max, each_bytes))
        if not SANITIZED:
            self.assertLess(each_bytes, IDLE_CONNECTION_BYTES_MAX)
        if connections_max == CONNECTIONS_WANTED:
            with daemon.connect() as one_more:
                self.assertEqual(receive(one_more, len(REFUSAL) + 1), REFUSAL)

        for number, connection in enumerate(crowd):
            reset(connection) if number % 2 else connection.close()
        self.await_only(watcher)
        self.eventually("descriptors are left", lambda: self.descriptors(daemon) <= descriptors_before)
        self.assertTrue(answers(watcher))

    def visit(self, daemon, number, source):
        """One connection of a storm. Three in four do not end properly."""
        connection = socket.socket()
        # It uses several source addresses, so that connections in TIME_WAIT do not use up the ports.
        connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        connection.bind((source, 0))
        connection.settimeout(SECONDS_MAX)
        connection.connect(("127.0.0.1", daemon.port))
        kind = number % 4
        if kind == 0:  # Connects, gets an answer, and closes.
            answered = answers(connection)
            connection.close()
            return answered
        if kind == 1:
            reset(connection)
        elif kind == 2:  # Sends half of a request.
            connection.sendall(b"*3\r\n$6\r\nBF.ADD\r\n$5\r\nstorm\r\n$100000\r\n" + b"x" * (number % 5000))
            connection.close()
        else:  # Does not read the replies.
            connection.sendall(PING * 20 + encode("BF.ADD", "storm", str(number)) + b"*2\r\n$4")
            reset(connection) if number % 8 == 3 else connection.close()
        return True

    def storm(self, daemon, watcher):
        """Returns the longest wait of another client for its answer meanwhile, in seconds."""
        failures = []

        def run(thread):
            try:
                for number in range(STORM_CONNECTIONS // STORM_THREADS):
                    if not self.visit(daemon, number, "127.0.0.%d" % (2 + thread)):
                        failures.append("a client of the storm was not answered")
            except OSError as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(thread,)) for thread in range(STORM_THREADS)]
        for thread in threads:
            thread.start()
        longest = 0
        while any(thread.is_alive() for thread in threads):
            asked = time.monotonic()
            self.assertTrue(answers(watcher))
            longest = max(longest, time.monotonic() - asked)
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        return longest

    def test_storms_of_rude_clients_leave_nothing_behind(self):
        # With a disk reserve, the first count may include the reserve's file while the server makes it.
        daemon = self.start("--journal", "off", "--disk-reserve", "0")
        watcher = daemon.connect(self)
        self.assertTrue(answers(watcher))
        descriptors_before = self.descriptors(daemon)
        resident = []
        for round_number in range(1, 4):
            started = time.monotonic()
            longest = self.storm(daemon, watcher)
            # The last ones may wait to be accepted when the storm is over.
            self.eventually("connections are lost",
                            lambda: info(watcher, "total_connections_received") == str(1 + round_number * STORM_CONNECTIONS))
            self.await_only(watcher)
            self.eventually("descriptors are left", lambda: self.descriptors(daemon) <= descriptors_before)
            resident.append(self.resident_bytes(daemon))
            say("a storm of %d connections in %.1f s; another client waited %.1f ms at most; %.1f MB resident after it"
                % (STORM_CONNECTIONS, time.monotonic() - started, longest * 1000, resident[-1] / 2**20))
        if not SANITIZED:
            self.assertLess(resident[-1] - resident[0], STORM_GROWTH_BYTES_MAX)
        with daemon.connect() as newcomer:
            self.assertTrue(answers(newcomer))
        self.assertEqual(daemon.stop(), 0)

    def test_the_limit_of_descriptors_is_raised_as_far_as_the_system_allows(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, self.descriptors_max))
        daemon = self.start("--journal", "off")
        limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        self.assertEqual(limits, (self.descriptors_max, self.descriptors_max))

    def test_out_of_descriptors_newcomers_are_refused_and_the_others_are_served(self):
        """The test lowers the limit below what sepald has planned with, so the system refuses its accepts.

        There is no disk reserve: its files would be made after the start, and the test counts descriptors."""
        daemon = self.start("--journal", "off", "--disk-reserve", "0")
        watcher = daemon.connect(self)
        self.assertTrue(answers(watcher))
        room = 10
        limit = self.descriptors_at_rest(daemon) + room
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        crowd = self.connect_many(daemon, room)
        self.assertEqual(set(self.exchange(crowd, [PING] * room, len(PONG))), {PONG})
        surplus = self.connect_many(daemon, 20 * room)
        self.assertEqual({receive(connection, len(REFUSAL) + 1) for connection in surplus}, {REFUSAL})
        line = daemon.wait_for_line("connections refused")
        self.assertRegex(line, 'count=1 last=127.0.0.1:[0-9]+ reason="Too many open files"')
        self.assertEqual(daemon.text().count("connections refused"), 1, daemon.text())
        self.assertEqual(info(watcher, "rejected_connections"), str(len(surplus)))
        self.assertEqual(set(self.exchange(crowd, [PING] * room, len(PONG))), {PONG})

        for connection in crowd:
            connection.close()
        self.await_only(watcher)
        crowd = self.connect_many(daemon, room)
        self.assertEqual(set(self.exchange(crowd, [PING] * room, len(PONG))), {PONG})

    def test_a_storm_of_surplus_clients_is_refused_while_the_others_are_served(self):
        daemon = self.start("--maxclients", "2", "--journal", "off")
        watchers = self.connect_many(daemon, 2)
        self.assertTrue(all(answers(watcher) for watcher in watchers))
        done = threading.Event()
        refused = []

        def storm():
            try:
                for _ in range(SURPLUS_CONNECTIONS):
                    with daemon.connect() as connection:
                        refused.append(receive(connection, len(REFUSAL) + 1))
            finally:
                done.set()

        thread = threading.Thread(target=storm)
        thread.start()
        answered = 0
        while not done.is_set():
            self.assertTrue(all(answers(watcher) for watcher in watchers))
            answered += 1
        thread.join()
        say("%d surplus connections were refused; %d answers to the others meanwhile" % (len(refused), 2 * answered))
        self.assertEqual(refused, [REFUSAL] * SURPLUS_CONNECTIONS)
        self.assertEqual(info(watchers[0], "rejected_connections"), str(SURPLUS_CONNECTIONS))

    def test_four_operators_may_come_through_the_unix_socket_to_a_full_server(self):
        path = os.path.join(self.directory, "operators.sock")
        daemon = self.start("--maxclients", "2", "--journal", "off", "--unixsocket", path, "--port", str(free_port()))
        crowd = self.connect_many(daemon, 2)
        self.assertTrue(all(answers(client) for client in crowd))
        operators = []
        for number in range(5):
            operator = socket.socket(socket.AF_UNIX)
            self.addCleanup(operator.close)
            operator.settimeout(SECONDS_MAX)
            operator.connect(path)
            operators.append(operator)
            # Two workers may welcome two connections in any order, so each has its place before the next comes.
            self.assertTrue(number == 4 or answers(operator))
        self.assertEqual(receive(operators[4], len(REFUSAL) + 1), REFUSAL)
        with daemon.connect() as refused:
            self.assertEqual(receive(refused, len(REFUSAL) + 1), REFUSAL)
        operators[0].close()
        self.eventually("the place stays taken", lambda: info(operators[1], "connected_clients") == "5")
        with daemon.connect() as refused:
            self.assertEqual(receive(refused, len(REFUSAL) + 1), REFUSAL)

    def test_one_client_more_than_allowed_is_told_so_until_another_leaves(self):
        daemon = self.start("--maxclients", "3", "--journal", "off")
        clients = self.connect_many(daemon, 3)
        self.assertTrue(all(answers(client) for client in clients))
        descriptors = self.descriptors(daemon)
        for _ in range(100):
            with daemon.connect() as refused:
                self.assertEqual(receive(refused, len(REFUSAL) + 1), REFUSAL)
        self.assertEqual(info(clients[0], "rejected_connections"), "100")
        self.assertEqual(info(clients[0], "connected_clients"), "3")
        # The server reads a file at its start. The first count may include that file's descriptor.
        self.eventually("descriptors are left", lambda: self.descriptors(daemon) <= descriptors)
        clients[1].close()
        self.eventually("the place stays taken", lambda: info(clients[0], "connected_clients") == "2")
        with daemon.connect() as accepted:
            self.assertTrue(answers(accepted))
