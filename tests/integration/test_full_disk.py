"""A data directory on a real file system that is full, that may not be written, or that is gone.

It needs the right to mount. Without it, the tests are skipped.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from client import Client, Refused
from daemon import say, sized
from disk_case import DiskCase, fill, mount, mount_small, unmount
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

    def make_read_only(self):
        """A file system with open files cannot be made read-only. So the test mounts a read-only one over it."""
        # If the daemon opens a file for writing in between, the mount cannot be made read-only.
        for _ in range(MOUNTS_MAX):
            self.assertEqual(mount("--bind", self.data, self.data).returncode, 0)
            done = mount("-o", "remount,bind,ro", self.data)
            if done.returncode == 0:
                break
            unmount(self.data)
        self.addCleanup(unmount, self.data)
        self.assertEqual(done.returncode, 0, done.stderr)

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
        daemon, answers = self.go_bad(self.make_read_only, "(read-only|Read-only|may not be written)", lambda: unmount(self.data))
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


class WholeValuesTest(FullDiskCase):
    """A value that comes whole gets a file of its own in the data directory. If this file cannot be written, the client is told
    with the words of the journal: by MISCONF, and not by ERR, clients see that the server is short of disk."""

    # No save and no reserve, which would take room or give it back while the disk is to be full.
    daemon_arguments = (*ARGUMENTS, "--disk-reserve", "0", "--journal-save-percent", "0")
    IMPORTS_MB = 8

    def setUp(self):
        super().setUp()
        self.imports = tempfile.mkdtemp(prefix="sepal-test-imports-")
        self.addCleanup(shutil.rmtree, self.imports, ignore_errors=True)
        mount_small(self, self.imports, self.IMPORTS_MB)

    def begin(self):
        """A server with what the requests of whole_requests() are made of."""
        daemon = self.start("--import-dir", self.imports)
        client = Client.of(daemon, self)
        client.call("BF.RESERVE", "big", "0.01", "2000000")
        client.call("BF.ADD", "big", "alice")
        client.call("SET", "s", "x" * 1000)
        client.call("SETBIT", "bits", "16000000", 1)
        client.call("BF.EXPORT", "big", "big.sepal")
        self.payload = client.call("DUMP", "big")
        iterator, self.pieces = 0, []
        while (piece := client.call("BF.SCANDUMP", "big", iterator))[0] != 0:
            iterator = piece[0]
            self.pieces.append(piece)
        return daemon, client

    def whole_requests(self):
        """Each with the reply where the disk has room."""
        return [(("COPY", "big", "copied"), 1),
                (("COPY", "big", "copied", "DB", "1"), 1),
                (("SET", "s", "y" * 1_500_000), b"OK"),
                (("SET", "fresh", "y" * 1_500_000, "NX"), b"OK"),
                (("GETSET", "t", "y" * 1_500_000), None),
                (("RESTORE", "restored", 0, self.payload), b"OK"),
                (("BITOP", "NOT", "combined", "bits"), 2_000_001),
                (("BF.IMPORT", "imported", "big.sepal"), b"OK"),
                (("BF.IMPORTBITMAP", "bitmap", "bits", "SCHEME", "go-zero", "BITS", "16000001", "CAPACITY", "1000"), b"OK"),
                (("BF.LOADCHUNK", "loaded", *self.pieces[-1]), b"OK")]

    def ask_all(self, client):
        """All replies. Each upload begins anew: what was not adopted has to be sent again."""
        requests = [request for request, _ in self.whole_requests()]
        for piece in self.pieces[:-1]:
            self.assertEqual(client.call("BF.LOADCHUNK", "loaded", *piece), b"OK")
        return [client.pipeline([request])[0] for request in requests]

    def check_refused(self, client, text):
        for (request, _), reply in zip(self.whole_requests(), self.ask_all(client)):
            self.assertRegex(str(reply), "^MISCONF Errors writing to the journal: " + text, request[0])
            self.assertNotIn(".sepal-", str(reply))
        # Nothing has changed.
        self.assertEqual(client.call("EXISTS", "copied", "fresh", "t", "restored", "combined", "imported", "bitmap", "loaded"), 0)
        self.assertEqual(client.call("STRLEN", "s"), 1000)

    def check_taken(self, client):
        self.assertEqual(self.ask_all(client), [reply for _, reply in self.whole_requests()])

    def fill(self):
        """Until there is no room at all: the journal may give back what it tries to take meanwhile."""
        def is_full():
            super(WholeValuesTest, self).fill()
            return os.statvfs(self.directory).f_bavail == 0
        self.eventually("the disk does not get full", is_full)

    def test_a_full_disk_refuses_them_as_the_journal_does_and_takes_them_when_there_is_room(self):
        daemon, client = self.begin()
        # As after a save, which has the filters: the journal has room for small changes.
        client.save()
        self.fill()
        refusal = "cannot write into %s: No space left on device" % self.data
        self.check_refused(client, refusal + "$")
        names = os.listdir(self.data)
        self.assertFalse([name for name in names if name.startswith((".sepal-", "adopted-"))], names)
        self.assertEqual(client.info("errorstats")["errorstat_MISCONF"], "count=%d" % len(self.whole_requests()))
        # What is small has room in the files that the journal has already.
        self.assertEqual(client.info()["journal_accepting"], "1")
        self.assertEqual(client.call("BF.ADD", "big", "bob"), 1)
        line = daemon.wait_for_line("values that come whole are refused")
        self.assertIn(refusal, line)
        self.assertEqual(daemon.text().count("values that come whole are refused"), 1)
        self.assertEqual(client.info()["adoption_refusal"], refusal)
        os.remove(self.ballast)
        self.check_taken(client)
        daemon.wait_for_line("values that come whole are accepted again")
        self.assertEqual(client.info()["adoption_refusal"], "")
        daemon.kill()
        with Client.of(self.start()) as client:
            self.assertEqual(client.call("BF.EXISTS", "copied", "alice"), 1)
            self.assertEqual(client.call("STRLEN", "s"), 1_500_000)

    def test_a_place_that_may_not_be_written_refuses_them_as_the_journal_does(self):
        _, client = self.begin()
        self.make_read_only()
        self.check_refused(client, "cannot .*%s.*: Read-only file system" % self.data)
        unmount(self.data)
        self.eventually("changes are refused", lambda: not self.refused(client))
        self.check_taken(client)

    def test_a_directory_that_is_gone_refuses_them_as_the_journal_does(self):
        _, client = self.begin()
        os.rename(self.data, self.data + "-aside")
        # The save that follows the failed sync may have failed already.
        save_failed = "the save that has to follow a failed sync of the journal has failed: "
        self.check_refused(client, "(%s)?%s is not there: it was moved or removed" % (save_failed, self.data))
        os.rename(self.data + "-aside", self.data)
        self.eventually("changes are refused", lambda: not self.refused(client))
        self.check_taken(client)

    def test_what_is_wrong_with_the_clients_own_files_is_no_matter_of_the_journal(self):
        daemon, client = self.begin()
        whole = pathlib.Path(self.imports, "big.sepal").read_bytes()
        pathlib.Path(self.imports, "damaged.sepal").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        for name, text in (("missing.sepal", "No such file"), ("damaged.sepal", "damaged.sepal")):
            self.assertRegex(str(client.pipeline([("BF.IMPORT", "imported", name)])[0]), "^ERR .*" + text)
        fill(os.path.join(self.imports, "ballast"))
        reply = client.pipeline([("BF.EXPORT", "big", "another.sepal")])[0]
        self.assertRegex(str(reply), "^ERR .*%s.*No space left on device" % self.imports)
        self.assertNotIn("values that come whole are refused", daemon.text())


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
