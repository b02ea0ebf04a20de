#!/usr/bin/env python3
"""One filter over all nodes of a cluster: its items are divided over parts, and each part is a filter of its own. Explained
in docs/guides/more-than-one-machine.md.

Needs redis-py, and a node of a cluster with sepal.so at SEPAL_HOST and CLUSTER_PORT (127.0.0.1 and 7401 if not set).
"""

import os
import sys
import zlib

import redis
from redis.cluster import RedisCluster

PART_COUNT = 64
ITEM_COUNT = 100_000
BATCH = 1000


class PartitionedFilter:
    """The parts are called NAME:{0}, NAME:{1}, ... Their number must not change while the filter is in use."""

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name

    def key_of(self, item):
        return "%s:{%d}" % (self.name, zlib.crc32(item.encode()) % PART_COUNT)

    def reserve(self, error_rate, capacity):
        """Each part has a share of the items and the same rate, so the rate of the whole is that rate."""
        for part in range(PART_COUNT):
            # The parts are not equally full. A part that has more items than its capacity grows.
            self.cluster.execute_command("BF.RESERVE", "%s:{%d}" % (self.name, part), error_rate, capacity // PART_COUNT + 1)

    def send(self, command, items):
        """One request for each part that has some of the items. Answers in the order of the items."""
        parts = {}
        for item in items:
            parts.setdefault(self.key_of(item), []).append(item)
        answers = {}
        for key, some in parts.items():
            replies = self.cluster.execute_command(command, key, *some)
            for reply in replies:
                # A part that has no room refuses an item inside the list.
                if isinstance(reply, Exception):
                    raise reply
            answers.update(zip(some, replies))
        return [answers[item] for item in items]

    def add(self, items):
        return self.send("BF.MADD", items)

    def exists(self, items):
        return self.send("BF.MEXISTS", items)


def batches(prefix):
    for begin in range(0, ITEM_COUNT, BATCH):
        yield ["%s:%d" % (prefix, number) for number in range(begin, begin + BATCH)]


def main():
    host, port = os.environ.get("SEPAL_HOST", "127.0.0.1"), int(os.environ.get("CLUSTER_PORT", "7401"))
    try:
        cluster = RedisCluster(host=host, port=port)
    except (redis.RedisError, redis.exceptions.RedisClusterException) as error:
        sys.exit("cannot reach a cluster at %s:%d: %s" % (host, port, error))
    if cluster.exists("users:{0}"):
        sys.exit("the cluster has keys of an earlier run, or yours; delete them first: users:{0} to users:{%d}" % (PART_COUNT - 1))
    users = PartitionedFilter(cluster, "users")
    users.reserve(0.001, ITEM_COUNT)
    for items in batches("user"):
        users.add(items)
    denied = sum(answers.count(0) for answers in map(users.exists, batches("user")))
    mistaken = sum(answers.count(1) for answers in map(users.exists, batches("absent")))
    print("%d users in %d parts on %d masters: %d denied, %d of %d others called known" % (
        ITEM_COUNT, PART_COUNT, len(cluster.get_primaries()), denied, mistaken, ITEM_COUNT))
    cluster.close()


if __name__ == "__main__":
    main()
