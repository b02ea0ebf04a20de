"""A data directory that is moved while sepald uses it: what comes into its place belongs to others."""

import glob
import itertools
import os
import random
import shutil
import time

from client import Client, Refused
from daemon import SMALL_FILES, DaemonTest, beside, sepal, sized
from disk_case import mount, unmount

NOT_OURS = "is not the directory that this process has locked"


class MovedDirectoryTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.away = os.path.join(self.directory, "away")

    def begin(self, *arguments):
        daemon = self.start(*arguments, directory=self.data)
        client = Client.of(daemon)
        self.addCleanup(client.close)
        client.call("BF.ADD", "ours", "before")
        client.save()
        return daemon, client

    def refused_save(self, client):
        with self.assertRaises(Refused) as refused:
            client.save()
        return str(refused.exception)

    def check_refuses(self, client, text=NOT_OURS):
        self.eventually("changes are accepted",
                        lambda: isinstance(client.pipeline([("BF.ADD", "ours", "probe")])[0], Refused))
        self.assertRegex(self.refused_save(client), text)
        self.assertRegex(client.info()["journal_refusal"], text)
        self.assertEqual(client.call("BF.EXISTS", "ours", "before"), 1)

    def test_what_is_put_back_is_used_again(self):
        daemon, client = self.begin()
        os.rename(self.data, self.away)
        self.check_refuses(client, self.data + " is not there: it was moved or removed")
        os.rename(self.away, self.data)
        self.eventually("changes are refused", lambda: client.pipeline([("BF.ADD", "ours", "after")])[0] in (0, 1))
        daemon.kill()
        with Client.of(self.start(directory=self.data)) as client:
            self.assertEqual(client.call("BF.MEXISTS", "ours", "before", "after"), [1, 1])

    def test_another_server_in_its_place_keeps_its_data(self):
        first, client = self.begin()
        os.rename(self.data, self.away)
        second = self.start(directory=self.data)
        with Client.of(second) as other:
            self.assertEqual(other.call("BF.ADD", "theirs", "a"), 1)
            # The server may have looked at its path already.
            [after] = client.pipeline([("BF.ADD", "ours", "after")])
            self.check_refuses(client)
            self.assertEqual(other.call("BF.ADD", "theirs", "b"), 1)
        second.kill()
        second = self.start(directory=self.data)
        with Client.of(second) as other:
            self.assertEqual(other.call("BF.MEXISTS", "theirs", "a", "b"), [1, 1])
            self.assertEqual(other.call("EXISTS", "ours"), 0)
        self.assertEqual(second.stop(), 0)
        # Its own directory is put back.
        os.rename(self.data, os.path.join(self.directory, "theirs"))
        os.rename(self.away, self.data)
        self.eventually("changes are refused", lambda: client.pipeline([("BF.ADD", "ours", "last")])[0] in (0, 1))
        first.kill()
        with Client.of(self.start(directory=self.data)) as client:
            self.assertEqual(client.call("BF.MEXISTS", "ours", "before", "last"), [1, 1])
            self.assertEqual(client.call("BF.EXISTS", "ours", "after"), 1 if after == 1 else 0)

    def test_a_stop_says_that_it_could_not_save(self):
        for policy in ("everysec", "off"):
            with self.subTest(policy):
                first, client = self.begin("--journal", policy)
                os.rename(self.data, self.away)
                second = self.start(directory=self.data)
                with Client.of(second) as other:
                    other.call("BF.ADD", "theirs", "a")
                    client.pipeline([("BF.ADD", "ours", "after")])
                    self.assertRegex(self.refused_save(client), NOT_OURS)
                self.assertEqual(first.stop(), 1)
                self.assertIn(NOT_OURS, first.text())
                self.assertEqual(second.stop(), 0)
                with Client.of(self.start(directory=self.data)) as other:
                    self.assertEqual(other.call("BF.EXISTS", "theirs", "a"), 1)
                    self.assertEqual(other.call("EXISTS", "ours"), 0)
                    other.call("FLUSHALL")
                os.rename(self.data, os.path.join(self.directory, "theirs-" + policy))
                os.rename(self.away, os.path.join(self.directory, "ours-" + policy))

    def test_a_backup_that_is_restored_in_its_place_stays_as_it_is(self):
        first, client = self.begin()
        backup = os.path.join(self.directory, "backup")
        self.assertEqual(sepal("backup", "--dir", self.data, "--from", "redis://127.0.0.1:%d" % first.port, backup).returncode, 0)
        os.rename(self.data, self.away)
        self.assertEqual(sepal("restore", backup, "--dir", self.data).returncode, 0)
        client.pipeline([("BF.ADD", "ours", "after")])
        self.check_refuses(client)
        with Client.of(self.start(directory=self.data)) as restored:
            self.assertEqual(restored.call("BF.MEXISTS", "ours", "before", "after"), [1, 0])

    def replace(self):
        """Moves the directory away, and makes an empty one."""
        os.rename(self.data, self.away)
        os.mkdir(self.data)

    def test_an_empty_directory_in_its_place_gets_all_of_the_data_though_nothing_changes(self):
        for policy in ("everysec", "off"):
            with self.subTest(policy):
                first, client = self.begin("--journal", policy)
                self.replace()
                self.eventually("no save follows", lambda: glob.glob(os.path.join(self.data, "CURRENT")))
                first.wait_for_line("data directory replaced by an empty one")
                # Moved first: sepald may make files in it meanwhile.
                os.rename(self.data, self.data + "-lost")
                os.mkdir(self.data)
                # At once: the stop looks as well.
                self.assertEqual(first.stop(), 0)
                daemon = self.start(directory=self.data)
                with Client.of(daemon) as client:
                    self.assertEqual(client.call("BF.EXISTS", "ours", "before"), 1)
                daemon.kill()
                for folder in (self.data, self.data + "-lost", self.away):
                    shutil.rmtree(folder)

    def test_what_is_answered_after_the_save_into_an_empty_directory_is_there_after_a_kill(self):
        daemon, client = self.begin()
        self.replace()
        client.save()
        daemon.wait_for_line("data directory replaced by an empty one")
        answered = []
        def add():
            item = "after:%d" % len(answered)
            if client.pipeline([("BF.ADD", "ours", item)])[0] in (0, 1):
                answered.append(item)
            return answered
        self.eventually("changes are refused", add)
        for _ in range(20):
            add()
        daemon.kill()
        with Client.of(self.start(directory=self.data)) as client:
            self.assertEqual(client.call("BF.MEXISTS", "ours", "before", *answered), [1] * (len(answered) + 1))

    def test_a_stop_without_its_directory_fails_though_nothing_has_changed(self):
        first, _ = self.begin()
        os.rename(self.data, self.away)
        self.assertEqual(first.stop(), 1)
        self.assertIn("save failed", first.text())

    def test_both_directories_can_be_started_after_one_took_the_place_of_the_other(self):
        first, client = self.begin(*SMALL_FILES)
        self.eventually("there is no SYNCED", lambda: client.call("BF.ADD", "ours", "old") in (0, 1)
                        and os.path.exists(os.path.join(self.data, "SYNCED")))
        self.replace()
        self.eventually("changes are refused", lambda: client.pipeline([("BF.ADD", "ours", "new")])[0] in (0, 1)
                        and glob.glob(os.path.join(self.data, "journal-*")))
        for name in ("SYNCED", "reserve-1", "reserve-4"):
            self.eventually("%s is not there" % name, lambda: client.call("BF.ADD", "ours", "newer") in (0, 1)
                            and os.path.exists(os.path.join(self.data, name)))
        first.kill()
        for directory, items in ((self.away, ("before", "old")), (self.data, ("before", "old", "new", "newer"))):
            daemon = self.start(directory=directory)
            with Client.of(daemon) as client:
                self.assertEqual(client.call("BF.MEXISTS", "ours", *items), [1] * len(items))
            daemon.kill()

    def test_a_directory_that_is_replaced_during_saves_is_whole(self):
        for _ in range(sized(6, 40)):
            first, client = self.begin()
            saved = []

            def save(ended):
                with Client.of(first) as saver:
                    for number in itertools.count():
                        if ended.is_set():
                            return
                        [added, done] = saver.pipeline([("BF.ADD", "ours", number), ("SAVE",)])
                        if done == b"OK" and added in (0, 1):
                            saved.append(number)

            with beside(save):
                time.sleep(random.uniform(0.02, 0.1))
                self.replace()
                count = len(saved)
                self.eventually("no save succeeds any more", lambda: len(saved) > count + 3)
            first.kill()
            daemon = self.start(directory=self.data)
            with Client.of(daemon) as client:
                self.assertEqual(client.call("BF.MEXISTS", "ours", *saved), [1] * len(saved))
            daemon.kill()
            shutil.rmtree(self.data)
            shutil.rmtree(self.away)

    def test_an_empty_file_system_over_it_gets_all_of_the_data(self):
        first, client = self.begin()
        done = mount("-t", "tmpfs", "-o", "size=64m", "sepal-test", self.data)
        if done.returncode != 0:
            self.skip_aloud("mounting is not allowed here: " + done.stderr.strip())
        self.addCleanup(unmount, self.data)
        self.eventually("changes are refused", lambda: client.pipeline([("BF.ADD", "ours", "after")])[0] in (0, 1))
        client.save()
        first.wait_for_line("data directory replaced by an empty one")
        second = self.start(directory=self.data, wait=False)
        self.assertEqual(second.wait(), 1)
        self.assertIn("is in use by process %d" % first.process.pid, second.text())
        # The next sync of the journal, within a second, finds that its files are gone.
        self.eventually("the journal stays where it was", lambda: glob.glob(os.path.join(self.data, "journal-*")))
        self.eventually("changes are refused", lambda: client.pipeline([("BF.ADD", "ours", "last")])[0] in (0, 1))
        first.kill()
        with Client.of(self.start(directory=self.data)) as client:
            self.assertEqual(client.call("BF.MEXISTS", "ours", "before", "after", "last"), [1, 1, 1])
