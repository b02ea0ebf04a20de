#!/usr/bin/env python3
"""Knows which phone numbers are taken, and forgets those that are freed. Explained in docs/guides/forgetting-an-item.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
"""

import os
import sqlite3
import sys

import redis

KEY = "numbers:taken"
# This item is added last to the filter. A missing filter denies it, too.
COMPLETE = "\0complete"


class Numbers:
    def __init__(self, database, filters):
        self.database = database
        self.filters = filters
        self.query_count = 0

    def may_be_taken(self, number):
        """False only if the database certainly does not have the number."""
        try:
            complete, found = self.filters.execute_command("CF.MEXISTS", KEY, COMPLETE, number)
        except redis.RedisError:
            return True
        return bool(found or not complete)

    def owner(self, number):
        if not self.may_be_taken(number):
            return None
        self.query_count += 1
        row = self.database.execute("SELECT owner FROM numbers WHERE number = ?", (number,)).fetchone()
        return row and row[0]

    def add_copy(self, number):
        """False: there is no filter. Then the database is asked about each number, and `fill` adds this one later."""
        try:
            (added,) = self.filters.execute_command("CF.INSERT", KEY, "NOCREATE", "ITEMS", number)
        except redis.ResponseError as error:
            if str(error) != "not found":
                raise
            return False
        if added != 1:
            raise RuntimeError("the filter has no room")
        return True

    def remove_copy(self, number):
        """Once, and never again: the server may have done a request that failed. A copy that stays costs queries only."""
        try:
            self.filters.execute_command("CF.DEL", KEY, number)
        except redis.RedisError:
            pass

    def take(self, number, owner):
        """The filter comes first: a copy without a row costs queries, but a row without a copy is a number denied."""
        added = self.add_copy(number)
        try:
            with self.database:
                self.database.execute("INSERT INTO numbers VALUES (?, ?)", (number, owner))
        except sqlite3.IntegrityError:
            if added:
                self.remove_copy(number)
            raise

    def free(self, number):
        """The row comes first, and only the process that removed the row removes a copy."""
        with self.database:
            removed = self.database.execute("DELETE FROM numbers WHERE number = ?", (number,)).rowcount
        if removed == 1:
            self.remove_copy(number)
        return removed == 1


def fill(database, filters, error_rate, capacity):
    """Makes the filter from the table, while no row changes."""
    filters.execute_command("CF.RESERVE", KEY, capacity, "ERROR", error_rate)
    for (number,) in database.execute("SELECT number FROM numbers"):
        filters.execute_command("CF.ADD", KEY, number)
    filters.execute_command("CF.ADD", KEY, COMPLETE)


def connect(port=int(os.environ.get("SEPAL_PORT", "6379"))):
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
    database.execute("CREATE TABLE numbers (number TEXT PRIMARY KEY, owner TEXT)")
    filters = connect()
    require_clean(filters, KEY)
    numbers = Numbers(database, filters)
    fill(database, filters, error_rate=0.001, capacity=10_000)
    for i in range(10_000):
        numbers.take("+1-555-%06d" % i, "owner-%d" % i)

    for i in range(5_000):
        assert numbers.free("+1-555-%06d" % i)
    assert not numbers.free("+1-555-000000"), "freed twice"
    numbers.query_count = 0
    assert all(numbers.owner("+1-555-%06d" % i) is None for i in range(5_000))
    print("5000 look-ups of freed numbers, %d queries" % numbers.query_count)
    assert numbers.query_count < 25, "far more than one in a thousand"

    assert all(numbers.owner("+1-555-%06d" % i) == "owner-%d" % i for i in range(5_000, 10_000))
    print("no taken number was denied")

    try:
        numbers.take("+1-555-009999", "another owner")
        raise AssertionError("a number has two owners")
    except sqlite3.IntegrityError:
        assert numbers.owner("+1-555-009999") == "owner-9999"
    print("taken twice: refused, and not denied")

    # One process has removed the row and not yet the copy, and another one takes the number meanwhile.
    number = "+1-555-007777"
    with database:
        database.execute("DELETE FROM numbers WHERE number = ?", (number,))
    numbers.take(number, "the next owner")
    filters.execute_command("CF.DEL", KEY, number)
    assert numbers.owner(number) == "the next owner"
    print("freed and taken at the same time: not denied")

    numbers.filters = connect(port=1)
    assert numbers.owner(number) == "the next owner" and numbers.owner("+1-555-000000") is None
    print("without sepald: the database answers")
    filters.delete(KEY)


if __name__ == "__main__":
    main()
