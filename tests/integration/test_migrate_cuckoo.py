"""`sepal migrate` copies filters that delete, Sepal's own and RedisBloom's."""

import random
import struct

from client import Client, Refused
from daemon import EXACT_CUCKOO_RATE
from migrate_case import DEADLINE, MigrateCase, address, filters_of


class CuckooTest(MigrateCase):
    def fill(self):
        """Cuckoo filters, small and large: Sepal's own, and RedisBloom's. Returns how many."""
        chosen = random.Random(5)
        with Client.of(self.source) as client:
            requests = [("CF.ADD", "small", "x"), ("PEXPIREAT", "small", DEADLINE), ("CF.RESERVE", "empty", 1000, "ERROR", "0.001"),
                        ("CF.RESERVE", "fixed", 100, "EXPANSION", 0)]
            requests += [("CF.INSERT", "grown", "ERROR", EXACT_CUCKOO_RATE, "ITEMS", *["grown/%d" % i for i in range(k, k + 1000)]) for k in range(0, 100_000, 1000)]
            requests += [("CF.ADD", "grown", "often")] * 10 + [("CF.DEL", "grown", "grown/0"), ("PEXPIREAT", "grown", DEADLINE + 1)]
            for key, bits in ("foreign", 9), ("wide", 19):
                slots = bytes(chosen.randrange(256) if chosen.random() < 0.3 else 0 for _ in range(2 << bits))
                items = len(slots) - slots.count(0)
                requests += [("CF.LOADCHUNK", key, 1, struct.pack("<QQQQHHH", items, 1 << bits, 3, 1, 2, 20, 1)),
                             ("CF.LOADCHUNK", key, 1 + len(slots), slots)]
            for reply in client.pipeline(requests):
                self.assertNotIsInstance(reply, Refused)
            return client.call("DBSIZE")

    def check_alike(self):
        items = ["grown/%d" % i for i in range(110_000)]
        with Client.of(self.source) as source, Client.of(self.target) as target:
            self.assertEqual(filters_of(source), filters_of(target))
            for client in (source, target):
                client.call("SELECT", 0)
            for key in ("grown", "foreign", "wide"):
                for k in range(0, len(items), 1000):
                    self.assertEqual(source.call("CF.MEXISTS", key, *items[k:k + 1000]), target.call("CF.MEXISTS", key, *items[k:k + 1000]))
            self.assertEqual(source.call("CF.COUNT", "grown", "often"), target.call("CF.COUNT", "grown", "often"))
            for key in source.call("KEYS", "*"):
                self.assertEqual(source.call("DUMP", key), target.call("DUMP", key), key)

    def test_what_is_there_and_what_changes(self):
        count = self.fill()
        self.assertIn("filters  %d with " % count, self.migrate(0, address(self.source), address(self.target), "--dry-run"))
        told = self.migrate(0, address(self.source), address(self.target))
        self.assertIn("filters  %d with " % count, told)
        self.assertIn("checked  %d filters" % count, told)
        self.check_alike()
        # A second run takes what changed since: here filters have more items, fewer, and another deadline.
        with Client.of(self.source) as client:
            client.pipeline([("CF.ADD", "small", "y"), ("CF.DEL", "grown", "grown/1"), ("PEXPIREAT", "foreign", DEADLINE)])
            self.assertEqual(client.call("CF.ADD", "wide", "later"), 1)
        told = self.migrate(0, address(self.source), address(self.target))
        self.assertIn("filters  3 with ", told)
        self.assertIn("same     %d filters were at the target already, with these figures; 1 of them" % (count - 3), told)
        self.check_alike()

    def test_a_target_that_went_on_is_left_alone(self):
        self.fill()
        self.migrate(0, address(self.source), address(self.target))
        with Client.of(self.target) as client:
            self.assertEqual(client.pipeline([("CF.ADD", "small", "only there"), ("CF.DEL", "grown", "grown/7")]), [1, 1])
            client.pipeline([("DEL", "foreign"), ("BF.ADD", "foreign", "x")])
        told = self.migrate(3, address(self.source), address(self.target))
        self.assertIn("LEFT OUT 2 keys: the target's filter has more adds or removals, so it is left alone", told)
        self.assertIn("LEFT OUT 1 key: the target has another value under its key", told)
        with Client.of(self.target) as client:
            self.assertEqual(client.pipeline([("CF.EXISTS", "small", "only there"), ("CF.EXISTS", "grown", "grown/7")]), [1, 0])

    def test_a_filter_of_the_target_that_was_no_copy_is_left_alone(self):
        with Client.of(self.source) as source, Client.of(self.target) as target:
            source.call("CF.RESERVE", "k", 1000)
            for item in range(200):
                source.call("CF.ADD", "k", item)
            # Fewer items, as an older copy would have.
            for options in (2000,), (1000, "BUCKETSIZE", 4), (1000, "MAXITERATIONS", 30), (1000, "EXPANSION", 2):
                target.call("DEL", "k")
                target.call("CF.RESERVE", "k", *options)
                target.call("CF.ADD", "k", "only there")
                told = self.migrate(3, address(self.source), address(self.target))
                self.assertIn("LEFT OUT 1 key: the target has another value under its key", told)
                self.assertEqual(target.call("CF.EXISTS", "k", "only there"), 1)

    def test_a_large_empty_filter_is_named(self):
        with Client.of(self.source) as source:
            self.assertEqual(source.call("CF.LOADCHUNK", "k", 1, struct.pack("<QQQQHHH", 0, 1 << 28, 0, 1, 2, 20, 1)), b"OK")
        told = self.migrate(3, address(self.source), address(self.target))
        self.assertIn("LEFT OUT 1 key: it is empty; make it at the target with CF.RESERVE", told)
