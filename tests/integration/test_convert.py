"""`sepal convert` on files that Redis wrote: a sepald with the result answers as RedisBloom did."""

import json
import os
import shutil
import unittest

import redis_server
from client import Client
from daemon import DaemonTest, sepal
from redis_server import strings_of

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "redis_files")


# expected.json counts it among the keys of other types.
CUCKOO = {"db": 3, "key": "cuckoo", "item": "x",
          "debug": b"bktsize:2 buckets:512 items:1 deletes:0 filters:1 max_iterations:20 expansion:1"}


def recorded(name):
    return os.path.join(RECORDED, name)


def recorded_answers():
    with open(recorded("expected.json"), encoding="utf-8") as file:
        return [about for name, about in json.load(file).items() if name != "skipped"]


def expectations():
    return [about for about in recorded_answers() if "items" in about]


def string_expectations():
    return [about for about in recorded_answers() if about.get("type") == "string"]


class ConvertTest(DaemonTest):
    def path(self, name):
        return os.path.join(self.directory, name)

    def convert(self, status, *arguments):
        done = sepal("convert", *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def check_filter(self, client, about, key):
        """Whether a filter answers as the recorded one."""
        name = about["key"].encode()
        items = [b"%s/%d" % (name, i) for i in range(about["items"])]
        for at in range(0, len(items), 10000):
            self.assertNotIn(0, client.call("BF.MEXISTS", key, *items[at:at + 10000]))
        absent = client.call("BF.MEXISTS", key, *["absent/%d" % i for i in range(2000)])
        hits = [i for i, answer in enumerate(absent) if answer == 1]
        self.assertEqual(hits, about["absent_hits_of_2000"])
        info = client.call("BF.INFO", key)
        info = dict(zip(info[::2], info[1::2]))
        self.assertEqual(info[b"Number of items inserted"], about["info"]["Number of items inserted"])
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

    def check_cuckoo(self, client):
        """Whether the cuckoo filter answers, and is dumped, as the recorded one."""
        self.assertEqual(client.call("TYPE", CUCKOO["key"]), b"MBbloomCF")
        self.assertEqual(client.call("CF.MEXISTS", CUCKOO["key"], CUCKOO["item"], "absent"), [1, 0])
        self.assertEqual(client.call("CF.DEBUG", CUCKOO["key"]), CUCKOO["debug"])
        # The value behind its type and before the version and the checksum: as it stands in the file.
        value = client.call("DUMP", CUCKOO["key"])[1:-10]
        with open(recorded("rdb-plain.rdb"), "rb") as file:
            self.assertIn(b"\x07\x06cuckoo" + value, file.read())

    def check_data(self, directory):
        daemon = self.start(directory=directory)
        with Client.of(daemon) as client:
            sizes = {}
            for about in expectations():
                client.call("SELECT", about["db"])
                self.check_filter(client, about, about["key"])
                self.assertEqual(client.call("PEXPIRETIME", about["key"]), about.get("pexpireat", -1))
                sizes[about["db"]] = sizes.get(about["db"], 0) + 1
            client.call("SELECT", CUCKOO["db"])
            self.check_cuckoo(client)
            sizes[CUCKOO["db"]] = 1
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
                told = self.convert(3, recorded(name), "--data", data)
                self.assertIn("filters  16 with ", told)
                self.assertIn("strings  4 with ", told)
                for skipped in ("1 of type stream", "1 of type zset"):
                    self.assertIn("skipped  " + skipped, told)
                for kind, key in (("count-min sketches (CMSk-TYPE)", "cms"), ("top-k lists (TopK-TYPE)", "topk")):
                    self.assertIn("LEFT OUT 1 key: sepald has no %s\n" % kind, told)
                    self.assertIn("LEFT OUT 3:%s\n" % key, told)
                self.check_data(data)

    def append_only(self, name, **files):
        """A copy of a recorded append-only file, with other contents of some of its parts."""
        folder = shutil.copytree(recorded(name), self.path(name + "-copy"), dirs_exist_ok=True)
        for part, data in files.items():
            with open(os.path.join(folder, "appendonly.aof.2.%s.aof" % part), "wb") as file:
                file.write(data)
        return folder

    def test_an_append_only_file_without_changes_since_its_base(self):
        folder = self.append_only("preamble", incr=b"")
        self.assertIn("filters  16 with ", self.convert(3, folder, "--data", self.path("data")))
        self.check_data(self.path("data"))
        self.convert(3, os.path.join(folder, "appendonly.aof.manifest"), "--dry-run")

    def test_commands_are_refused_with_what_to_do(self):
        with open(recorded("rdb.rdb"), "rb") as rdb, open(recorded("plain/appendonly.aof.2.incr.aof"), "rb") as commands:
            whole = rdb.read() + commands.read()
        old = self.path("appendonly.aof")
        with open(old, "wb") as file:
            file.write(whole)
        for path, part in ((recorded("plain"), "base.aof"), (recorded("plain/appendonly.aof.2.base.aof"), ""),
                           (recorded("preamble/appendonly.aof.2.incr.aof"), ""), (old, "")):
            with self.subTest(path):
                told = self.convert(1, path, "--data", self.path("data"))
                self.assertIn(part + ": this is an append-only file", told)
                self.assertIn("BGSAVE", told)
                self.assertIn("sepal migrate", told)
                self.assertFalse(os.path.exists(self.path("data")))
        told = self.convert(1, recorded("preamble"), "--data", self.path("data"))
        self.assertIn("appendonly.aof.2.incr.aof: these are changes since the base", told)
        self.assertIn("BGREWRITEAOF", told)
        told = self.convert(1, recorded("preamble/appendonly.aof.2.base.rdb"), "--data", self.path("data"))
        self.assertIn("name the manifest", told)
        self.assertFalse(os.path.exists(self.path("data")))

    def test_filter_files(self):
        files = self.path("files")
        told = self.convert(3, recorded("rdb.rdb"), "--files", files)
        self.assertIn("skipped  4 of type string", told)
        self.assertIn("LEFT OUT 1 key: a filter file holds a Bloom filter, and this is a cuckoo filter\n", told)
        self.assertIn("skipped  1 deadlines: a filter file has none", told)
        self.assertEqual(len(os.listdir(files)), len(expectations()))
        self.assertIn("is there already; name another folder", self.convert(1, recorded("rdb-plain.rdb"), "--files", files))
        daemon = self.start("--import-dir", files, directory=self.path("empty"))
        with Client.of(daemon) as client:
            for about in expectations():
                name = "".join(c if c.isalnum() and c.isascii() or c in "-_." else
                               "".join("%%%02x" % b for b in c.encode()) for c in about["key"])
                key = "%d/%s" % (about["db"], about["key"])
                self.assertEqual(client.call("BF.IMPORT", key, "%d-%s.sepal" % (about["db"], name)), b"OK")
                self.check_filter(client, about, key)

    @unittest.skipUnless(redis_server.IS_THERE, redis_server.WHY_NOT)
    def test_files_of_a_redis_with_strings(self):
        """Redis wrote an RDB file, and an append-only file that it has just rewritten."""
        redis = redis_server.Redis(self.path("redis"), "--appendonly", "yes")
        self.addCleanup(redis.stop)
        with redis.client() as client:
            for request in (("SET", "ex", "v", "EX", 1000), ("MSET", "m1", "1", "m2", b"\xff\0"), ("INCRBY", "n", 40),
                            ("SETBIT", "bits", 8_000_000, 1), ("SETRANGE", "range", 10, "x"), ("SELECT", 2), ("SET", "two", "2"),
                            ("SELECT", 0)):
                client.call(*request)
            expected = strings_of(client)
            folder = self.path("redis/appendonlydir")
            self.assertIn("changes since the base", self.convert(1, folder, "--dry-run"))
            client.call("BGREWRITEAOF")
            self.eventually("the file is not rewritten", lambda: b"aof_rewrite_in_progress:0" in client.call("INFO", "persistence") and
                            b"aof_rewrite_scheduled:0" in client.call("INFO", "persistence"))
            client.call("SAVE")
        redis.stop()
        for at, source in enumerate((folder, self.path("redis/dump.rdb"))):
            data = self.path("data%d" % at)
            self.assertIn("strings  %d with " % (len(expected) + 1), self.convert(0, source, "--data", data))
            daemon = self.start(directory=data)
            with Client.of(daemon) as client:
                self.assertEqual(strings_of(client), expected)
                client.call("SELECT", 2)
                self.assertEqual(strings_of(client), {b"two": (b"2", -1)})
            daemon.stop()

    def test_dry_run_writes_nothing(self):
        told = self.convert(3, recorded("rdb.rdb"), "--dry-run")
        self.assertIn("filters  16 with ", told)
        self.assertEqual(os.listdir(self.directory), [])

    def test_what_is_refused(self):
        with open(recorded("rdb.rdb"), "rb") as file:
            whole = bytearray(file.read())
        changed = self.path("changed.rdb")
        for what, at in (("not what Redis wrote", 3000), ("no RDB file of Redis", 0), ("version 7912", 5)):
            with self.subTest(what):
                wrong = bytearray(whole)
                wrong[at:at + 2] = b"79"
                with open(changed, "wb") as file:
                    file.write(wrong)
                told = self.convert(1, changed, "--data", self.path("data"))
                self.assertIn(what, told)
                self.assertFalse(os.path.exists(self.path("data")))
        with open(changed, "wb") as file:
            pass
        self.assertIn("no RDB file of Redis", self.convert(1, changed, "--dry-run"))
        with open(changed, "wb") as file:
            file.write(whole[:len(whole) // 2])
        self.assertIn("ends too early", self.convert(1, changed, "--files", self.path("files")))
        self.assertFalse(os.path.exists(self.path("files")))
        self.convert(3, recorded("rdb.rdb"), "--data", self.path("data"))
        self.assertIn("has data already", self.convert(1, recorded("rdb.rdb"), "--data", self.path("data")))
        # Without CURRENT the journal may have all there is: that of a server that was killed before its first save.
        os.remove(os.path.join(self.path("data"), "CURRENT"))
        shutil.rmtree(os.path.join(self.path("data"), "generation-000000000001"))
        with open(os.path.join(self.path("data"), "journal-000000000001"), "wb") as file:
            file.write(bytes(4096))
        self.assertIn("has data already", self.convert(1, recorded("rdb.rdb"), "--data", self.path("data")))
        shutil.rmtree(self.path("data"))
        self.convert(3, recorded("rdb.rdb"), "--data", self.path("data"))
        self.assertIn("needs one of", self.convert(2, recorded("rdb.rdb")))
        self.assertIn("cannot open", self.convert(1, self.path("absent"), "--dry-run"))
        self.assertIn("no manifest", self.convert(1, self.path("data"), "--dry-run"))
        os.remove(os.path.join(self.append_only("preamble"), "appendonly.aof.2.incr.aof"))
        self.assertIn("appendonly.aof.2.incr.aof", self.convert(1, self.path("preamble-copy"), "--dry-run"))
        # A file that is there may be the filter of another Redis, or the input.
        os.mkdir(self.path("files"))
        input_name = os.path.join(self.path("files"), "0-one.sepal")
        with open(input_name, "wb") as file:
            file.write(whole)
        self.assertIn("0-one.sepal is there already; name another folder", self.convert(1, input_name, "--files", self.path("files")))
        self.assertEqual(os.listdir(self.path("files")), ["0-one.sepal"])
        with open(input_name, "rb") as file:
            self.assertEqual(file.read(), whole)
