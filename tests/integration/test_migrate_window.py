"""`sepal migrate` and `sepal convert` copy filters with a window, from sepald and from a Redis server with sepal.so."""

import os
import unittest

import redis_server
from client import Client, Refused
from daemon import EXACT_RATE, sepal
from migrate_case import DEADLINE, MigrateCase, address

LONG = 100_000_000  # seconds: no generation ends while a test runs


def fill(client):
    """Filters with a window, of several kinds. Returns the items of each that it keeps."""
    has = {"small": ["x"], "empty": [], "grown": ["grown/%d" % i for i in range(50_000)],
           "fixed": ["fixed/%d" % i for i in range(20)], "last": ["last/%d" % i for i in range(30_000)],
           "large": ["large/%d" % i for i in range(5000)]}
    requests = [("BF.INSERT", "small", "WINDOW", LONG, "ITEMS", "x"), ("PEXPIREAT", "small", DEADLINE),
                ("BF.RESERVE", "empty", "0.001", 1000, "WINDOW", LONG, "GENERATIONS", 16),
                ("BF.RESERVE", "grown", "0.001", 1000, "WINDOW", LONG), ("PEXPIREAT", "grown", DEADLINE + 1),
                ("BF.RESERVE", "fixed", "0.01", 1000, "WINDOW", LONG, "NONSCALING", "REFRESH"),
                ("BF.RESERVE", "last", EXACT_RATE, 10_000, "LAST", "REFRESH"),
                ("BF.RESERVE", "large", "0.0001", 2_000_000, "WINDOW", "%d.5" % LONG)]
    for key, items in has.items():
        requests += [("BF.MADD", key, *items[at:at + 1000]) for at in range(0, len(items), 1000)]
    for reply in client.pipeline(requests):
        if isinstance(reply, Refused):
            raise AssertionError(reply)
    has["last"] = has["last"][-10_000:]
    return has


def plain(value):
    """Without the way in which a server writes a number."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def facts_of(client, key):
    """All that BF.WINDOW tells, without what each server counts in its own way; and the deadline."""
    told = client.call("BF.WINDOW", key)
    return [(name, plain(value)) for name, value in zip(told[::2], told[1::2]) if name != b"memory_bytes"], client.call("PEXPIRETIME", key)


class WindowCase(MigrateCase):
    def check_alike(self, source, target, has):
        for key, items in has.items():
            self.assertEqual(facts_of(source, key), facts_of(target, key))
            for at in range(0, len(items), 1000):
                self.assertEqual(set(target.call("BF.MEXISTS", key, *items[at:at + 1000])), {1}, key)
            absent = range(5000)
            self.assertEqual(source.call("BF.MEXISTS", key, *absent), target.call("BF.MEXISTS", key, *absent))


class BetweenServersTest(WindowCase):
    def setUp(self):
        super().setUp()
        self.ours, self.theirs = self.client_of(self.source), self.client_of(self.target)

    def client_of(self, daemon):
        client = Client.of(daemon)
        self.addCleanup(client.close)
        return client

    def move(self, status=0, *flags):
        return self.migrate(status, address(self.source), address(self.target), *flags)

    def test_what_is_there_and_what_changes(self):
        has = fill(self.ours)
        self.assertIn("filters  6 with ", self.move(0, "--dry-run"))
        self.assertEqual(self.theirs.call("DBSIZE"), 0)
        told = self.move()
        self.assertIn("filters  6 with ", told)
        self.assertIn("checked  6 filters", told)
        self.check_alike(self.ours, self.theirs, has)
        for key in has:
            self.assertEqual(self.ours.call("DUMP", key), self.theirs.call("DUMP", key), key)
        # A second run takes what changed since: here filters have more items, forgot some, and another deadline.
        self.ours.pipeline([("BF.ADD", "small", "y"), ("BF.MADD", "last", *range(9000)), ("PEXPIREAT", "large", DEADLINE)])
        told = self.move()
        self.assertIn("filters  2 with ", told)
        self.assertIn("same     4 filters were at the target already, with these figures; 1 of them", told)
        self.check_alike(self.ours, self.theirs, {**has, "small": ["x", "y"], "last": range(9000)})

    def test_a_renewed_item_is_a_change_and_no_item_more(self):
        self.ours.call("BF.RESERVE", "k", "0.01", 100, "LAST", "REFRESH")
        self.ours.call("BF.MADD", "k", *range(60))
        self.move()
        before = self.ours.call("BF.CARD", "k")
        self.ours.call("BF.MADD", "k", *range(10))
        self.assertEqual(self.ours.call("BF.CARD", "k"), before)
        self.assertIn("filters  1 with ", self.move())
        self.check_alike(self.ours, self.theirs, {"k": range(60)})

    def test_a_target_that_went_on_is_left_alone(self):
        fill(self.ours)
        self.move()
        self.theirs.pipeline([("BF.ADD", "small", "only there"), ("BF.ADD", "last", "only there"), ("DEL", "large"), ("BF.ADD", "large", "x")])
        told = self.move(3)
        self.assertIn("LEFT OUT 2 keys: the target's filter has more items, so it is left alone", told)
        self.assertIn("LEFT OUT 1 key: the target has another value under its key", told)
        self.assertEqual(self.theirs.call("BF.EXISTS", "small", "only there"), 1)
        self.assertEqual(self.theirs.call("BF.EXISTS", "last", "only there"), 1)

    def test_a_filter_of_the_target_that_was_no_copy_is_left_alone(self):
        self.ours.call("BF.RESERVE", "k", "0.01", 1000, "WINDOW", LONG)
        self.ours.call("BF.MADD", "k", *range(200))
        # Fewer items, as an older copy would have.
        for options in (("0.001", 1000, "WINDOW", LONG), ("0.01", 1001, "WINDOW", LONG), ("0.01", 1000, "WINDOW", "%d.5" % LONG), ("0.01", 1000, "LAST"),
                        ("0.01", 1000, "WINDOW", LONG, "REFRESH"), ("0.01", 1000, "WINDOW", LONG, "EXPANSION", 3), ("0.01", 1000, "WINDOW", LONG, "GENERATIONS", 5)):
            self.theirs.call("DEL", "k")
            self.theirs.call("BF.RESERVE", "k", *options)
            self.theirs.call("BF.ADD", "k", "only there")
            self.assertIn("LEFT OUT 1 key: the target has another value under its key", self.move(3))
            self.assertEqual(self.theirs.call("BF.EXISTS", "k", "only there"), 1)

    def test_what_is_over_is_no_difference(self):
        self.ours.call("BF.RESERVE", "k", "0.01", 1000, "WINDOW", "0.4")
        self.ours.call("BF.MADD", "k", *range(100))
        self.move()

        def is_over():
            return self.ours.call("BF.CARD", "k") == 0 and self.theirs.call("BF.CARD", "k") == 0

        self.eventually("the items are over", is_over)
        self.assertIn("same     1 filters were", self.move())
        # Whether these are copied or over before, none is a fault.
        self.ours.call("BF.MADD", "k", *range(100, 150))
        self.move()
        self.eventually("the items are over", is_over)
        self.assertIn("same     1 filters were", self.move())

    def test_a_filter_that_no_request_has_room_for_is_named(self):
        self.ours.call("BF.RESERVE", "k", "0.01", 250_000_000, "LAST")
        self.assertGreater(dict(zip(*[iter(self.ours.call("BF.WINDOW", "k"))] * 2))[b"memory_bytes"], 511 << 20)
        self.assertIn("LEFT OUT 1 key: it is larger than 511 MiB, and no request has room for it", self.move(3))
        self.assertEqual(self.theirs.call("EXISTS", "k"), 0)


@unittest.skipUnless(redis_server.IS_THERE, redis_server.WHY_NOT)
@unittest.skipUnless("SEPAL_MODULE" in os.environ, "sanitizers build no sepal.so")
class FromRedisTest(WindowCase):
    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.directory, "redis")
        self.redis = redis_server.Redis(self.folder, "--loadmodule", os.environ["SEPAL_MODULE"])
        self.addCleanup(self.redis.stop)
        self.theirs = self.redis.client()
        self.addCleanup(self.theirs.close)

    def test_from_the_server_and_back(self):
        has = fill(self.theirs)
        self.assertIn("checked  6 filters", self.migrate(0, self.redis.address(), address(self.source)))
        with Client.of(self.source) as ours:
            self.check_alike(self.theirs, ours, has)
            self.assertIn("same     6 filters were at the target already", self.migrate(0, self.redis.address(), address(self.source)))
            ours.call("BF.ADD", "small", "y")
            self.assertIn("filters  1 with ", self.migrate(0, address(self.source), self.redis.address()))
            self.check_alike(self.theirs, ours, {**has, "small": ["x", "y"]})

    def test_from_its_file(self):
        has = fill(self.theirs)
        self.theirs.call("SAVE")
        directory = os.path.join(self.directory, "converted")
        done = sepal("convert", os.path.join(self.folder, "dump.rdb"), "--data", directory)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("filters  6 with ", done.stdout)
        daemon = self.start(directory=directory)
        with Client.of(daemon) as ours:
            self.check_alike(self.theirs, ours, has)
        self.assertEqual(daemon.stop(), 0)
        done = sepal("convert", os.path.join(self.folder, "dump.rdb"), "--files", os.path.join(self.directory, "files"))
        self.assertEqual(done.returncode, 3)
        self.assertIn("LEFT OUT 6 keys: a filter file holds a Bloom filter without a window, and this one has a window", done.stdout + done.stderr)
