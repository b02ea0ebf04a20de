"""`sepal convert` on files that Redis wrote: a sepald with the result answers as RedisBloom did."""

import json
import os
import shutil
import subprocess
import unittest

from client import Client
from daemon import DaemonTest

SEPAL = os.environ["SEPAL"]
RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "redis_files")


def sepal(*arguments):
    return subprocess.run([SEPAL, *arguments], capture_output=True, text=True, timeout=120)


def recorded(name):
    return os.path.join(RECORDED, name)


def expectations():
    with open(recorded("expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    return [about for name, about in expected.items() if name != "skipped" and "items" in about]


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
                for skipped in ("4 of type string", "1 of type stream", "1 of type module TopK-TYPE", "1 of type zset"):
                    self.assertIn("skipped  " + skipped, told)
                self.check_data(data)

    def test_append_only_files(self):
        for name in ("plain", "preamble"):
            with self.subTest(name):
                data = self.path(name)
                told = self.convert(0, recorded(name), "--data", data)
                self.assertIn("filters  15 with ", told)
                self.check_data(data, later=[b"after", b"rewrite"])

    def test_filter_files(self):
        files = self.path("files")
        self.convert(0, recorded("rdb.rdb"), "--files", files)
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
        def command(*words):
            return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in
                                                      (str(w).encode() for w in words))

        with open(recorded("rdb.rdb"), "rb") as file:
            whole = file.read()
        whole += b"#TS:1700000000\r\n" + b"".join([
            command("SELECT", 0), command("RENAME", "one", "two"), command("DEL", "loose"),
            command("PEXPIREAT", "empty", 4102444800000), command("SET", "text", "x"),
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
        self.assertIn("skipped  1 commands SET", told)
        self.assertIn("the last 12 bytes", told)
        self.assertIn("the last 1 commands: a transaction that does not end", told)
        with Client.of(self.start(directory=self.path("data"))) as client:
            self.assertEqual(client.call("EXISTS", "one", "loose", "never", "nowhere"), 0)
            self.assertEqual(client.call("BF.EXISTS", "two", "one/0"), 1)
            self.assertEqual(client.call("PEXPIRETIME", "empty"), 4102444800000)
            self.assertEqual(client.call("BF.MEXISTS", "new", "a", "b"), [1, 1])
            self.assertEqual(client.call("BF.INFO", "new", "CAPACITY"), [500])
            self.assertEqual(client.call("BF.EXISTS", "other", "c"), 1)
            client.call("SELECT", 1)
            self.assertEqual(client.call("DBSIZE"), 0)

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
        self.assertIn("needs one of", self.convert(2, recorded("rdb.rdb")))
        self.assertIn("cannot open", self.convert(1, self.path("absent"), "--dry-run"))
        self.assertIn("no manifest", self.convert(1, self.path("data"), "--dry-run"))
        shutil.copytree(recorded("plain"), self.path("plain"))
        os.remove(os.path.join(self.path("plain"), "appendonly.aof.2.incr.aof"))
        self.assertIn("appendonly.aof.2.incr.aof", self.convert(1, self.path("plain"), "--dry-run"))


if __name__ == "__main__":
    unittest.main()
