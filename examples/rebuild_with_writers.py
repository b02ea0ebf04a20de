#!/usr/bin/env python3
"""Rebuilds a filter from its source and replaces the old one, while the application goes on adding: BF.MIRROR.
Explained in docs/guides/rebuilding.md.

Needs redis-py, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
"""

import contextlib
import os
import random
import sqlite3
import sys
import tempfile
import threading
import time

import redis

KEY = "rebuilding:users"
NEXT = KEY + ":next"
BATCH = 500
WRITER_COUNT = 3
REBUILD_COUNT = 200


def connect_database(path):
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    return database


@contextlib.contextmanager
def writing(database):
    """A transaction that begins when all earlier write transactions have ended."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def add_user(database, filters, name):
    with writing(database):
        database.execute("INSERT INTO users VALUES (?)", (name,))
        filters.bf().add(KEY, name)


def rebuild(database, filters, error_rate):
    (row_count,) = database.execute("SELECT count(*) FROM users").fetchone()
    bloom = filters.bf()
    # Fails with "item exists" while another rebuild is running.
    bloom.create(NEXT, error_rate, max(1000, row_count + row_count // 2))
    try:
        filters.execute_command("BF.MIRROR", KEY, NEXT)
        # Waits for transactions that added before the mirror began: their rows are in the table now.
        with writing(database):
            pass
        rows = database.execute("SELECT name FROM users")
        while names := [name for (name,) in rows.fetchmany(BATCH)]:
            for reply in bloom.insert(NEXT, names, noCreate=True):
                if isinstance(reply, Exception):
                    raise reply
        filters.execute_command("BF.MIRROR", KEY, "COMMIT")
    except BaseException:
        # This also ends the mirror.
        filters.delete(NEXT)
        raise


class Writer(threading.Thread):
    """An instance of the application: adds users, and checks whether one of its users is denied."""

    def __init__(self, path, filters, name):
        super().__init__(name=name)
        self.path, self.filters = path, filters
        self.stopping = threading.Event()
        self.names, self.denied, self.error = [], [], None

    def run(self):
        try:
            with contextlib.closing(connect_database(self.path)) as database:
                while not self.stopping.is_set():
                    self.names.append("%s-%d" % (self.name, len(self.names)))
                    add_user(database, self.filters, self.names[-1])
                    some = random.choice(self.names)
                    if not self.filters.bf().exists(KEY, some):
                        self.denied.append(some)
                    time.sleep(0.001)
        except Exception as error:  # Reported by the main thread.
            self.error = error


def rebuild_beside_writers(path, filters, database):
    """Returns how many users were added meanwhile."""
    writers = [Writer(path, filters, "writer-%d" % i) for i in range(WRITER_COUNT)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(REBUILD_COUNT):
            rebuild(database, filters, error_rate=0.001)
    finally:
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join()
    for writer in writers:
        assert writer.error is None, writer.error
        assert writer.names and not writer.denied, "denied: %s" % writer.denied
    return sum(len(writer.names) for writer in writers)


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
    require_clean(filters, KEY, NEXT)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "users.sqlite")
        with contextlib.closing(connect_database(path)) as database:
            database.execute("CREATE TABLE users (name TEXT PRIMARY KEY)")
            with writing(database):
                for kind in ("kept", "gone"):
                    database.executemany("INSERT INTO users VALUES (?)", (("%s-%d" % (kind, i),) for i in range(2_000)))
            filters.bf().create(KEY, 0.001, 1000)
            rebuild(database, filters, error_rate=0.001)
            database.execute("DELETE FROM users WHERE name LIKE 'gone-%'")
            added_count = rebuild_beside_writers(path, filters, database)

            names = [name for (name,) in database.execute("SELECT name FROM users")]
            denied_count = filters.bf().mexists(KEY, *names).count(0)
            assert denied_count == 0, "%d of %d are denied" % (denied_count, len(names))
            print("%d rebuilds while %d users were added: none denied" % (REBUILD_COUNT, added_count))
            found_count = sum(filters.bf().mexists(KEY, *("gone-%d" % i for i in range(2_000))))
            assert found_count < 40, "far more than one in a thousand"
            print("of 2000 deleted users, %d are still found" % found_count)
    filters.delete(KEY)


if __name__ == "__main__":
    main()
