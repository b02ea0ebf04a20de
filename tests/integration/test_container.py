"""sepald in a container: little memory, half a processor, few descriptors. It says what it made of them, and lives."""

import os
import re
import threading
import unittest

from client import Client, Refused
from control_group import control_group_for
from daemon import SANITIZED, DaemonTest, encode

MIB = 1 << 20
MEMORY = 256 * MIB
CPUS = 0.5
OPEN_FILES = 64
FILTER_ITEMS = 10_000_000  # a filter of 12 MB
FILTERS_MAX = 64
ADDS = 2_000
SCRIPT = "local t = {} for i = 1, 1e9 do t[i] = {i} end"


@unittest.skipIf(SANITIZED, "a sanitizer takes more memory than the container has")
class ContainerTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.group = control_group_for(self, MEMORY, CPUS)

    def start(self, *arguments, **options):
        return super().start(*arguments, group=self.group, open_files=OPEN_FILES, **options)

    def client(self, daemon):
        client = Client.of(daemon, self)
        return client

    def fill(self, client):
        """Reserves filters until one is refused, and adds to each so that all of its pages are there."""
        for number in range(FILTERS_MAX):
            key = "filter:%d" % number
            try:
                client.call("BF.RESERVE", key, "0.01", str(FILTER_ITEMS))
            except Refused as refused:
                return number, str(refused)
            for first in range(0, 10 * ADDS, ADDS):
                client.call("BF.MADD", key, *(str(item) for item in range(first, first + ADDS)))
        self.fail("%d filters fit into %d bytes" % (FILTERS_MAX, MEMORY))

    def unfinished(self, daemon, byte_count):
        """A client that begins a request and sends so much of it, or is closed before."""
        connection = daemon.connect(self)
        try:
            connection.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n" % (4 * byte_count))
            for _ in range(byte_count // MIB):
                connection.sendall(b"x" * MIB)
        except OSError:
            pass

    def unread(self, daemon, key, count):
        """A client that asks for many dumps and reads none."""
        connection = daemon.connect(self)
        connection.sendall(encode("DUMP", key) * count)

    def test_it_says_what_it_made_of_the_limits(self):
        daemon = self.start()
        line = daemon.wait_for_line("memory shared")
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        self.assertEqual(fields["available_bytes"], str(MEMORY))
        self.assertEqual(fields["filter_bytes"], str(160 * MIB))
        self.assertEqual(fields["client_bytes"], str(32 * MIB))
        self.assertEqual(fields["workers"], "1")
        self.assertIn("descriptors=%d" % OPEN_FILES, daemon.wait_for_line("maxclients lowered"))
        client = self.client(daemon)
        self.assertEqual(client.info("sepal")["filter_bytes_max"], str(160 * MIB))
        self.assertEqual(client.info("server")["worker_threads"], "1")
        self.assertEqual(client.call("CONFIG", "GET", "maxmemory"), [b"maxmemory", b"0"])
        self.assertIn("less than 90% of their share of the memory", client.call("MEMORY", "DOCTOR").decode())

    def test_a_rewritten_configuration_has_none_of_the_shares(self):
        config = os.path.join(self.directory, "sepald.toml")
        with open(config, "w") as file:
            file.write("port = 0\n")
        daemon = self.start("--config", config, directory=os.path.join(self.directory, "data"))
        client = self.client(daemon)
        client.call("CONFIG", "SET", "timeout", "77")
        client.call("CONFIG", "REWRITE")
        with open(config) as file:
            text = file.read()
        self.assertIn("timeout = ", text)
        self.assertNotIn("memory", text)
        client.call("CONFIG", "SET", "script-memory-max", "20mb")
        client.call("CONFIG", "REWRITE")
        with open(config) as file:
            text = file.read()
        self.assertIn('script_memory_max = "20mb"', text)
        self.assertNotIn("maxmemory", text)

    def test_a_full_server_refuses_and_lives(self):
        daemon = self.start()
        client = self.client(daemon)
        filters, refusal = self.fill(client)
        self.assertIn("memory", refusal)
        self.assertGreater(filters, 8)
        attacks = [threading.Thread(target=self.unfinished, args=(daemon, 100 * MIB)) for _ in range(4)]
        attacks += [threading.Thread(target=self.unread, args=(daemon, "filter:0", 20)) for _ in range(4)]
        for attack in attacks:
            attack.start()
        with self.assertRaisesRegex(Refused, "not enough memory"):
            self.client(daemon).call("EVAL", SCRIPT, "0")
        for attack in attacks:
            attack.join()
        client.save()
        for number in range(filters):
            self.assertEqual(client.call("BF.EXISTS", "filter:%d" % number, "0"), 1)
        self.assertEqual(self.group.killed(), 0)
        self.assertEqual(daemon.stop(), 0)
        again = self.start()
        self.assertEqual(self.client(again).call("BF.EXISTS", "filter:0", "0"), 1)
        self.assertEqual(self.group.killed(), 0)

    def test_what_no_filter_takes_is_bounded_as_well(self):
        """Strings with a bit here and there, of which Linux keeps tables as large as they are; then requests that
        do not end, as many as would fill the memory."""
        daemon = self.start()
        client = self.client(daemon)
        replies = []
        for string in range(200):
            replies = client.pipeline([("SETBIT", "s%d" % string, str(place << 24), "1") for place in range(256)])
            if isinstance(replies[-1], Refused):
                break
        self.assertIsInstance(replies[-1], Refused)
        attacks = [threading.Thread(target=self.unfinished, args=(daemon, 6 * MIB)) for _ in range(24)]
        for attack in attacks:
            attack.start()
        for attack in attacks:
            attack.join()
        self.eventually("clients hold more than they may",
                        lambda: int(client.info()["mem_clients_normal"]) <= 32 * MIB)
        self.assertEqual(client.call("GETBIT", "s0", "0"), 1)
        self.assertEqual(self.group.killed(), 0)

    def test_without_a_limit_of_its_own_it_would_be_killed(self):
        """Shows that the container has the limit: what the server is told to do anyway ends it."""
        daemon = self.start("--maxmemory", "2gb")
        self.assertIn("advice=", daemon.wait_for_line("maxmemory is more than there is"))
        with self.assertRaises((ConnectionError, OSError)):
            self.fill(self.client(daemon))
        self.assertEqual(self.group.killed(), 1)
