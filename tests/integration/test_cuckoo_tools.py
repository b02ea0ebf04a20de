"""COPY, DUMP, deadlines, saves, backup, verify, inspect and salvage with filters that delete, of both kinds."""

import glob
import os
import shutil
import struct
import tempfile
import threading

from client import Client, Refused
from daemon import EXACT_CUCKOO_RATE, SANITIZED, SMALL_FILES, DaemonTest, sepal, sized

OWN, THEIRS = "own", "theirs"
# RedisBloom's: empty, with room for 1,024 items, and it grows.
HEADER = struct.pack("<4Q3H", 0, 512, 0, 1, 2, 20, 1)
ITEMS = 300
ROUNDS = 1 if SANITIZED else sized(1, 3)


def make(client, key, kind):
    if kind == OWN:
        client.call("CF.RESERVE", key, 1000, "ERROR", EXACT_CUCKOO_RATE)
    else:
        client.call("CF.LOADCHUNK", key, 1, HEADER)


def fill(client, key, first=0, last=ITEMS):
    """Items, of which one has many copies, and one is gone again."""
    client.call("CF.INSERT", key, "ITEMS", *range(first, last), *[first] * 5, "gone")
    client.call("CF.DEL", key, "gone")


def pieces(client, key):
    """All that CF.SCANDUMP tells."""
    told, iterator = [], 0
    while True:
        iterator, piece = client.call("CF.SCANDUMP", key, iterator)
        if iterator == 0:
            return told
        told.append((iterator, piece))


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


class KeysTest(DaemonTest):
    def both(self, *settings):
        """A server with a filter `k` of each kind, one after the other."""
        for kind in (OWN, THEIRS):
            directory = os.path.join(self.directory, kind)
            with self.subTest(kind):
                daemon = self.start(*settings, directory=directory)
                with Client.of(daemon) as client:
                    make(client, "k", kind)
                    fill(client, "k")
                    yield daemon, client

    def test_a_copy_has_what_the_filter_had_and_goes_its_own_way(self):
        for _, client in self.both("--journal", "always"):
            told, debug = pieces(client, "k"), client.call("CF.DEBUG", "k")
            client.call("BF.ADD", "other", "a")
            self.assertEqual(client.call("COPY", "k", "other"), 0)
            self.assertEqual(client.call("COPY", "k", "other", "REPLACE"), 1)
            self.assertEqual(client.call("COPY", "k", "k", "DB", 3), 1)
            client.call("RESTORE", "restored", 0, client.call("DUMP", "k"))
            client.call("RESTORE", "restored", 60_000, client.call("DUMP", "k"), "REPLACE")
            client.call("RENAME", "other", "renamed")
            self.assertEqual(client.call("MOVE", "renamed", 5), 1)
            client.call("CF.DEL", "k", 1)
            client.call("CF.ADD", "k", "new")
            for database, key in ((0, "restored"), (3, "k"), (5, "renamed")):
                client.call("SELECT", database)
                self.assertEqual(pieces(client, key), told)
                self.assertEqual(client.call("CF.DEBUG", key), debug)
                self.assertEqual(client.call("CF.COUNT", key, 0), 6)
                self.assertEqual(client.call("TYPE", key), b"MBbloomCF")
                self.assertEqual(client.call("SCAN", 0, "TYPE", "MBbloomCF", "COUNT", 1000)[1].count(key.encode()), 1)
                self.assertEqual(client.call("CF.MDEL", key, *range(ITEMS)), [1] * ITEMS)
            client.call("SELECT", 0)
            self.assertEqual(client.call("CF.MEXISTS", "k", *range(2, ITEMS), "new"), [1] * (ITEMS - 1))

    def test_a_damaged_dump_is_refused(self):
        for _, client in self.both():
            payload = client.call("DUMP", "k")
            for offset in range(0, len(payload), max(1, len(payload) // 40)):
                broken = bytearray(payload)
                broken[offset] ^= 1
                with self.assertRaises(Refused):
                    client.call("RESTORE", "x", 0, bytes(broken))
            for length in range(0, len(payload), max(1, len(payload) // 40)):
                with self.assertRaises(Refused):
                    client.call("RESTORE", "x", 0, payload[:length])
            self.assertEqual(client.call("EXISTS", "x"), 0)

    def test_deadlines_survive_saves_kills_and_stops(self):
        for daemon, client in self.both("--journal", "always"):
            directory = daemon.directory
            client.call("COPY", "k", "saved")
            client.call("EXPIREAT", "saved", 33_177_117_420)
            client.save()
            client.call("COPY", "k", "recorded")
            client.call("EXPIREAT", "recorded", 33_177_117_421)
            client.call("COPY", "k", "kept")
            client.call("PEXPIRE", "kept", 100_000_000)
            client.call("PERSIST", "kept")
            client.call("COPY", "k", "short")
            client.call("PEXPIRE", "short", 1)
            self.eventually("the key expires", lambda: client.call("CF.COUNT", "short", 0) == 0)
            # It is made anew under its key.
            self.assertEqual(client.call("CF.ADD", "short", "a"), 1)
            told = pieces(client, "k")
            daemon.kill()
            for end in ("kill", "stop"):
                daemon = self.start("--journal", "always", directory=directory)
                with Client.of(daemon) as again:
                    self.assertEqual([again.call("EXPIRETIME", key) for key in ("saved", "recorded", "kept", "short")],
                                     [33_177_117_420, 33_177_117_421, -1, -1])
                    for key in ("saved", "recorded", "kept", "k"):
                        self.assertEqual(pieces(again, key), told)
                    self.assertEqual(again.call("CF.COUNT", "short", 0), 0)
                    self.assertEqual(again.call("CF.COUNT", "short", "a"), 1)
                daemon.kill() if end == "kill" else self.assertEqual(daemon.stop(), 0)

    def test_a_flush_and_a_swap_of_databases(self):
        for daemon, client in self.both("--journal", "always"):
            told = pieces(client, "k")
            client.call("COPY", "k", "k", "DB", 1)
            client.call("SWAPDB", 0, 2)
            client.call("SELECT", 1)
            client.call("FLUSHDB")
            daemon.kill()
            with Client.of(self.start("--journal", "always", directory=daemon.directory)) as again:
                self.assertEqual(again.call("DBSIZE"), 0)
                again.call("SELECT", 1)
                self.assertEqual(again.call("DBSIZE"), 0)
                again.call("SELECT", 2)
                self.assertEqual(pieces(again, "k"), told)


class Changer(threading.Thread):
    """Adds and removes in rounds. `done` counts those that were answered: after round n, item n is there, and item n - 10 is gone."""

    def __init__(self, daemon, key):
        super().__init__(daemon=True)
        self.client = Client.of(daemon)
        self.key = key
        self.done = 0
        self.ended = threading.Event()
        self.wrong = []

    def run(self):
        while not self.ended.is_set():
            number = self.done
            requests = [("CF.ADD", self.key, number)]
            if number >= 10:
                requests.append(("CF.DEL", self.key, number - 10))
            answers = self.client.pipeline(requests)
            if answers != [1] * len(requests):
                self.wrong.append(answers)
            self.done = number + 1

    def end(self):
        self.ended.set()
        self.join()
        self.client.close()


class ToolsTest(DaemonTest):
    def leave_directory(self):
        """A generation with `own`, `theirs` and `bloom`; the journal has further changes, and filters that were made behind it."""
        daemon = self.start(*SMALL_FILES, "--journal", "always")
        with Client.of(daemon) as client:
            for kind in (OWN, THEIRS):
                make(client, kind, kind)
                fill(client, kind)
            client.call("BF.ADD", "bloom", "a")
            client.save()
            for kind in (OWN, THEIRS):
                client.call("CF.INSERT", kind, "ITEMS", *range(ITEMS, ITEMS + 20))
                client.call("CF.MDEL", kind, *range(7))
                make(client, kind + ":recorded", kind)
                fill(client, kind + ":recorded")
                client.call("CF.COMPACT", kind + ":recorded")
            self.told = {key: pieces(client, key) for key in (OWN, THEIRS, OWN + ":recorded", THEIRS + ":recorded")}
        daemon.kill()
        return sorted(glob.glob(os.path.join(self.directory, "journal-*")))

    def check(self, directory, keys, **options):
        daemon = self.start(directory=directory, **options)
        with Client.of(daemon) as client:
            self.assertEqual(set(client.call("KEYS", "*")), {key.encode() for key in keys} | {b"bloom"})
            for key in keys:
                self.assertEqual(pieces(client, key), self.told[key])
        self.assertEqual(daemon.stop(), 0)

    def salvage(self, status):
        into = tempfile.mkdtemp(prefix="sepal-test-")
        self.addCleanup(shutil.rmtree, into)
        salvaged = sepal("salvage", self.directory, "--into", into)
        self.assertEqual(salvaged.returncode, status, salvaged.stdout + salvaged.stderr)
        return into, salvaged.stdout

    def test_verify_and_inspect_tell_of_both_kinds(self):
        self.leave_directory()
        verified = sepal("verify", self.directory)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertRegex(verified.stdout, r"fine +\S+ has 1 filters, 0 strings, 1 cuckoo filters and 1 RedisBloom cuckoo filters in \d+ bytes")
        told = "".join(sepal("inspect", path).stdout for path in sorted(
            glob.glob(os.path.join(self.directory, "journal-*")) + glob.glob(os.path.join(self.directory, "generation-*", "*"))))
        for line in (r'cuckoo filter .*key="own" items=\d+', r'RedisBloom cuckoo filter .*key="theirs" items=\d+',
                     r'created .*key="own:recorded"', r'created .*key="theirs:recorded"', r'added .*key="theirs"', r'removed .*key="theirs"',
                     r'compacted .*key="own:recorded"', r'compacted .*key="theirs:recorded"'):
            self.assertRegex(told, line)
        self.check(self.directory, self.told)

    def test_salvage_of_a_whole_directory_has_everything(self):
        self.leave_directory()
        into, told = self.salvage(0)
        self.assertIn("saved  1 filters, 0 strings, 2 cuckoo filters and 2 RedisBloom cuckoo filters with", told)
        self.check(into, self.told)

    def test_a_damaged_filter_is_named_and_all_others_are_saved(self):
        self.leave_directory()
        [pack] = glob.glob(os.path.join(self.directory, "generation-*", "pack-0"))
        files = glob.glob(os.path.join(self.directory, "generation-*", "filter-*"))
        self.assertEqual(files, [])
        facts = sepal("inspect", pack).stdout
        for kind in (OWN, THEIRS):
            with self.subTest(kind):
                [offset] = [int(line.split("offset=")[1].split()[0]) for line in facts.splitlines() if 'key="%s"' % kind in line]
                flip(pack, offset + 150)
                verified = sepal("verify", self.directory)
                self.assertEqual(verified.returncode, 1)
                self.assertIn("DAMAGED", verified.stdout)
                self.assertIn("%s is damaged at offset" % pack, verified.stdout)
                refused = self.start(wait=False)
                self.assertEqual(refused.wait(), 1)
                self.assertIn("sepal salvage", refused.text())
                into, told = self.salvage(3)
                self.assertIn('(the filter database=0 key="%s")' % kind, told)
                # 20 added and 7 removed: an entry each, or a change for each of the two requests.
                lost = "27 items that the journal adds to" if kind == OWN else "2 changes that the journal makes to"
                self.assertIn('lost   %s the filter database=0 key="%s", which is lost' % (lost, kind), told)
                self.check(into, set(self.told) - {kind})
                flip(pack, offset + 150)
        self.check(self.directory, self.told)

    def test_a_backup_under_load_has_what_was_answered_before(self):
        for number in range(ROUNDS):
            data, backup, restored = (os.path.join(self.directory, "%s-%d" % (name, number)) for name in ("data", "backup", "restored"))
            daemon = self.start("--save-interval", "1s", directory=data)
            with Client.of(daemon) as client:
                for kind in (OWN, THEIRS):
                    make(client, kind, kind)
            changers = [Changer(daemon, kind) for kind in (OWN, THEIRS)]
            for changer in changers:
                changer.start()
            self.eventually("they change", lambda: min(each.done for each in changers) > 100)
            before = [each.done for each in changers]
            made = sepal("backup", "--from", "redis://127.0.0.1:%d" % daemon.port, backup)
            self.assertEqual(made.returncode, 0, made.stderr)
            after = [each.done for each in changers]
            for changer in changers:
                changer.end()
                self.assertEqual(changer.wrong, [])
            self.assertEqual(daemon.stop(), 0)
            done = sepal("restore", backup, "--dir", restored)
            self.assertEqual(done.returncode, 0, done.stderr)
            with Client.of(self.start(directory=restored)) as client:
                for changer, least, most in zip(changers, before, after):
                    items = client.call("CF.DEBUG", changer.key)
                    count = int(items.split(b"items:")[1].split()[0])
                    # A round adds one and then takes one, and a backup is one moment.
                    self.assertIn(count, (10, 11), items)
                    if changer.key == OWN:
                        there = client.call("CF.MEXISTS", OWN, *range(most + 1))
                        last = max(number for number, each in enumerate(there) if each)
                        self.assertGreaterEqual(last, least - 1)
                        self.assertEqual([number for number, each in enumerate(there) if each], list(range(last - count + 1, last + 1)))

    def test_a_save_keeps_the_file_of_a_large_filter_that_has_not_changed(self):
        daemon = self.start("--journal", "off")
        with Client.of(daemon) as client:
            # Each takes more than the 4 MiB from which on a filter has a file of its own.
            client.call("CF.RESERVE", OWN, 6_000_000)
            client.call("CF.LOADCHUNK", THEIRS, 1, struct.pack("<4Q3H", 0, 1 << 22, 0, 1, 2, 20, 1))
            for kind in (OWN, THEIRS):
                for first in range(0, 20_000, 2000):
                    client.call("CF.INSERT", kind, "ITEMS", *range(first, first + 2000))

            def files():
                client.save()
                return {os.stat(path).st_ino for path in glob.glob(os.path.join(daemon.directory, "generation-*", "filter-*"))}
            before = files()
            self.assertEqual(len(before), 2)
            self.assertEqual(files(), before)
            for change in (("CF.DEL", OWN, 1), ("CF.ADD", OWN, 1), ("CF.COMPACT", OWN), ("CF.DEL", THEIRS, 1), ("CF.ADD", THEIRS, 1), ("CF.COMPACT", THEIRS)):
                client.call(*change)
                now = files()
                self.assertEqual(len(now & before), 1, change)
                before = now
            # The file that is kept is that of the filter, not of its name.
            client.call("RENAME", OWN, "renamed")
            client.call("RENAME", THEIRS, OWN)
            told = {key: pieces(client, key) for key in ("renamed", OWN)}
            self.assertEqual(len(files()), 2)
        self.assertEqual(daemon.stop(), 0)
        with Client.of(self.start("--journal", "off", directory=daemon.directory)) as client:
            for key, expected in told.items():
                self.assertEqual(pieces(client, key), expected)
