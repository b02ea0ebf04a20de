"""A data directory on a real file system that is full, that may not be written, or that is gone.

It needs the right to mount. Without it, the tests are skipped.
"""

import os
import pathlib
import shutil
import subprocess
import time

from client import Client, Refused
from daemon import say, sized
from disk_case import DiskCase, mount, unmount
from workload import DAEMON_ARGUMENTS, Adder, check_filter, merged

DISK_MB = 96
ADDERS = 10
ADDER_PAUSE_SECONDS = 0.002
# How long a disk stays bad. A flooded log would show in this time.
BAD_SECONDS = float(os.environ.get("SEPAL_BAD_DISK_SECONDS", sized("0.3", "1")))
LINES_MAX = 20
MOUNTS_MAX = 20
ARGUMENTS = (*DAEMON_ARGUMENTS, "--journal-segment", "2mb", "--threads", "2")


class FullDiskCase(DiskCase):
    daemon_arguments = ARGUMENTS

    def setUp(self):
        super().setUp()
        self.on_disk_of(DISK_MB)

    def remove_data(self):
        """Renames the directory first, so that the daemon makes no new files in it while it is removed."""
        gone = self.data + "-gone"
        os.rename(self.data, gone)
        shutil.rmtree(gone)

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

    def check_refusal(self, daemon, client, text, full):
        """Checks for a while that writes are refused, that reads go on, and that the log is not flooded.

        On a full disk keys can be removed, and writes go on now and then, because a save gives the journal room."""
        refusals = []

        def refused():
            refusals.append(self.refused(client))
            return refusals[-1]

        self.eventually("writes go on", refused)
        # The error is a sentence that says what is wrong.
        self.assertRegex(refusals[-1], "^MISCONF Errors writing to the journal: .*" + text)
        lines_before = len(daemon.log)
        until = time.monotonic() + BAD_SECONDS
        while time.monotonic() < until:
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)
            self.assertEqual(client.call("BF.EXISTS", "kept", "bob"), 0)
            if full:
                client.call("SELECT", 9)
                self.assertEqual(client.pipeline([("DEL", "missing"), ("FLUSHDB",)]), [0, b"OK"])
                client.call("SELECT", 0)
            for request in () if full else (("RENAME", "kept", "other"), ("BF.RESERVE", "new", "0.01", "100"),
                                            ("BF.MADD", "kept", "bob")):
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

    def go_bad(self, make_bad, text, make_good, *arguments, full=False):
        """Writes before, while and after the disk is bad. The caller checks after a kill that no answered add is lost."""
        daemon = self.start(*arguments)
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            self.begin_load(daemon)
            self.eventually("nothing is added", lambda: int(client.info()["items_added"]) > 1000)
            make_bad()
            self.check_refusal(daemon, client, text, full)
            make_good()
            self.check_service(client)
            added = int(client.info()["items_added"])
            self.eventually("nothing is added any more", lambda: int(client.info()["items_added"]) > added + 1000)
            refusals, answers = self.end_load()
        # Under `always` an add waits until it is durable, so all clients may be waiting.
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
                                              "--journal", policy, full=True)
                self.check_after_kill(daemon, answers)
                shutil.rmtree(self.data)

    def test_adds_answered_before_the_disk_was_full_survive_a_kill(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            self.begin_load(daemon)
            self.eventually("nothing is added", lambda: int(client.info()["items_added"]) > 1000)
            self.fill()
            self.check_refusal(daemon, client, "(full|space)", True)
        _, answers = self.end_load()
        daemon.kill()
        daemon = self.start()
        os.remove(self.ballast)
        self.check_after_kill(daemon, answers)

    def test_a_read_only_place_refuses_writes_until_it_is_writable(self):
        """A file system with open files cannot be made read-only. So the test mounts a read-only one over it."""
        def make_bad():
            # If the daemon opens a file for writing in between, the mount cannot be made read-only.
            for _ in range(MOUNTS_MAX):
                self.assertEqual(mount("--bind", self.data, self.data).returncode, 0)
                done = mount("-o", "remount,bind,ro", self.data)
                if done.returncode == 0:
                    break
                unmount(self.data)
            self.addCleanup(unmount, self.data)
            self.assertEqual(done.returncode, 0, done.stderr)

        daemon, answers = self.go_bad(make_bad, "(read-only|Read-only|may not be written)", lambda: unmount(self.data))
        self.check_after_kill(daemon, answers)

    def test_a_directory_that_is_gone_refuses_writes_and_reads_go_on(self):
        aside = self.data + "-aside"

        def make_bad():
            os.rename(self.data, aside)

        daemon, answers = self.go_bad(make_bad, "", lambda: os.rename(aside, self.data))
        self.check_after_kill(daemon, answers)

    def test_a_directory_that_was_removed_and_made_again_has_everything_again(self):
        daemon, answers = self.go_bad(self.remove_data, "", lambda: os.mkdir(self.data))
        self.check_after_kill(daemon, answers)

    def test_a_stop_without_a_directory_says_that_it_could_not_save(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            self.remove_data()
            self.assertIsInstance(client.pipeline([("SAVE",)])[0], Refused)
        self.assertEqual(daemon.stop(), 1)
        self.assertFalse(pathlib.Path(self.data).exists())

    def test_a_start_on_a_full_disk_without_a_reserve_answers_look_ups_and_says_what_is_missing(self):
        daemon = self.start("--disk-reserve", "0")
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
        self.assertEqual(daemon.stop(), 0)
        self.fill()
        daemon = self.start("--disk-reserve", "0")
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)
            # There may be room behind the end of the last segment.
            count = 0
            while not isinstance(reply := client.pipeline([("BF.MADD", "load", *range(count, count + 1000))])[0],
                                 Refused):
                count += 1000
            self.assertRegex(str(reply), "^MISCONF .*(full|space)")
            daemon.wait_for_line("journal refuses changes")
            os.remove(self.ballast)
            self.check_service(client)
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)


class FailingDiskTest(FullDiskCase):
    """A file system on a device with less room than it reports. Files can be made, and then their writes fail, as on a
    thinly provisioned or broken disk."""

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
        # Under `always`, a client whose sync fails waits until a generation is durable. The client here would wait, too.
        # So this test uses everysec; the fault tests cover failed syncs under `always`.
        daemon, answers = self.go_bad(self.fill, "", lambda: os.remove(self.ballast), "--journal", "everysec")
        with Client.of(daemon) as client:
            self.assertGreater(int(client.info()["journal_syncs_failed"]), 0)
        self.check_after_kill(daemon, answers)
