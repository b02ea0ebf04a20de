"""Whole filters: COPY, DUMP and RESTORE, BF.IMPORT and BF.EXPORT of a real server."""

import os
import random
import subprocess
import sys
import threading
import time

from client import Client, Refused
from daemon import EXACT_RATE, DaemonTest

SEPAL = os.environ["SEPAL"]
BIG_CAPACITY = 2_000_000
ROUNDS = int(os.environ.get("SEPAL_WHOLE_ROUNDS", "5"))
TRIES_MAX = 20


def adopted_files(directory):
    """The names. A save removes such a file, so it may be there for some time after its key was removed."""
    return {name for name in os.listdir(directory) if name.startswith("adopted-")}


class WholeTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.imports = os.path.join(self.directory, "imports")
        os.mkdir(self.imports)
        self.data = os.path.join(self.directory, "data")

    def start_here(self, *arguments):
        return self.start("--threads", "2", "--import-dir", self.imports, *arguments, directory=self.data)

    def make_big(self, client, key, first=0, count=2000):
        client.call("BF.RESERVE", key, "0.001", BIG_CAPACITY)
        client.call("BF.MADD", key, *[f"item{i}" for i in range(first, first + count)])

    def assert_has(self, client, key, first=0, count=2000):
        self.assertEqual(client.call("BF.MEXISTS", key, *[f"item{i}" for i in range(first, first + count)]),
                         [1] * count)

    def build_file(self, name, first=0, count=2000, capacity=BIG_CAPACITY):
        items = "".join(f"item{i}\n" for i in range(first, first + count))
        subprocess.run([SEPAL, "build", "--error", "0.001", "--capacity", str(capacity), "-o",
                        os.path.join(self.imports, name)], input=items, text=True, check=True, capture_output=True)

    def refused(self, client, *words):
        with self.assertRaises(Refused) as caught:
            client.call(*words)
        return str(caught.exception)

    def test_an_import_with_more_layers_than_layers_max_names_this_limit(self):
        daemon = self.start_here("--layers-max", "3")
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "k", EXACT_RATE, 1, "EXPANSION", 1)
            client.call("BF.MADD", "k", "a", "b", "c")
            client.call("BF.EXPORT", "k", "three.sepal")
            self.assertEqual(client.call("BF.IMPORT", "again", "three.sepal"), b"OK")
        daemon.stop()
        self.data = os.path.join(self.directory, "other")
        with Client.of(self.start_here("--layers-max", "2")) as client:
            self.assertRegex(self.refused(client, "BF.IMPORT", "k", "three.sepal"), r"^ERR .* with more than 2 layers.*raise layers_max")

    def test_big_filters_are_copied_dumped_and_restored_and_outlive_a_kill(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            self.make_big(client, "a")
            self.assertEqual(client.call("PEXPIREAT", "a", 33177117420000), 1)
            self.assertEqual(client.call("COPY", "a", "b"), 1)
            self.assertEqual(client.call("COPY", "a", "b"), 0)
            self.assertEqual(client.call("COPY", "a", "b", "DB", "3", "REPLACE"), 1)
            payload = client.call("DUMP", "a")
            self.assertEqual(client.call("RESTORE", "c", 0, payload), b"OK")
            self.assertEqual(self.refused(client, "RESTORE", "c", 0, payload),
                             "BUSYKEY Target key name already exists.")
            self.assertEqual(client.call("RESTORE", "c", 500000, payload, "REPLACE"), b"OK")
            damaged = bytearray(payload)
            damaged[len(damaged) // 2] ^= 1
            self.assertEqual(self.refused(client, "RESTORE", "d", 0, bytes(damaged)),
                             "ERR DUMP payload version or checksum are wrong")
            client.call("BF.ADD", "b", "later")
        self.assertGreaterEqual(len(adopted_files(self.data)), 3)
        daemon.kill()
        daemon = self.start_here()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("DBSIZE"), 3)
            for key in ("a", "b", "c"):
                self.assert_has(client, key)
            self.assertEqual(client.call("BF.CARD", "b"), 2001)
            self.assertEqual(client.call("BF.EXISTS", "b", "later"), 1)
            self.assertEqual(client.call("PEXPIRETIME", "b"), 33177117420000)
            self.assertGreater(client.call("PTTL", "c"), 0)
            client.call("SELECT", 3)
            self.assert_has(client, "b")
            client.save()
        self.eventually("the adopted files stay", lambda: not adopted_files(self.data))
        daemon.stop()

    def test_without_a_journal_filters_come_without_files_and_a_save_has_them(self):
        daemon = self.start_here("--journal", "off")
        with Client.of(daemon) as client:
            self.make_big(client, "a")
            self.assertEqual(client.call("COPY", "a", "b"), 1)
            self.assertEqual(adopted_files(self.data), set())
        daemon.stop()
        daemon = self.start_here("--journal", "off")
        with Client.of(daemon) as client:
            self.assert_has(client, "b")

    def test_a_file_that_was_built_is_imported_in_one_instant_while_others_ask(self):
        self.build_file("all.sepal")
        daemon = self.start_here("--journal", "always")
        with Client.of(daemon) as client, Client.of(daemon) as asking:
            client.call("BF.ADD", "users", "item1")
            self.assertEqual(self.refused(client, "BF.IMPORT", "users", "all.sepal"), "ERR item exists")
            client.send(("BF.IMPORT", "users", "all.sepal", "REPLACE"))
            for _ in range(200):
                self.assertEqual(asking.call("BF.EXISTS", "users", "item1"), 1)
            self.assertEqual(client.receive(), b"OK")
            self.assert_has(client, "users")
            self.assertEqual(client.call("BF.CARD", "users"), 2000)
        daemon.kill()
        daemon = self.start_here()
        with Client.of(daemon) as client:
            self.assert_has(client, "users")

    def test_an_export_is_whole_and_comes_back(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            self.make_big(client, "a")
            self.assertEqual(client.call("BF.EXPORT", "a", "a.sepal"), b"OK")
            self.assertIn("is there already", self.refused(client, "BF.EXPORT", "a", "a.sepal"))
            self.assertEqual(client.call("BF.EXPORT", "a", "a.sepal", "REPLACE"), b"OK")
            self.assertEqual(self.refused(client, "BF.EXPORT", "none", "b.sepal"), "ERR not found")
            self.assertEqual(client.call("BF.IMPORT", "b", "a.sepal"), b"OK")
            self.assert_has(client, "b")
            self.assertEqual(client.call("BF.CARD", "b"), 2000)
        verified = subprocess.run([SEPAL, "verify", os.path.join(self.imports, "a.sepal")], capture_output=True)
        self.assertEqual(verified.returncode, 0)
        self.assertEqual(os.listdir(self.imports), ["a.sepal"])

    def test_a_bad_file_changes_nothing_and_says_why(self):
        self.build_file("good", count=10, capacity=100_000)
        path = os.path.join(self.imports, "good")
        with open(path, "rb") as file:
            whole = file.read()
        for name, contents in (("flipped", whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]),
                               ("short", whole[:-1]), ("long", whole + b"x"), ("other", b"SQLite format 3\0"),
                               ("empty", b"")):
            with open(os.path.join(self.imports, name), "wb") as file:
                file.write(contents)
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "users", "mine")
            for name in ("flipped", "short", "long", "other", "empty"):
                said = self.refused(client, "BF.IMPORT", "users", name, "REPLACE")
                self.assertTrue(said.startswith("ERR "), said)
                self.assertIn(name, said)
            self.assertIn("No such file", self.refused(client, "BF.IMPORT", "users", "none", "REPLACE"))
            self.assertEqual(client.call("BF.CARD", "users"), 1)
            self.assertEqual(client.info("sepal")["transfer_running"], "")
        self.assertEqual(adopted_files(self.data), set())

    def test_no_name_leaves_the_folder(self):
        self.build_file("good", count=10, capacity=1000)
        outside = os.path.join(self.directory, "outside")
        os.rename(os.path.join(self.imports, "good"), outside)
        os.symlink(outside, os.path.join(self.imports, "link"))
        os.symlink(self.directory, os.path.join(self.imports, "folder"))
        os.mkfifo(os.path.join(self.imports, "pipe"))
        daemon = self.start_here()
        slash = "ERR the file must be a name in import_dir, without '/'"
        dot = "ERR the name of the file must not begin with '.'"
        wrong = {"../outside": slash, outside: slash, "": "ERR the name of the file is empty", ".": dot, "..": dot,
                 ".hidden": dot, "folder/outside": slash, "a\0b": "ERR the name of the file has control characters",
                 "a\nb": "ERR the name of the file has control characters",
                 "x" * 256: "ERR the name of the file is longer than 255 bytes"}
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", "a")
            for name, refusal in wrong.items():
                self.assertEqual(self.refused(client, "BF.IMPORT", "users", name), refusal)
                self.assertEqual(self.refused(client, "BF.EXPORT", "k", name), refusal)
            longest = "x" * 255
            self.assertEqual(client.call("BF.EXPORT", "k", longest), b"OK")
            self.assertEqual(client.call("BF.IMPORT", "long", longest), b"OK")
            self.assertIn("symbolic link", self.refused(client, "BF.IMPORT", "users", "link"))
            self.assertIn("not a regular file", self.refused(client, "BF.IMPORT", "users", "pipe"))
            self.assertIn("ERR ", self.refused(client, "BF.IMPORT", "users", "folder"))
            # The target of the link is not written.
            before = os.stat(outside).st_mtime_ns
            self.assertEqual(client.call("BF.EXPORT", "k", "link", "REPLACE"), b"OK")
            self.assertFalse(os.path.islink(os.path.join(self.imports, "link")))
            self.assertEqual(os.stat(outside).st_mtime_ns, before)
            self.assertEqual(client.call("EXISTS", "users"), 0)

    def test_without_an_import_dir_there_are_no_imports(self):
        daemon = self.start(directory=self.data)
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", "a")
            for command in ("BF.IMPORT", "BF.EXPORT"):
                self.assertEqual(self.refused(client, command, "k", "f"), "ERR the server runs without import_dir; start it with --import-dir")

    def test_a_client_that_closes_its_connection_gives_up_its_import(self):
        self.build_file("large", capacity=150_000_000)
        daemon = self.start_here()
        with Client.of(daemon) as watching:
            # On a busy machine an import may end before the test has seen it, or before its client has gone.
            for _ in range(TRIES_MAX):
                before = adopted_files(self.data)
                with Client.of(daemon) as client:
                    client.send(("BF.IMPORT", "users", "large"))
                    seen = self.sees_an_import(watching)
                self.eventually("the import goes on", lambda: watching.info("sepal")["transfer_running"] == "")
                if seen and watching.call("EXISTS", "users") == 0:
                    return self.assertLessEqual(adopted_files(self.data), before)
                self.eventually("the import is not there", lambda: watching.call("DEL", "users") == 1)
        self.fail("every import was at its end before its client had gone")

    def sees_an_import(self, watching):
        """Waits until the server reads the file of an import, or has imported it. Whether it still runs."""
        runs = []

        def look():
            info = watching.info("sepal")
            # The size is known a moment after the start of the import, when its file is open.
            runs[:] = [info["transfer_running"] == "import" and int(info["transfer_size_bytes"]) > 0]
            return runs[0] or watching.call("EXISTS", "users")

        self.eventually("no import runs", look)
        return runs[0]

    def test_a_kill_at_any_moment_of_an_import_leaves_the_old_filter_or_the_new_one(self):
        self.build_file("new", first=0, count=2000)
        seen = set()
        for round_number in range(ROUNDS):
            daemon = self.start_here("--journal", random.choice(["always", "everysec"]))
            with Client.of(daemon) as client:
                client.call("DEL", "users")
                client.call("BF.MADD", "users", "item0", "old")
                answered = threading.Event()

                def work():
                    try:
                        client.call("BF.IMPORT", "users", "new", "REPLACE")
                        answered.set()
                    except (ConnectionError, OSError):
                        pass

                thread = threading.Thread(target=work)
                thread.start()
                time.sleep(random.uniform(0, 0.03))
                daemon.kill()
                thread.join()
            daemon = self.start_here()
            with Client.of(daemon) as client:
                count = client.call("BF.CARD", "users")
                self.assertIn(count, (2, 2000))
                if answered.is_set():
                    self.assertEqual(count, 2000)
                if count == 2000:
                    self.assert_has(client, "users")
                else:
                    self.assertEqual(client.call("BF.MEXISTS", "users", "item0", "old"), [1, 1])
                seen.add(count)
                self.assertLessEqual(len(adopted_files(self.data)), 1 + round_number)
            daemon.stop()
        print("seen:", seen, file=sys.stderr)

    def test_an_export_overwrites_no_file_but_its_own(self):
        stranger = os.path.join(self.imports, "new.tmp")
        with open(stranger, "w") as file:
            file.write("of somebody else")
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", "a")
            self.assertEqual(client.call("BF.EXPORT", "k", "new"), b"OK")
            self.assertEqual(client.call("BF.EXPORT", "k", "new", "REPLACE"), b"OK")
        with open(stranger) as file:
            self.assertEqual(file.read(), "of somebody else")
        self.assertEqual(sorted(os.listdir(self.imports)), ["new", "new.tmp"])

    def test_a_start_removes_old_remains_of_unfinished_exports(self):
        def leave(name, hours):
            path = os.path.join(self.imports, name)
            with open(path, "w"):
                pass
            changed = time.time() - 3600 * hours
            os.utime(path, (changed, changed))

        leave(".sepal-0123456789abcdef.tmp", hours=2)
        leave(".sepal-0000000000000000.tmp", hours=0)
        leave(".sepal-mine.tmp", hours=2)
        leave("other.tmp", hours=2)
        daemon = self.start_here()
        self.assertIn(".sepal-0123456789abcdef.tmp", daemon.wait_for_line("remains removed: "))
        self.assertEqual(sorted(os.listdir(self.imports)),
                         [".sepal-0000000000000000.tmp", ".sepal-mine.tmp", "other.tmp"])

    def test_an_import_dir_that_touches_the_data_directory_is_refused_at_the_start(self):
        holder = os.path.join(self.directory, "holder")
        data = os.path.join(holder, "data")
        for folder in (os.path.join(data, "inside", "deeper"), os.path.join(data, "new"), data + "2"):
            os.makedirs(folder)
        link = os.path.join(self.directory, "link")
        os.symlink(data, link)
        for imports in (data, data + "/", os.path.join(data, "inside", "deeper"), os.path.join(data, "new"), holder,
                        link, os.path.join(link, "new"), os.path.join(self.imports, "..", "holder", "data")):
            with self.subTest(imports=imports):
                daemon = self.start("--import-dir", imports, directory=data, wait=False)
                self.assertNotEqual(daemon.wait(), 0)
                self.assertIn("import_dir must not be the data directory", daemon.text())
        for imports in (self.imports, data + "2", self.directory):
            self.assertEqual(self.start("--import-dir", imports, directory=data).stop(), 0)

    def dump_of(self, client, key):
        pieces = []
        iterator = 0
        while True:
            iterator, piece = client.call("BF.SCANDUMP", key, iterator)
            if iterator == 0:
                return pieces
            pieces.append((iterator, piece))

    def test_an_upload_whose_adoption_failed_does_not_count_as_loaded(self):
        lost = "ERR the upload has not got under its key: wait for it, or begin again with the header"
        daemon = self.start_here()
        with Client.of(daemon) as client:
            self.make_big(client, "a")
            pieces = self.dump_of(client, "a")
            client.call("BF.ADD", "k", "old")
            # The disk fails where the server writes the filter aside.
            obstacle = os.path.join(self.data, "adopted-000000000001")
            os.makedirs(os.path.join(obstacle, "folder"))
            for iterator, piece in pieces[:-1]:
                self.assertEqual(client.call("BF.LOADCHUNK", "k", iterator, piece), b"OK")
            self.assertEqual(self.refused(client, "BF.LOADCHUNK", "k", *pieces[-1]),
                             "MISCONF Errors writing to the journal: cannot write into %s: Is a directory" % self.data)
            os.rmdir(os.path.join(obstacle, "folder"))
            os.rmdir(obstacle)
            for iterator, piece in pieces[1:]:
                self.assertEqual(self.refused(client, "BF.LOADCHUNK", "k", iterator, piece), lost)
            self.assertEqual(client.call("BF.CARD", "k"), 1)
            self.assertEqual(client.info("sepal")["uploads_completed"], "0")
            for iterator, piece in pieces + pieces[-1:]:
                self.assertEqual(client.call("BF.LOADCHUNK", "k", iterator, piece), b"OK")
            self.assert_has(client, "k")
            self.assertEqual(client.info("sepal")["uploads_completed"], "1")

    def test_a_copy_does_not_outlive_a_flush(self):
        daemon = self.start_here()
        with Client.of(daemon) as client, Client.of(daemon) as other:
            answers = []
            # On a busy machine a copy may end before the flush.
            while len(answers) < ROUNDS or 0 not in answers and len(answers) < TRIES_MAX:
                before = adopted_files(self.data)
                client.call("BF.RESERVE", "a", "0.001", 20 * BIG_CAPACITY)
                client.send(("COPY", "a", "b"))
                self.eventually("no copy begins", lambda: other.info("sepal")["transfer_running"] == "copy" or other.call("DBSIZE") == 2)
                self.assertEqual(other.call("FLUSHALL"), b"OK")
                answers.append(client.receive())
                self.assertEqual(client.call("DBSIZE"), 0)
                if answers[-1] == 0:
                    self.assertLessEqual(adopted_files(self.data), before)
            self.assertIn(0, answers)
