"""The setting `user`, and the permissions of what sepald writes."""

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess

from client import Client
from daemon import SEPALD, DaemonTest, free_port

SECONDS_MAX = 300
NAME = "nobody"
# A start that cannot go on.
FAILED = 1


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def status_of(pid):
    """The fields of /proc/PID/status."""
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def low_port(below=1024):
    """A free port that only root may open, or another one if there is none."""
    for port in range(below - 1, 600, -1):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    return free_port()


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


class PermissionsTest(DaemonTest):
    def test_what_it_writes_is_for_its_user_alone(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        data = os.path.join(self.directory, "data")
        exports = os.path.join(self.directory, "exports")
        path = os.path.join(self.directory, "sepal.sock")
        log = os.path.join(self.directory, "log")
        users = os.path.join(self.directory, "users.acl")
        os.mkdir(exports)
        with open(users, "w", encoding="ascii"):
            os.chmod(users, 0o600)
        daemon = self.start("--import-dir", exports, "--unixsocket", path, "--unixsocket-mode", "770", "--log-file", log,
                            "--aclfile", users, directory=data, wait=False)
        self.eventually("it is ready", lambda: "ready: address=" in read(log))
        with Client.at_path(path) as client:
            client.call("BF.RESERVE", "large", "0.001", "4000000")
            client.call("BF.ADD", "small", "1")
            client.call("COPY", "large", "copy")
            client.call("BF.EXPORT", "small", "small.sepal")
            client.save()
            client.call("ACL", "SAVE")
        self.assertEqual(mode_of(path), 0o770)
        self.assertEqual(mode_of(os.path.join(exports, "small.sepal")), 0o600)
        self.assertEqual([mode_of(log), mode_of(users)], [0o600, 0o600])
        for root, _, names in os.walk(data):
            self.assertEqual(mode_of(root), 0o700, root)
            for name in names:
                self.assertEqual(mode_of(os.path.join(root, name)), 0o600, name)
        self.assertEqual(daemon.stop(), 0)

    def test_an_unknown_user_is_an_error(self):
        daemon = self.start("--user", "no-such-user", wait=False)
        self.assertEqual(daemon.wait(), FAILED)
        self.assertIn('user: there is no user "no-such-user" on this machine', daemon.text())

    def test_its_own_user_changes_nothing(self):
        daemon = self.start("--user", pwd.getpwuid(os.geteuid()).pw_name)
        self.assertNotIn("runs as root", daemon.text())
        self.assertEqual(daemon.stop(), 0)


class RootTest(DaemonTest):
    def setUp(self):
        if os.geteuid() != 0:
            self.skip_aloud("only root can become another user")
        super().setUp()
        os.chmod(self.directory, 0o755)
        self.user = pwd.getpwnam(NAME)
        self.data = os.path.join(self.directory, "new", "data")

    def check_user(self, daemon):
        status = status_of(daemon.process.pid)
        self.assertEqual(status["Uid"].split(), [str(self.user.pw_uid)] * 4)
        self.assertEqual(status["Gid"].split(), [str(self.user.pw_gid)] * 4)
        self.assertEqual(status["Groups"].split(), [str(group) for group in sorted(os.getgrouplist(NAME, self.user.pw_gid))])
        for name in ("CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        for thread in os.listdir("/proc/%d/task" % daemon.process.pid):
            of_thread = status_of(int(thread))
            self.assertEqual(of_thread["Uid"], status["Uid"], of_thread["Name"])
            self.assertEqual(int(of_thread["CapPrm"], 16), 0, of_thread["Name"])

    def test_root_becomes_the_user_and_everything_works(self):
        log = os.path.join(self.directory, "logs", "log")
        os.mkdir(os.path.dirname(log))
        os.chown(os.path.dirname(log), self.user.pw_uid, self.user.pw_gid)
        path = os.path.join(self.directory, "sepal.sock")
        port = low_port()
        daemon = self.start("--user", NAME, "--unixsocket", path, "--unixsocket-mode", "700", "--port", str(port),
                            "--log-file", log, "--http-port", str(low_port(below=port)), directory=self.data, wait=False)
        self.eventually("it is ready", lambda: "ready: address=" in read(log))
        daemon.port = port
        self.check_user(daemon)
        self.assertEqual((os.stat(path).st_uid, mode_of(path)), (self.user.pw_uid, 0o700))
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "large", "0.001", "4000000")
            client.save()
            client.call("BF.ADD", "small", "1")
        os.rename(log, log + ".1")
        daemon.send_signal(signal.SIGHUP)
        self.eventually("the log is opened again", lambda: os.path.exists(log))
        self.assertEqual(daemon.stop(), 0)
        for root, _, names in os.walk(os.path.join(self.directory, "new")):
            for entry in [root] + [os.path.join(root, name) for name in names]:
                self.assertEqual(os.stat(entry).st_uid, self.user.pw_uid, entry)
        again = self.start("--user", NAME, directory=self.data)
        self.check_user(again)
        with Client.of(again) as client:
            self.assertEqual(client.call("BF.EXISTS", "small", "1"), 1)
        self.assertNotIn("runs as root", again.text())
        self.assertEqual(again.stop(), 0)

    def test_a_directory_that_the_user_cannot_write_to_is_an_error(self):
        data = os.path.join(self.directory, "data")
        os.mkdir(data, 0o755)
        daemon = self.start("--user", NAME, directory=data, wait=False)
        self.assertEqual(daemon.wait(), FAILED)
        self.assertIn("the user %s may not write to the data directory %s" % (NAME, data), daemon.text())
        self.assertEqual(os.listdir(data), [])

    def test_a_folder_that_the_user_cannot_enter_is_named(self):
        locked = os.path.join(self.directory, "locked")
        data = os.path.join(locked, "data")
        os.makedirs(data)
        os.chown(data, self.user.pw_uid, self.user.pw_gid)
        os.chmod(locked, 0o700)
        daemon = self.start("--user", NAME, directory=data, wait=False)
        self.assertEqual(daemon.wait(), FAILED)
        self.assertIn("because it may not enter %s;" % locked, daemon.text())

    def test_root_without_a_user_is_warned(self):
        daemon = self.start()
        self.assertIn("runs as root", daemon.text())
        self.assertEqual(daemon.stop(), 0)

    def test_another_user_cannot_become_somebody_else(self):
        program = os.path.join(self.directory, "sepald")
        shutil.copy(SEPALD, program)
        os.chmod(program, 0o755)
        done = subprocess.run([program, "--port", "0", "--user", "root", "--dir", os.path.join(self.directory, "none")],
                              capture_output=True, text=True, timeout=SECONDS_MAX, user=self.user.pw_uid,
                              group=self.user.pw_gid, extra_groups=[], check=False)
        self.assertEqual(done.returncode, FAILED)
        self.assertIn('user: only root can become "root"', done.stderr)
