#!/usr/bin/env python3
"""Handles each message once, however often it is delivered and whenever a consumer dies. Explained in
docs/guides/idempotent-consumers.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
"""

import contextlib
import os
import random
import signal
import sqlite3
import sys
import tempfile

import redis

KEY = "consumer:seen"
MESSAGE_COUNT = 300
ERROR_RATE, CAPACITY = 0.001, 2 * MESSAGE_COUNT
DEATH_STEPS = ("after the filter", "before the commit", "after the commit")
DEATHS_OF_EACH = 10


def connect():
    return redis.Redis(os.environ.get("SEPAL_HOST", "127.0.0.1"), int(os.environ.get("SEPAL_PORT", "6379")),
                       socket_timeout=1)


class Consumer:
    def __init__(self, database_path):
        self.database = sqlite3.connect(database_path)
        self.filters = connect()
        self.query_count = 0

    def certainly_new(self, message_id):
        """Checks and adds in one step. False means "perhaps not new", also if the filter cannot answer."""
        try:
            (reply,) = self.filters.bf().insert(KEY, [message_id], error=ERROR_RATE, capacity=CAPACITY)
        except redis.RedisError:
            return False
        return reply == 1  # An item that the filter refuses has an error here, which is not raised.

    def is_handled(self, message_id):
        self.query_count += 1
        row = self.database.execute("SELECT 1 FROM handled WHERE message_id = ?", (message_id,)).fetchone()
        return row is not None

    def handle(self, message_id, amount, step=lambda name: None):
        if not self.certainly_new(message_id) and self.is_handled(message_id):
            return
        step("after the filter")
        try:
            with self.database:
                self.database.execute("INSERT INTO handled VALUES (?)", (message_id,))
                self.database.execute("UPDATE account SET balance = balance + ?", (amount,))
                step("before the commit")
        except sqlite3.IntegrityError:
            return  # Handled by another consumer meanwhile, or known to a filter that was lost.
        step("after the commit")


def consume(database_path, deliveries, acknowledgements):
    """A consumer process. It writes one byte into the pipe for each finished delivery."""
    consumer = Consumer(database_path)

    def die_at(wanted):
        return lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == wanted else None

    for message_id, amount, death in deliveries:
        consumer.handle(message_id, amount, die_at(death))
        os.write(acknowledgements, b"+")


def deliver_all(database_path, deliveries):
    """A small broker: it delivers unacknowledged messages again, to a new consumer. Returns how many consumers died."""
    death_count = 0
    while deliveries:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                consume(database_path, deliveries, writer)
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader, "rb") as acknowledged:
            deliveries = deliveries[len(acknowledged.read()):]
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            death_count += 1
            message_id, amount, _ = deliveries[0]
            deliveries[0] = (message_id, amount, None)
        else:
            assert os.WEXITSTATUS(status) == 0, "a consumer failed"
    return death_count


def make_database(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE account (balance INTEGER)")
        database.execute("INSERT INTO account VALUES (0)")
        database.execute("CREATE TABLE handled (message_id TEXT PRIMARY KEY)")


def balance_of(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT balance FROM account").fetchone()[0]


def make_deliveries():
    """All messages, one in four of them twice. At some of the first deliveries the consumer dies."""
    deaths = [step for step in DEATH_STEPS for _ in range(DEATHS_OF_EACH)] + [None] * MESSAGE_COUNT
    messages = [("message-%d" % i, i, deaths[i]) for i in range(MESSAGE_COUNT)]
    random.shuffle(messages)
    return messages + [(message_id, amount, None) for message_id, amount, _ in messages[::4]]


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
    filters = connect()
    require_clean(filters, KEY)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bank.sqlite")
        make_database(path)
        deliveries = make_deliveries()
        death_count = deliver_all(path, deliveries)
        assert death_count == DEATHS_OF_EACH * len(DEATH_STEPS), death_count
        balance = balance_of(path)
        assert balance == sum(range(MESSAGE_COUNT)), balance
        print("%d deliveries of %d messages, %d consumers killed: nothing lost, nothing done twice" % (
            len(deliveries), MESSAGE_COUNT, death_count))

        consumer = Consumer(path)
        for i in range(MESSAGE_COUNT, 2 * MESSAGE_COUNT):
            consumer.handle("message-%d" % i, 0)
        print("%d new messages: %d queries" % (MESSAGE_COUNT, consumer.query_count))
        assert consumer.query_count < MESSAGE_COUNT / 20, "far more than one in a thousand"

        filters.delete(KEY)
        for i in range(100):
            consumer.handle("message-%d" % i, i)
        assert balance_of(path) == balance
        print("without its filter: nothing done twice either")
    filters.delete(KEY)


if __name__ == "__main__":
    main()
