#!/usr/bin/env python3
"""Moves from RedisBloom, by dumps and by adding the items again, key by key. Explained in docs/guides/moving-from-redisbloom.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set); no Redis: another database
of the same server plays the old server.
"""

import os
import sys

import redis

BATCH = 1000
OLD_DATABASE, NEW_DATABASE = 1, 0


def move_by_dump(old, new, key):
    """Moves the filter unchanged, with its own hash, so it gives the same answers. A dump has no deadline: it is set here."""
    iterator = 0
    while True:
        iterator, piece = old.bf().scandump(key, iterator)
        if iterator == 0:
            break
        new.bf().loadchunk(key, iterator, piece)
    milliseconds = old.pttl(key)
    if milliseconds > 0:
        new.pexpire(key, milliseconds)


def reserve_like(old, new, error_rate_of):
    """Reserves the filters of the old server. RedisBloom does not tell the error rate: `error_rate_of` does, by the key."""
    keys = list(old.scan_iter(_type="MBbloom--"))
    for key in keys:
        info = old.bf().info(key)
        # One layer, however many layers the old filter grew.
        capacity = max(info.capacity, info.insertedNum)
        scaling = {"expansion": info.expansionRate} if info.expansionRate else {"noScale": True}
        new.bf().create(key, error_rate_of(key), capacity, **scaling)
        milliseconds = old.pttl(key)
        if milliseconds > 0:
            new.pexpire(key, milliseconds)
    return keys


def batches(items):
    for at in range(0, len(items), BATCH):
        yield items[at:at + BATCH]


def add_again(new, key, items):
    for some in batches(items):
        # NOCREATE: an add must not create a key with the defaults if it was not reserved or has expired.
        for reply in new.bf().insert(key, some, noCreate=True):
            if isinstance(reply, Exception):
                raise reply


def count_denied(new, key, items):
    return sum(new.bf().mexists(key, *some).count(0) for some in batches(items))


class BothServers:
    """Replaces the client of the application until the move is done: adds go to both servers."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def add(self, key, item):
        added = self.old.bf().add(key, item)
        add_again(self.new, key, [item])
        return added

    def exists(self, key, item):
        return self.old.bf().exists(key, item)


def connect(database):
    return redis.Redis(os.environ.get("SEPAL_HOST", "127.0.0.1"), int(os.environ.get("SEPAL_PORT", "6379")), database,
                       socket_timeout=10)


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
    old, new = connect(OLD_DATABASE), connect(NEW_DATABASE)
    require_clean(new, "users", "seen")
    # reserve_like() takes all Bloom filters of the old server.
    require_clean(old, *old.scan_iter(_type="MBbloom--"))
    source = {b"users": ["user-%d" % i for i in range(5_000)], b"seen": ["page-%d" % i for i in range(3_000)]}
    old.bf().create("users", 0.001, 1_000)  # The filter was too small, so it grew.
    old.bf().create("seen", 0.01, 10_000, noScale=True)
    old.expire("seen", 3_600)
    for key, items in source.items():
        add_again(old, key, items)

    for key in source:
        move_by_dump(old, new, key)
        assert count_denied(new, key, source[key]) == 0, key
        assert new.bf().info(key).insertedNum == old.bf().info(key).insertedNum
        print("%s: moved by its dump, none denied" % key.decode())
    assert 0 < new.ttl("seen") <= 3_600 and new.ttl("users") == -1
    new.delete(*source)

    keys = reserve_like(old, new, {b"users": 0.001, b"seen": 0.01}.__getitem__)
    application = BothServers(old, new)
    # From here on all instances add to both. Only then the source is read.
    application.add("users", "late")
    assert count_denied(new, "users", source[b"users"]) > 0
    for key in keys:
        add_again(new, key, source[key])
    application.add("users", "later")
    source[b"users"] += ["late", "later"]
    for key in source:
        assert count_denied(new, key, source[key]) == 0, key
        info = new.bf().info(key)
        print("%s: %d items of %d in %d layer(s), none denied" % (
            key.decode(), info.insertedNum, info.capacity, info.filterNum))
        assert info.filterNum == 1
    assert new.bf().info("seen").expansionRate is None and new.bf().info("users").expansionRate == 2
    assert 0 < new.ttl("seen") <= 3_600 and new.ttl("users") == -1
    old.delete(*keys)
    new.delete(*keys)


if __name__ == "__main__":
    main()
