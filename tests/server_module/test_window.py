"""Filters that forget of sepal.so: commands, memory, files, replicas, and moves between the server and sepald."""

import random

from moves import Moves
from redis_case import EXACT_RATE, Refused, RedisTest, field
from replicas import SEED, Replicas
from test_commands import plain
from test_files import sealed

LONG = 100_000_000  # seconds: no generation ends while a test runs
SHORT = "0.4"


class WindowTest(RedisTest):
    def fill(self, client):
        """Filters of several kinds. Returns their items: those that are kept."""
        has = {}

        def add(key, items):
            for at in range(0, len(items), 1000):
                client.call("BF.MADD", key, *items[at:at + 1000])
            has[key] = items

        client.call("BF.RESERVE", "time", "0.01", 10_000, "WINDOW", LONG)
        add("time", ["time/%d" % i for i in range(2000)])
        client.call("BF.RESERVE", "layers", "0.001", 100, "WINDOW", LONG, "GENERATIONS", 16)
        add("layers", ["layers/%d" % i for i in range(5000)])
        client.call("BF.RESERVE", "last", "0.01", 10_000, "LAST", "REFRESH")
        add("last", ["last/%d" % i for i in range(30_000)])
        has["last"] = has["last"][-10_000:]
        client.call("BF.RESERVE", "large", "0.0001", 1_000_000, "LAST", "GENERATIONS", 1)
        add("large", ["large/%d" % i for i in range(3000)])
        client.call("BF.RESERVE", "fixed", "0.01", 1000, "WINDOW", LONG, "NONSCALING")
        add("fixed", ["fixed/%d" % i for i in range(200)])
        client.call("BF.RESERVE", "empty", "0.01", 1000, "WINDOW", LONG)
        has["empty"] = []
        return has

    def check(self, client, has):
        for key, items in has.items():
            for at in range(0, len(items), 1000):
                self.assertEqual(set(client.call("BF.MEXISTS", key, *items[at:at + 1000])), {1}, key)


class CommandTest(WindowTest):
    def test_a_filter_is_a_key_like_others(self):
        client = self.client_of(self.start())
        self.assertEqual(client.call("BF.RESERVE", "k", "0.001", 1000, "WINDOW", LONG, "EX", 100), b"OK")
        self.assertIn(client.call("TTL", "k"), range(1, 101))
        self.assertEqual(client.call("TYPE", "k"), b"SPbloomWF")
        self.assertEqual(client.call("SCAN", 0, "TYPE", "SPbloomWF"), [b"0", [b"k"]])
        self.assertEqual(client.call("BF.MADD", "k", "a", "b", "a"), [1, 1, 0])
        self.assertEqual(client.call("COPY", "k", "copy"), 1)
        self.assertEqual(client.call("BF.ADD", "copy", "c"), 1)
        self.assertEqual(client.call("RENAME", "copy", "renamed"), b"OK")
        self.assertEqual(client.call("BF.MEXISTS", "renamed", "a", "b", "c"), [1, 1, 1])
        self.assertEqual(client.call("BF.MEXISTS", "k", "a", "b", "c"), [1, 1, 0])
        self.assertEqual(client.pipeline([("BF.CARD", "k"), ("BF.CARD", "renamed")]), [2, 3])
        client.call("PEXPIRE", "k", 1)
        self.eventually("the key does not expire", lambda: client.call("EXISTS", "k") == 0)
        self.assertEqual(client.call("BF.INSERT", "k", "WINDOW", LONG, "ITEMS", "new"), [1])
        self.assertEqual(client.call("BF.EXISTS", "k", "a"), 0)
        self.assertEqual(client.call("UNLINK", "k", "renamed"), 2)
        self.assertEqual(client.call("DBSIZE"), 0)

    def test_items_are_forgotten_after_their_time(self):
        client = self.client_of(self.start())
        client.call("BF.RESERVE", "k", "0.01", 100, "WINDOW", SHORT)
        client.call("BF.MADD", "k", *range(1000))
        self.assertGreater(dict(zip(*[iter(client.call("BF.INFO", "k"))] * 2))[b"Number of filters"], 1)
        self.eventually("it forgets nothing", lambda: client.call("BF.CARD", "k") == 0)
        self.assertEqual(set(client.call("BF.MEXISTS", "k", *range(1000))), {0})
        self.assertEqual(plain(client.call("BF.WINDOW", "k"))["items"], 0)
        self.assertEqual(client.call("BF.ADD", "k", "0"), 1)
        # The layers of what was forgotten are gone.
        self.assertEqual(dict(zip(*[iter(client.call("BF.INFO", "k"))] * 2))[b"Number of filters"], 1)

    def test_the_last_items_are_kept(self):
        client = self.client_of(self.start())
        client.call("BF.RESERVE", "first", EXACT_RATE, 100, "LAST")
        client.call("BF.RESERVE", "renewed", EXACT_RATE, 100, "LAST", "REFRESH")
        for key in ("first", "renewed"):
            for begin in range(0, 1000, 10):
                client.call("BF.MADD", key, "often", *range(begin, begin + 10))
            self.assertEqual(set(client.call("BF.MEXISTS", key, *range(900, 1000))), {1})
            self.assertEqual(set(client.call("BF.MEXISTS", key, *range(800))), {0})
            self.assertLessEqual(client.call("BF.CARD", key), 125)
        self.assertEqual(client.call("BF.ADD", "renewed", "often"), 0)

    def test_each_answer_is_that_of_sepald(self):
        client, sepald = (self.client_of(self.start(module=("SEED", 7))), self.client_of(self.start_sepald("--seed", "7")))
        dump = client.call("DUMP", "absent")
        self.assertIsNone(dump)
        client.call("BF.ADD", "source", "a")
        _, header = client.call("BF.SCANDUMP", "source", 0)
        requests = [
            ("BF.RESERVE", "k", "0.01", 10, "LAST"), ("BF.RESERVE", "k", "0.01", 10), ("BF.RESERVE", "k", "0.01", 10, "LAST"),
            ("BF.ADD", "k", "a"), ("BF.MADD", "k", "a", "b"), ("BF.INSERT", "k", "ITEMS", "c"), ("BF.INSERT", "k", "NOCREATE", "ITEMS", "d", "a"),
            ("BF.INSERT", "k", "WINDOW", 5, "ITEMS", "e"), ("BF.INSERT", "k", "NONSCALING", "LAST", "REFRESH", "ITEMS", "f"),
            ("BF.EXISTS", "k", "a"), ("BF.MEXISTS", "k", "a", "z"), ("BF.CARD", "k"), ("BF.DEBUG", "k"), ("BF.INFO", "k", "ITEMS"), ("BF.INFO", "k", "CAPACITY"),
            ("BF.INFO", "k", "x"), ("BF.SCANDUMP", "k", 0), ("BF.SCANDUMP", "k", "x"), ("BF.LOADCHUNK", "k", 1, header), ("BF.LOADCHUNK", "k", "x", header),
            ("CF.ADD", "k", "a"), ("CF.EXISTS", "k", "a"), ("GET", "k"),
            ("BF.ADD", "plain", "a"), ("BF.INSERT", "plain", "LAST", "ITEMS", "a"), ("BF.INSERT", "plain", "WINDOW", 1, "NOCREATE", "ITEMS", "a"),
            ("BF.RESERVE", "plain", "0.01", 10, "LAST"), ("BF.WINDOW", "plain"), ("BF.WINDOW", "absent"), ("BF.WINDOW", "k", "more"),
            ("SET", "string", "x"), ("BF.WINDOW", "string"), ("BF.INSERT", "string", "LAST", "ITEMS", "a"), ("BF.RESERVE", "string", "0.01", 10, "LAST"),
            ("BF.INSERT", "absent", "NOCREATE", "LAST", "ITEMS", "a"), ("BF.STATS", "absent"), ("BF.DEBUG", "string"), ("BF.INFO", "string"), ("BF.CARD", "string"),
            # A filter that does not grow, and has no room.
            ("BF.RESERVE", "full", "0.01", 4, "WINDOW", LONG, "NONSCALING"), ("BF.MADD", "full", *range(5)), ("BF.ADD", "full", "x"), ("BF.MADD", "full", "0", "x", "y"),
            ("BF.RESERVE", "x", "0.01", 10, "WINDOW"), ("BF.RESERVE", "x", "0.01", 10, "GENERATIONS"), ("BF.RESERVE", "x", "0.01", 10, "REFRESH"),
            ("BF.RESERVE", "x", "0.01", 10, "LAST", "GENERATIONS"), ("BF.RESERVE", "x", "0.01", 10, "WINDOW", "0"), ("BF.RESERVE", "x", "0.01", 10, "WINDOW", "nan"),
            ("BF.RESERVE", "x", "0.01", 10, "WINDOW", "0.3"), ("BF.RESERVE", "x", "0.01", 10, "WINDOW", "1e30"), ("BF.RESERVE", "x", "0.01", 10, "WINDOW", 9, "LAST"),
            ("BF.RESERVE", "x", "0.01", 10, "LAST", "EXPANSION", 2), ("BF.RESERVE", "x", "0.01", 10, "LAST", "GENERATIONS", 17), ("BF.RESERVE", "x", "0.01", 3, "LAST"),
            ("BF.RESERVE", "x", "0.01", 10**19, "LAST"), ("BF.RESERVE", "x", "1e-300", 10, "LAST"),
            ("BF.INSERT", "x", "WINDOW"), ("BF.INSERT", "x", "LAST"), ("BF.INSERT", "x", "LAST", "REFRESH"), ("BF.INSERT", "x", "LAST", "ITEMS"),
            ("BF.INSERT", "x", "WINDOW", "ITEMS", "a"), ("BF.INSERT", "x", "GENERATIONS", 4, "ITEMS", "a"), ("EXISTS", "x"),
            # Words behind ITEMS are items.
            ("BF.INSERT", "x", "LAST", "ITEMS", "LAST", "WINDOW"), ("BF.MEXISTS", "x", "LAST", "WINDOW", "ITEMS"),
            ("BF.INSERT", "grows", "CAPACITY", 10, "WINDOW", LONG, "ITEMS", *range(500)), ("BF.DEBUG", "grows"), ("BF.CARD", "grows")]
        for request in requests:
            ours, theirs = ([repr(reply) for reply in each.pipeline([request])] for each in (client, sepald))
            self.assertEqual(ours, theirs, request)
        for key in ("k", "x", "full", "grows"):
            for name in ("BF.STATS", "BF.WINDOW"):
                ours, theirs = plain(client.call(name, key)), plain(sepald.call(name, key))
                # The server's allocator has other size classes.
                memory = ours.pop("memory_bytes"), theirs.pop("memory_bytes")
                self.assertLess(abs(memory[0] - memory[1]), max(512, 0.2 * memory[1]), key)
                self.assertEqual(ours, theirs, (name, key))

    def test_only_a_change_ends_what_a_client_watches(self):
        server = self.start()
        client, other = self.client_of(server), self.client_of(server)
        client.call("BF.INSERT", "k", "LAST", "ITEMS", "a")
        for item, wanted in (("a", [b"PONG"]), ("b", None)):
            client.call("WATCH", "k")
            other.call("BF.ADD", "k", item)
            self.assertEqual(client.pipeline([("MULTI",), ("PING",), ("EXEC",)])[-1], wanted, item)

    def test_memory_is_the_servers(self):
        server = self.start("--maxmemory", "64mb")
        client = self.client_of(server)

        def used():
            return int(field(client.call("INFO", "memory"), "used_memory"))

        before = used()
        client.call("BF.RESERVE", "big", "0.01", 10_000_000, "WINDOW", LONG)
        usage = client.call("MEMORY", "USAGE", "big")
        self.assertGreater(usage, 10_000_000)
        # An allocator has a fifth more, at most.
        self.assertLess(abs(used() - before - usage), 0.21 * usage)
        # What does not fit is refused before it is allocated.
        for request in (("BF.RESERVE", "bigger", "0.01", 50_000_000, "WINDOW", LONG), ("BF.INSERT", "bigger", "CAPACITY", 10**15, "LAST", "ITEMS", "a")):
            self.assertEqual(str(client.pipeline([request])[0]), "ERR Insufficient memory to create filter")
        client.call("BF.RESERVE", "grows", "0.01", 1000, "WINDOW", LONG, "EXPANSION", 32768)
        outcomes = client.call("BF.MADD", "grows", *range(1100))
        self.assertIn("ERR problem inserting into filter: there is no memory for a further layer", {str(outcome) for outcome in outcomes if isinstance(outcome, Refused)})
        client.call("FLUSHALL", "ASYNC")
        self.eventually("the memory does not come back", lambda: used() < before + 2_000_000)


class FileTest(WindowTest):
    def test_a_save_and_a_start(self):
        server = self.start()
        client = self.client_of(server)
        has = self.fill(client)
        before = self.digests(client, has)
        client.call("SAVE")
        server.kill()
        client = self.client_of(self.start())
        self.assertEqual(self.digests(client, has), before)
        self.check(client, has)
        # One item in a hundred is taken for a known one, and the seeds differ from run to run.
        for key in has:
            self.assertGreater(sum(client.call("BF.MADD", key, *["new/%d" % i for i in range(40)])), 30, key)
        self.assertLess(sum(client.call("BF.MEXISTS", "last", *["last/%d" % i for i in range(40)])), 10)

    def test_append_only_files_and_kills(self):
        for preamble, fsync in (("yes", "no"), ("no", "always")):
            with self.subTest(preamble=preamble, fsync=fsync):
                directory = self.make_directory()
                arguments = ("--appendonly", "yes", "--appendfsync", fsync, "--aof-use-rdb-preamble", preamble)
                server = self.start(*arguments, directory=directory)
                client = self.client_of(server)
                has = self.fill(client)
                before = self.digests(client, has)
                server.kill()
                server = self.start(*arguments, directory=directory)
                client = self.client_of(server)
                self.assertEqual(self.digests(client, has), before, "the commands of the AOF")
                client.call("BGREWRITEAOF")
                self.wait_until_rewritten(client)
                for key in has:
                    client.call("BF.MADD", key, *range(1000))
                before = self.digests(client, has)
                server.kill()
                client = self.client_of(self.start(*arguments, directory=directory))
                self.assertEqual(self.digests(client, has), before, "a rewritten AOF")
                self.check(client, {key: has[key] for key in ("time", "layers", "large", "fixed")})

    def test_what_was_forgotten_stays_forgotten_behind_a_start(self):
        arguments = ("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no")
        server = self.start(*arguments)
        client = self.client_of(server)
        client.call("BF.RESERVE", "k", "0.000001", 100, "WINDOW", SHORT)
        client.call("BF.MADD", "k", *range(1000))
        self.eventually("it forgets nothing", lambda: client.call("BF.CARD", "k") == 0)
        client.call("BF.RESERVE", "kept", "0.01", 100, "WINDOW", LONG)
        client.call("BF.ADD", "kept", "a")
        server.kill()
        client = self.client_of(self.start(*arguments))
        self.assertEqual(set(client.call("BF.MEXISTS", "k", *range(1000))), {0})
        self.assertEqual(client.pipeline([("BF.CARD", "k"), ("BF.EXISTS", "kept", "a")]), [0, 1])

    def test_a_damaged_dump_is_refused_and_the_server_goes_on(self):
        server = self.start()
        client = self.client_of(server)
        client.call("CONFIG", "SET", "rdbcompression", "no")
        client.call("BF.INSERT", "last", "CAPACITY", 10, "LAST", "ITEMS", *range(30))
        client.call("BF.INSERT", "layers", "CAPACITY", 10, "WINDOW", LONG, "ITEMS", *range(20))
        for key in ("last", "layers"):
            dump = client.call("DUMP", key)
            refused = 0
            head = 250  # the id of the type, and the most of the head
            for at in (*range(1, head), *range(head, len(dump) - 10, 53)):
                for value in (0, 0xff, dump[at] ^ 1):
                    changed = sealed(dump[:at] + bytes([value]) + dump[at + 1:])
                    reply = client.pipeline([("RESTORE", "copy", 0, changed, "REPLACE")])[0]
                    refused += isinstance(reply, Refused)
                    client.pipeline([("BF.MADD", "copy", *range(20)), ("BF.MEXISTS", "copy", *range(20)), ("BF.INFO", "copy"), ("BF.WINDOW", "copy")])
                    client.call("DEL", "copy")
            self.assertGreater(refused, 50, key)
            for length in range(10, min(len(dump) - 10, 200)):
                reply = client.pipeline([("RESTORE", "copy", 0, sealed(dump[:length] + dump[-10:]), "REPLACE")])[0]
                self.assertIsInstance(reply, Refused)
        self.assertIn("sepal: ", server.text())
        self.assertEqual(client.call("PING"), b"PONG")


class ReplicationTest(Replicas, WindowTest):
    def questions(self, key):
        return [*super().questions(key), ("BF.DEBUG", key)]

    def requests(self, chance, key, items):
        window = chance.choice((("WINDOW", LONG), ("LAST",), ("LAST", "REFRESH"), ("WINDOW", LONG, "GENERATIONS", 1, "REFRESH")))
        return (("BF.ADD", key, items[0]), ("BF.MADD", key, *items), ("BF.MADD", key, *items),
                ("BF.INSERT", key, "CAPACITY", 10, *window, "ITEMS", *items), ("BF.INSERT", key, "NOCREATE", *window, "ITEMS", *items),
                ("BF.RESERVE", key, "0.01", chance.choice((5, 500)), *window), ("BF.RESERVE", key, "0.01", 10, "NONSCALING", "WINDOW", LONG),
                ("BF.RESERVE", key, "0.01", 10, *window, "EX", 1000))

    def test_a_replica_has_the_same_filters_and_so_has_one_that_comes_later(self):
        chance = random.Random(SEED)
        self.churn(chance, 1500, self.requests)
        self.assert_same()
        has = self.fill(self.client)
        # It gets the filters in a file, and goes on with them as the others do.
        self.add_replica()
        self.churn(chance, 1500, self.requests)
        for key in has:
            self.client.call("BF.MADD", key, *range(3000))
        self.assert_same()

    def test_a_replica_forgets_as_its_master_does(self):
        self.client.call("BF.RESERVE", "k", "0.000001", 100, "WINDOW", SHORT)
        self.client.call("BF.MADD", "k", *range(1000))
        # This one gets the items in a file.
        self.add_replica()
        self.client.call("BF.MADD", "k", *range(1000, 2000))
        self.assertEqual(self.client.call("WAIT", 2, 30_000), 2)
        before = self.digests(self.client, ["k"])
        for reader in self.readers:
            self.assertEqual(self.digests(reader, ["k"]), before)
            self.eventually("the replica forgets nothing", lambda reader=reader: reader.call("BF.CARD", "k") == 0)
            self.assertEqual(set(reader.call("BF.MEXISTS", "k", *range(2000))), {0})
        # With the next item, all of them drop the layers of what was forgotten.
        self.client.call("BF.ADD", "k", "new")
        self.assertEqual(self.client.call("WAIT", 2, 30_000), 2)
        before = self.digests(self.client, ["k"])
        for reader in (self.client, *self.readers):
            self.assertEqual(dict(zip(*[iter(reader.call("BF.INFO", "k"))] * 2))[b"Number of filters"], 1)
            self.assertEqual(self.digests(reader, ["k"]), before)

    def test_a_transaction_a_script_and_deadlines(self):
        self.client.pipeline([("MULTI",), ("BF.INSERT", "k", "WINDOW", LONG, "ITEMS", "a"), ("BF.MADD", "k", *range(200)), ("EXPIRE", "k", 1000), ("EXEC",)])
        self.client.call("EVAL", "return redis.call('BF.INSERT', KEYS[1], 'LAST', 'ITEMS', unpack(ARGV))", 1, "s", *range(200))
        for number in range(100):
            self.client.call("BF.RESERVE", "e%d" % number, "0.01", 10, "LAST", "EX", 1000)
        self.assert_same()
        self.assertGreater(self.readers[0].call("TTL", "k"), 900)

    def test_known_items_are_not_sent(self):
        self.assert_known_items_are_not_sent("WINDOW", LONG)

    def test_a_replica_takes_over(self):
        has = self.fill(self.client)
        self.assert_same()
        self.master.kill()
        reader = self.readers[0]
        reader.call("REPLICAOF", "NO", "ONE")
        self.check(reader, has)
        for key in ("time", "layers"):
            self.assertEqual(set(reader.call("BF.MADD", key, *("more/%d" % i for i in range(5)))), {1})
        self.check(reader, has)

    def test_records_that_do_not_fit_are_refused(self):
        client = self.client
        client.call("BF.INSERT", "k", "LAST", "ITEMS", "a")
        client.call("BF.ADD", "plain", "a")
        for request in (("BF.WINDOWSHAPE", "x", "short"), ("BF.WINDOWSHAPE", "x", bytes(64)), ("BF.WINDOWSHAPE", "x", b"\xff" * 64), ("BF.WINDOWSHAPE", "k", bytes(64)),
                        ("BF.WINDOWSHAPE", "k", bytes(36)), ("BF.WINDOWSHAPE", "k", b"\xff" * 36), ("BF.WINDOWSHAPE", "plain", bytes(36)),
                        ("BF.WINDOWADD", "k", ""), ("BF.WINDOWADD", "k", bytes(17)), ("BF.WINDOWADD", "k", b"\xff" * 32), ("BF.WINDOWADD", "x", bytes(16)),
                        ("BF.WINDOWADD", "plain", bytes(16))):
            self.assertIsInstance(client.pipeline([request])[0], Refused, request)
        self.assertEqual(client.call("BF.EXISTS", "k", "a"), 1)
        self.assert_same()


class MovingTest(Moves, WindowTest):
    lasting = "time"

    def check_same(self, source, target, has):
        self.check(target, has)
        for key in has:
            self.assertEqual(target.call("BF.DEBUG", key), source.call("BF.DEBUG", key), key)
            # It goes on there as it would have here.
            for each in (source, target):
                each.call("BF.MADD", key, *("more/%d" % i for i in range(900)))
            self.assertEqual(target.call("BF.DEBUG", key), source.call("BF.DEBUG", key), key)
            some = ["%s/%d" % (what, i) for what in (key, "more", "absent") for i in range(3000)]
            self.assertEqual(target.call("BF.MEXISTS", key, *some), source.call("BF.MEXISTS", key, *some), key)

    def test_a_filter_forgets_where_it_has_moved_to(self):
        for source, target in ((self.ours, self.theirs), (self.theirs, self.ours)):
            source.call("BF.INSERT", "k", "WINDOW", SHORT, "ITEMS", "a")
            target.call("RESTORE", "k", 0, source.call("DUMP", "k"))
            self.eventually("it forgets nothing", lambda target=target: target.call("BF.EXISTS", "k", "a") == 0)
            for client in (source, target):
                client.call("FLUSHALL")


del WindowTest  # unittest would run it as well
