"""`sepal backup --keep N FOLDER`: many backups in a folder, of which the newest are kept."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import time

from client import Client
from daemon import DaemonTest, sepal

SEPAL = os.environ["SEPAL"]
NAME = re.compile(r"backup-\d{8}T\d{6}Z")


class KeptBackupsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.folder = os.path.join(self.directory, "backups")
        self.daemon = self.start(directory=self.data)
        with Client.of(self.daemon) as client:
            client.call("BF.ADD", "a", "1")

    def address(self):
        return "redis://127.0.0.1:%d" % self.daemon.port

    def keep(self, number, *arguments, status=0):
        done = sepal("backup", "--keep", str(number), "--from", self.address(), self.folder, *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def names(self):
        return sorted(name for name in os.listdir(self.folder) if name != "LOCK")

    def test_the_newest_are_kept(self):
        made = []
        for number in range(5):
            told = self.keep(3)
            made.append(os.path.basename(re.search(r"^backup +(\S+) of ", told, re.M).group(1)))
            self.assertTrue(NAME.fullmatch(made[-1]), made)
            self.assertIn("kept     %d, removed %d\n" % (min(number + 1, 3), number >= 3), told)
            self.assertEqual(self.names(), made[-3:])
        # Several were made within a second: their names still tell their order.
        self.assertEqual(made, sorted(set(made)))
        for name in self.names():
            self.assertEqual(sepal("verify", os.path.join(self.folder, name)).returncode, 0)
        self.keep(1)
        self.assertEqual(len(self.names()), 1)

    def test_a_clock_that_was_set_back_does_not_make_the_newest_the_oldest(self):
        self.keep(9)
        ahead = "backup-20991231T235959Z"
        os.rename(os.path.join(self.folder, self.names()[0]), os.path.join(self.folder, ahead))
        self.keep(2)
        self.assertEqual(self.names(), [ahead, "backup-21000101T000000Z"])
        self.keep(1)
        self.assertEqual(self.names(), ["backup-21000101T000001Z"])

    def test_a_backup_that_fails_removes_nothing(self):
        for _ in range(3):
            self.keep(3)
        before = self.names()
        os.rename(self.data, self.data + "-moved")
        self.assertIn("could not save", self.keep(1, status=1))
        self.assertEqual(self.names(), before)

    def test_what_is_no_backup_of_this_data_is_never_removed(self):
        other = self.start(directory=os.path.join(self.directory, "other"))
        strange = {
            "backup-20200101T000001Z": lambda path: sepal("backup", "--from", "redis://127.0.0.1:%d" % other.port, path),
            "backup-20200101T000002Z": os.mkdir,
            "backup-20200101T000003Z": lambda path: os.symlink(self.data, path),
            "backup-20200101T000004Z": lambda path: open(path, "w", encoding="utf-8").close(),
            "backup-20200101T000005Z": lambda path: self.changed_backup(path, "notes.txt"),
            "backup-20200101T000006Z": lambda path: self.changed_backup(path, "LOCK"),
        }
        # Names that --keep does not give, also backups that a person has named.
        own = {name: os.mkdir for name in ("backup-20200101", "backup-20200101T000007Z-before-upgrade", "backup-20201301T000000Z",
                                           "backup-20200101T000008Z.old", "mine.partial")}
        os.mkdir(self.folder)
        for name, make in {**strange, **own}.items():
            make(os.path.join(self.folder, name))
        self.keep(1)
        told = self.keep(1)
        self.assertIn("kept     1, removed 1\n", told)
        self.assertEqual(sorted(re.findall(r"^left     (\S+): it is no backup of this data directory, or was changed$", told, re.M)), sorted(strange))
        self.assertLessEqual({*strange, *own}, set(self.names()))
        self.assertEqual(len(self.names()), len(strange) + len(own) + 1)

    def test_a_folder_that_cannot_be_read_as_a_backup_stops_nothing(self):
        os.makedirs(os.path.join(self.folder, "backup-20200101T000000Z", "SEED"))
        for _ in range(3):
            told = self.keep(1)
        self.assertIn("left     backup-20200101T000000Z: ", told)
        self.assertEqual(len(self.names()), 2)

    def test_a_name_of_the_year_9999_is_refused_at_once(self):
        os.makedirs(os.path.join(self.folder, "backup-99991231T235959Z"))
        self.assertIn("has a name of the year 9999", self.keep(1, status=1))
        self.assertEqual(self.names(), ["backup-99991231T235959Z"])

    def test_a_seed_of_the_settings_changes_nothing(self):
        self.daemon.stop()
        self.data = os.path.join(self.directory, "seeded")
        self.daemon = self.start("--seed", "7", directory=self.data)
        with Client.of(self.daemon) as client:
            client.call("BF.ADD", "a", "1")
        for _ in range(3):
            self.keep(2)
        self.assertEqual(len(self.names()), 2)
        restored = os.path.join(self.directory, "restored")
        done = sepal("restore", os.path.join(self.folder, self.names()[-1]), "--dir", restored)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.daemon.stop(), 0)
        for folder in (self.data, restored):
            done = sepal("backup", "--dir", folder, folder + "-copy")
            self.assertEqual(done.returncode, 0, done.stderr)
        # An earlier version wrote no SEED there.
        os.remove(os.path.join(self.data, "SEED"))
        done = sepal("backup", "--dir", self.data, os.path.join(self.directory, "older"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def changed_backup(self, path, name):
        done = sepal("backup", "--from", self.address(), path)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            file.write("mine\n")

    def test_the_next_backup_removes_what_a_killed_program_left(self):
        self.keep(9)
        whole = self.names()[0]
        # A program that was killed while it made a backup, one that removed one, and one that runs.
        for name in ("backup-20200101T000001Z.partial", "backup-20200101T000002Z.partial", "backup-20200101T000003Z.partial"):
            shutil.copytree(os.path.join(self.folder, whole), os.path.join(self.folder, name, "data"))
        running = os.path.join(self.folder, "backup-20200101T000003Z.partial")
        with open(os.path.join(running, "LOCK"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.keep(9)
            self.assertEqual([name for name in self.names() if name.endswith(".partial")], [os.path.basename(running)])
        self.keep(9)
        self.assertEqual([name for name in self.names() if name.endswith(".partial")], [])

    def test_a_kill_leaves_whole_backups_under_their_names(self):
        with Client.of(self.daemon) as client:
            client.call("BF.RESERVE", "large", "0.001", "3000000")
        for number in range(6):
            with subprocess.Popen([SEPAL, "backup", "--copy", "--quiet", "--keep", "1", "--from", self.address(), self.folder]) as program:
                time.sleep(0.05 * number)
                program.send_signal(signal.SIGKILL)
            for name in self.names() if os.path.exists(self.folder) else ():
                if NAME.fullmatch(name):
                    self.assertEqual(sepal("verify", os.path.join(self.folder, name)).returncode, 0)
        self.keep(1)
        self.assertEqual(len(self.names()), 1)

    def test_one_program_at_a_time_and_no_data_directory(self):
        self.keep(1)
        before = self.names()
        with open(os.path.join(self.folder, "LOCK"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertIn(os.path.join(self.folder, "LOCK"), self.keep(1, status=1))
        self.assertEqual(self.names(), before)
        backup = os.path.join(self.folder, before[0])
        for folder, why in ((backup, "is a data directory or a backup; name a folder that has backups in it"),
                            (self.data, "lies in the data directory %s; name a folder outside of it" % self.data)):
            refused = sepal("backup", "--keep", "1", "--from", self.address(), folder)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("%s %s" % (folder, why), refused.stderr)
        for number in ("0", "-1", "10001", "many"):
            self.assertEqual(sepal("backup", "--keep", number, self.folder).returncode, 2, number)
