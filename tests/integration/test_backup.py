"""`sepal backup` of running and stopped servers, and `sepal restore`."""

import contextlib
import glob
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

from certificates import Authority
from client import Client
from daemon import SANITIZED, DaemonTest, beside, free_port, sepal, sized
from disk_case import mount_small

SEPAL = os.environ["SEPAL"]
ROUNDS = 3 if SANITIZED else sized(3, 8)
TRIES_MAX = 20


def address(daemon):
    return "redis://127.0.0.1:%d" % daemon.port


def contents(directory):
    """Every file with its bytes, its mode, and the time of its last change."""
    files = {}
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, directory)] = (file.read(), os.stat(path).st_mtime_ns)
    return files


def read(path):
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


class MuteServer:
    """Takes connections, answers the first request of each with `first`, if that is given, and then never again."""

    def __init__(self, first=None):
        self.first = first
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.address = "redis://127.0.0.1:%d" % self.port
        self.two_requests = threading.Event()
        self.connections = []

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.close()
        for connection in self.connections:
            connection.close()

    def serve(self):
        with contextlib.suppress(OSError):  # the test has ended
            while True:
                self.connections.append(self.socket.accept()[0])
                if self.first is not None and self.connections[-1].recv(4096):
                    self.connections[-1].sendall(b"$%d\r\n%s\r\n" % (len(self.first), self.first))
                    self.connections[-1].recv(4096)
                    self.two_requests.set()

    def wait_for_two_requests(self):
        if not self.two_requests.wait(60):
            raise AssertionError("no second request came")


class Writer(threading.Thread):
    """A client that changes everything that can be changed. `done` counts rounds that were answered."""

    def __init__(self, daemon, name):
        super().__init__(daemon=True)
        self.client = Client.of(daemon)
        self.name_of_keys = name
        self.done = 0
        self.ended = threading.Event()

    def run(self):
        name = self.name_of_keys
        client = self.client
        number = 0
        while not self.ended.is_set():
            item = "%s/%d" % (name, number)
            client.pipeline([
                ("BF.ADD", name + ":grows", item),               # grows from a small capacity
                ("SETBIT", name + ":bits", number, 1),
                ("SET", name + ":text", "%08d" % number),
                ("BF.ADD", name + ":few:%d" % number, item),
                ("PEXPIRE", name + ":few:%d" % number, 3_600_000 if number % 2 else 1),
                ("COPY", name + ":grows", name + ":copy:%d" % (number % 3), "REPLACE"),
            ])
            number += 1
            self.done = number

    def end(self):
        self.ended.set()
        self.join()
        self.client.close()


class BackupTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.backup = os.path.join(self.directory, "backup")
        self.restored = os.path.join(self.directory, "restored")

    def start_here(self, *arguments, **options):
        return self.start(*arguments, directory=self.data, **options)

    def make(self, *arguments, into=None):
        made = sepal("backup", *arguments, into or self.backup)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("verified: a start will load this", made.stdout)
        return made.stdout

    def restore(self, *arguments, backup=None, into=None):
        restored = sepal("restore", backup or self.backup, "--dir", into or self.restored, *arguments)
        self.assertEqual(restored.returncode, 0, restored.stderr)
        return restored.stdout

    def check_private(self, directory):
        for root, _, names in os.walk(directory):
            self.assertEqual(stat.S_IMODE(os.stat(root).st_mode), 0o700, root)
            for name in names:
                path = os.path.join(root, name)
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o077, 0, path)

    def test_a_backup_under_load_has_everything_that_was_acknowledged_before(self):
        for copying in ((), ("--copy",)):
            with self.subTest(copying):
                daemon = self.start_here("--save-interval", "1s")
                with Client.of(daemon) as client:
                    for name in ("0", "1", "2"):
                        client.call("BF.RESERVE", name + ":grows", "0.001", "64")
                    client.call("BF.RESERVE", "large", "0.001", "4000000")
                    client.call("BF.MADD", "large", *range(1000))
                writers = [Writer(daemon, name) for name in ("0", "1", "2")]
                for writer in writers:
                    writer.start()
                self.eventually("the writers write", lambda: min(w.done for w in writers) > 50)
                before = [writer.done for writer in writers]
                told = self.make("--from", address(daemon), *copying)
                after = [writer.done for writer in writers]
                for writer in writers:
                    writer.end()
                self.assertEqual(daemon.stop(), 0)
                self.assertEqual("links" in told, not copying, told)
                self.check_private(self.backup)
                was = contents(self.backup)
                self.restore()
                self.check_private(self.restored)
                again = self.start(directory=self.restored)
                with Client.of(again) as client:
                    self.assertEqual(client.call("BF.MEXISTS", "large", *range(1000)), [1] * 1000)
                    for writer, least, most in zip(writers, before, after):
                        name = writer.name_of_keys
                        items = ["%s/%d" % (name, number) for number in range(least)]
                        self.assertEqual(client.call("BF.MEXISTS", name + ":grows", *items), [1] * least)
                        bits = client.pipeline([("GETBIT", name + ":bits", number) for number in range(least)])
                        self.assertEqual(bits, [1] * least)
                        self.assertGreaterEqual(int(client.call("GET", name + ":text")), least - 1)
                        self.assertLessEqual(int(client.call("GET", name + ":text")), most + 1)
                        # One moment: a round is a pipeline, whose commands stand one behind the other.
                        count = client.call("BITCOUNT", name + ":bits")
                        text = int(client.call("GET", name + ":text"))
                        self.assertIn(count - 1 - text, (0, 1))
                        kept = client.pipeline([("BF.EXISTS", "%s:few:%d" % (name, number), "%s/%d" % (name, number))
                                                for number in range(1, least, 2)])
                        self.assertEqual(kept, [1] * len(kept))
                        gone = client.pipeline([("EXISTS", "%s:few:%d" % (name, number)) for number in range(0, least - 1, 2)])
                        self.assertEqual(gone, [0] * len(gone))
                self.assertEqual(again.stop(), 0)
                self.assertEqual(contents(self.backup), was)
                for path in (self.data, self.backup, self.restored):
                    shutil.rmtree(path)

    def test_a_filter_that_came_whole_after_the_save_is_in_the_backup(self):
        imports = os.path.join(self.directory, "imports")
        os.mkdir(imports)
        daemon = self.start_here("--import-dir", imports)
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "source", "0.001", "400000")
            client.call("BF.MADD", "source", *range(500))
            client.call("BF.EXPORT", "source", "source.sepal")
            client.save()

        def import_again(ended):
            with Client.of(daemon) as client:
                number = 0
                while not ended.is_set():
                    client.call("BF.IMPORT", "imported:%d" % number, "source.sepal")
                    client.call("COPY", "source", "copied:%d" % number)
                    number += 1

        made = []
        with beside(import_again):
            # Whether a filter comes between a save and the copy of it is chance.
            while len(made) < 4 or len(made) < TRIES_MAX and not any(glob.glob(each + "/adopted-*") for each in made):
                made.append(self.backup + str(len(made)))
                self.make("--from", address(daemon), into=made[-1])
        self.assertTrue(any(glob.glob(each + "/adopted-*") for each in made), "no backup met a filter that came whole")
        self.restore(backup=made[-1])
        again = self.start(directory=self.restored)
        with Client.of(again) as client:
            self.assertEqual(client.call("BF.MEXISTS", "imported:0", *range(500)), [1] * 500)
            self.assertEqual(client.call("BF.MEXISTS", "copied:0", *range(500)), [1] * 500)
        self.assertEqual(again.stop(), 0)

    def test_a_stopped_server_is_copied_with_its_journal(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "saved", "1")
            client.save()
            client.call("BF.ADD", "recorded", "2")
            refused = sepal("backup", "--dir", self.data, self.backup)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("is in use by process %d" % daemon.process.pid, refused.stderr)
            self.assertIn("name the server with --from", refused.stderr)
        daemon.kill()
        self.assertRegex(self.make("--dir", self.data), r"\ndata     1 keys, with 1 items, saved at ")
        self.assertEqual(sepal("verify", self.backup).returncode, 0)
        self.restore()
        again = self.start(directory=self.restored)
        with Client.of(again) as client:
            self.assertEqual([client.call("BF.CARD", key) for key in ("saved", "recorded")], [1, 1])
        self.assertEqual(again.stop(), 0)

    def test_a_password_and_a_socket(self):
        path = os.path.join(self.directory, "sepal.sock")
        daemon = self.start_here("--requirepass", "sesame", "--unixsocket", path, "--port", "0")
        refused = sepal("backup", "--from", "unix://" + path, self.backup)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("NOAUTH", refused.stderr)
        self.assertIn("; set SEPAL_PASSWORD; if it is not that of the user default, name the user in --from: USER@HOST", refused.stderr)
        wrong = sepal("backup", "--from", "unix://" + path, self.backup, environment={"SEPAL_PASSWORD": "mustard"})
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("or user is disabled; correct SEPAL_PASSWORD", wrong.stderr)
        self.assertNotIn("mustard", wrong.stderr)
        made = sepal("backup", "--from", "unix://" + path, self.backup, environment={"SEPAL_PASSWORD": "sesame"})
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(daemon.stop(), 0)

    def test_a_user_without_the_rights(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            for rights in ("+info", "+bgsave"):
                client.call("ACL", "SETUSER", "keeper", "reset", "on", ">sesame", rights)
                refused = sepal("backup", "--from", "redis://keeper@127.0.0.1:%d" % daemon.port, self.backup,
                                environment={"SEPAL_PASSWORD": "sesame"})
                self.assertEqual(refused.returncode, 1)
                self.assertRegex(refused.stderr, "was answered: NOPERM .*; the user needs the rights \\+info \\+bgsave\n$")

    def test_a_server_with_tls_only_and_a_user(self):
        authority = Authority(self.directory)
        server, alice = authority.sign("server"), authority.sign("alice", "alice")
        path, tls_port = os.path.join(self.directory, "sepal.sock"), free_port()
        daemon = self.start_here("--port", "0", "--tls-port", str(tls_port), "--tls-cert-file", server.certificate,
                                 "--tls-key-file", server.key, "--tls-ca-cert-file", authority.certificate,
                                 "--tls-auth-clients", "yes", "--unixsocket", path)
        with Client.at_path(path) as client:
            client.call("ACL", "SETUSER", "keeper", "on", ">sesame", "+bgsave", "+info")
            client.call("ACL", "SETUSER", "default", "off")
        address = "rediss://keeper@127.0.0.1:%d" % tls_port
        with_password = {"SEPAL_PASSWORD": "sesame"}
        refused = sepal("backup", "--from", address, self.backup, environment=with_password)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("TLS: ", refused.stderr)
        self.assertIn("name with --cacert the CA certificates", refused.stderr)
        plain = sepal("backup", "--from", address.replace("rediss", "redis"), self.backup, environment=with_password)
        self.assertEqual(plain.returncode, 1)
        self.assertIn("(if it speaks TLS: rediss://)", plain.stderr)
        half = sepal("backup", "--from", address, "--cert", alice.certificate, self.backup, environment=with_password)
        self.assertEqual(half.returncode, 2)
        self.assertIn("--cert and --key belong together", half.stderr)
        for number, server_of in enumerate(((address, "--cacert", authority.certificate, "--cert", alice.certificate, "--key", alice.key),
                                            ("unix://keeper@" + path,))):
            made = sepal("backup", "--from", *server_of, self.backup + str(number), environment=with_password)
            self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(daemon.stop(), 0)

    def test_what_is_there_is_never_written_over(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "a", "1")
        self.make("--from", address(daemon))
        before = contents(self.backup)
        again = sepal("backup", "--from", address(daemon), self.backup)
        self.assertEqual(again.returncode, 1)
        self.assertIn("is not empty", again.stderr)
        self.assertEqual(contents(self.backup), before)
        empty = os.path.join(self.directory, "empty")
        os.mkdir(empty)
        self.make("--from", address(daemon), into=empty + "/")
        running = sepal("restore", self.backup, "--dir", self.data, "--force")
        self.assertEqual(running.returncode, 1)
        self.assertIn("is in use by process", running.stderr)
        self.assertEqual(daemon.stop(), 0)
        has_data = sepal("restore", self.backup, "--dir", self.data)
        self.assertEqual(has_data.returncode, 1)
        self.assertIn("has data", has_data.stderr)

    def test_force_puts_the_old_data_aside(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "old", "1")
            self.make("--from", address(daemon))
            client.call("BF.ADD", "new", "1")
        self.assertEqual(daemon.stop(), 0)
        told = self.restore("--force", into=self.data)
        self.assertIn(os.path.join(self.data, "replaced-1"), told)
        daemon = self.start_here()
        with Client.of(daemon) as client:
            self.assertEqual([client.call("EXISTS", key) for key in ("old", "new")], [1, 0])
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(sepal("verify", os.path.join(self.data, "replaced-1")).returncode, 0)

    def test_a_damaged_backup_is_refused(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.pipeline([("BF.ADD", "key:%d" % number, "1") for number in range(100)])
            self.make("--copy", "--from", address(daemon))
            synced = os.path.join(self.data, "SYNCED")
            before = read(synced)
            client.pipeline([("BF.ADD", "key:%d" % number, "2") for number in range(100)])
            self.eventually("SYNCED tells of the changes", lambda: read(synced) != before)
        daemon.kill()
        stopped = self.backup + "-stopped"
        self.make("--copy", "--dir", self.data, into=stopped)
        for backup in (self.backup, stopped):
            files = [path for path in glob.glob(backup + "/**", recursive=True)
                     if os.path.isfile(path) and not os.path.basename(path).startswith(("SYNCED", "journal"))]
            for path in files:
                with self.subTest(path):
                    flip(path, min(os.path.getsize(path) // 2, 80))
                    refused = sepal("restore", backup, "--dir", self.restored)
                    self.assertEqual(refused.returncode, 1, path)
                    self.assertIn(os.path.basename(path), refused.stderr)
                    self.assertEqual([name for name in os.listdir(self.restored) if name != "LOCK"], [])
                    flip(path, min(os.path.getsize(path) // 2, 80))
        for path in glob.glob(stopped + "/journal-*"):
            os.remove(path)
        lost = sepal("restore", stopped, "--dir", self.restored)
        self.assertEqual(lost.returncode, 1)
        self.assertIn("SYNCED", lost.stderr)

    def test_a_backup_of_a_newer_version_is_refused(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "a", "1")
        self.assertEqual(daemon.stop(), 0)
        self.make("--dir", self.data)
        path = os.path.join(self.backup, "CURRENT")
        kind, version, rest = read(path).split(b" ", 2)
        with open(path, "wb") as current:
            current.write(b"%s %d %s" % (kind, int(version) + 1, rest))
        refused = sepal("restore", self.backup, "--dir", self.restored)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("CURRENT was written by a newer version of Sepal", refused.stderr)
        self.assertEqual([name for name in os.listdir(self.restored) if name != "LOCK"], [])

    def test_a_backup_that_is_killed_leaves_no_backup(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            for number in range(3):
                client.call("BF.RESERVE", "large:%d" % number, "0.001", "3000000")
        chance = random.Random(1)
        whole = sorted(name for name in os.listdir(self.data) if name.startswith("generation"))
        self.assertEqual(whole, [])
        for number in range(ROUNDS):
            ending = signal.SIGTERM if number % 4 == 3 else signal.SIGKILL
            if ending == signal.SIGTERM:
                # A program that is ended at once leaves what an earlier one left.
                shutil.rmtree(self.backup + ".partial", ignore_errors=True)
            with subprocess.Popen([SEPAL, "backup", "--copy", "--quiet", "--from", address(daemon), self.backup]) as program:
                time.sleep(chance.uniform(0, 0.3))
                program.send_signal(ending)
            if os.path.exists(self.backup):
                self.assertEqual(sepal("verify", self.backup).returncode, 0)
                shutil.rmtree(self.backup)
            if ending == signal.SIGTERM:
                self.assertFalse(os.path.exists(self.backup + ".partial"))
        self.make("--from", address(daemon))
        self.assertFalse(os.path.exists(self.backup + ".partial"))
        self.assertEqual(daemon.stop(), 0)

    def test_a_signal_ends_the_wait_for_a_server(self):
        with MuteServer(b"# Sepal\r\ndata_directory:%s\r\n" % self.data.encode()) as server:
            with subprocess.Popen([SEPAL, "backup", "--quiet", "--from", server.address, self.backup]) as program:
                try:
                    server.wait_for_two_requests()
                    self.assertTrue(os.path.exists(self.backup + ".partial"))
                    program.send_signal(signal.SIGTERM)
                    self.assertEqual(program.wait(60), -signal.SIGTERM)
                finally:
                    program.kill()
        self.assertEqual(glob.glob(self.backup + "*"), [])

    def test_a_server_that_answers_nothing_is_an_error_that_says_what_was_waited_for(self):
        with MuteServer() as server:
            plain, encrypted = server.address, server.address.replace("redis:", "rediss:")
            waited = {("backup", "--from", plain, self.backup): "no answer within 10 seconds: it is no Redis server, or one that is paused or busy",
                      ("migrate", plain, plain): "no answer within 10 seconds: it is no Redis server, or one that is paused or busy",
                      ("migrate", encrypted, plain): "no answer to the TLS handshake within 10 seconds: the port may speak no TLS (redis://)"}
            programs = {words: subprocess.Popen([SEPAL, *words], stderr=subprocess.PIPE, text=True) for words in waited}
            try:
                for words, program in programs.items():
                    with self.subTest(words):
                        told = program.communicate(timeout=60)[1]
                        self.assertEqual(program.returncode, 1, told)
                        self.assertIn("127.0.0.1:%d: %s" % (server.port, waited[words]), told)
            finally:
                for program in programs.values():
                    program.kill()
                    program.communicate()
        self.assertEqual(glob.glob(self.backup + "*"), [])

    def test_a_backup_in_the_data_directory_is_refused(self):
        daemon = self.start_here()
        inside = os.path.join(self.data, "backups", "one")
        os.mkdir(os.path.dirname(inside))
        link = os.path.join(self.directory, "link")
        os.symlink(self.data, link)

        def assert_refused(*arguments):
            refused = sepal("backup", *arguments, cwd=self.data)
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertIn("%s lies in the data directory %s; name a folder outside of it" % (arguments[-1], self.data), refused.stderr)
            self.assertEqual(os.listdir(os.path.dirname(inside)), [])

        for into in (inside, os.path.join(link, "backups", "one"), os.path.join(self.data, "one"), "one", self.data):
            assert_refused("--from", address(daemon), into)
        before = sorted(os.listdir(self.data))
        assert_refused("--keep", "2", "--from", address(daemon), os.path.join(self.data, "kept"))
        self.assertEqual(sorted(os.listdir(self.data)), before)
        self.make("--from", address(daemon), into=self.data + "-backup")
        self.assertEqual(daemon.stop(), 0)
        assert_refused("--dir", self.data, inside)

    def test_a_restore_into_its_backup_is_refused(self):
        daemon = self.start_here()
        self.make("--from", address(daemon))
        self.assertEqual(daemon.stop(), 0)
        link = os.path.join(self.directory, "link")
        os.symlink(self.backup, link)
        before = sorted(os.listdir(self.backup))
        for into in (os.path.join(self.backup, "x"), os.path.join(link, "x", "y"), self.backup, "x"):
            for force in ((), ("--force",)):
                refused = sepal("restore", self.backup, "--dir", into, *force, cwd=self.backup)
                self.assertEqual(refused.returncode, 1, refused.stdout)
                self.assertIn("%s lies in the backup %s; name a folder outside of it" % (into, self.backup), refused.stderr)
                self.assertEqual(sorted(os.listdir(self.backup)), before)
        self.restore()

    def test_a_full_disk_at_the_destination_is_an_error_with_nothing_left(self):
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        mount_small(self, small, 2)
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "large", "0.001", "4000000")
            client.call("BF.MADD", "large", *range(20000))
        failed = sepal("backup", "--from", address(daemon), os.path.join(small, "backup"))
        self.assertEqual(failed.returncode, 1)
        self.assertIn("No space left on device", failed.stderr)
        self.assertEqual(os.listdir(small), [])
        self.assertEqual(daemon.stop(), 0)

    def test_another_directory_than_that_of_the_server_is_noticed(self):
        daemon = self.start_here()
        other = os.path.join(self.directory, "other")
        second = self.start(directory=other)
        with Client.of(second) as client:
            client.save()
        refused = sepal("backup", "--from", address(daemon), "--dir", other, self.backup)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("did not change " + other, refused.stderr)
        nothing = sepal("backup", "--dir", self.directory, self.backup)
        self.assertEqual(nothing.returncode, 1)
        self.assertIn("is no data directory: it has no SEED", nothing.stderr)
        nowhere = os.path.join(self.directory, "nowhere")
        for command in (("backup", "--dir", nowhere, self.backup), ("restore", nowhere, "--dir", self.restored)):
            refused = sepal(*command)
            self.assertEqual((refused.returncode, refused.stderr), (1, "sepal %s: there is no folder %s\n" % (command[0], nowhere)))
        self.assertFalse(os.path.exists(self.backup))
        self.assertFalse(os.path.exists(self.restored))
        for one in (daemon, second):
            self.assertEqual(one.stop(), 0)

    def test_a_save_that_fails_makes_no_backup(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "a", "1")
        os.rename(self.data, self.data + "-moved")
        failed = sepal("backup", "--from", address(daemon), self.backup)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("could not save: %s is not there: it was moved or removed" % self.data, failed.stderr)
        self.assertEqual(glob.glob(self.backup + "*"), [])

    def test_root_restores_for_the_owner_of_the_directory(self):
        if os.geteuid() != 0:
            self.skip_aloud("only root may change owners")
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "a", "1")
            client.save()
            client.call("BF.ADD", "b", "1")
        daemon.kill()
        self.make("--dir", self.data)
        nobody = 65534
        home = tempfile.mkdtemp(prefix="sepal-test-")
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        os.chmod(home, 0o755)
        target = os.path.join(home, "data")
        os.mkdir(target, 0o700)
        os.chown(target, nobody, nobody)
        self.restore(into=target)
        self.restore("--force", into=target)  # what was there is put aside
        self.assertTrue(os.path.isdir(os.path.join(target, "replaced-1")))
        for root, folders, names in os.walk(target):
            for name in folders + names:
                self.assertEqual(os.stat(os.path.join(root, name)).st_uid, nobody, name)
        copied = os.path.join(home, "sepald")
        shutil.copy(os.environ["SEPALD"], copied)
        os.chmod(copied, 0o755)
        port = subprocess.Popen(
            [copied, "--port", "0", "--dir", target], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            user=nobody, group=nobody, extra_groups=[])
        try:
            lines = []
            for line in port.stderr:
                lines.append(line)
                if "ready" in line:
                    break
            else:
                self.fail("".join(lines))
            port.send_signal(signal.SIGTERM)
            port.stderr.read()
            self.assertEqual(port.wait(60), 0)
        finally:
            port.kill()
            port.stderr.close()

    def test_a_link_is_not_shared_with_files_that_the_server_writes_to(self):
        daemon = self.start_here()
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "large", "0.001", "4000000")
            client.call("BF.MADD", "large", *range(1000))
            self.make("--from", address(daemon))
            before = contents(self.backup)
            for number in range(3):
                client.call("BF.ADD", "large", "later %d" % number)
                client.call("SET", "text", str(number))
                client.save()
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(contents(self.backup), before)
        self.assertEqual(sepal("verify", self.backup).returncode, 0)
