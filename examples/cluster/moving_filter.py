#!/usr/bin/env python3
"""A filter moves from sepald to a cluster and back, while a client goes on adding. Explained in
docs/guides/more-than-one-machine.md.

Needs redis-py, sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set), and a node of a cluster with sepal.so at
SEPAL_HOST and CLUSTER_PORT (7401 if not set).
"""

import os
import sys
import threading

import redis
from redis.cluster import RedisCluster

KEY = "visitors"
CAPACITY = 1_000_000
BATCH = 500


def add_all(server, key, items):
    """A server that has no room refuses an item inside the list of replies."""
    replies = server.execute_command("BF.MADD", key, *items)
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


class MovingFilter:
    """A filter that can change its server. All of its users go through one of these objects: one process is the only one that
    adds. With several processes, each remembers its own items, and all of them change the server at the same moment."""

    def __init__(self, server, key):
        self.server, self.key = server, key
        self.lock = threading.Lock()
        self.remembered = None  # the items that were added since the move began

    def add(self, items):
        with self.lock:
            if self.remembered is not None:
                self.remembered += items
            return add_all(self.server, self.key, items)

    def exists(self, items):
        with self.lock:
            return self.server.execute_command("BF.MEXISTS", self.key, *items)

    def move_to(self, target):
        """Returns how many items were added meanwhile. Clients wait only while these are added once more."""
        with self.lock:
            self.remembered = []
        position = 0
        while True:
            position, piece = self.server.execute_command("BF.SCANDUMP", self.key, position)
            if position == 0:
                break
            target.execute_command("BF.LOADCHUNK", self.key, position, piece)
        with self.lock:
            remembered, self.remembered = self.remembered, None
            for begin in range(0, len(remembered), BATCH):
                add_all(target, self.key, remembered[begin:begin + BATCH])
            self.server.execute_command("DEL", self.key)
            self.server = target
        return len(remembered)


class Visitors(threading.Thread):
    """Adds until it is stopped."""

    def __init__(self, to):
        super().__init__()
        self.to, self.count, self.ends = to, 0, threading.Event()

    def run(self):
        while not self.ends.is_set():
            self.to.add(self.named(self.count))
            self.count += BATCH

    @staticmethod
    def named(begin):
        return ["visitor:%d" % number for number in range(begin, begin + BATCH)]

    def denied(self):
        return sum(self.to.exists(self.named(begin)).count(0) for begin in range(0, self.count, BATCH))


def main():
    host = os.environ.get("SEPAL_HOST", "127.0.0.1")
    port, cluster_port = int(os.environ.get("SEPAL_PORT", "6379")), int(os.environ.get("CLUSTER_PORT", "7401"))
    sepald = redis.Redis(host=host, port=port)
    try:
        cluster = RedisCluster(host=host, port=cluster_port)
        there = cluster.exists(KEY) or sepald.exists(KEY)
    except (redis.RedisError, redis.exceptions.RedisClusterException) as error:
        sys.exit("cannot reach a sepald at %s:%d, or a cluster at %s:%d: %s" % (host, port, host, cluster_port, error))
    if there:
        sys.exit("there is a key of an earlier run, or yours; delete it first: %s" % KEY)
    sepald.execute_command("BF.RESERVE", KEY, 0.001, CAPACITY)
    moving = MovingFilter(sepald, KEY)
    visitors = Visitors(moving)
    visitors.start()
    for name, target in (("the cluster", cluster), ("sepald", sepald)):
        print("moved to %s; %d items were added meanwhile" % (name, moving.move_to(target)))
    visitors.ends.set()
    visitors.join()
    print("%d items were added, %d are denied" % (visitors.count, visitors.denied()))
    cluster.close()


if __name__ == "__main__":
    main()
