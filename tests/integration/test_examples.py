"""Runs each example against a new sepald. test_documents.py compares the guides with them."""

import contextlib
import os
import pathlib
import runpy
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import types

import redis

from daemon import DaemonTest, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Those in folders need more than a sepald: tests/clients/ or test_documents.py runs them.
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_file())
SECONDS_MAX = 300
# A key that each makes, and its database.
KEYS = {"filter_for_each_user.py": ("read:user-7", 0), "guard_database.py": ("guard:users", 0), "idempotent_consumer.py": ("consumer:seen", 0),
        "leave_bitmap_filter.py": ("moving:orders", 0), "leave_redisbloom.py": ("seen", 1), "merge_regions.py": ("days", 0),
        "rebuild_from_lines.sh": ("blocked", 0), "rebuild_with_writers.py": ("rebuilding:users", 0), "seen_lately.py": ("last", 0),
        "taken_numbers.py": ("numbers:taken", 0)}
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

    def assert_refused(self, done, text):
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, text)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_every_example_says_that_it_cannot_reach_the_server(self):
        port = free_port()
        for example in EXAMPLES:
            with self.subTest(example.name):
                self.assert_refused(run(example, port), "(cannot reach|Could not connect to Redis at) 127.0.0.1:%d: .*refused" % port)

    def test_no_example_changes_a_key_that_was_there_before(self):
        self.assertEqual(sorted(KEYS), [example.name for example in EXAMPLES])
        daemon = self.start()
        for example in EXAMPLES:
            with self.subTest(example.name):
                key, database = KEYS[example.name]
                filters = redis.Redis(port=daemon.port, db=database)
                filters.bf().add(key, "mine")
                self.assert_refused(run(example, daemon.port), "delete them first: .*" + key)
                self.assertEqual((filters.execute_command("BF.CARD", key), filters.ttl(key), filters.dbsize()), (1, -1, 1))
                filters.delete(key)
                filters.close()

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


class NoAnswerTest(DaemonTest):
    """The server is down, or takes requests and answers none."""

    TIMEOUT_SECONDS = 0.5

    @staticmethod
    def example(name):
        return types.SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / name)))

    def connect(self, port):
        filters = redis.Redis(port=port, socket_timeout=self.TIMEOUT_SECONDS, socket_connect_timeout=self.TIMEOUT_SECONDS)
        self.addCleanup(filters.close)
        return filters

    def silent_port(self):
        """The port of a server that accepts connections, and says nothing."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        return listener.getsockname()[1]

    def test_a_guard_waits_for_a_server_that_hangs_once_and_then_passes_it_by_for_a_while(self):
        example = self.example("guard_database.py")
        database = sqlite3.connect(":memory:")
        self.addCleanup(database.close)
        daemon = self.start()
        example.fill(database_of_names(database), self.connect(daemon.port), 0.001, 100)
        users = example.Users(database, self.connect(self.silent_port()))
        begin = time.monotonic()
        self.assertEqual([users.may_exist("missing-%d" % number) for number in range(100)], [True] * 100)
        self.assertLess(time.monotonic() - begin, 10 * self.TIMEOUT_SECONDS)
        self.assertGreater(users.asks_again_at, begin)
        users.filters = self.connect(daemon.port)
        self.assertTrue(users.may_exist("missing-1"), "the pause is not over")
        users.asks_again_at = time.monotonic()
        self.assertFalse(users.may_exist("missing-1"))

    def test_a_filter_that_is_missing_begins_no_pause(self):
        example = self.example("guard_database.py")
        users = example.Users(None, self.connect(self.start().port))
        self.assertTrue(users.may_exist("alice"))
        users.filters.execute_command("BF.ADD", example.KEY, "bob")
        self.assertFalse(users.may_exist("alice"))

    def test_recommendations_go_on_without_the_filter(self):
        example = self.example("seen_lately.py")
        for port in (free_port(), self.silent_port()):
            recommendations = example.Recommendations(self.connect(port))
            self.assertEqual(recommendations.choose("alice", ["a", "b", "c"], 2), ["a", "b"])
        recommendations = example.Recommendations(self.connect(self.start().port))
        self.assertEqual([recommendations.choose("alice", ["a", "b", "c"], 2) for _ in range(2)], [["a", "b"], ["c"]])


def database_of_names(database):
    database.execute("CREATE TABLE users (name TEXT PRIMARY KEY, mail TEXT)")
    database.executemany("INSERT INTO users VALUES (?, '')", (("user-%d" % number,) for number in range(100)))
    return database


class RefusalTest(DaemonTest):
    """A filter that is full refuses an item inside the list of the replies, where redis-py raises nothing."""

    def setUp(self):
        super().setUp()
        self.filters = redis.Redis(port=self.start().port)
        self.addCleanup(self.filters.close)

    @staticmethod
    def example(name):
        return types.SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / name)))

    def assert_raises(self, add, key, *words):
        self.filters.execute_command("BF.RESERVE", key, 0.0001, 4, "NONSCALING", *words)
        with self.assertRaisesRegex(redis.ResponseError, "non scaling filter is full"):
            for number in range(100):
                add("item-%d" % number)

    def test_a_message_that_the_filter_refuses_is_perhaps_known(self):
        example = self.example("idempotent_consumer.py")
        self.filters.execute_command("BF.RESERVE", example.KEY, 0.0001, 4, "NONSCALING")
        consumer = example.Consumer(":memory:")
        self.addCleanup(consumer.database.close)
        consumer.filters = self.filters
        self.assertEqual([consumer.certainly_new("message-%d" % number) for number in range(6)], [True] * 4 + [False] * 2)

    def test_a_consumer_makes_a_filter_of_the_right_size(self):
        example = self.example("idempotent_consumer.py")
        consumer = example.Consumer(":memory:")
        self.addCleanup(consumer.database.close)
        consumer.filters = self.filters
        self.assertTrue(consumer.certainly_new("message-1"))
        self.assertEqual(self.filters.bf().info(example.KEY).capacity, example.CAPACITY)

    def test_no_reminder_is_swallowed(self):
        sent = []
        example = self.example("seen_lately.py")
        reminders = example.Reminders(self.filters, sent.append)
        self.assert_raises(reminders.remind, reminders.seen.key, "WINDOW", example.DAY)
        self.assertEqual(sent, ["item-0"])

    def test_an_item_that_the_filter_refuses_is_not_marked_by_a_key(self):
        example = self.example("seen_lately.py")
        leaving = example.Leaving(self.filters, example.Seen(self.filters, "seen", "WINDOW", example.HOUR), example.HOUR)
        self.assert_raises(leaving.is_new, "seen", "WINDOW", example.HOUR)
        self.assertEqual(self.filters.keys("seen:*"), [b"seen:item-0"])

    def test_every_other_example_that_adds_many_raises(self):
        merge, leave = self.example("merge_regions.py"), self.example("leave_redisbloom.py")
        bitmap, numbers = self.example("leave_bitmap_filter.py"), self.example("taken_numbers.py")
        moving, parted = self.example("cluster/moving_filter.py"), self.example("cluster/partitioned_filter.py")
        parts = parted.PartitionedFilter(self.filters, "parts")
        parts.key_of = lambda item: "part"
        moves = moving.MovingFilter(self.filters, "moves")
        users = self.example("filter_for_each_user.py")
        adds = {users.PREFIX + "alice": lambda item: users.Read(self.filters).add("alice", item),
                "regions": lambda item: merge.fill(self.filters, "regions", [item]),
                "left": lambda item: leave.add_again(self.filters, "left", [item]),
                bitmap.KEY: lambda item: bitmap.add_all(self.filters.bf(), [item]),
                "moves": lambda item: moves.add([item]),
                "part": lambda item: parts.add([item])}
        for key, add in adds.items():
            with self.subTest(key):
                self.assert_raises(add, key)
        self.filters.execute_command("CF.RESERVE", numbers.KEY, 4, "EXPANSION", 0)
        taken = numbers.Numbers(None, self.filters)
        with self.assertRaisesRegex(RuntimeError, "the filter has no room"):
            for number in range(100):
                taken.add_copy("%d" % number)


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
