"""Replicas of a server with sepal.so: what they are told, and that they have the same bits."""

import random

from redis_case import RedisTest, encode, field


class ReplicationTest(RedisTest):
    def setUp(self):
        super().setUp()
        # Servers of other settings: a replica plans nothing by itself.
        self.master = self.start(module=("ERROR_RATE", "0.001", "CAPACITY", "50", "EXPANSION", "3"))
        self.replica = self.start("--replicaof", "127.0.0.1 %d" % self.master.port, directory=self.make_directory(),
                                  module=("ERROR_RATE", "0.2", "CAPACITY", "1000"))
        self.client = self.client_of(self.master)
        self.reader = self.client_of(self.replica)
        self.eventually("the replica is not in sync", lambda: self.linked())

    def linked(self):
        return field(self.reader.call("INFO", "replication"), "master_link_status") == "up"

    def wait_for_replica(self):
        self.assertEqual(self.client.call("WAIT", 1, 30_000), 1)

    def offset(self):
        return int(field(self.client.call("INFO", "replication"), "master_repl_offset"))

    def assert_same(self):
        self.wait_for_replica()
        keys = sorted(self.client.call("KEYS", "*"))
        self.assertEqual(sorted(self.reader.call("KEYS", "*")), keys)
        for key in keys:
            self.assertEqual(self.reader.call("PEXPIRETIME", key), self.client.call("PEXPIRETIME", key), key)
        self.assertEqual(self.reader.call("DEBUG", "DIGEST-VALUE", *keys), self.client.call("DEBUG", "DIGEST-VALUE", *keys))
        for key in keys:
            self.assertEqual(self.reader.call("DUMP", key), self.client.call("DUMP", key), key)

    def test_a_replica_has_the_same_bits(self):
        chance = random.Random(23)
        for _ in range(1500):
            key = "k%d" % chance.randrange(12)
            some = [str(chance.randrange(4000)) for _ in range(chance.choice((1, 1, 5, 60)))]
            request = chance.choice((
                ("BF.ADD", key, some[0]), ("BF.MADD", key, *some), ("BF.MADD", key, *some),
                ("BF.INSERT", key, "CAPACITY", 10, "ITEMS", *some),
                ("BF.INSERT", key, "CAPACITY", 10, "EX", 1000, "ITEMS", *some), ("BF.INSERT", key, "NOCREATE", "ITEMS", *some),
                ("BF.RESERVE", key, "0.01", chance.choice((5, 500))), ("BF.RESERVE", key, "0.01", 10, "NONSCALING"),
                ("BF.RESERVE", key, "0.01", 10, "EX", 1000)))
            self.client.pipeline([request])
            if chance.random() < 0.02:
                self.client.call("DEL", key)
            if chance.random() < 0.01:
                self.client.pipeline([("RENAME", key, "k%d" % chance.randrange(12))])
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
        self.assertGreater(self.reader.call("TTL", "k"), 900)

    def test_known_items_are_not_sent(self):
        self.client.call("BF.RESERVE", "k", "0.000001", 100_000)
        self.client.call("BF.MADD", "k", *range(10_000))
        # A master pings its replicas now and then.
        self.client.call("CONFIG", "SET", "repl-ping-replica-period", 3600)
        self.wait_for_replica()
        before = self.offset()
        for begin in range(0, 10_000, 100):
            self.client.call("BF.MADD", "k", *range(begin, begin + 100))
        self.client.call("BF.ADD", "k", 7)
        self.assertLess(self.offset() - before, 200)
        # Of a hundred items one is new, and it alone is sent.
        self.client.call("BF.MADD", "k", *range(99), "new")
        self.assertLess(self.offset() - before, 300)
        self.assert_same()
        self.assertEqual(self.reader.call("BF.EXISTS", "k", "new"), 1)

    def test_a_load_of_mostly_known_items_sends_little(self):
        """RedisBloom sends each request as it came. Here nine in ten items are known."""
        self.client.call("BF.RESERVE", "k", "0.000001", 100_000)
        self.client.call("CONFIG", "SET", "repl-ping-replica-period", 3600)
        self.client.call("BF.MADD", "k", *("item:%012d" % i for i in range(10_000)))
        self.wait_for_replica()
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
        self.wait_for_replica()
        self.master.kill()
        self.reader.call("REPLICAOF", "NO", "ONE")
        self.assertEqual(set(self.reader.call("BF.MEXISTS", "k", *range(1000))), {1})
        # It grows as its master would have.
        self.reader.call("BF.MADD", "k", *range(1000, 5000))
        self.assertEqual(set(self.reader.call("BF.MEXISTS", "k", *range(5000))), {1})
        info = self.reader.call("BF.INFO", "k")
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
