"""BF.IMPORTBITMAP of a real server: a bitmap of go-zero becomes a filter, and outlives kills, saves, dumps and copies."""

import os
import subprocess

from client import Client, Refused
from daemon import DaemonTest

SEPAL = os.environ["SEPAL"]
MASK = (1 << 64) - 1
PROBES = 14
SMALL_BITS = 20_000
# More than 64 KiB: such a bitmap is moved outside of the workers.
LARGE_BITS = 4_000_003
HUGE_BITS = 1 << 30
DEADLINE = 33177117420000
TRIES_MAX = 20
SET_SCRIPT = "for _, offset in ipairs(ARGV) do redis.call('setbit', KEYS[1], offset, 1) end"
SCHEMES = ("guava, go-zero, guava-32, guava-64, redisson, murmur3-32, murmur3-32-signed, murmur3-128")


def rotated(value, bits):
    return (value << bits | value >> 64 - bits) & MASK


def mixed(value):
    value = (value ^ value >> 33) * 0xff51afd7ed558ccd & MASK
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53 & MASK
    return value ^ value >> 33


def murmur3(data):
    """The first 64 bits of MurmurHash3_x64_128 with seed 0."""
    factors = (0x87c37b91114253d5, 0x4cf5ad432745937f)
    halves = [0, 0]

    def stir(index, word):
        halves[index] ^= rotated(word * factors[index] & MASK, (31, 33)[index]) * factors[1 - index] & MASK

    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        stir(0, int.from_bytes(data[at:at + 8], "little"))
        halves[0] = (rotated(halves[0], 27) + halves[1]) * 5 + 0x52dce729 & MASK
        stir(1, int.from_bytes(data[at + 8:at + 16], "little"))
        halves[1] = (rotated(halves[1], 31) + halves[0]) * 5 + 0x38495ab5 & MASK
    tail = data[whole:]
    stir(1, int.from_bytes(tail[8:], "little"))
    stir(0, int.from_bytes(tail[:8], "little"))
    first, second = (half ^ len(data) for half in halves)
    first = (first + second) & MASK
    second = (second + first) & MASK
    return (mixed(first) + mixed(second)) & MASK


def positions(item, bits):
    return [murmur3(item.encode() + bytes([probe])) % bits for probe in range(PROBES)]


def items(first, count):
    return ["item:%d" % number for number in range(first, first + count)]


class ImportBitmapTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")

    def start_here(self, *arguments):
        return self.start("--threads", "2", *arguments, directory=self.data)

    def client_of(self, daemon):
        client = Client.of(daemon)
        client.connection.settimeout(300)
        self.addCleanup(client.close)
        return client

    def fill(self, client, key, bits, first=0, count=400):
        """Adds items as go-zero does: its own hashing, and its script."""
        digest = client.call("SCRIPT", "LOAD", SET_SCRIPT)
        replies = client.pipeline([("EVALSHA", digest, 1, key, *positions(item, bits)) for item in items(first, count)])
        self.assertEqual(replies, [None] * count)

    def import_to(self, client, target, source, bits, *more):
        return client.call("BF.IMPORTBITMAP", target, source, "SCHEME", "go-zero", "BITS", bits, "CAPACITY", 1000, *more)

    def refused(self, client, *words):
        with self.assertRaises(Refused) as caught:
            client.call(*words)
        return str(caught.exception)

    def assert_has(self, client, key, first=0, count=400):
        self.assertEqual(client.call("BF.MEXISTS", key, *items(first, count)), [1] * count)

    def test_the_hash_of_this_test_is_that_of_go_zero(self):
        self.assertEqual(positions("a", 1000), [213, 199, 204, 137, 110, 16, 555, 683, 82, 909, 716, 652, 586, 792])

    def test_bitmaps_become_filters_that_outlive_kills_and_saves(self):
        daemon = self.start_here("--journal", "always")
        client = self.client_of(daemon)
        for key, bits in (("small", SMALL_BITS), ("large", LARGE_BITS)):
            self.fill(client, key + ":bits", bits)
            self.assertEqual(client.call("PEXPIREAT", key + ":bits", DEADLINE), 1)
            self.assertEqual(self.import_to(client, key, key + ":bits", bits), b"OK")
            self.assertEqual(client.call("BF.MADD", key, *items(0, 100)), [0] * 100)
            self.assertEqual(client.call("BF.ADD", key, "above"), 1)
            self.assertEqual(client.call("COPY", key, key + ":copy"), 1)
            self.assertEqual(client.call("RESTORE", key + ":restored", 0, client.call("DUMP", key)), b"OK")
        before = {key: client.call("BF.DEBUG", key) for key in ("small", "large")}
        daemon.kill()
        daemon = self.start_here("--journal", "always")
        client = self.client_of(daemon)
        self.assert_whole(client, before)
        client.save()
        self.assertEqual(client.call("BF.ADD", "large", "after the save"), 1)
        daemon.kill()
        verified = subprocess.run([SEPAL, "verify", self.data], capture_output=True, text=True, check=False)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        client = self.client_of(self.start_here("--journal", "always"))
        self.assertEqual(client.call("BF.EXISTS", "large", "after the save"), 1)
        self.assertEqual(client.call("BF.EXISTS", "small", "after the save"), 0)
        self.assert_whole(client, {"small": before["small"]})

    def assert_whole(self, client, debug):
        for key in ("small", "large"):
            for name in (key, key + ":copy", key + ":restored"):
                self.assert_has(client, name)
                self.assertEqual(client.call("BF.EXISTS", name, "above"), 1)
            self.assertEqual(client.call("PEXPIRETIME", key), DEADLINE)
            self.assertEqual(client.call("TYPE", key + ":bits"), b"string")
        for key, text in debug.items():
            self.assertEqual(client.call("BF.DEBUG", key), text)

    def test_facts_of_such_a_filter(self):
        client = self.client_of(self.start_here())
        self.fill(client, "bits", SMALL_BITS)
        self.assertEqual(self.import_to(client, "k", "bits", SMALL_BITS), b"OK")
        info = client.call("BF.INFO", "k")
        facts = dict(zip(info[::2], info[1::2]))
        self.assertEqual(facts[b"Capacity"], 1000)
        self.assertEqual(facts[b"Number of filters"], 1)
        self.assertAlmostEqual(facts[b"Number of items inserted"], 400, delta=20)
        stats = client.call("BF.STATS", "k")
        stats = dict(zip(stats[::2], stats[1::2]))
        self.assertEqual(stats[b"bits"], SMALL_BITS)
        self.assertEqual(stats[b"bits_set"], client.call("BITCOUNT", "bits"))
        layer = stats[b"layers"][0]
        self.assertEqual(dict(zip(layer[::2], layer[1::2]))[b"layout"], b"client")

    def test_what_is_refused(self):
        client = self.client_of(self.start_here())
        self.fill(client, "bits", SMALL_BITS)
        client.call("BF.ADD", "filter", "x")

        def wrong(target, source, *words):
            return self.refused(client, "BF.IMPORTBITMAP", target, source, *words)

        go_zero = ("SCHEME", "go-zero", "BITS", SMALL_BITS, "CAPACITY", 10)
        self.assertEqual(wrong("k", "absent", *go_zero), "ERR no such key")
        self.assertTrue(wrong("k", "filter", *go_zero).startswith("WRONGTYPE "))
        self.assertEqual(wrong("k", "bits", "SCHEME", "md5", "BITS", 10, "CAPACITY", 10),
                         "ERR unknown scheme: known are " + SCHEMES)
        self.assertEqual(wrong("filter", "bits", *go_zero), "ERR item exists")
        self.assertEqual(wrong("k", "bits", "SCHEME", "go-zero", "BITS", SMALL_BITS // 2, "CAPACITY", 10),
                         "ERR a bit behind BITS is set: the program divides by a larger number")
        self.assertEqual(wrong("k", "bits", "SCHEME", "go-zero", "BITS", 2 * SMALL_BITS, "CAPACITY", 10),
                         "ERR no bit near BITS is set, though many bits are: the program divides by a smaller number")
        self.assertEqual(wrong("k", "bits", "SCHEME", "go-zero", "CAPACITY", 10),
                         "ERR BITS must be given: the number of bits by which the program divides")
        self.assertEqual(client.call("EXISTS", "k"), 0)
        self.assertEqual(client.call("BF.EXISTS", "filter", "x"), 1)
        self.assertEqual(self.import_to(client, "filter", "bits", SMALL_BITS, "REPLACE"), b"OK")
        self.assertEqual(client.call("BF.EXISTS", "filter", "x"), 0)
        self.assert_has(client, "filter")

    def test_a_user_needs_to_read_the_bitmap_and_to_write_the_filter(self):
        daemon = self.start_here()
        client = self.client_of(daemon)
        self.fill(client, "bits:1", SMALL_BITS)
        client.call("ACL", "SETUSER", "mover", "on", ">secret", "+@all", "%R~bits:*", "%RW~filter:*")
        mover = self.client_of(daemon)
        self.assertEqual(mover.call("AUTH", "mover", "secret"), b"OK")
        self.assertEqual(self.import_to(mover, "filter:1", "bits:1", SMALL_BITS), b"OK")
        for target, source in (("bits:2", "bits:1"), ("filter:2", "other"), ("bits:1", "bits:1")):
            with self.assertRaisesRegex(Refused, "^NOPERM "):
                self.import_to(mover, target, source, SMALL_BITS, "REPLACE")
        client.call("ACL", "SETUSER", "mover", "resetkeys", "%W~*")
        with self.assertRaisesRegex(Refused, "^NOPERM "):
            self.import_to(mover, "filter:3", "bits:1", SMALL_BITS)

    def served_meanwhile(self, client, mover):
        """Moves the huge bitmap. Returns how often the other client was served before it was moved."""
        mover.send(("BF.IMPORTBITMAP", "k", "bits", "SCHEME", "go-zero", "BITS", HUGE_BITS, "CAPACITY", 1000, "REPLACE"))
        mover.connection.setblocking(False)
        served = 0
        while True:
            try:
                mover.connection.recv(1, 2)  # MSG_PEEK
                break
            except BlockingIOError:
                self.assertIn(client.call("BF.EXISTS", "k", "item:1"), (0, 1))
                served += 1
        mover.connection.settimeout(300)
        self.assertEqual(mover.receive(), b"OK")
        return served

    def test_other_clients_are_served_while_a_large_bitmap_is_moved(self):
        daemon = self.start_here("--journal", "off")
        client, mover = self.client_of(daemon), self.client_of(daemon)
        self.fill(client, "bits", HUGE_BITS, count=50)
        client.call("SETBIT", "bits", HUGE_BITS - 1, 1)
        # How often the system lets the two clients run is its own affair.
        served = 0
        for _ in range(TRIES_MAX):
            if served > 1:
                break
            served = self.served_meanwhile(client, mover)
        self.assertGreater(served, 1)
        self.assert_has(client, "k", count=50)
