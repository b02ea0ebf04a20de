#!/usr/bin/env python3
"""A small filter for each user, which goes by itself after a day. Explained in docs/guides/a-filter-for-each-user.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
"""

import os
import sys
import time

import redis

DAY = 86_400
PREFIX = "read:"


class Read:
    """What each user has read within `seconds` after the first item. All adds go through here."""

    def __init__(self, filters, seconds=DAY):
        self.filters, self.seconds = filters, seconds

    def add(self, user, *items):
        """For each item: True if the user certainly had not read it. Makes the filter and its deadline in the same step."""
        replies = self.filters.execute_command("BF.INSERT", PREFIX + user, "ERROR", 0.01, "CAPACITY", 100,
                                               "EX", self.seconds, "ITEMS", *items)
        for reply in replies:
            # The filter refused this item. redis-py raises an error only if it is the whole reply.
            if isinstance(reply, Exception):
                raise reply
        return [added == 1 for added in replies]

    def unread(self, user, *items):
        """The items that the user certainly has not read. A user without a filter has read nothing."""
        found = self.filters.execute_command("BF.MEXISTS", PREFIX + user, *items)
        return [item for item, read in zip(items, found) if not read]

    def forget(self, user):
        self.filters.delete(PREFIX + user)


def give_deadlines(filters, seconds=DAY):
    """Gives a deadline to each filter that has none. Returns how many there were."""
    keys = list(filters.scan_iter(PREFIX + "*", count=1000))
    pipeline = filters.pipeline(transaction=False)
    for key in keys:
        pipeline.execute_command("EXPIRE", key, seconds, "NX")
    return sum(pipeline.execute())


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
    filters = redis.Redis(os.environ.get("SEPAL_HOST", "127.0.0.1"), int(os.environ.get("SEPAL_PORT", "6379")), socket_timeout=1)
    require_clean(filters, PREFIX + "guest")
    # give_deadlines() takes all keys that begin so.
    require_clean(filters, *filters.scan_iter(PREFIX + "*", count=1000))
    read = Read(filters)
    users = ["user-%d" % i for i in range(1000)]
    articles = ["article-%d" % i for i in range(20)]
    for user in users:
        read.add(user, *articles)
        assert not any(read.add(user, *articles)) and not read.unread(user, *articles)
    assert give_deadlines(filters) == 0
    print("%d users, each with a filter and a deadline" % len(users))

    read.forget("user-7")
    assert read.unread("user-7", *articles) == articles and not read.unread("user-8", *articles)
    print("one user forgotten: all others have their filters")

    brief = Read(filters, seconds=1)
    brief.add("guest", "article-1")
    while filters.exists(PREFIX + "guest"):
        time.sleep(0.05)
    assert brief.add("guest", "article-1") == [True] and filters.ttl(PREFIX + "guest") >= 0
    print("after the deadline: the next add makes a new filter, which has a deadline too")

    filters.bf().add(PREFIX + "stray", "article-1")
    assert filters.ttl(PREFIX + "stray") == -1
    assert give_deadlines(filters) == 1 and filters.ttl(PREFIX + "stray") > 0
    print("BF.ADD made a filter that would have stayed for ever: it has a deadline now")
    filters.delete(*(PREFIX + user for user in [*users, "guest", "stray"]))


if __name__ == "__main__":
    main()
