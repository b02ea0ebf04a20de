"""A data directory on a real file system that is full, that may not be written, or that is gone.

Needs the right to mount: elsewhere the tests are skipped.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

from client import Client, Refused
from daemon import DaemonTest
from workload import DAEMON_ARGUMENTS, Adder, check_filter, merged

DISK_MB = 96
ADDERS = 10
ADDER_PAUSE_SECONDS = 0.002
SECONDS_MAX = 120
# How long a disk stays as it is, so that a log that is flooded shows it.
BAD_SECONDS = float(os.environ.get("SEPAL_BAD_DISK_SECONDS", "1"))
LINES_MAX = 20
ARGUMENTS = (*DAEMON_ARGUMENTS, "--journal-segment", "2mb", "--threads", "2")


def say(text):
    print(text, file=sys.stderr, flush=True)


def mount(*arguments):
    return subprocess.run(["mount", *arguments], capture_output=True, text=True)


def unmount(path):
    subprocess.run(["umount", "--lazy", path], capture_output=True)


class FullDiskCase(DaemonTest):
    def setUp(self):
        super().setUp()
        done = mount("-t", "tmpfs", "-o", "size=%dm" % DISK_MB, "sepal-test", self.directory)
        if done.returncode != 0:
            self.skipTest("mounting is not allowed here: " + done.stderr.strip())
        self.addCleanup(unmount, self.directory)
        self.data = os.path.join(self.directory, "data")
        self.ballast = os.path.join(self.directory, "ballast")

    def start(self, *arguments):
        return super().start(*ARGUMENTS, *arguments, directory=self.data)

    def fill(self):
        """Takes all room that is left."""
        with open(self.ballast, "ab", buffering=0) as file:
            for piece in (1 << 20, 1 << 12):
                try:
                    while True:
                        file.write(b"x" * piece)
                except OSError:
                    pass

    def eventually(self, what, condition):
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def begin_load(self, daemon):
        self.adders = [Adder(daemon, Adder.styles[at % len(Adder.styles)], b"load", at * 1_000_000_000,
                             ADDER_PAUSE_SECONDS)
                       for at in range(ADDERS)]
        for adder in self.adders:
            adder.start()

    def end_load(self):
        for adder in self.adders:
            adder.finish()
        refusals = set().union(*(adder.refusals for adder in self.adders))
        return refusals, merged(self.adders)

    def refused(self, client):
        reply = client.pipeline([("BF.ADD", "probe", "item")])[0]
        return isinstance(reply, Refused) and str(reply)

    def check_refusal(self, daemon, client, text):
        """That writes are refused, reads go on, and the log is not flooded, for a while."""
        self.eventually("writes go on", lambda: self.refused(client))
        # A sentence that names what is wrong.
        self.assertRegex(self.refused(client), "^MISCONF Errors writing to the journal: .*" + text)
        lines_before = len(daemon.log)
        until = time.monotonic() + BAD_SECONDS
        while time.monotonic() < until:
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)
            self.assertEqual(client.call("BF.EXISTS", "kept", "bob"), 0)
            for request in (("DEL", "kept"), ("RENAME", "kept", "other"), ("BF.RESERVE", "new", "0.01", "100"),
                            ("FLUSHALL",), ("BF.MADD", "kept", "bob")):
                self.assertIn("MISCONF", str(client.pipeline([request])[0]), request)
            self.assertIn("sepal_version", client.info())
            time.sleep(0.05)
        lines = len(daemon.log) - lines_before
        self.assertLess(lines, LINES_MAX, "the log is flooded:\n" + daemon.text())

    def check_service(self, client):
        self.eventually("writes are refused for ever", lambda: not self.refused(client))

    def check_after_kill(self, daemon, answers):
        daemon.kill()
        daemon = self.start()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)
            for key, some in answers.items():
                check_filter(self, client, key, some)
        self.assertEqual(daemon.stop(), 0)
        say("%d answered adds, none lost" % sum(some.answered() for some in answers.values()))

    def go_bad(self, make_bad, text, make_good, *arguments):
        """Writes before, while and after the disk is bad; what was answered is there after a kill."""
        daemon = self.start(*arguments)
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            self.begin_load(daemon)
            self.eventually("nothing is added", lambda: int(client.info()["items_added"]) > 1000)
            make_bad()
            self.check_refusal(daemon, client, text)
            make_good()
            self.check_service(client)
            added = int(client.info()["items_added"])
            self.eventually("nothing is added any more", lambda: int(client.info()["items_added"]) > added + 1000)
            refusals, answers = self.end_load()
        # Under `always` those who have added wait until it is durable, and may all be waiting.
        if "always" not in arguments:
            self.assertTrue(refusals)
        for refusal in refusals:
            self.assertTrue(refusal.startswith("-MISCONF"), refusal)
        return daemon, answers


class FullDiskTest(FullDiskCase):
    def test_a_full_disk_refuses_writes_until_there_is_room(self):
        for policy in ("everysec", "always"):
            with self.subTest(policy):
                daemon, answers = self.go_bad(self.fill, "(full|space)", lambda: os.remove(self.ballast),
                                              "--journal", policy)
                self.check_after_kill(daemon, answers)
                shutil.rmtree(self.data)

    def test_what_was_answered_before_the_disk_was_full_survives_a_kill(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            self.begin_load(daemon)
            self.eventually("nothing is added", lambda: int(client.info()["items_added"]) > 1000)
            self.fill()
            self.check_refusal(daemon, client, "(full|space)")
            self.assertNotEqual(client.pipeline([("SAVE",)])[0], b"OK")
        _, answers = self.end_load()
        daemon.kill()
        os.remove(self.ballast)
        daemon = self.start()
        self.check_after_kill(daemon, answers)

    def test_a_place_that_may_not_be_written_refuses_writes_until_it_may(self):
        """The file system under open files cannot be made read-only, so one that is comes to lie over it."""
        def make_bad():
            self.assertEqual(mount("--bind", self.data, self.data).returncode, 0)
            self.addCleanup(unmount, self.data)
            self.assertEqual(mount("-o", "remount,bind,ro", self.data).returncode, 0)

        daemon, answers = self.go_bad(make_bad, "(read-only|Read-only|may not be written)", lambda: unmount(self.data))
        self.check_after_kill(daemon, answers)

    def test_a_directory_that_is_gone_refuses_writes_and_reads_go_on(self):
        aside = self.data + "-aside"

        def make_bad():
            os.rename(self.data, aside)

        daemon, answers = self.go_bad(make_bad, "", lambda: os.rename(aside, self.data))
        self.check_after_kill(daemon, answers)

    def test_a_directory_that_was_removed_and_made_again_has_everything_again(self):
        daemon, answers = self.go_bad(lambda: shutil.rmtree(self.data), "", lambda: os.mkdir(self.data))
        self.check_after_kill(daemon, answers)

    def test_a_stop_without_a_directory_says_that_it_could_not_save(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            shutil.rmtree(self.data)
            self.assertIsInstance(client.pipeline([("SAVE",)])[0], Refused)
        self.assertEqual(daemon.stop(), 1)
        self.assertFalse(pathlib.Path(self.data).exists())

    def test_a_start_on_a_full_disk_says_so(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
        self.assertEqual(daemon.stop(), 0)
        self.fill()
        daemon = DaemonTest.start(self, *ARGUMENTS, directory=self.data, wait=False)
        self.assertEqual(daemon.wait(), 1)
        self.assertRegex(daemon.text(), "(full|space)")
        os.remove(self.ballast)
        with Client.of(self.start()) as client:
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)


class FailingDiskTest(FullDiskCase):
    """A file system whose device has less room than it says: what was promised when files were made fails when they
    are written, as on a disk that is thinly provisioned, or that breaks."""

    IMAGE_MB = 512

    def setUp(self):
        super().setUp()
        image = os.path.join(self.directory, "image")
        place = os.path.join(self.directory, "place")
        os.mkdir(place)
        with open(image, "wb") as file:
            file.truncate(self.IMAGE_MB << 20)
        if not shutil.which("mkfs.ext4"):
            self.skipTest("there is no mkfs.ext4")
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
        done = mount("-o", "loop", image, place)
        if done.returncode != 0:
            self.skipTest("there is no loop device here: " + done.stderr.strip())
        self.addCleanup(unmount, place)
        self.data = os.path.join(place, "data")

    def test_a_sync_that_fails_is_not_believed_and_a_save_makes_it_good(self):
        # Under `always` whoever has added when the sync fails waits until a generation is durable, the client that
        # asks here as well: there it is the fault tests that fail syncs.
        daemon, answers = self.go_bad(self.fill, "", lambda: os.remove(self.ballast), "--journal", "everysec")
        with Client.of(daemon) as client:
            self.assertGreater(int(client.info()["journal_failed_syncs"]), 0)
        self.check_after_kill(daemon, answers)


if __name__ == "__main__":
    unittest.main()
