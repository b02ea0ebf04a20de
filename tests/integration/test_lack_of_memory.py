"""A system that refuses memory (ulimit -v): requests are refused, and sepald goes on."""

import os
import resource
import unittest

from client import Client, Refused
from daemon import SANITIZED, DaemonTest, encode

# What the process may map beyond what it has.
ROOM = 40 << 20
LONG_STRING = 100 << 20
VALUE = b"v" * 100_000
# These fill the room, and what the heaps of the threads have mapped already.
QUEUED = 4000
NAMES = 30_000
NAME = b"n" * 4000


@unittest.skipIf(SANITIZED, "a sanitizer maps more than any limit")
class LackOfMemoryTest(DaemonTest):
    def serve(self):
        return self.start("--threads", "2", "--journal-segment", "2mb")

    def limit(self, daemon, room=ROOM):
        with open("/proc/%d/status" % daemon.process.pid) as status:
            mapped = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize:"))
        resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (mapped + room, resource.RLIM_INFINITY))

    def lift_limit(self, daemon):
        resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def client(self, daemon):
        client = Client.of(daemon, self)
        return client

    def is_refused(self, reply):
        """Whether the system's lack of memory is the reason."""
        return isinstance(reply, Refused) and "memory" in str(reply)

    def test_clients_that_connect_when_there_is_no_memory_are_served_or_refused(self):
        for kb in range(0, 512, 32):
            daemon = self.start("--threads", "1", "--journal-segment", "2mb", directory=os.path.join(self.directory, str(kb)))
            # Before the first client: what a connection takes is not there from an earlier one.
            self.limit(daemon, kb << 10)
            for _ in range(3):
                with daemon.connect() as connection:
                    try:
                        connection.sendall(encode("PING"))
                        self.assertRegex(connection.recv(100), rb"^(\+PONG\r\n|-ERR the system has no memory for one more client\r\n|)$")
                    except ConnectionError:
                        pass
            self.lift_limit(daemon)
            self.assertEqual(self.client(daemon).call("PING"), b"PONG")
            self.assertEqual(daemon.stop(), 0, daemon.text())

    def test_copies_of_a_long_string_are_refused(self):
        daemon = self.serve()
        client = self.client(daemon)
        client.call("SETRANGE", "long", LONG_STRING - 1, "x")
        client.call("SET", "short", "1")
        self.limit(daemon)
        self.assertTrue(self.is_refused(client.pipeline([("DUMP", "long")])[0]))
        # In EXEC, a reply is built at once. The other commands run.
        client.call("MULTI")
        client.pipeline([("GET", "long"), ("SET", "short", "2")])
        replies = client.call("EXEC")
        self.assertTrue(self.is_refused(replies[0]), str(replies)[:200])
        self.assertEqual(replies[1], b"OK")
        self.assertEqual(client.call("GET", "short"), b"2")
        self.assertEqual(self.client(daemon).call("PING"), b"PONG")
        self.assertEqual(daemon.stop(), 0)

    def test_what_is_queued_is_refused(self):
        daemon = self.serve()
        healthy = self.client(daemon)
        self.limit(daemon)
        greedy = daemon.connect(self)
        greedy.sendall(encode("MULTI"))
        queued = encode("GET", VALUE)
        try:
            for _ in range(QUEUED):
                greedy.sendall(queued)
        except OSError:
            pass
        # Refused, or closed.
        greedy.close()
        self.assertEqual(healthy.call("PING"), b"PONG")
        self.eventually("memory is back", lambda: healthy.pipeline([("SET", "key", VALUE)])[0] == b"OK")
        self.assertEqual(daemon.stop(), 0)

    def test_keys_are_refused_until_others_are_gone(self):
        daemon = self.serve()
        client = self.client(daemon)
        self.limit(daemon)
        keys = [NAME + b"%d" % number for number in range(NAMES)]
        replies = client.pipeline([("BF.ADD", key, "item") for key in keys])
        refused = [reply for reply in replies if isinstance(reply, Refused)]
        self.assertEqual([reply for reply in refused if not self.is_refused(reply)], [])
        self.assertGreater(len(refused), 0)
        # What was answered is there, and nothing else.
        taken = [reply == 1 for reply in replies]
        found = client.pipeline([("BF.EXISTS", key, "item") for key in keys])
        self.assertEqual([reply == 1 for reply in found], taken)
        # A file of the journal may find no room before the heap does.
        told = ("the system refused memory", "journal refuses changes")
        self.eventually("the log tells nothing", lambda: any(line in daemon.text() for line in told))
        client.call("FLUSHALL")
        self.eventually("memory is back", lambda: client.pipeline([("BF.ADD", "key", "item")])[0] in (0, 1))
        self.assertEqual(daemon.stop(), 0)
