"""Files of two data directories in one, and a restore that was cut off: refused, with a line to type."""

import os
import re
import shutil
import subprocess

from client import Client
from daemon import EXACT_RATE, DaemonTest, sepal

SEPAL = os.environ["SEPAL"]
ITEMS = 200


class MixedTest(DaemonTest):
    def leave(self, name, saved=True):
        """The same keys and commands in each directory, with other items. The server is killed."""
        path = os.path.join(self.directory, name)
        daemon = self.start("--bf-error-rate", EXACT_RATE, directory=path)
        with Client.of(daemon) as client:
            for half in range(2):
                client.call("BF.MADD", "key", *("%s%06d" % (name, half * ITEMS + number) for number in range(ITEMS)))
                if saved and half == 0:
                    client.save()
        daemon.kill()
        return path

    def move(self, chosen, source, target):
        for path in (source, target):
            self.assertTrue([name for name in os.listdir(path) if chosen(name)])
        for name in os.listdir(target):
            if chosen(name):
                path = os.path.join(target, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        for name in os.listdir(source):
            if chosen(name):
                shutil.move(os.path.join(source, name), target)

    def found(self, path, name):
        daemon = self.start(directory=path)
        with Client.of(daemon) as client:
            found = client.call("BF.MEXISTS", "key", *("%s%06d" % (name, number) for number in range(2 * ITEMS)))
        daemon.kill()
        return sum(found)

    def lines_to_type(self, path, text):
        """What start, verify, salvage and backup say of the directory: all the same."""
        refused = self.start(directory=path, wait=False)
        self.assertEqual(refused.wait(), 1)
        self.assertIn(text, refused.text())
        for command in (("verify", path), ("salvage", path, "--into", path + "-saved"), ("backup", "--dir", path, path + "-backup")):
            told = sepal(*command)
            self.assertEqual(told.returncode, 1, command)
            self.assertIn(text, told.stdout + told.stderr, command)
        self.assertFalse(os.path.exists(path + "-saved"))
        self.assertFalse(os.path.exists(path + "-backup"))
        return re.findall(r"type: ([^;\n]*)", sepal("salvage", path, "--into", path + "-saved").stderr)

    def test_another_directorys_generation_is_moved_away_by_the_line_of_the_message(self):
        home, away = self.leave("home"), self.leave("away")
        self.move(lambda name: name == "CURRENT" or name.startswith("generation-"), away, home)
        lines = self.lines_to_type(home, "are of different data directories")
        self.assertEqual(len(lines), 2)
        # Left by an earlier mixture.
        for line in lines:
            os.mkdir(os.path.join(home, re.search(r"mkdir (\S*)", line)[1]))
        lines = self.lines_to_type(home, "are of different data directories")
        for number, line in enumerate(lines):
            copy = os.path.join(self.directory, "copy %d's" % number)
            shutil.copytree(home, copy)
            typed = line.replace("'%s'" % home, "'%s'" % copy.replace("'", "'\\''"))
            subprocess.run(["sh", "-c", typed], check=True)
            if "mv CURRENT" in line:
                # The rest is this directory's, without its generation: the journal begins at 0.
                self.assertEqual(self.found(copy, "home"), 2 * ITEMS)
            else:
                self.assertGreaterEqual(self.found(copy, "away"), ITEMS)

    def test_another_directorys_generation_beside_a_journal_alone_is_not_salvaged(self):
        home, away = self.leave("home", saved=False), self.leave("away")
        for name in os.listdir(away):
            if name == "CURRENT" or name.startswith("generation-"):
                shutil.move(os.path.join(away, name), home)
        self.lines_to_type(home, "are of different data directories")

    def test_a_backup_with_a_file_of_another_directory_is_not_restored(self):
        home, away = self.leave("home"), self.leave("away")
        backup = os.path.join(self.directory, "backup")
        self.assertEqual(sepal("backup", "--dir", home, backup).returncode, 0)
        self.move(lambda name: name.startswith("journal-"), away, backup)
        refused = sepal("restore", backup, "--dir", os.path.join(self.directory, "restored"))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("are of different data directories", refused.stderr)

    def test_copies_that_went_on_apart_are_told_from_each_other(self):
        home = self.leave("home")
        copy = os.path.join(self.directory, "copy")
        shutil.copytree(home, copy)
        for path, item in ((home, "here"), (copy, "there")):
            daemon = self.start(directory=path)
            with Client.of(daemon) as client:
                client.call("BF.ADD", "key", item)
                client.save()
                client.call("BF.ADD", "key", item + " too")
            daemon.kill()
        self.move(lambda name: name == "CURRENT" or name.startswith("generation-"), copy, home)
        text = "a copy of this data directory that went on by itself"
        refused = self.start(directory=home, wait=False)
        self.assertEqual(refused.wait(), 1)
        self.assertIn(text, refused.text())
        self.assertIn(text, sepal("verify", home).stdout)
        salvaged = sepal("salvage", home, "--into", home + "-saved")
        self.assertEqual(salvaged.returncode, 3)
        self.assertIn("lost   the journal from position", salvaged.stdout)

    def test_the_line_of_the_message_ends_a_restore_that_was_cut_off(self):
        home = self.leave("home")
        backup = os.path.join(self.directory, "backup")
        self.assertEqual(sepal("backup", "--dir", home, backup).returncode, 0)
        for moved in ("CURRENT", "SEED", None):
            with self.subTest(moved):
                data = os.path.join(self.directory, "data-%s" % moved)
                shutil.copytree(home, data)
                # As a restore leaves it that is killed while it moves the old data, or the new.
                old = os.path.join(data, "restore.old")
                os.mkdir(old)
                for name in os.listdir(data):
                    if name not in ("LOCK", "restore.old") and moved in (name, None):
                        shutil.move(os.path.join(data, name), old)
                if moved is None:
                    shutil.copytree(backup, os.path.join(data, "restore.new"))
                    shutil.move(os.path.join(data, "restore.new", "SEED"), data)
                [line] = self.lines_to_type(data, "a restore into %s was cut off" % data)
                self.assertIn("a restore into", sepal("restore", backup, "--dir", data).stderr)
                line = line.split(" (BACKUP is")[0].replace("BACKUP", "'%s'" % backup)
                line = line.replace("sepal restore", "'%s' restore" % SEPAL)
                subprocess.run(["sh", "-c", line], check=True, stdout=subprocess.DEVNULL)
                self.assertEqual(self.found(data, "home"), 2 * ITEMS)
                kept = [name for name in os.listdir(data) if name.startswith("replaced-")]
                self.assertTrue(any(os.path.exists(os.path.join(data, name, "CURRENT")) for name in kept), kept)
                self.assertFalse([name for name in os.listdir(data) if name.startswith("restore.")])

    def test_a_folder_or_a_link_to_nothing_under_a_name_of_sepald_blocks_neither_save_nor_salvage(self):
        home = self.leave("home")
        daemon = self.start(directory=home)
        for name in ("CURRENT.tmp", "SYNCED.tmp"):
            os.mkdir(os.path.join(home, name))
        with Client.of(daemon) as client:
            client.call("BF.ADD", "key", "more")
            client.save()
        self.assertEqual(daemon.stop(), 0)
        os.symlink("nowhere", os.path.join(home, "journal-000000000099"))
        salvaged = sepal("salvage", home, "--into", home + "-saved")
        self.assertEqual(salvaged.returncode, 3, salvaged.stderr)
        self.assertIn("journal-000000000099: it is a link to a file that is not there", salvaged.stdout)
        self.assertIn("saved  1 filters", salvaged.stdout)
        verified = sepal("verify", home)
        self.assertEqual(verified.returncode, 1)
        self.assertIn("it is a link to a file that is not there", verified.stdout)
