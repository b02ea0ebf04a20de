"""A server with replicas, for tests of what they are told, and that they have the same filters."""

import os
import random

from redis_case import field

SEED = int(os.environ.get("SEPAL_REPLICATION_SEED", str(random.randrange(1 << 32))))


class Replicas:
    """Stands before a RedisTest."""

    # Replicas have other settings: they plan nothing, and draw no seed, by themselves.
    of_master = ("SEED", 1)
    of_replica = ("SEED", 2)

    def setUp(self):
        super().setUp()
        self.master = self.start(module=self.of_master)
        self.client = self.client_of(self.master)
        self.readers = []
        self.add_replica()

    def add_replica(self):
        replica = self.start("--replicaof", "127.0.0.1 %d" % self.master.port, directory=self.make_directory(), module=self.of_replica)
        reader = self.client_of(replica)
        self.readers.append(reader)
        self.eventually("the replica is not in sync",
                        lambda: field(reader.call("INFO", "replication"), "master_link_status") == "up")

    def offset(self):
        return int(field(self.client.call("INFO", "replication"), "master_repl_offset"))

    def wait_for_replicas(self):
        self.assertEqual(self.client.call("WAIT", len(self.readers), 30_000), len(self.readers))

    def questions(self, key):
        """What a master and its replicas must answer alike."""
        return [("DUMP", key), ("PEXPIRETIME", key)]

    def assert_same(self):
        self.wait_for_replicas()
        keys = sorted(self.client.call("KEYS", "*"))
        for reader in self.readers:
            self.assertEqual(sorted(reader.call("KEYS", "*")), keys)
            for key in keys:
                asked = self.questions(key)
                self.assertEqual(reader.pipeline(asked), self.client.pipeline(asked), (SEED, key))
            self.assertEqual(self.digests(reader, keys), self.digests(self.client, keys))

    def churn(self, chance, rounds, requests, deletions=0.02):
        """`requests(chance, key, items)`: those of which one is sent in a round."""
        for _ in range(rounds):
            key = "k%d" % chance.randrange(12)
            items = [str(chance.randrange(4000)) for _ in range(chance.choice((1, 1, 5, 60, 200)))]
            self.client.pipeline([chance.choice(requests(chance, key, items))])
            if chance.random() < deletions:
                self.client.call("DEL", key)
            if chance.random() < 0.01:
                self.client.pipeline([("RENAME", key, "k%d" % chance.randrange(12))])

    def assert_known_items_are_not_sent(self, *options):
        self.client.call("BF.RESERVE", "k", "0.000001", 100_000, *options)
        self.client.call("BF.MADD", "k", *range(10_000))
        # A master pings its replicas now and then.
        self.client.call("CONFIG", "SET", "repl-ping-replica-period", 3600)
        self.assert_same()
        before = self.offset()
        for begin in range(0, 10_000, 100):
            self.client.call("BF.MADD", "k", *range(begin, begin + 100))
        self.client.call("BF.ADD", "k", 7)
        self.assertLess(self.offset() - before, 200)
        # Of a hundred items one is new, and it alone is sent.
        self.client.call("BF.MADD", "k", *range(99), "new")
        self.assertLess(self.offset() - before, 300)
        self.assert_same()
        self.assertEqual(self.readers[0].call("BF.EXISTS", "k", "new"), 1)
