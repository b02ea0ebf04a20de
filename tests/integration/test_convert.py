"""`sepal convert` on files that Redis wrote: a sepald with the result answers as RedisBloom did."""

import json
import os
import shutil
import subprocess
import unittest

import redis_server
from client import Client
from daemon import DaemonTest
from redis_server import strings_of

SEPAL = os.environ["SEPAL"]
RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "redis_files")


def sepal(*arguments):
    return subprocess.run([SEPAL, *arguments], capture_output=True, text=True, timeout=300)


def recorded(name):
    return os.path.join(RECORDED, name)


def recorded_answers():
    with open(recorded("expected.json"), encoding="utf-8") as file:
        return [about for name, about in json.load(file).items() if name != "skipped"]


def expectations():
    return [about for about in recorded_answers() if "items" in about]


def string_expectations():
    return [about for about in recorded_answers() if about.get("type") == "string"]


def command(*words):
    """A command as Redis writes it into an append-only file."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class ConvertTest(DaemonTest):
    def path(self, name):
        return os.path.join(self.directory, name)

    def convert(self, status, *arguments):
        done = sepal("convert", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def check_filter(self, client, about, key, later=()):
        """Whether a filter answers as the recorded one. `later`: the items that were added after the others."""
        name = about["key"].encode()
        items = [b"%s/%d" % (name, i) for i in range(about["items"])] + list(later)
        for at in range(0, len(items), 10000):
            self.assertNotIn(0, client.call("BF.MEXISTS", key, *items[at:at + 10000]))
        absent = client.call("BF.MEXISTS", key, *["absent/%d" % i for i in range(2000)])
        hits = [i for i, answer in enumerate(absent) if answer == 1]
        if later:
            self.assertLessEqual(set(about["absent_hits_of_2000"]), set(hits))
        else:
            self.assertEqual(hits, about["absent_hits_of_2000"])
        info = client.call("BF.INFO", key)
        info = dict(zip(info[::2], info[1::2]))
        self.assertEqual(info[b"Number of items inserted"], about["info"]["Number of items inserted"] + len(later))
        self.assertEqual(info[b"Number of filters"], about["info"]["Number of filters"])
        self.assertEqual(info[b"Capacity"], about["info"]["Capacity"])
        self.assertEqual(info[b"Expansion rate"], about["info"]["Expansion rate"])

    def check_string(self, client, about):
        if "value" in about:
            self.assertEqual(client.call("GET", about["key"]), about["value"].encode())
            return
        data = client.call("GET", about["key"])
        self.assertEqual([at for at in range(8 * len(data)) if data[at // 8] >> (7 - at % 8) & 1], about["bits_set"])
        if "strlen" in about:
            self.assertEqual(len(data), about["strlen"])

    def check_data(self, directory, later=()):
        daemon = self.start(directory=directory)
        with Client.of(daemon) as client:
            sizes = {}
            for about in expectations():
                client.call("SELECT", about["db"])
                is_changed = about["db"] == 0 and about["key"] == "default"
                self.check_filter(client, about, about["key"], later if is_changed else ())
                self.assertEqual(client.call("PEXPIRETIME", about["key"]), about.get("pexpireat", -1))
                sizes[about["db"]] = sizes.get(about["db"], 0) + 1
            for about in string_expectations():
                client.call("SELECT", about["db"])
                self.check_string(client, about)
                sizes[about["db"]] = sizes.get(about["db"], 0) + 1
            for database in range(16):
                client.call("SELECT", database)
                self.assertEqual(client.call("DBSIZE"), sizes.get(database, 0))
        self.assertEqual(daemon.stop(), 0)
        # And again from what that server saved.
        again = self.start(directory=directory)
        with Client.of(again) as client:
            self.assertEqual(client.call("DBSIZE"), sizes[0])

    def test_rdb_file(self):
        for name in ("rdb.rdb", "rdb-plain.rdb"):
            with self.subTest(name):
                data = self.path(name + "-data")
                told = self.convert(0, recorded(name), "--data", data)
                self.assertIn("filters  15 with ", told)
                self.assertIn("strings  4 with ", told)
                for skipped in ("1 of type stream", "1 of type module TopK-TYPE", "1 of type zset"):
                    self.assertIn("skipped  " + skipped, told)
                self.check_data(data)

    def test_append_only_files(self):
        for name in ("plain", "preamble"):
            with self.subTest(name):
                data = self.path(name)
                told = self.convert(0, recorded(name), "--data", data)
                self.assertIn("filters  15 with ", told)
                self.assertIn("strings  4 with ", told)
                self.check_data(data, later=[b"after", b"rewrite"])

    def test_filter_files(self):
        files = self.path("files")
        told = self.convert(0, recorded("rdb.rdb"), "--files", files)
        self.assertIn("skipped  4 of type string", told)
        self.assertEqual(len(os.listdir(files)), len(expectations()))
        daemon = self.start("--import-dir", files, directory=self.path("empty"))
        with Client.of(daemon) as client:
            for about in expectations():
                name = "".join(c if c.isalnum() and c.isascii() or c in "-_." else
                               "".join("%%%02x" % b for b in c.encode()) for c in about["key"])
                key = "%d/%s" % (about["db"], about["key"])
                self.assertEqual(client.call("BF.IMPORT", key, "%d-%s.sepal" % (about["db"], name)), b"OK")
                self.check_filter(client, about, key)

    def test_commands_behind_an_rdb_file(self):
        """An append-only file of Redis before version 7, with all that changes keys."""
        with open(recorded("rdb.rdb"), "rb") as file:
            whole = file.read()
        whole += b"#TS:1700000000\r\n" + b"".join([
            command("SELECT", 0), command("RENAME", "one", "two"), command("DEL", "loose"),
            command("PEXPIREAT", "empty", 4102444800000), command("SET", "text", "x"),
            command("RPUSH", "list", "x"),
            command("MULTI"), command("BF.RESERVE", "new", "0.001", 500), command("BF.MADD", "new", "a", "b"),
            command("EXEC"), command("BF.INSERT", "other", "CAPACITY", 10, "ITEMS", "c"),
            command("SELECT", 99), command("BF.ADD", "nowhere", "x"),
            command("SELECT", 1), command("FLUSHDB"),
            command("MULTI"), command("BF.ADD", "never", "x"), b"*3\r\n$6\r\nBF.A"])
        file_name = self.path("appendonly.aof")
        with open(file_name, "wb") as file:
            file.write(whole)
        told = self.convert(3, file_name, "--data", self.path("data"))
        self.assertIn("LEFT OUT 1 commands for databases that sepald does not have", told)
        self.assertIn("skipped  1 commands RPUSH", told)
        self.assertIn("strings  5 with ", told)
        self.assertIn("the last 12 bytes", told)
        self.assertIn("the last 1 commands: a transaction that does not end", told)
        with Client.of(self.start(directory=self.path("data"))) as client:
            self.assertEqual(client.call("EXISTS", "one", "loose", "never", "nowhere"), 0)
            self.assertEqual(client.call("BF.EXISTS", "two", "one/0"), 1)
            self.assertEqual(client.call("GET", "text"), b"x")
            self.assertEqual(client.call("PEXPIRETIME", "empty"), 4102444800000)
            self.assertEqual(client.call("BF.MEXISTS", "new", "a", "b"), [1, 1])
            self.assertEqual(client.call("BF.INFO", "new", "CAPACITY"), [500])
            self.assertEqual(client.call("BF.EXISTS", "other", "c"), 1)
            client.call("SELECT", 1)
            self.assertEqual(client.call("DBSIZE"), 0)

    def test_strings_that_commands_change(self):
        """The commands that Redis writes for strings. A deadline that is past now may have been changed in time."""
        past, future = 1_000_000_000_000, 4_102_444_800_000
        bits = "bits"
        written = [
            ("SELECT", 0), ("SET", "kept", "value", "PXAT", future),
            ("SET", "persisted", "a", "PXAT", past), ("APPEND", "persisted", "b"), ("PERSIST", "persisted"),
            ("SET", "past", "a", "PXAT", past), ("APPEND", "past", "b"),
            ("SET", "later", "a", "PXAT", past), ("PEXPIREAT", "later", future),
            ("SETNX", "once", "1"), ("MSET", "m1", "x", "m2", b"\xff\x00"), ("MSETNX", "m3", "y"), ("INCR", "counter"),
            ("INCRBY", "counter", 41), ("DECRBY", "counter", 2), ("SETRANGE", "range", 5, "abc"), ("SETBIT", bits, 100, 1),
            ("SETBIT", bits, 4_000_000, 1), ("SETBIT", bits, 100, 0), ("SETBIT", bits, 7, 1), ("SET", "and", b"\xf0"),
            ("SET", "with", b"\x3c"), ("BITOP", "XOR", "and", "and", "with"),
            ("BITFIELD", "field", "SET", "u8", "#1", 200, "INCRBY", "i16", 16, -3), ("SET", "deleted", "x"), ("DEL", "deleted"),
            ("COPY", "kept", "copy"), ("SET", "float", "10.5", "KEEPTTL"), ("BF.ADD", "filter", "x"), ("SET", "filter", "text"),
        ]
        name = self.path("strings.aof")
        with open(name, "wb") as file:
            file.write(b"".join(command(*words) for words in written))
        told = self.convert(0, name, "--data", self.path("data"))
        self.assertIn("filters  0 with ", told)
        self.assertIn("strings  16 with ", told)
        self.assertIn("skipped  1 past their deadline", told)
        self.assertNotIn("answered an error", told)
        with Client.of(self.start(directory=self.path("data"))) as client:
            values = {"kept": b"value", "persisted": b"ab", "later": b"a", "once": b"1", "m1": b"x", "m2": b"\xff\x00", "m3": b"y",
                      "counter": b"40", "range": b"\0\0\0\0\0abc", "and": b"\xcc", "with": b"\x3c", "copy": b"value",
                      "float": b"10.5", "filter": b"text", "field": b"\0\xc8\xff\xfd"}
            for key, value in values.items():
                self.assertEqual(client.call("GET", key), value, key)
            self.assertEqual(client.call("DBSIZE"), 16)
            self.assertEqual(client.call("STRLEN", bits), 500_001)
            self.assertEqual([client.call("GETBIT", bits, at) for at in (7, 100, 4_000_000)], [1, 0, 1])
            self.assertEqual(client.call("BITCOUNT", bits), 2)
            self.assertEqual([client.call("PEXPIRETIME", key) for key in ("kept", "later", "copy", "persisted")],
                             [future, future, future, -1])

    @unittest.skipUnless(redis_server.IS_THERE, redis_server.WHY_NOT)
    def test_append_only_file_of_a_redis_with_strings(self):
        """What Redis writes for each command is Redis's matter. One half of the commands becomes the RDB file at the beginning."""
        commands = [
            ("SET", "ex", "v", "EX", 1000), ("SETEX", "setex", 1000, "v"), ("PSETEX", "psetex", 1000000, "v"), ("SETNX", "nx", "v"),
            ("SET", "getset", "v"), ("GETSET", "getset", "w"), ("MSET", "m1", "1", "m2", b"\xff\0"), ("MSETNX", "m3", "3"),
            ("APPEND", "append", "one"), ("APPEND", "append", "two"), ("SETRANGE", "range", 10, "x"), ("INCR", "n"), ("INCRBY", "n", 40),
            ("DECR", "n"), ("INCRBYFLOAT", "float", "1.5"), ("SETBIT", "bits", 8_000_000, 1), ("SETBIT", "bits", 3, 1),
            ("SETBIT", "bits", 8_000_000, 0), ("BITOP", "OR", "or", "m1", "m2", "range"), ("BITOP", "NOT", "not", "m2"),
            ("BITFIELD", "field", "SET", "u16", 8, 500, "INCRBY", "i5", 100, 1), ("SET", "gone", "v"), ("GETDEL", "gone"),
            ("SET", "getex", "v"), ("GETEX", "getex", "EX", 1000), ("SET", "kept", "v", "EX", 1000), ("SET", "kept", "w", "KEEPTTL"),
            ("SET", "persist", "v", "EX", 1000), ("GETEX", "persist", "PERSIST"), ("SET", "short", "v", "PX", 1),
            ("COPY", "bits", "copy"), ("RENAME", "copy", "renamed"), ("EXPIRE", "nx", 1000), ("SET", "unlinked", "v"), ("UNLINK", "unlinked"),
            ("EVAL", "redis.call('SETBIT', KEYS[1], ARGV[1], 1) return redis.call('EXPIRE', KEYS[1], 1000)", 1, "script", 77),
            ("MULTI",), ("SET", "in transaction", "v"), ("INCR", "n"), ("EXEC",), ("SELECT", 2), ("SET", "two", "2"), ("SELECT", 0)]
        redis = redis_server.Redis(self.path("redis"), "--appendonly", "yes")
        self.addCleanup(redis.stop)
        with redis.client() as client:
            for request in commands:
                client.call(*request)
            client.call("BGREWRITEAOF")
            self.eventually("the file is not rewritten", lambda: b"aof_rewrite_in_progress:0" in client.call("INFO", "persistence") and
                            b"aof_rewrite_scheduled:0" in client.call("INFO", "persistence"))
            for request in commands:
                client.call(*request)
            self.eventually("a key stays past its deadline", lambda: client.call("EXISTS", "short") == 0)
            expected = strings_of(client)
        redis.stop()
        told = self.convert(0, self.path("redis/appendonlydir"), "--data", self.path("data"))
        self.assertNotIn("answered an error", told)
        self.assertIn("strings  %d with " % (len(expected) + 1), told)
        with Client.of(self.start(directory=self.path("data"))) as client:
            self.assertEqual(strings_of(client), expected)
            client.call("SELECT", 2)
            self.assertEqual(strings_of(client), {b"two": (b"2", -1)})

    def test_dry_run_writes_nothing(self):
        told = self.convert(0, recorded("rdb.rdb"), "--dry-run")
        self.assertIn("filters  15 with ", told)
        self.assertEqual(os.listdir(self.directory), [])

    def test_what_is_refused(self):
        with open(recorded("rdb.rdb"), "rb") as file:
            whole = bytearray(file.read())
        changed = self.path("changed.rdb")
        for what, at in (("not what Redis wrote", 3000), ("neither an RDB file nor", 0), ("version 7912", 5)):
            with self.subTest(what):
                wrong = bytearray(whole)
                wrong[at:at + 2] = b"79"
                with open(changed, "wb") as file:
                    file.write(wrong)
                told = self.convert(1, changed, "--data", self.path("data"))
                self.assertIn(what, told)
                self.assertFalse(os.path.exists(self.path("data")))
        with open(changed, "wb") as file:
            file.write(b"*1\r\n$4\r\nPING\r\nPING\r\n")
        self.assertIn("no command where one should begin", self.convert(1, changed, "--dry-run"))
        with open(changed, "wb") as file:
            file.write(whole[:len(whole) // 2])
        self.assertIn("ends too early", self.convert(1, changed, "--files", self.path("files")))
        self.assertFalse(os.path.exists(self.path("files")))
        self.convert(0, recorded("rdb.rdb"), "--data", self.path("data"))
        self.assertIn("has data already", self.convert(1, recorded("rdb.rdb"), "--data", self.path("data")))
        # Without CURRENT the journal may have all there is: that of a server that was killed before its first save.
        os.remove(os.path.join(self.path("data"), "CURRENT"))
        shutil.rmtree(os.path.join(self.path("data"), "generation-000000000001"))
        with open(os.path.join(self.path("data"), "journal-000000000001"), "wb") as file:
            file.write(bytes(4096))
        self.assertIn("has data already", self.convert(1, recorded("rdb.rdb"), "--data", self.path("data")))
        shutil.rmtree(self.path("data"))
        self.convert(0, recorded("rdb.rdb"), "--data", self.path("data"))
        self.assertIn("needs one of", self.convert(2, recorded("rdb.rdb")))
        self.assertIn("cannot open", self.convert(1, self.path("absent"), "--dry-run"))
        self.assertIn("no manifest", self.convert(1, self.path("data"), "--dry-run"))
        shutil.copytree(recorded("plain"), self.path("plain"))
        os.remove(os.path.join(self.path("plain"), "appendonly.aof.2.incr.aof"))
        self.assertIn("appendonly.aof.2.incr.aof", self.convert(1, self.path("plain"), "--dry-run"))


if __name__ == "__main__":
    unittest.main()
