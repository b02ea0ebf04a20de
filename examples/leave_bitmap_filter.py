#!/usr/bin/env python3
"""Moves from a Bloom filter that an application keeps in a Redis string, without a gap. Explained in
docs/guides/moving-from-a-bitmap.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set); no Redis.
"""

import enum
import hashlib
import os
import sys

import redis

KEY = "moving:orders"
PROBE_COUNT = 14
BITS_PER_ITEM = 20
BATCH = 1000


class BitmapFilter:
    """The old filter: each item sets bits of one string. go-zero computes the offsets with MurmurHash3."""

    def __init__(self, store, key, bit_count):
        self.store, self.key, self.bit_count = store, key, bit_count

    def offsets(self, item):
        for probe in range(PROBE_COUNT):
            digest = hashlib.blake2b(item.encode() + bytes([probe]), digest_size=8).digest()
            yield int.from_bytes(digest, "little") % self.bit_count

    def add(self, item):
        for offset in self.offsets(item):
            self.store.setbit(self.key, offset, 1)

    def exists(self, item):
        return all(self.store.getbit(self.key, offset) for offset in self.offsets(item))


class StringStore:
    """The two commands of Redis that the old filter needs. redis.Redis(...) can replace it."""

    def __init__(self):
        self.strings = {}

    def setbit(self, key, offset, bit):
        assert bit == 1, "a Bloom filter never takes a bit back"
        string = self.strings.setdefault(key, bytearray())
        string.extend(bytes(max(0, offset // 8 + 1 - len(string))))
        string[offset // 8] |= 0x80 >> offset % 8

    def getbit(self, key, offset):
        string = self.strings.get(key, b"")
        return offset // 8 < len(string) and string[offset // 8] >> (7 - offset % 8) & 1

    def delete(self, key):
        self.strings.pop(key, None)


class Step(enum.IntEnum):
    """The steps of the deployment: all instances of the application reach a step before one of them goes on."""

    OLD_ONLY = 0
    BOTH = 1  # Adds to both, asks both. Once all instances are here, the new filter is filled from the source.
    ASK_NEW = 2  # Still adds to both, so that you can go back.
    NEW_ONLY = 3


class SeenOrders:
    """One instance of the application."""

    def __init__(self, old, filters):
        self.old, self.bloom, self.step = old, filters.bf(), Step.OLD_ONLY

    def add(self, order):
        """Runs before the order is in the source. If it fails, the caller repeats it: adding twice does no harm."""
        if self.step <= Step.ASK_NEW:
            self.old.add(order)
        if self.step >= Step.BOTH:
            add_all(self.bloom, [order])

    def exists(self, order):
        if self.step == Step.OLD_ONLY:
            return self.old.exists(order)
        if self.step >= Step.ASK_NEW:
            return bool(self.bloom.exists(KEY, order))
        try:
            return bool(self.bloom.exists(KEY, order)) or self.old.exists(order)
        except redis.RedisError:
            return self.old.exists(order)  # All instances still add to the old one.


def add_all(bloom, orders):
    # Without NOCREATE, the add would create a missing filter, small and without the filled items.
    for reply in bloom.insert(KEY, orders, noCreate=True):
        if isinstance(reply, Exception):
            raise reply


def batches(orders):
    for at in range(0, len(orders), BATCH):
        yield orders[at:at + BATCH]


def fill(bloom, source):
    for some in batches(source):
        add_all(bloom, some)


def count_denied(bloom, source):
    """How many orders the new filter would deny. If it is not 0, the move must not go on."""
    return sum(bloom.mexists(KEY, *some).count(0) for some in batches(source))


class Source:
    """The source of the orders, and two instances that take orders and check all taken orders."""

    def __init__(self, instances):
        self.orders, self.instances = [], instances

    def take_orders(self, count=100):
        for instance in self.instances:
            for _ in range(count):
                order = "order-%d" % len(self.orders)
                instance.add(order)
                self.orders.append(order)
        for instance in self.instances:
            denied = [order for order in self.orders if not instance.exists(order)]
            assert not denied, "%s denies %s" % (instance.step.name, denied[:3])


def require_clean(filters, *keys):
    """Ends the program if it cannot reach the server, or if keys that it makes are there already."""
    place = "%(host)s:%(port)s" % filters.connection_pool.connection_kwargs
    try:
        there = [key for key in keys if filters.exists(key)]
    except redis.RedisError as error:
        sys.exit("cannot reach %s: %s" % (place, error))
    if there:
        sys.exit("%s has keys of an earlier run, or yours; delete them first: %s" % (place, there[:3]))


def main():
    filters = redis.Redis(os.environ.get("SEPAL_HOST", "127.0.0.1"), int(os.environ.get("SEPAL_PORT", "6379")),
                          socket_timeout=1)
    require_clean(filters, KEY)
    bloom, store = filters.bf(), StringStore()
    old = BitmapFilter(store, "orders", BITS_PER_ITEM * 2_000)
    source = Source([SeenOrders(old, filters), SeenOrders(old, filters)])
    source.take_orders()

    bloom.create(KEY, 0.000067, 2_000)
    for step in (Step.BOTH, Step.ASK_NEW, Step.NEW_ONLY):
        for instance in source.instances:
            instance.step = step
            source.take_orders()
        if step == Step.BOTH:
            before = count_denied(bloom, source.orders)
            fill(bloom, source.orders)
            assert before > 0 and count_denied(bloom, source.orders) == 0
            print("filled: of %d orders, %d were in the old filter only" % (len(source.orders), before))
            source.take_orders()
    store.delete("orders")
    source.take_orders()
    print("moved: %d orders, none denied at any step" % len(source.orders))

    absent_count = 10_000
    found = sum(bloom.exists(KEY, "absent-%d" % i) for i in range(absent_count))
    assert found < 20, "far more than asked for"
    filters.delete(KEY)


if __name__ == "__main__":
    main()
