"""Replicas of a server with sepal.so: what they are told, and that they have the same bits."""

import random

from redis_case import RedisTest, encode
from replicas import SEED, Replicas


class ReplicationTest(Replicas, RedisTest):
    of_master = ("ERROR_RATE", "0.001", "CAPACITY", "50", "EXPANSION", "3")
    of_replica = ("ERROR_RATE", "0.2", "CAPACITY", "1000")

    def requests(self, chance, key, items):
        return (("BF.ADD", key, items[0]), ("BF.MADD", key, *items), ("BF.MADD", key, *items), ("BF.INSERT", key, "CAPACITY", 10, "ITEMS", *items),
                ("BF.INSERT", key, "CAPACITY", 10, "EX", 1000, "ITEMS", *items), ("BF.INSERT", key, "NOCREATE", "ITEMS", *items),
                ("BF.RESERVE", key, "0.01", chance.choice((5, 500))), ("BF.RESERVE", key, "0.01", 10, "NONSCALING"),
                ("BF.RESERVE", key, "0.01", 10, "EX", 1000))

    def test_a_replica_has_the_same_bits(self):
        self.churn(random.Random(SEED), 1500, self.requests)
        self.assert_same()

    def test_deadlines_are_the_same_to_the_millisecond(self):
        for number in range(1000):
            self.client.call("BF.RESERVE", "e%d" % number, "0.01", 10, "EX", 1000)
            self.client.call("BF.INSERT", "i%d" % number, "EX", 1000, "ITEMS", "a", "b")
        self.assert_same()

    def test_a_transaction_and_a_script(self):
        self.client.pipeline([("MULTI",), ("BF.ADD", "k", "a"), ("BF.MADD", "k", *range(200)), ("EXPIRE", "k", 1000), ("EXEC",)])
        self.client.call("EVAL", "return redis.call('BF.INSERT', KEYS[1], 'ITEMS', unpack(ARGV))", 1, "s", *range(200))
        self.assert_same()
        self.assertGreater(self.readers[0].call("TTL", "k"), 900)

    def test_known_items_are_not_sent(self):
        self.assert_known_items_are_not_sent()

    def test_a_load_of_mostly_known_items_sends_little(self):
        """RedisBloom sends each request as it came. Here nine in ten items are known."""
        self.client.call("BF.RESERVE", "k", "0.000001", 100_000)
        self.client.call("CONFIG", "SET", "repl-ping-replica-period", 3600)
        self.client.call("BF.MADD", "k", *("item:%012d" % i for i in range(10_000)))
        self.wait_for_replicas()
        before, sent, new = self.offset(), 0, 10_000
        for size in (1, 10, 100):
            for _ in range(2000 // size):
                numbers = [random.randrange(10_000) for _ in range(size)]
                for at in range(size):
                    if random.random() < 0.1:
                        numbers[at], new = new, new + 1
                request = ("BF.MADD", "k", *("item:%012d" % i for i in numbers))
                sent += len(encode(*request))
                self.client.call(*request)
        self.assertGreater(new, 10_300)
        self.assertLess(self.offset() - before, 0.15 * sent)
        print("%d bytes sent to the replica, %d bytes of requests" % (self.offset() - before, sent), flush=True)
        self.assert_same()

    def test_a_replica_takes_over(self):
        self.client.call("BF.MADD", "k", *range(1000))
        self.wait_for_replicas()
        self.master.kill()
        self.readers[0].call("REPLICAOF", "NO", "ONE")
        self.assertEqual(set(self.readers[0].call("BF.MEXISTS", "k", *range(1000))), {1})
        # It grows as its master would have.
        self.readers[0].call("BF.MADD", "k", *range(1000, 5000))
        self.assertEqual(set(self.readers[0].call("BF.MEXISTS", "k", *range(5000))), {1})
        info = self.readers[0].call("BF.INFO", "k")
        self.assertEqual(dict(zip(info[::2], info[1::2]))[b"Expansion rate"], 3)

    def test_a_filter_that_is_loaded_in_pieces(self):
        self.client.call("BF.RESERVE", "k", "0.001", 300_000)
        self.client.call("BF.MADD", "k", *range(5000))
        iterator, pieces = 0, 0
        while True:
            iterator, data = self.client.call("BF.SCANDUMP", "k", iterator)
            if iterator == 0:
                break
            self.assertEqual(self.client.call("BF.LOADCHUNK", "moved", iterator, data), b"OK")
            pieces += 1
        self.assertGreater(pieces, 2)
        self.assertEqual(len(set(self.client.call("DEBUG", "DIGEST-VALUE", "k", "moved"))), 1)
        self.assert_same()
