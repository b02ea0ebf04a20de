"""The tools as a user who may not read or write the files of a server: they say what is closed, and who must run them."""

import os
import subprocess

from client import Client
from daemon import SEPALD, DaemonTest, sepal
from permissions import obey_permissions

ADVICE = "; run sepal as root or as the user of the server\n"


class ForbiddenTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.out = os.path.join(self.directory, "out")
        self.daemon = self.start(directory=self.data)
        with Client.of(self.daemon) as client:
            client.call("BF.ADD", "a", "1")
            client.save()
        self.server = "redis://127.0.0.1:%d" % self.daemon.port

    def close(self, path, mode=0):
        """Takes the rights to a file or folder away, until the test ends."""
        self.addCleanup(os.chmod, path, os.stat(path).st_mode & 0o7777)
        os.chmod(path, mode)

    def refused(self, text, *arguments):
        done = sepal(*arguments, preexec_fn=obey_permissions)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "sepal %s: %s" % (arguments[0], text))
        self.assertFalse(os.path.exists(self.out))

    def test_a_data_directory_that_is_closed(self):
        self.close(self.data)
        closed = "cannot read %s: Permission denied%s" % (self.data, ADVICE)
        for command in (("backup", "--from", self.server, "--dir", self.data, self.out), ("backup", "--from", self.server, self.out),
                        ("backup", "--dir", self.data, self.out), ("verify", self.data), ("salvage", self.data, "--into", self.out)):
            with self.subTest(command):
                self.refused(closed, *command)

    def test_a_data_directory_whose_files_are_closed(self):
        for name in ("SEED", "CURRENT"):
            path = os.path.join(self.data, name)
            self.close(path)
            closed = "cannot read %s: Permission denied%s" % (path, ADVICE)
            for command in (("backup", "--from", self.server, "--dir", self.data, self.out), ("backup", "--dir", self.data, self.out),
                            ("verify", self.data), ("salvage", self.data, "--into", self.out)):
                with self.subTest(command, name=name):
                    self.refused(closed, *command)
            os.chmod(path, 0o600)

    def test_a_file_deep_in_the_data_is_closed(self):
        self.assertEqual(self.daemon.stop(), 0)
        [generation] = [name for name in os.listdir(self.data) if name.startswith("generation-")]
        for name in (generation + "/MANIFEST", generation + "/pack-0"):
            path = os.path.join(self.data, name)
            self.close(path)
            with self.subTest(name):
                self.refused("cannot open %s: Permission denied%s" % (path, ADVICE), "backup", "--copy", "--dir", self.data, self.out)
            os.chmod(path, 0o600)

    def test_a_restore(self):
        backup, closed = os.path.join(self.directory, "backup"), os.path.join(self.directory, "closed")
        self.assertEqual(sepal("backup", "--from", self.server, backup).returncode, 0)
        os.mkdir(closed)
        self.close(closed)
        self.refused("cannot open the directory %s: Permission denied%s" % (closed, ADVICE), "restore", backup, "--dir", closed)
        self.refused("cannot create %s/data: Permission denied%s" % (closed, ADVICE), "restore", backup, "--dir", closed + "/data")
        self.assertEqual(self.daemon.stop(), 0)
        self.close(os.path.join(self.data, "LOCK"))
        self.refused("cannot open the lock file %s/LOCK: Permission denied%s" % (self.data, ADVICE), "restore", "--force", backup, "--dir", self.data)
        self.close(backup)
        self.refused("cannot read %s: Permission denied%s" % (backup, ADVICE), "restore", backup, "--dir", self.out)

    def test_a_socket_that_is_closed(self):
        path = os.path.join(self.directory, "socket")
        self.start("--unixsocket", path, directory=os.path.join(self.directory, "other"))
        self.close(path)
        closed = "%s: Permission denied%s, or let this user use the socket (unixsocket_mode)\n" % (path, ADVICE.rstrip())
        self.refused(closed, "backup", "--from", "unix://" + path, self.out)
        self.refused(closed, "migrate", "unix://" + path, self.server)
        check = subprocess.run([SEPALD, "--healthcheck", "--unixsocket", path, "--port", "0"], capture_output=True, text=True,
                               preexec_fn=obey_permissions)
        self.assertEqual(check.returncode, 1)
        self.assertEqual(check.stderr, "sepald: not healthy: %s: Permission denied; run the check as root or as the user of the server\n" % path)

    def test_a_place_where_this_user_may_not_write(self):
        closed = os.path.join(self.directory, "closed")
        os.mkdir(closed)
        self.close(closed, 0o500)
        for arguments in ((closed + "/backup",), ("--keep", "2", closed + "/backups")):
            done = sepal("backup", "--from", self.server, *arguments, preexec_fn=obey_permissions)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^sepal backup: cannot create the directory .*: Permission denied; "
                                          "name a folder that this user may write to\n$")
