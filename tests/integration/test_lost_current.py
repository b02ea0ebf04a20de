"""A data directory that lost CURRENT, or LOCK while a server uses it."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

from client import Client
from daemon import DaemonTest, sepal



class LostCurrentTest(DaemonTest):
    def leave_directory(self, *arguments):
        daemon = self.start(*arguments)
        with Client.of(daemon) as client:
            client.call("BF.MADD", "k", "a", "b")
        self.assertEqual(daemon.stop(), 0)
        os.remove(os.path.join(self.directory, "CURRENT"))

    def check_refused(self):
        """The command in the message."""
        generations = glob.glob(os.path.join(self.directory, "generation-*"))
        self.assertTrue(generations)
        refused = self.start(wait=False)
        self.assertEqual(refused.wait(), 1)
        self.assertIn("CURRENT was lost", refused.text())
        verified = sepal("verify", self.directory)
        self.assertEqual(verified.returncode, 1, verified.stdout)
        self.assertRegex(verified.stdout, "DAMAGED .*CURRENT was lost")
        self.assertIn("sepald will not start with this", verified.stdout)
        self.assertEqual(glob.glob(os.path.join(self.directory, "generation-*")), generations)
        return re.search(r"(echo '[^']*' > '[^']*')", refused.text()).group(1)

    def test_the_command_of_the_message_names_the_generation_again(self):
        for policy in ("everysec", "off"):
            with self.subTest(policy):
                self.leave_directory("--journal", policy)
                subprocess.run(["sh", "-c", self.check_refused()], check=True)
                self.assertEqual(sepal("verify", self.directory).returncode, 0)
                daemon = self.start()
                with Client.of(daemon) as client:
                    self.assertEqual(client.call("BF.MEXISTS", "k", "a", "b"), [1, 1])
                daemon.kill()
                shutil.rmtree(self.directory)
                os.mkdir(self.directory)

    def test_salvage_takes_the_newest_generation(self):
        self.leave_directory()
        self.check_refused()
        into = os.path.join(tempfile.mkdtemp(prefix="sepal-test-"), "saved")
        self.addCleanup(shutil.rmtree, os.path.dirname(into), ignore_errors=True)
        salvaged = sepal("salvage", self.directory, "--into", into)
        self.assertEqual(salvaged.returncode, 0, salvaged.stdout + salvaged.stderr)
        self.assertIn("noted  CURRENT names no generation: took generation-000000000001", salvaged.stdout)
        self.assertIn("saved  1 filters and 0 strings with 2 items", salvaged.stdout)
        with Client.of(self.start(directory=into)) as client:
            self.assertEqual(client.call("BF.CARD", "k"), 2)

    def test_no_second_server_uses_the_directory_though_LOCK_was_removed(self):
        with Client.of(self.start()) as client:
            os.remove(os.path.join(self.directory, "LOCK"))
            second = self.start(wait=False)
            self.assertEqual(second.wait(), 1)
            self.assertIn("%s is in use by another process" % self.directory, second.text())
            self.assertEqual(client.call("BF.ADD", "k", "a"), 1)
