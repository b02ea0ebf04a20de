"""Replicas of a server with cuckoo filters: what they are told, and that they have the same filters."""

import random

from cuckoo_case import CuckooTest, header_of_redisbloom
from replicas import SEED, Replicas


class ReplicationTest(Replicas, CuckooTest):
    def questions(self, key):
        return [*super().questions(key), *(("CF.COUNT", key, item) for item in range(1000))]

    def requests(self, chance, key, items):
        return (("CF.ADD", key, items[0]), ("CF.ADDNX", key, items[0]), ("CF.DEL", key, items[0]), ("CF.MDEL", key, *items),
                ("CF.INSERT", key, "ITEMS", *items), ("CF.INSERT", key, "CAPACITY", 10, "ITEMS", *items),
                ("CF.INSERT", key, "NOCREATE", "ITEMS", *items), ("CF.INSERTNX", key, "ERROR", "0.1", "ITEMS", *items),
                ("CF.RESERVE", key, chance.choice((5, 5000)), "EXPANSION", chance.choice((0, 1))), ("CF.COMPACT", key),
                ("CF.LOADCHUNK", key, 1, header_of_redisbloom(chance.choice((4, 1024)), expansion=chance.choice((0, 1, 2)))),
                ("CF.LOADCHUNK", key, 9, b"\x01\x02\x03\x04\x05\x06\x07\x08"))

    def test_a_replica_has_the_same_filters_and_so_has_one_that_comes_later(self):
        chance = random.Random(SEED)
        self.churn(chance, 1500, self.requests, deletions=0.01)
        self.assert_same()
        self.fill(self.client)
        # It gets the filters in a file, and goes on with them as the others do.
        self.add_replica()
        self.churn(chance, 1500, self.requests, deletions=0.01)
        for key in ("grown", "layers", "churned", "foreign"):
            self.client.call("CF.INSERT", key, "ITEMS", *range(3000))
            self.client.call("CF.MDEL", key, *range(0, 3000, 3))
        self.assert_same()

    def test_a_transaction_a_script_and_deadlines(self):
        self.client.pipeline([("MULTI",), ("CF.ADD", "k", "a"), ("CF.INSERT", "k", "ITEMS", *range(200)), ("CF.DEL", "k", "a"),
                              ("EXPIRE", "k", 1000), ("EXEC",)])
        script = "redis.call('CF.INSERT', KEYS[1], 'ITEMS', unpack(ARGV)); return redis.call('CF.MDEL', KEYS[1], '7', 'absent')"
        self.assertEqual(self.client.call("EVAL", script, 1, "s", *range(200)), [1, 0])
        for number in range(100):
            self.client.pipeline([("CF.RESERVE", "e%d" % number, 100), ("EXPIRE", "e%d" % number, 1000)])
        self.client.pipeline([("CF.ADD", "gone", "a"), ("PEXPIRE", "gone", 1)])
        self.eventually("the key does not expire", lambda: self.client.call("EXISTS", "gone") == 0)
        self.client.call("CF.ADD", "gone", "b")
        self.assert_same()
        self.assertEqual(self.readers[0].pipeline([("CF.COUNT", "gone", "a"), ("CF.COUNT", "gone", "b")]), [0, 1])

    def test_pieces_come_to_replicas(self):
        self.client.call("CF.INSERT", "source", "ITEMS", *range(60_000))
        iterator = 0
        while True:
            iterator, piece = self.client.call("CF.SCANDUMP", "source", iterator)
            if iterator == 0:
                break
            self.assertEqual(self.client.call("CF.LOADCHUNK", "target", iterator, piece), b"OK")
        self.assert_same()
        self.assertEqual(self.client.call("CF.INFO", "target")[7], 60_000)

    def test_only_what_changes_a_filter_is_sent(self):
        self.client.call("CF.INSERT", "k", "ERROR", "0.000001", "ITEMS", *range(5000))
        # A master pings its replicas now and then.
        self.client.call("CONFIG", "SET", "repl-ping-replica-period", 3600)
        self.assert_same()
        before = self.offset()
        for begin in range(0, 5000, 100):
            self.client.call("CF.INSERTNX", "k", "ITEMS", *range(begin, begin + 100))
            self.client.call("CF.MDEL", "k", *("absent/%d" % i for i in range(begin, begin + 100)))
            self.client.call("CF.ADDNX", "k", begin)
        self.assertLess(self.offset() - before, 200)
        # Of a hundred items one is new, or there, and it alone is sent.
        self.client.call("CF.INSERTNX", "k", "ITEMS", *range(99), "new")
        self.client.call("CF.MDEL", "k", *("absent/%d" % i for i in range(99)), "7")
        self.assertLess(self.offset() - before, 400)
        self.assert_same()
        self.assertEqual(self.readers[0].pipeline([("CF.EXISTS", "k", "new"), ("CF.EXISTS", "k", "7")]), [1, 0])

    def test_a_replica_takes_over(self):
        has = self.fill(self.client)
        self.assert_same()
        self.master.kill()
        reader = self.readers[0]
        reader.call("REPLICAOF", "NO", "ONE")
        self.check(reader, has)
        # Its filters grow, and give items back, as those of its master would have.
        reader.call("CF.INSERT", "grown", "ITEMS", *range(5000))
        self.assertEqual(set(reader.call("CF.MDEL", "grown", *range(5000))), {1})
        self.check(reader, has)


del CuckooTest  # unittest would run it as well
