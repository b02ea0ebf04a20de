"""`sepal verify`, `inspect` and `salvage` on directories of a real sepald, whole and damaged."""

import glob
import json
import os
import re
import stat
import subprocess
import tempfile

from daemon import SMALL_FILES, DaemonTest, encode, sepal



def ask(daemon, *requests):
    """One reply line for each request."""
    with daemon.connect() as connection:
        replies = connection.makefile("rb")
        connection.sendall(b"".join(encode(*request) for request in requests))
        return [replies.readline().strip() for _ in requests]


def contents(directory):
    files = {}
    for root, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                files[os.path.join(root, name)] = file.read()
    return files


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


class ExamineTest(DaemonTest):
    def leave_directory(self):
        """Makes a generation with 100 items in `saved`. The journal has 50 more items of `saved`, and `recorded`."""
        daemon = self.start(*SMALL_FILES)
        adds = [("BF.ADD", "saved", "item %d" % i) for i in range(150)]
        ask(daemon, ("BF.RESERVE", "saved", "0.000001", "1000"), *adds[:100], ("SAVE",))
        ask(daemon, *adds[100:], ("BF.RESERVE", "recorded", "0.01", "10"), ("BF.ADD", "recorded", "one"))
        daemon.kill()
        return sorted(glob.glob(os.path.join(self.directory, "journal-*")))

    def verify(self, status):
        before = contents(self.directory)
        verified = sepal("verify", self.directory)
        self.assertEqual(verified.returncode, status, verified.stdout + verified.stderr)
        self.assertEqual(contents(self.directory), before)
        return verified.stdout

    def test_what_a_killed_daemon_leaves_is_fine_and_what_is_damaged_is_named(self):
        segments = self.leave_directory()
        text = self.verify(0)
        self.assertRegex(text, r"fine +\S*generation-0{11}1 has 1 filters")
        self.assertRegex(text, r"with 51 items")
        [pack] = glob.glob(os.path.join(self.directory, "generation-*", "pack-0"))
        flip(pack, os.path.getsize(pack) - 20)
        self.assertRegex(self.verify(1), r"DAMAGED +%s is damaged at offset \d+: " % re.escape(pack))
        refused = self.start(wait=False)
        self.assertEqual(refused.wait(), 1)
        self.assertIn(pack + " is damaged at offset", refused.text())
        self.assertIn("sepal salvage", refused.text())
        self.assertTrue(segments)

    def test_filters_and_strings_are_counted_apart(self):
        daemon = self.start(*SMALL_FILES)
        ask(daemon, ("BF.ADD", "filter", "item"), ("SET", "a", "text"), ("SETBIT", "b", "7", "1"), ("SAVE",))
        daemon.kill()
        self.assertRegex(self.verify(0), r"fine +\S+ has 1 filters and 2 strings in \d+ bytes")
        with tempfile.TemporaryDirectory(prefix="sepal-test-") as into:
            salvaged = sepal("salvage", self.directory, "--into", into)
            self.assertEqual(salvaged.returncode, 0, salvaged.stderr)
            self.assertRegex(salvaged.stdout, r"^saved  1 filters and 2 strings with 1 items, 0 changes of the journal among them, into ")
        [pack] = glob.glob(os.path.join(self.directory, "generation-*", "pack-0"))
        os.remove(pack)
        with tempfile.TemporaryDirectory(prefix="sepal-test-") as into:
            salvaged = sepal("salvage", self.directory, "--into", into)
            self.assertIn("lost   3 keys that %s had, as the MANIFEST says" % pack, salvaged.stdout)
            self.assertIn("saved  0 filters and 0 strings", salvaged.stdout)

    def test_a_torn_tail_is_harmless_and_a_start_says_how_long_it_was(self):
        segments = self.leave_directory()
        told = [json.loads(line) for line in sepal("inspect", "--json", segments[0]).stdout.splitlines()]
        last = [fact for fact in told if fact["what"] == "frame"][-1]
        flip(segments[0], last["offset"] + 24 + last["bytes"] - 1)
        self.assertRegex(self.verify(0), r"harmless +\S+ is torn at offset %d: \d+ bytes" % last["offset"])
        daemon = self.start()
        line = daemon.wait_for_line("journal cut off: ")
        self.assertRegex(line, r"bytes=\d+ file=%s offset=%d" % (re.escape(segments[0]), last["offset"]))
        self.assertEqual(ask(daemon, ("BF.CARD", "saved"), ("BF.CARD", "recorded")), [b":150", b":0"])

    def test_salvage_saves_what_is_whole_and_says_what_is_lost(self):
        segments = self.leave_directory()
        [pack] = glob.glob(os.path.join(self.directory, "generation-*", "pack-0"))
        flip(pack, os.path.getsize(pack) - 20)
        before = contents(self.directory)
        into = tempfile.mkdtemp(prefix="sepal-test-")
        self.addCleanup(subprocess.run, ["rm", "-rf", into])
        for refused, why in ((self.directory, "is the same directory"), (self.directory + "/.", "is the same directory"),
                             (os.path.join(self.directory, "new"), "is inside " + self.directory)):
            done = sepal("salvage", self.directory, "--into", refused)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("%s %s, which is not written to; name another directory" % (refused, why), done.stderr)
        salvaged = sepal("salvage", self.directory, "--into", into)
        self.assertEqual(salvaged.returncode, 3, salvaged.stderr)
        for path in [into] + [os.path.join(into, name) for name in os.listdir(into)]:
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o077, 0, path)
        self.assertEqual(contents(self.directory), before)
        self.assertIn("lost   %s is damaged" % pack, salvaged.stdout)
        self.assertIn('(the filter database=0 key="saved")', salvaged.stdout)
        self.assertIn('lost   50 items that the journal adds to the filter database=0 key="saved"', salvaged.stdout)
        self.assertIn("saved  1 filters and 0 strings with 1 items", salvaged.stdout)
        daemon = self.start(directory=into)
        self.assertEqual(ask(daemon, ("BF.CARD", "recorded"), ("EXISTS", "saved")), [b":1", b":0"])
        self.assertEqual(daemon.stop(), 0)
        with tempfile.TemporaryDirectory(prefix="sepal-test-") as again:
            self.assertEqual(sepal("salvage", into, "--into", again).returncode, 0)
        self.assertTrue(segments)

    def test_a_folder_without_data_is_no_data_directory(self):
        with open(os.path.join(self.directory, "notes.txt"), "w") as file:
            file.write("of somebody")
        into = self.directory + "-saved"
        for command in (("verify", self.directory), ("salvage", self.directory, "--into", into)):
            done = sepal(*command)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(done.stderr, "sepal %s: %s is no data directory: it has no SEED, no CURRENT and no journal\n" % (
                command[0], self.directory))
        self.assertFalse(os.path.exists(into))

    def test_salvage_of_a_damaged_journal_does_not_advise_to_salvage(self):
        daemon = self.start(*SMALL_FILES, "--journal", "always")
        for item in ("a", "b", "c"):
            self.assertEqual(ask(daemon, ("BF.ADD", "key", item)), [b":1"])
        daemon.kill()
        [segment, *_] = sorted(glob.glob(os.path.join(self.directory, "journal-*")))
        told = [json.loads(line) for line in sepal("inspect", "--json", segment).stdout.splitlines()]
        flip(segment, [fact for fact in told if fact["what"] == "frame"][1]["offset"])
        self.assertIn("or save what is whole with sepal salvage", self.verify(1))
        with tempfile.TemporaryDirectory(prefix="sepal-test-") as into:
            salvaged = sepal("salvage", self.directory, "--into", into)
            self.assertEqual(salvaged.returncode, 3, salvaged.stderr)
            self.assertRegex(salvaged.stdout, r"lost   the journal from position \d+ on: %s is damaged at offset \d+: .* was on disk\n" %
                             re.escape(segment))
            self.assertNotIn("sepal salvage", salvaged.stdout)

    def test_salvage_ends_with_0_if_only_seed_and_current_are_damaged(self):
        self.leave_directory()
        for name in ("SEED", "CURRENT"):
            flip(os.path.join(self.directory, name), 20)
        with tempfile.TemporaryDirectory(prefix="sepal-test-") as into:
            salvaged = sepal("salvage", self.directory, "--into", into)
            self.assertEqual(salvaged.returncode, 0, salvaged.stdout + salvaged.stderr)
            self.assertNotIn("lost ", salvaged.stdout)
            for name in ("SEED", "CURRENT"):
                self.assertIn("noted  %s is damaged" % os.path.join(self.directory, name), salvaged.stdout)
            daemon = self.start(directory=into)
            self.assertEqual(ask(daemon, ("BF.CARD", "saved")), [b":150"])
            daemon.kill()

    def test_a_folder_or_pipe_in_the_place_of_a_file_blocks_nothing_and_loses_no_other_file(self):
        segments = self.leave_directory()
        [pack] = glob.glob(os.path.join(self.directory, "generation-*", "pack-0"))
        for path in (pack, segments[0]):
            for make, kind in ((os.mkdir, "folder"), (os.mkfifo, "pipe")):
                aside = os.path.join(os.path.dirname(self.directory), "aside-" + os.path.basename(self.directory))
                os.rename(path, aside)
                make(path)
                sentence = "%s: it is not a regular file but a %s" % (path, kind)
                verified = sepal("verify", self.directory)
                self.assertEqual(verified.returncode, 1)
                self.assertIn(sentence, verified.stdout)
                with tempfile.TemporaryDirectory(prefix="sepal-test-") as into:
                    salvaged = sepal("salvage", self.directory, "--into", into)
                    self.assertEqual(salvaged.returncode, 3, salvaged.stderr)
                    self.assertIn("lost   cannot open " + sentence, salvaged.stdout)
                    self.assertIn("saved  1 filters", salvaged.stdout)
                refused = self.start(wait=False)
                self.assertEqual(refused.wait(), 1)
                self.assertIn(sentence, refused.text())
                os.rmdir(path) if kind == "folder" else os.unlink(path)
                os.rename(aside, path)
        self.assertEqual(ask(self.start(), ("BF.CARD", "saved")), [b":150"])

    def test_verify_says_of_a_folder_in_the_place_of_a_file_without_data_what_the_start_says(self):
        self.leave_directory()
        for name in ("LOCK", "reserve-1", "adopted-000000000009"):
            path = os.path.join(self.directory, name)
            if os.path.exists(path):
                os.unlink(path)
            os.mkdir(path)
            sentence = path + (": Is a directory" if "adopted" in name else ": it is not a regular file but a folder")
            self.assertRegex(self.verify(1), "DAMAGED +cannot [a-z]+ " + re.escape(sentence))
            refused = self.start(wait=False)
            self.assertEqual(refused.wait(), 1)
            self.assertIn(sentence, refused.text())
            os.rmdir(path)
        self.verify(0)
        self.assertEqual(ask(self.start(), ("BF.CARD", "saved")), [b":150"])

    def test_inspect_prints_every_kind_of_file_and_refuses_others(self):
        self.leave_directory()
        for path in contents(self.directory):
            told = sepal("inspect", path)
            if path.endswith("LOCK"):
                self.assertEqual(told.returncode, 1)
                self.assertIn("%s has no data: it names the process that uses the directory" % path, told.stderr)
            else:
                self.assertEqual(told.returncode, 0, told.stderr)
                self.assertTrue(told.stdout)
        self.assertEqual(sepal("inspect", os.path.join(self.directory, "none")).returncode, 1)
        other = sepal("inspect", "/etc/passwd")
        self.assertEqual((other.returncode, other.stderr), (1, "sepal inspect: /etc/passwd is no file of Sepal: it begins as none does\n"))
        self.assertEqual(sepal("verify").returncode, 2)
