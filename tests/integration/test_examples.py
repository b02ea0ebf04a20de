"""Runs each example against a new sepald. test_documents.py compares the guides with them."""

import contextlib
import os
import pathlib
import runpy
import sqlite3
import subprocess
import sys
import threading
import types

import redis

from daemon import DaemonTest, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Those in folders need more than a sepald: tests/clients/ or test_documents.py runs them.
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_file())
SECONDS_MAX = 300
INTERPRETERS = {".py": [sys.executable], ".sh": ["bash"]}


def run(example, port):
    environment = dict(os.environ, SEPAL_HOST="127.0.0.1", SEPAL_PORT=str(port))
    return subprocess.run([*INTERPRETERS[example.suffix], example], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=SECONDS_MAX)


class ExamplesTest(DaemonTest):
    def test_every_example_does_what_it_says_and_leaves_no_key(self):
        for example in EXAMPLES:
            with self.subTest(example.name):
                daemon = self.start(directory=os.path.join(self.directory, example.name))
                done = run(example, daemon.port)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertNotEqual(done.stdout, "")
                with daemon.connect() as connection:
                    connection.sendall(b"DBSIZE\r\n")
                    self.assertEqual(connection.recv(64), b":0\r\n")
                self.assertEqual(daemon.stop(), 0)

    def test_every_example_fails_without_a_server(self):
        port = free_port()
        for example in EXAMPLES:
            with self.subTest(example.name):
                self.assertNotEqual(run(example, port).returncode, 0)

    def test_every_example_can_be_started_as_it_is(self):
        for example in EXAMPLES:
            with self.subTest(example.name):
                self.assertTrue(os.access(example, os.X_OK))
                self.assertTrue(example.read_text(encoding="utf-8").startswith("#!/usr/bin/env "))


class MissingFilterTest(DaemonTest):
    """The outage: a filter is gone, and a guard takes the 0 of its look-ups for "not in the database"."""

    def setUp(self):
        super().setUp()
        self.example = types.SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "guard_database.py")))
        self.filters = redis.Redis(port=self.start().port)
        self.addCleanup(self.filters.close)
        self.database = sqlite3.connect(":memory:")
        self.addCleanup(self.database.close)
        self.database.execute("CREATE TABLE users (name TEXT PRIMARY KEY, mail TEXT)")
        self.names = ["user-%d" % number for number in range(100)]
        self.database.executemany("INSERT INTO users VALUES (?, '')", ((name,) for name in self.names))
        self.example.fill(self.database, self.filters, 0.001, 100)

    def guards(self):
        """Whether each lets a name pass: the example, and two that do not know BF.CHECK."""
        bloom, key = self.filters.bf(), self.example.KEY

        def passes_after_errors(name):
            try:
                return bool(bloom.mexists(key, name)[0])
            except redis.RedisError:
                return True

        return {"example": self.example.Users(self.database, self.filters).may_exist, "exists": lambda name: bool(bloom.exists(key, name)),
                "mexists": passes_after_errors}

    def denied(self):
        """How many users that exist each guard denies."""
        return {guard: sum(not passes(name) for name in self.names) for guard, passes in self.guards().items()}

    def test_a_filter_that_is_gone_denies_no_user_to_a_guard_that_is_told(self):
        none = {"example": 0, "exists": 0, "mexists": 0}
        self.assertEqual(self.denied(), none)
        self.filters.delete(self.example.KEY)
        self.assertEqual(self.denied(), {"example": 0, "exists": 100, "mexists": 100})
        self.filters.config_set("missing-filter", "present")
        self.assertEqual(self.denied(), none)
        self.filters.config_set("missing-filter", "error")
        with self.assertRaisesRegex(redis.ResponseError, "not found"):
            self.filters.bf().exists(self.example.KEY, "user-1")
        self.assertEqual(sum(not self.guards()["mexists"](name) for name in self.names), 0)

    def test_a_filter_that_is_being_filled_denies_no_user(self):
        self.filters.delete(self.example.KEY)
        self.filters.bf().create(self.example.NEXT, 0.001, 100)
        self.filters.bf().add(self.example.NEXT, "user-1")
        self.assertEqual(self.denied()["example"], 0)
        self.filters.delete(self.example.NEXT)
        # An application adds while there is no filter: no filter comes of it that lacks all others.
        self.example.Users(self.database, self.filters).add("late", "late@example.org")
        self.assertEqual(self.denied()["example"], 0)
        self.assertFalse(self.filters.exists(self.example.KEY))


class RebuildTest(DaemonTest):
    """Moments that a run of the example may not reach."""

    def setUp(self):
        super().setUp()
        self.example = types.SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "rebuild_with_writers.py")))
        self.filters = redis.Redis(port=self.start().port)
        self.addCleanup(self.filters.close)
        self.path = os.path.join(self.directory, "users.sqlite")
        self.database = self.connect_database()
        self.database.execute("CREATE TABLE users (name TEXT PRIMARY KEY)")
        self.filters.bf().create(self.example.KEY, 0.001, 1000)

    def connect_database(self):
        database = self.example.connect_database(self.path)
        self.addCleanup(database.close)
        return database

    def is_known(self, name):
        return bool(self.filters.bf().exists(self.example.KEY, name))

    def test_an_item_added_while_the_filter_is_rebuilt_is_not_lost(self):
        self.filters.bf().create(self.example.NEXT, 0.001, 1000)
        self.filters.execute_command("BF.MIRROR", self.example.KEY, self.example.NEXT)
        self.example.add_user(self.database, self.filters, "alice")
        self.filters.execute_command("BF.MIRROR", self.example.KEY, "COMMIT")
        self.assertFalse(self.filters.exists(self.example.NEXT))
        self.assertTrue(self.is_known("alice"))

    def rebuild(self):
        with contextlib.closing(self.example.connect_database(self.path)) as database:
            self.example.rebuild(database, self.filters, 0.001)

    def test_a_rebuild_waits_for_a_transaction_that_added_before_it(self):
        rebuild = threading.Thread(target=self.rebuild)
        with self.example.writing(self.database):
            self.database.execute("INSERT INTO users VALUES ('alice')")
            self.filters.bf().add(self.example.KEY, "alice")
            rebuild.start()
            # A rebuild that did not wait would end here.
            rebuild.join(0.5)
            self.assertTrue(self.is_known("alice"))
        rebuild.join()
        self.assertFalse(self.filters.exists(self.example.NEXT))
        self.assertTrue(self.is_known("alice"))

    def test_a_second_rebuild_is_refused_and_one_that_fails_leaves_the_old_filter(self):
        self.example.add_user(self.database, self.filters, "alice")
        self.filters.bf().create(self.example.NEXT, 0.001, 1000)
        with self.assertRaisesRegex(redis.ResponseError, "item exists"):
            self.rebuild()
        self.assertTrue(self.filters.exists(self.example.NEXT))
        self.filters.delete(self.example.NEXT)
        self.database.execute("ALTER TABLE users RENAME COLUMN name TO nickname")
        with self.assertRaises(sqlite3.OperationalError):
            self.rebuild()
        self.assertFalse(self.filters.exists(self.example.NEXT))
        self.assertIsNone(self.filters.execute_command("BF.MIRROR", self.example.KEY))
        self.assertTrue(self.is_known("alice"))
