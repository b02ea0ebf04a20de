#!/usr/bin/env python3
"""Has this been seen in the last hour, day, week? Explained in docs/guides/seen-in-the-last-hour.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
"""

import os
import sqlite3
import sys
import time

import redis

HOUR, DAY, WEEK = 3600, 86_400, 7 * 86_400


class Seen:
    """A filter that forgets. `words` are those of BF.INSERT that make it: it may be missing at any time."""

    def __init__(self, filters, key, *words):
        self.filters, self.key, self.words = filters, key, words

    def add(self, *items):
        """For each item: True if it certainly was not there. Checks and adds in one step."""
        replies = self.filters.execute_command("BF.INSERT", self.key, *self.words, "ITEMS", *items)
        for reply in replies:
            # The filter refused this item. redis-py raises an error only if it is the whole reply.
            if isinstance(reply, Exception):
                raise reply
        return [added == 1 for added in replies]

    def has(self, *items):
        return [found == 1 for found in self.filters.execute_command("BF.MEXISTS", self.key, *items)]


class Consumer:
    """Handles each message of a broker once. The broker may repeat a message for a day."""

    def __init__(self, filters, database):
        self.database = database
        self.seen = Seen(filters, "messages:seen", "ERROR", 0.001, "CAPACITY", 1_000_000, "WINDOW", DAY)
        self.query_count = 0

    def certainly_new(self, message_id):
        try:
            return self.seen.add(message_id)[0]
        except redis.RedisError:
            return False

    def is_handled(self, message_id):
        self.query_count += 1
        return self.database.execute("SELECT 1 FROM handled WHERE message_id = ?", (message_id,)).fetchone() is not None

    def handle(self, message_id, amount):
        if not self.certainly_new(message_id) and self.is_handled(message_id):
            return
        try:
            with self.database:
                self.database.execute("INSERT INTO handled VALUES (?, ?)", (message_id, time.time()))
                self.database.execute("UPDATE account SET balance = balance + ?", (amount,))
        except sqlite3.IntegrityError:
            return  # The filter has forgotten it, or was lost, or another consumer was faster.


class Reminders:
    """At most one mail a day for each user."""

    def __init__(self, filters, send):
        self.seen = Seen(filters, "mails:sent", "ERROR", 0.0001, "CAPACITY", 100_000, "WINDOW", DAY)
        self.send = send

    def remind(self, user):
        if self.seen.add(user)[0]:
            self.send(user)


class Recommendations:
    """What a user has not been shown this week."""

    def __init__(self, filters):
        self.seen = Seen(filters, "shown:week", "ERROR", 0.01, "CAPACITY", 1_000_000, "WINDOW", WEEK)

    def choose(self, user, candidates, count):
        pairs = ["%s/%s" % (user, product) for product in candidates]
        chosen = pairs[:count]
        try:
            chosen = [pair for pair, shown in zip(pairs, self.seen.has(*pairs)) if not shown][:count]
            if chosen:
                self.seen.add(*chosen)
        except redis.RedisError:
            pass  # Without the filter a product may be shown again. That is better than an error.
        return [pair.partition("/")[2] for pair in chosen]


class Leaving:
    """Leaves `SET key 1 NX EX seconds` for a filter, without a gap: run this for one window, then the filter alone."""

    def __init__(self, filters, seen, seconds):
        self.filters, self.seen, self.seconds = filters, seen, seconds

    def is_new(self, item):
        self.seen.add(item)
        return self.filters.set("seen:" + item, 1, nx=True, ex=self.seconds) is True


def consume(filters):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE account (balance INTEGER)")
    database.execute("INSERT INTO account VALUES (0)")
    database.execute("CREATE TABLE handled (message_id TEXT PRIMARY KEY, at REAL)")
    consumer = Consumer(filters, database)
    for i in range(1000):
        consumer.handle("message-%d" % i, i)
    assert consumer.query_count < 20, "far more than one in a thousand"
    for i in range(1000):
        consumer.handle("message-%d" % i, i)
    filters.delete(consumer.seen.key)  # as if it had forgotten them, or were lost
    for i in range(1000):
        consumer.handle("message-%d" % i, i)
    assert database.execute("SELECT balance FROM account").fetchone()[0] == sum(range(1000))
    print("1000 messages, each delivered three times: handled once")


def remind(filters):
    sent = []
    reminders = Reminders(filters, sent.append)
    for i in range(5000):
        reminders.remind("user-%d" % (i % 1000))
    assert len(sent) == len(set(sent)) and len(sent) > 990, len(sent)
    print("1000 users, five reminders for each: no user got two mails")


def recommend(filters):
    recommendations = Recommendations(filters)
    candidates = ["product-%d" % i for i in range(50)]
    first = recommendations.choose("alice", candidates, 20)
    second = recommendations.choose("alice", candidates, 20)
    assert len(first) > 10 and len(second) > 10 and not set(first) & set(second)
    print("two visits: nothing was shown twice")


def forget(filters):
    lately = Seen(filters, "lately", "ERROR", 0.001, "CAPACITY", 1000, "WINDOW", 0.5)
    lately.add("alice")
    while lately.has("alice")[0]:
        time.sleep(0.05)
    assert lately.add("alice") == [True]
    print("after half a second: forgotten, and new again")

    last = Seen(filters, "last", "ERROR", 0.001, "CAPACITY", 100, "LAST")
    for i in range(1000):
        last.add("item-%d" % i)
    assert all(last.has(*("item-%d" % i for i in range(900, 1000))))
    assert sum(last.has(*("item-%d" % i for i in range(800)))) < 40
    print("the last 100 of 1000 items are known")


def leave_keys(filters):
    seen = Seen(filters, "seen", "ERROR", 0.001, "CAPACITY", 1000, "WINDOW", HOUR)
    leaving = Leaving(filters, seen, seconds=HOUR)
    assert leaving.is_new("alice") and not leaving.is_new("alice")
    assert seen.add("alice") == [False]
    print("moved from keys: the filter knows what they know")


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
    keys = ("messages:seen", "mails:sent", "shown:week", "lately", "last", "seen", "seen:alice")
    require_clean(filters, *keys)
    for part in (consume, remind, recommend, forget, leave_keys):
        part(filters)
    filters.delete(*keys)


if __name__ == "__main__":
    main()
