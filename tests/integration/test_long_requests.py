"""Long requests and long replies beside other clients, and when the server is killed in the middle of one."""

import itertools
import signal
import time

from client import Client, Refused
from daemon import SANITIZED, DaemonTest, encode

MANY = 60_000 if SANITIZED else 300_000
TRIES_MAX = 20
PATIENCE_SECONDS = 300
MB = 1 << 20


def items(count):
    return ["item:%d" % number for number in range(count)]


class LongRequestTest(DaemonTest):
    def connected(self, daemon):
        client = Client.of(daemon)
        client.connection.settimeout(PATIENCE_SECONDS)
        self.addCleanup(client.close)
        return client

    def seen_in_the_middle(self, daemon, request, look):
        """Sends a long request. Returns its reply, and what `look` answered another client meanwhile, first to last."""
        sender, other = self.connected(daemon), self.connected(daemon)
        seen = []
        sender.connection.setblocking(False)
        sent = 0
        # The other client asks as often as it can, also while the request is still on its way.
        while True:
            if sent < len(request):
                try:
                    sent += sender.connection.send(request[sent:sent + MB])
                except BlockingIOError:
                    pass
            seen.append(look(other))
            if sent == len(request):
                try:
                    sender.connection.recv(1, 2)  # MSG_PEEK
                    break
                except BlockingIOError:
                    pass
        sender.connection.settimeout(PATIENCE_SECONDS)
        return sender.receive(), seen

    def test_another_client_of_the_worker_sees_a_part_of_the_items(self):
        daemon = self.start("--threads", "1", "--journal", "off")
        request = encode("BF.MADD", "k", *items(MANY))
        # How often the system lets the two clients run is its own affair: one success shows that there are parts.
        for _ in range(TRIES_MAX):
            with Client.of(daemon) as client:
                client.call("FLUSHALL")
                client.call("BF.RESERVE", "k", "1e-9", str(2 * MANY))
            reply, seen = self.seen_in_the_middle(daemon, request, lambda client: client.call("BF.CARD", "k"))
            self.assertEqual(reply, [1] * MANY)
            self.assertEqual(seen, sorted(seen))
            if any(0 < count < MANY for count in seen):
                return
        self.fail("no other client was served in the middle of a request of %d items" % MANY)

    def test_other_clients_run_in_the_middle_of_one_question_to_many_filters(self):
        daemon = self.start("--threads", "1", "--journal", "off")
        keys = ["none:%d" % number for number in range(999)] + ["k"]
        request = encode("BF.FIND", len(keys), *keys, "ITEMS", *["a"] * (MANY // 30))
        requests = itertools.cycle([("BF.ADD", "k", "a"), ("DEL", "k")])
        for _ in range(TRIES_MAX):
            reply, _ = self.seen_in_the_middle(daemon, request, lambda client: client.call(*next(requests)))
            self.assertEqual(len(reply), MANY // 30)
            self.assertLessEqual(set(reply), {0, 1000})
            if set(reply) == {0, 1000}:
                return
        self.fail("no other client was served in the middle of a request to %d filters" % len(keys))

    def test_keys_are_deleted_while_another_client_asks(self):
        daemon = self.start("--threads", "2", "--journal", "off")
        keys = items(MANY // 10)
        request = encode("DEL", *keys)
        for _ in range(TRIES_MAX):
            with Client.of(daemon) as client:
                client.pipeline([("BF.ADD", key, "a") for key in keys])
            reply, seen = self.seen_in_the_middle(daemon, request, lambda client: client.call("DBSIZE"))
            self.assertEqual(reply, len(keys))
            self.assertEqual(seen, sorted(seen, reverse=True))
            if any(0 < count < len(keys) for count in seen):
                return
        self.fail("no other client was served while %d keys were deleted" % len(keys))

    def test_all_keys_are_answered_to_a_slow_reader_and_others_are_served(self):
        daemon = self.start("--threads", "1", "--journal", "off")
        keys = items(MANY // 10)
        client, slow = self.connected(daemon), self.connected(daemon)
        client.pipeline([("BF.ADD", key, "a") for key in keys])
        slow.send(("KEYS", "*"), ("SCAN", "0", "COUNT", "10000000"), ("PING",))
        for _ in range(100):
            self.assertEqual(client.call("PING"), b"PONG")
        wanted = sorted(key.encode() for key in keys)
        self.assertEqual(sorted(slow.receive()), wanted)
        cursor, found = slow.receive()
        self.assertEqual((cursor, sorted(found)), (b"0", wanted))
        self.assertEqual(slow.receive(), b"PONG")

    def test_words_and_filters_of_many_megabytes_go_through_whole(self):
        daemon = self.start()
        client = self.connected(daemon)
        word = bytes(range(256)) * (24 * MB // 256)
        for command in ("ECHO", "PING"):
            client.send(("PING",), (command, word), ("PING",))
            self.assertEqual(client.receive(), b"PONG")
            self.assertTrue(client.receive() == word)
            self.assertEqual(client.receive(), b"PONG")

        client.call("BF.RESERVE", "filter", "0.01", "16000000", "NONSCALING")
        some = items(2000)
        self.assertEqual(client.call("BF.MADD", "filter", *some).count(1), client.call("BF.CARD", "filter"))
        payload = client.call("DUMP", "filter")
        self.assertGreater(len(payload), 16 * MB)
        client.send(("RESTORE", "copy", "0", payload), ("RESTORE", "copy", "0", payload), ("PING",))
        self.assertEqual(client.receive(), b"OK")
        self.assertIsInstance(client.receive(), Refused)
        self.assertEqual(client.receive(), b"PONG")
        self.assertEqual(client.call("BF.MEXISTS", "copy", *some), [1] * len(some))
        self.assertTrue(client.call("DUMP", "copy") == payload)

    def test_a_kill_in_the_middle_leaves_the_items_of_some_parts(self):
        names = items(MANY)
        for policy in ("always", "everysec"):
            daemon = self.start("--threads", "1", "--journal", policy)
            sender, other = self.connected(daemon), self.connected(daemon)
            other.call("FLUSHALL")
            other.call("BF.RESERVE", "k", "1e-9", str(2 * MANY))
            other.call("BF.ADD", "k", "acknowledged")
            sender.connection.sendall(encode("BF.MADD", "k", *names))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while other.call("BF.CARD", "k") <= 1:
                self.assertLess(time.monotonic(), deadline)
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            again = self.start("--threads", "1", "--journal", policy)
            client = self.connected(again)
            known = client.call("BF.MEXISTS", "k", "acknowledged", *names)
            count = client.call("BF.CARD", "k") - 1
            # What a kill leaves is what the first parts added, and nothing behind it.
            self.assertEqual(known, [1] * (1 + count) + [0] * (MANY - count))
            self.assertEqual(client.call("BF.MADD", "k", *names), [0] * count + [1] * (MANY - count))
            self.assertEqual(again.stop(), 0)
