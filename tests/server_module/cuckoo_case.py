"""Cuckoo filters for tests of sepal.so: Sepal's own, and one of RedisBloom's layout."""

import struct

from redis_case import RedisTest


def header_of_redisbloom(buckets, bucket_size=2, items=0, layers=1, expansion=1):
    """What CF.SCANDUMP of RedisBloom answers first."""
    return struct.pack("<QQQQHHH", items, buckets, 0, layers, bucket_size, 20, expansion)


class CuckooTest(RedisTest):
    def fill(self, client):
        """Filters of several kinds. Returns the items that each has: key: {item: copies}."""
        has = {}

        def insert(key, items, *options):
            for at in range(0, len(items), 1000):
                client.call("CF.INSERT", key, *options, "ITEMS", *items[at:at + 1000])
            has.setdefault(key, {})
            for item in items:
                has[key][item] = has[key].get(item, 0) + 1

        insert("grown", ["grown/%d" % i for i in range(30_000)])
        client.call("CF.RESERVE", "fixed", 1000, "EXPANSION", 0)
        insert("fixed", ["fixed/%d" % i for i in range(1000)])
        client.call("CF.RESERVE", "large", 2_000_000, "ERROR", "0.001")
        insert("large", ["large/%d" % i for i in range(5000)])
        client.call("CF.RESERVE", "empty", 1_000_000)
        has["empty"] = {}
        insert("copies", ["often"] * 1000 + ["once", "twice", "twice"])
        # More items than the first layer has room for, at the least capacity.
        insert("layers", ["layers/%d" % i for i in range(6000)], "CAPACITY", 4)
        insert("churned", ["churned/%d" % i for i in range(20_000)])
        client.call("CF.MDEL", "churned", *("churned/%d" % i for i in range(18_000)))
        for i in range(18_000):
            del has["churned"]["churned/%d" % i]
        client.call("CF.LOADCHUNK", "foreign", 1, header_of_redisbloom(256, expansion=2))
        insert("foreign", ["foreign/%d" % i for i in range(4000)])
        return has

    def check(self, client, has):
        """No item that was added is denied, and no copy is missing."""
        for key, copies in has.items():
            items = list(copies)
            if items:
                self.assertEqual(set(client.call("CF.MEXISTS", key, *items)), {1}, key)
            counts = client.pipeline([("CF.COUNT", key, item) for item in items[:2000]])
            self.assertEqual([item for item, count in zip(items, counts) if count < copies[item]], [], key)
