"""Filters that delete, in a whole server: saves, restarts, kills, dumps, transactions, the tools."""

import os
import random
import struct
import threading
import time

import redis

from client import Client, Refused
from daemon import EXACT_CUCKOO_RATE, DaemonTest, say, sepal, sized

ROUNDS = int(os.environ.get("SEPAL_KILL_ROUNDS", sized("4", "10")))
SEED = int(os.environ.get("SEPAL_KILL_SEED", str(random.randrange(1 << 32))))
CLIENTS = 8
KEYS = 3
BATCH = 40
ITEMS_OF_EACH = 3000


class Churner(threading.Thread):
    """Adds and removes items of its own, which no other client has, and knows how many copies each has."""

    def __init__(self, daemon, number, counts, rng):
        super().__init__()
        self.client = Client.of(daemon)
        self.number = number
        self.counts = counts  # (key, item) -> the numbers of copies that are possible
        self.random = rng
        self.wrong = []

    def batch(self):
        """Each item once. Gives (request, its copies before, after, the answer)."""
        adds_more = self.random.random() < 0.6
        for number in self.random.sample(range(ITEMS_OF_EACH), BATCH):
            place = (b"cf:%d" % self.random.randrange(KEYS), b"%d:%d" % (self.number, number))
            (before,) = self.counts.get(place, (0,))
            if self.random.random() < (0.75 if adds_more else 0.25):
                if self.random.random() < 0.3:
                    yield place, ("CF.ADDNX", *place), before, max(before, 1), int(before == 0)
                else:
                    yield place, ("CF.ADD", *place), before, before + 1, 1
            elif before > 0:
                yield place, ("CF.DEL", *place), before, before - 1, 1

    def run(self):
        while True:
            steps = list(self.batch())
            try:
                answers = self.client.pipeline([step[1] for step in steps]) if steps else []
            except (OSError, EOFError, ConnectionError):
                for place, _, before, after, _ in steps:
                    self.counts[place] = tuple({before, after})
                return self.client.close()
            for (place, words, _, after, expected), answer in zip(steps, answers):
                self.counts[place] = (after,)
                if answer != expected:
                    self.wrong.append((words, answer))


class CuckooTest(DaemonTest):
    def check(self, daemon, counts):
        """Afterwards each item has one number."""
        with Client.of(daemon) as client:
            places = list(counts)
            for first in range(0, len(places), 1000):
                some = places[first:first + 1000]
                for place, copies in zip(some, client.pipeline([("CF.COUNT", *place) for place in some])):
                    self.assertIn(copies, counts[place], place)
                    counts[place] = (copies,)

    def test_no_answered_add_or_removal_is_lost(self):
        say("SEPAL_KILL_SEED=%d" % SEED)
        rng = random.Random(SEED)
        counts = [{} for _ in range(CLIENTS)]
        settings = ((), ("--journal", "always"), ("--journal-segment", "2mb", "--journal-save-min", "2mb"))
        for number in range(ROUNDS):
            daemon = self.start("--threads", "2", *settings[number % len(settings)])
            with Client.of(daemon) as client:
                if number == 0:
                    for key in range(KEYS):
                        client.call("CF.RESERVE", b"cf:%d" % key, 1000, "ERROR", EXACT_CUCKOO_RATE)
            for each in counts:
                self.check(daemon, each)
            churners = [Churner(daemon, at, counts[at], random.Random(rng.random())) for at in range(CLIENTS)]
            for churner in churners:
                churner.start()
            for _ in range(3):
                time.sleep(rng.uniform(0.05, 0.25))
                with Client.of(daemon) as client:
                    try:
                        client.call("BGSAVE")
                    except Refused:
                        pass  # one runs
            daemon.kill()
            for churner in churners:
                churner.join()
                self.assertEqual(churner.wrong, [])
        daemon = self.start("--threads", "2")
        for each in counts:
            self.check(daemon, each)
        self.assertEqual(daemon.stop(), 0)

    def test_commands_of_all_kinds_take_it(self):
        daemon = self.start("--journal", "always")
        client = Client.of(daemon)
        for number in range(20):
            client.call("CF.INSERT", "k", "ERROR", EXACT_CUCKOO_RATE, "ITEMS", *(b"%d" % item for item in range(number * 100, number * 100 + 100)))
        client.call("CF.DEL", "k", "7")
        payload = client.call("DUMP", "k")
        client.call("RESTORE", "r", 0, payload)
        client.call("COPY", "k", "c")
        client.call("RENAME", "c", "d")
        for key in ("r", "d"):
            self.assertEqual(client.call("CF.MEXISTS", key, *range(2000)), client.call("CF.MEXISTS", "k", *range(2000)))
            self.assertEqual(client.call("CF.DEBUG", key), client.call("CF.DEBUG", "k"))
        broken = bytearray(payload)
        broken[len(broken) // 2] ^= 1
        with self.assertRaises(Refused):
            client.call("RESTORE", "x", 0, bytes(broken))
        client.call("MULTI")
        client.pipeline([("CF.ADD", "k", "t"), ("CF.DEL", "k", "t"), ("CF.EXISTS", "k", "t")])
        self.assertEqual(client.call("EXEC"), [1, 1, 0])
        self.assertEqual(client.call("EVAL", "return redis.call('CF.ADDNX', KEYS[1], ARGV[1])", 1, "k", "script"), 1)
        other = Client.of(daemon)
        client.call("WATCH", "k")
        other.call("CF.DEL", "k", "8")
        client.call("MULTI")
        client.call("CF.ADD", "k", "never")
        self.assertIsNone(client.call("EXEC"))
        client.call("PEXPIRE", "d", 1)
        self.eventually("the key expires", lambda: client.call("EXISTS", "d") == 0)
        expected = client.call("CF.DEBUG", "k")
        client.save()
        self.assertEqual(daemon.stop(), 0)
        verified = sepal("verify", daemon.directory)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertIn("2 cuckoo filters", verified.stdout)
        again = Client.of(self.start("--journal", "always", directory=daemon.directory))
        self.assertEqual(again.call("CF.DEBUG", "k"), expected)

    def test_a_filter_of_redisbloom_gets_no_more_layers_than_a_start_takes(self):
        header = struct.pack("<4Q3H", 0, 1, 0, 1, 2, 20, 1)
        items = [b"%d" % number for number in range(200)]
        for most, settings in ((3, ("--layers-max", "3")), (5, ("--cf-layers-max", "5")), (32, ())):
            directory = os.path.join(self.directory, str(most))
            daemon = self.start(*settings, directory=directory)
            with Client.of(daemon) as client:
                client.call("CF.LOADCHUNK", "k", 1, header)
                with self.assertRaisesRegex(Refused, "Maximum expansions reached"):
                    for item in items:
                        client.call("CF.ADD", "k", item)
                told = client.call("CF.DEBUG", "k")
                self.assertIn(b"filters:%d " % most, told)
                client.save()
            self.assertEqual(daemon.stop(), 0)
            daemon = self.start(*settings, directory=directory)
            with Client.of(daemon) as client:
                self.assertEqual(client.call("CF.DEBUG", "k"), told)
            self.assertEqual(daemon.stop(), 0)

    def test_the_settings_of_new_filters_are_kept(self):
        file = os.path.join(self.directory, "sepald.toml")
        with open(file, "w") as config:
            config.write("cf_capacity = 400\ncf_bucket_size = 4\n")
        daemon = self.start("--config", file, "--cf-expansion", "2")
        with Client.of(daemon) as client:
            client.call("CF.ADD", "k", "a")
            self.assertEqual(client.call("CF.DEBUG", "k"),
                             b"bktsize:4 buckets:128 items:1 deletes:0 filters:1 max_iterations:20 expansion:2")
            client.call("CONFIG", "SET", "cf-initial-size", "800", "cf-max-expansions", "7")
            client.call("CONFIG", "REWRITE")
        self.assertEqual(daemon.stop(), 0)
        with Client.of(self.start("--config", file)) as client:
            self.assertEqual(client.call("CONFIG", "GET", "cf-initial-size"), [b"cf-initial-size", b"800"])
            self.assertEqual(client.call("CONFIG", "GET", "cf-max-expansions"), [b"cf-max-expansions", b"7"])

    def test_pieces_are_loaded_once_whatever_ends_the_server(self):
        """Pieces that come before a save, and behind it, and then the server is killed."""
        daemon = self.start()
        items = ["item:%d" % i for i in range(100_000)]
        absent = ["absent:%d" % i for i in range(20_000)]
        with Client.of(daemon) as client:
            for at in range(0, len(items), 1000):
                client.call("CF.INSERT", "source", "ITEMS", *items[at:at + 1000])
            client.call("CF.INSERT", "source", "ITEMS", *["often"] * 50)
            pieces, iterator = [], 0
            while True:
                iterator, piece = client.call("CF.SCANDUMP", "source", iterator)
                if iterator == 0:
                    break
                pieces.append((iterator, piece))
            self.assertGreater(len(pieces), 3)
            for at, piece in enumerate(pieces):
                if at == len(pieces) // 2:
                    self.assertEqual(client.call("SAVE"), b"OK")
                self.assertEqual(client.call("CF.LOADCHUNK", "target", *piece), b"OK")
            (refused,) = client.pipeline([("CF.LOADCHUNK", "target", *pieces[-1])])
            self.assertIsInstance(refused, Refused)
        daemon.kill()
        daemon = self.start()
        with Client.of(daemon) as client:
            for at in range(0, len(items), 1000):
                self.assertEqual(client.call("CF.MEXISTS", "target", *items[at:at + 1000]), [1] * 1000)
            self.assertEqual(client.call("CF.MEXISTS", "target", *absent), client.call("CF.MEXISTS", "source", *absent))
            self.assertEqual(client.call("CF.COUNT", "target", "often"), client.call("CF.COUNT", "source", "often"))
            self.assertEqual(client.call("CF.INFO", "target")[7], len(items) + 50)
            # Each was added once, so nothing is left of them.
            for at in range(0, len(items), 1000):
                self.assertEqual(client.call("CF.MDEL", "target", *items[at:at + 1000]), [1] * 1000)
            self.assertEqual(client.call("CF.MDEL", "target", *["often"] * 50), [1] * 50)
            self.assertEqual(client.call("CF.INFO", "target")[7], 0)

    def test_a_stop_saves_removals_and_pieces_that_came_behind_the_last_save(self):
        steps = ((("CF.DEL", "k", "a"), ("CF.COUNT", "k", "a"), 0), (("CF.MDEL", "k", "b", "b"), ("CF.COUNT", "k", "b"), 0),
                 (("CF.LOADCHUNK", "target"), ("CF.COUNT", "target", "d"), 1))
        for change, question, expected in steps:
            directory = os.path.join(self.directory, change[0])
            daemon = self.start("--journal", "off", directory=directory)
            with Client.of(daemon) as client:
                client.call("CF.INSERT", "k", "ITEMS", "a", "b", "c", "d")
                header, piece = client.call("CF.SCANDUMP", "k", 0), None
                client.call("CF.LOADCHUNK", "target", *header)
                piece = client.call("CF.SCANDUMP", "k", header[0])
                client.save()
                self.assertEqual(client.info("persistence")["rdb_changes_since_last_save"], "0")
                client.call(*change, *(piece if change[0] == "CF.LOADCHUNK" else ()))
                self.assertNotEqual(client.info("persistence")["rdb_changes_since_last_save"], "0")
            self.assertEqual(daemon.stop(), 0)
            with Client.of(self.start("--journal", "off", directory=directory)) as client:
                self.assertEqual(client.call(*question), expected)

    def test_the_calls_of_redis_py(self):
        # The library asks for no rate.
        daemon = self.start("--seed", "1")
        connection = redis.Redis(port=daemon.port)
        self.addCleanup(connection.close)
        filters = connection.cf()
        self.assertTrue(filters.create("c", 1000, expansion=2, bucket_size=4, max_iterations=50))
        self.assertEqual(filters.add("c", "a"), 1)
        self.assertEqual(filters.addnx("c", "a"), 0)
        self.assertEqual(filters.insert("c", ["b", "b"]), [1, 1])
        self.assertEqual(filters.insertnx("c", ["b", "d"]), [0, 1])
        self.assertEqual(filters.insert("e", ["b"], capacity=500), [1])
        self.assertEqual(filters.exists("c", "a"), 1)
        self.assertEqual(filters.count("c", "b"), 2)
        self.assertEqual(filters.delete("c", "b"), 1)
        info = filters.info("c")
        self.assertEqual((info.bucketNum, info.filterNum, info.insertedNum, info.deletedNum, info.bucketSize,
                          info.expansionRate, info.maxIteration), (256, 1, 3, 1, 4, 2, 50))
