#!/usr/bin/env python3
"""Guards a database from look-ups of missing rows. Explained in docs/guides/guarding-a-database.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
"""

import os
import sqlite3
import sys
import time

import redis

KEY = "guard:users"
NEXT = KEY + ":next"
BATCH = 1000
# So long a guard asks the database alone after a look-up that got no answer.
PAUSE_SECONDS = 5


class Users:
    def __init__(self, database, filters):
        self.database = database
        self.filters = filters
        self.query_count = 0
        self.asks_again_at = 0

    def may_exist(self, name):
        """False only if the database certainly does not have the name."""
        if time.monotonic() < self.asks_again_at:
            return True
        try:
            (found,) = self.filters.execute_command("BF.CHECK", KEY, name)
        except redis.ResponseError:
            return True  # There is no filter.
        except redis.RedisError:
            # No answer came. Without a pause, each look-up would wait for the whole timeout.
            self.asks_again_at = time.monotonic() + PAUSE_SECONDS
            return True
        return bool(found)

    def find(self, name):
        if not self.may_exist(name):
            return None
        self.query_count += 1
        return self.database.execute("SELECT name, mail FROM users WHERE name = ?", (name,)).fetchone()

    def add(self, name, mail):
        """The filter comes first: an item without a row costs a query, but a row without an item is a user denied."""
        try:
            (reply,) = self.filters.bf().insert(KEY, [name], noCreate=True)
            if isinstance(reply, Exception):
                raise reply
        except redis.ResponseError as error:
            if str(error) != "not found":
                raise
        with self.database:
            self.database.execute("INSERT INTO users VALUES (?, ?)", (name, mail))


def fill(database, filters, error_rate, capacity):
    """Makes the filter from the table, while no row is inserted. Readers do not see it until it is complete."""
    bloom = filters.bf()
    bloom.create(NEXT, error_rate, capacity)
    try:
        rows = database.execute("SELECT name FROM users")
        while names := [name for (name,) in rows.fetchmany(BATCH)]:
            for reply in bloom.madd(NEXT, *names):
                if isinstance(reply, Exception):
                    raise reply
        filters.rename(NEXT, KEY)
    except BaseException:
        filters.delete(NEXT)
        raise


def connect(port=int(os.environ.get("SEPAL_PORT", "6379"))):
    # A guard must be faster than the database that it guards: do not wait long for it.
    return redis.Redis(os.environ.get("SEPAL_HOST", "127.0.0.1"), port, socket_timeout=1, socket_connect_timeout=1)


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
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE users (name TEXT PRIMARY KEY, mail TEXT)")
    with database:
        database.executemany("INSERT INTO users VALUES (?, ?)",
                             (("user-%d" % i, "%d@example.org" % i) for i in range(10_000)))
    filters = connect()
    require_clean(filters, KEY, NEXT)
    users = Users(database, filters)

    assert users.find("user-1") and users.find("nobody") is None
    print("without a filter: 2 look-ups, %d queries" % users.query_count)

    fill(database, filters, error_rate=0.001, capacity=10_000)
    users.query_count = 0
    assert all(users.find("missing-%d" % i) is None for i in range(20_000))
    print("with a filter: 20000 look-ups of missing names, %d queries" % users.query_count)
    assert users.query_count < 100, "far more than one in a thousand"

    assert all(users.find("user-%d" % i) for i in range(0, 10_000, 10))
    users.add("late", "late@example.org")
    assert users.find("late") == ("late", "late@example.org")
    print("no user was denied")

    filters.delete(KEY)
    assert all(users.find("user-%d" % i) for i in range(0, 10_000, 100))
    print("the filter is gone: no user was denied")

    users.filters = connect(port=1)
    assert users.find("user-1") and users.find("missing-1") is None
    print("without sepald: the database answers")


if __name__ == "__main__":
    main()
