"""A lost end of the journal is noticed: no start goes on without frames that SYNCED says were on disk."""

import glob
import json
import os
import shutil
import tempfile
import time

from client import Client
from daemon import SMALL_FILES, DaemonTest, beside, sepal

SECONDS_MAX = 300
HEADER_BYTES = 64
# A filter whose image is too large for a record of the journal.
LARGE_CAPACITY = 200_000


def cut_to(length):
    return lambda path: os.truncate(path, length)


def zero(path):
    with open(path, "r+b") as file:
        file.write(bytes(os.path.getsize(path)))


LOSSES = {**{"cut to %d bytes" % length: cut_to(length) for length in (0, 1, 24, HEADER_BYTES - 1)},
          "zeroed": zero, "removed": os.remove}


class LostJournalTest(DaemonTest):
    def noted_position(self, directory):
        """The position in SYNCED, or 0 before the file exists."""
        told = sepal("inspect", "--json", os.path.join(directory, "SYNCED"))
        return json.loads(told.stdout)["position"] if told.returncode == 0 else 0

    def wait_until_noted(self, client, directory=None):
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            info = client.info()
            synced = int(info["journal_synced_position"])
            if int(info["journal_position"]) == synced and self.noted_position(directory or self.directory) >= synced:
                return
            self.assertLess(time.monotonic(), deadline, "SYNCED is not written")
            time.sleep(0.02)

    def leave_directory(self, *arguments):
        """Saves `k` with one item. The journal has another item, a rename, a removal, and a copy of a large filter."""
        daemon = self.start(*SMALL_FILES, *arguments)
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", "saved")
            client.call("BF.ADD", "removed", "x")
            client.call("BF.RESERVE", "large", "0.001", LARGE_CAPACITY)
            client.save()
            client.call("BF.ADD", "k", "recorded")
            client.call("RENAME", "k", "renamed")
            client.call("DEL", "removed")
            self.assertEqual(client.call("COPY", "large", "copied"), 1)
            self.wait_until_noted(client)
        daemon.kill()

    def copied(self):
        folder = tempfile.mkdtemp(prefix="sepal-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return shutil.copytree(self.directory, os.path.join(folder, "data"))

    def last_segment(self, directory):
        """The last segment in use. A file that was prepared and never used begins with zeros."""
        def is_used(path):
            with open(path, "rb") as file:
                return any(file.read(HEADER_BYTES))
        return [path for path in sorted(glob.glob(os.path.join(directory, "journal-*"))) if is_used(path)][-1]

    def check_refused(self, directory, segment):
        adopted = glob.glob(os.path.join(directory, "adopted-*"))
        self.assertTrue(adopted)
        refused = self.start(directory=directory, wait=False)
        self.assertEqual(refused.wait(), 1)
        self.assertIn(segment, refused.text())
        self.assertRegex(refused.text(), r"ends at position \d+, and \S+/SYNCED says .* \d+ bytes are missing")
        self.assertEqual(glob.glob(os.path.join(directory, "adopted-*")), adopted)
        verified = sepal("verify", directory)
        self.assertEqual(verified.returncode, 1, verified.stdout)
        self.assertRegex(verified.stdout, r"DAMAGED +%s .* \d+ bytes are missing" % segment)
        into = os.path.join(directory, os.pardir, "into")
        salvaged = sepal("salvage", directory, "--into", into)
        self.assertEqual(salvaged.returncode, 3, salvaged.stderr)
        self.assertRegex(salvaged.stdout, r"lost   the journal from position \d+ on: .* \d+ bytes are missing")
        shutil.rmtree(into)

    def test_a_last_segment_that_was_lost_after_it_was_on_disk_is_missed(self):
        for policy in ("everysec", "always"):
            self.leave_directory("--journal", policy)
            for name, lose in LOSSES.items():
                with self.subTest(name, policy=policy):
                    directory = self.copied()
                    segment = self.last_segment(directory)
                    lose(segment)
                    self.check_refused(directory, segment)
            shutil.rmtree(self.directory)
            os.mkdir(self.directory)

    def test_an_operator_who_removes_the_journal_and_SYNCED_gets_what_was_saved(self):
        self.leave_directory()
        for path in glob.glob(os.path.join(self.directory, "journal-*")):
            os.remove(path)
        self.assertEqual(self.start(wait=False).wait(), 1)
        os.remove(os.path.join(self.directory, "SYNCED"))
        with Client.of(self.start()) as client:
            self.assertEqual(client.call("BF.MEXISTS", "k", "saved", "recorded"), [1, 0])
            self.assertEqual(client.call("EXISTS", "removed", "renamed", "copied"), 1)
            client.call("BF.ADD", "k", "new")
            self.wait_until_noted(client)

    def copy_of_the_generation(self):
        """`CURRENT` and the folder that it names, as earlier documents said."""
        copy = os.path.join(tempfile.mkdtemp(prefix="sepal-test-"), "copy")
        self.addCleanup(shutil.rmtree, os.path.dirname(copy), ignore_errors=True)
        os.mkdir(copy)
        for path in glob.glob(os.path.join(self.directory, "generation-*")):
            shutil.copytree(path, os.path.join(copy, os.path.basename(path)))
        shutil.copy(os.path.join(self.directory, "CURRENT"), copy)
        return copy

    def save_while_strings_change(self, client, daemon):
        """Returns a copy without the journal of a generation whose strings changed behind its cut."""

        def write(ended):
            with Client.of(daemon) as writer:
                while not ended.is_set():
                    writer.pipeline([("SET", "key %d" % number, "later") for number in range(50)])

        client.call("MSET", *(word for number in range(20_000) for word in ("key %d" % number, "value")))
        client.call("BF.ADD", "filter", "item")
        deadline = time.monotonic() + SECONDS_MAX
        with beside(write):
            while True:
                client.save()
                copy = self.copy_of_the_generation()
                if "strings and cuckoo filters may have a part of a change" in sepal("verify", copy).stdout:
                    return copy
                self.assertLess(time.monotonic(), deadline, "no string changes while saves list them")

    def test_a_copy_without_the_journal_starts_and_warns_of_strings(self):
        daemon = self.start("--journal-save-percent", "0")
        with Client.of(daemon) as client:
            copy = self.save_while_strings_change(client, daemon)
        warning = "strings and cuckoo filters may have a part of a change: reason="
        for name in ("one", "two"):
            started = self.start(directory=copy)
            self.assertIn(warning, started.text())
            with Client.of(started) as client:
                self.assertEqual(client.call("BF.EXISTS", "filter", "item"), 1)
                self.assertEqual(client.call("SET", name, "kept"), b"OK")
                self.wait_until_noted(client, copy)
            started.kill()
            verified = sepal("verify", copy)
            self.assertEqual(verified.returncode, 0, verified.stdout)
        whole = os.path.join(os.path.dirname(copy), "whole")
        self.assertEqual(sepal("backup", "--dir", copy, whole).returncode, 0)
        started = self.start(directory=copy)
        with Client.of(started) as client:
            self.assertEqual(client.call("MGET", "one", "two"), [b"kept", b"kept"])
            client.save()
        started.kill()
        self.assertNotIn(warning, self.start(directory=copy).text())
        # A killed server's own directory has the journal.
        daemon.kill()
        self.assertNotIn(warning, self.start().text())

    def test_a_directory_of_a_time_before_SYNCED_starts(self):
        self.leave_directory()
        os.remove(os.path.join(self.directory, "SYNCED"))
        with Client.of(self.start()) as client:
            self.assertEqual(client.call("BF.CARD", "renamed"), 2)
