"""Users and what they may do, with the real daemon: the ACL file at a start, ACL LOAD and SAVE, and clients whose user
changes or goes."""

import os
import pathlib
import re
import stat
import threading

import redis

from client import Client, Refused
from daemon import EVENTUALLY_SECONDS_MAX, DaemonTest

FAILED = 1
DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs"
# The commands on filters that the documents keep from an application.
KEPT_FROM_APPLICATIONS = {"bf.scandump", "cf.scandump", "bf.export", "bf.import"}
NO_KEY = "NOPERM No permissions to access a key"
WRONG_PASSWORD = "WRONGPASS invalid username-password pair or user is disabled."


class AclTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.file = pathlib.Path(self.directory, "users.acl")
        self.data = os.path.join(self.directory, "data")

    def start_with(self, text, *arguments, wait=True):
        self.file.write_text(text)
        return self.start("--aclfile", str(self.file), *arguments, directory=self.data, wait=wait)

    def client(self, daemon, *login):
        client = Client.of(daemon, self)
        if login:
            self.assertEqual(client.call("AUTH", *login), b"OK")
        return client

    def refused(self, client, *words):
        with self.assertRaises(Refused) as refused:
            client.call(*words)
        return str(refused.exception)

    def closes(self, client):
        """Whether the server closes the connection without another reply."""
        client.connection.settimeout(EVENTUALLY_SECONDS_MAX)
        try:
            return client.connection.recv(1) == b""
        except ConnectionResetError:
            return True

    def test_the_users_of_the_file_are_there_after_a_start(self):
        daemon = self.start_with("# two users\n\nuser default off\nuser bob on >pw ~app:* +@bloom\n")
        stranger = self.client(daemon)
        self.assertEqual(self.refused(stranger, "PING"), "NOAUTH Authentication required.")
        self.assertEqual(self.refused(stranger, "AUTH", "bob", "x"), WRONG_PASSWORD)
        bob = self.client(daemon, "bob", "pw")
        self.assertEqual(bob.call("BF.ADD", "app:1", "a"), 1)
        self.assertEqual(self.refused(bob, "BF.ADD", "other", "a"), NO_KEY)
        self.assertEqual(daemon.stop(), 0)

    def test_saved_users_are_there_after_a_restart(self):
        daemon = self.start_with("user root on >root ~* &* +@all\n")
        self.file.chmod(0o640)
        root = self.client(daemon, "root", "root")
        self.assertEqual(root.call("ACL", "SETUSER", "bob", "on", ">pw", "%R~app:*", "+@all", "(~own +bf.add)"), b"OK")
        listed = root.call("ACL", "LIST")
        self.assertEqual(root.call("ACL", "SAVE"), b"OK")
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o640)
        self.assertNotIn("pw", self.file.read_text())
        self.assertEqual(self.file.read_text(), "".join(line.decode() + "\n" for line in listed))
        self.assertEqual(daemon.stop(), 0)
        daemon = self.start("--aclfile", str(self.file), directory=self.data)
        bob = self.client(daemon, "bob", "pw")
        self.assertEqual(bob.call("ACL", "LIST"), listed)
        self.assertEqual(self.refused(bob, "BF.ADD", "app:1", "a"), NO_KEY)
        self.assertEqual(bob.call("BF.EXISTS", "app:1", "a"), 0)
        self.assertEqual(bob.call("BF.ADD", "own", "a"), 1)

    def test_a_load_changes_users_at_once_and_closes_the_clients_of_those_that_are_gone(self):
        daemon = self.start_with("user default on nopass ~* &* +@all\nuser bob on >pw ~* +@all\nuser eve on >pw ~* +@all\n")
        root, bob, eve = self.client(daemon), self.client(daemon, "bob", "pw"), self.client(daemon, "eve", "pw")
        self.file.write_text("user default on nopass ~* &* +@all\nuser bob on >pw ~app:* +@all\n")
        self.assertEqual(root.call("ACL", "LOAD"), b"OK")
        self.assertTrue(self.closes(eve))
        self.assertEqual(self.refused(bob, "BF.ADD", "other", "a"), NO_KEY)
        self.assertEqual(root.call("ACL", "USERS"), [b"bob", b"default"])

    def test_a_load_of_a_wrong_file_changes_nothing_and_names_the_line(self):
        daemon = self.start_with("user bob on >pw ~* +@all\n")
        root, bob = self.client(daemon), self.client(daemon, "bob", "pw")
        before = root.call("ACL", "LIST")
        for text, why in (("user bob off\nuser x +nosuch\n", ":2: Error in ACL SETUSER modifier '+nosuch'"),
                          ("user bob #secret\n", ":1: Error in ACL SETUSER modifier '#(hidden)'")):
            self.file.write_text(text)
            error = self.refused(root, "ACL", "LOAD")
            self.assertIn(str(self.file) + why, error)
            self.assertNotIn("secret", error)
        self.file.unlink()
        self.assertIn("cannot be opened", self.refused(root, "ACL", "LOAD"))
        self.assertEqual(root.call("ACL", "LIST"), before)
        self.assertEqual(bob.call("PING"), b"PONG")
        # A save makes the file anew, for its owner only.
        self.assertEqual(root.call("ACL", "SAVE"), b"OK")
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
        self.assertEqual(root.call("ACL", "LOAD"), b"OK")

    def test_a_wrong_file_ends_the_start(self):
        for text in ("user bob nonsense\n", "bob on\n", "user a on\nuser a on\n"):
            daemon = self.start_with(text, wait=False)
            self.assertEqual(daemon.wait(), FAILED)
            self.assertRegex(daemon.log[-2], r"users\.acl:\d+: ")
        self.file.unlink()
        daemon = self.start("--aclfile", str(self.file), directory=self.data, wait=False)
        self.assertEqual(daemon.wait(), FAILED)
        self.assertIn("users.acl: the ACL file cannot be opened: No such file or directory", daemon.text())

    def test_a_file_without_the_default_user_keeps_requirepass(self):
        daemon = self.start_with("user bob on >pw ~* +@all\n", "--requirepass", "sesame")
        self.assertEqual(self.refused(self.client(daemon), "PING"), "NOAUTH Authentication required.")
        self.assertEqual(self.client(daemon, "sesame").call("PING"), b"PONG")
        self.assertNotIn("sesame", daemon.text())

    def test_a_start_warns_where_requirepass_is_not_used(self):
        told = "requirepass is not used: the ACL file has a line for the user default"
        for text, is_told in (("user default off\n", True), ("user default on nopass ~* +@all\n", True), ("user default on >mustard ~* +@all\n", True),
                              ("user default on >sesame ~* +@all\n", False), ("user bob on >pw ~* +@all\n", False)):
            with self.subTest(text):
                daemon = self.start_with(text, "--requirepass", "sesame")
                (self.assertIn if is_told else self.assertNotIn)(told, daemon.text())
                self.assertNotIn("sesame", daemon.text())
                daemon.kill()

    def test_requests_behind_the_removal_of_their_user_do_not_run(self):
        daemon = self.start()
        root = self.client(daemon)
        root.call("ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all")
        bob = self.client(daemon, "bob", "pw")
        bob.send(("ACL", "DELUSER", "bob"), ("BF.ADD", "k", "a"), ("PING",))
        self.assertEqual(bob.receive(), 1)
        self.assertTrue(self.closes(bob))
        self.assertEqual(root.call("EXISTS", "k"), 0)

    def test_rights_that_are_taken_away_while_clients_run_are_gone_when_the_change_is_answered(self):
        daemon = self.start("--threads", "2")
        root = self.client(daemon)
        root.call("ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all")
        clients = [self.client(daemon, "bob", "pw") for _ in range(4)]
        denied = threading.Event()
        wrong = []

        def run(client):
            while True:
                was_denied = denied.is_set()
                for reply in client.pipeline([("BF.EXISTS", "k", str(item)) for item in range(64)]):
                    if isinstance(reply, Refused) and str(reply).startswith("NOPERM"):
                        continue
                    if was_denied or reply != 0:
                        wrong.append(reply)
                if was_denied:
                    return

        threads = [threading.Thread(target=run, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for rule in ("-bf.exists", "+bf.exists", "resetkeys"):
            self.assertEqual(root.call("ACL", "SETUSER", "bob", rule), b"OK")
        denied.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_many_users(self):
        count = 100_000
        daemon = self.start_with("".join("user u%d on >pw ~app:%d:* +@bloom\n" % (at, at) for at in range(count)))
        root = self.client(daemon)
        # A sanitizer on a busy machine takes most of a minute for so many.
        root.connection.settimeout(EVENTUALLY_SECONDS_MAX)
        self.assertEqual(len(root.call("ACL", "USERS")), count + 1)
        self.assertEqual(root.call("ACL", "SAVE"), b"OK")
        self.assertEqual(root.call("ACL", "LOAD"), b"OK")
        last = self.client(daemon, "u%d" % (count - 1), "pw")
        self.assertEqual(last.call("BF.ADD", "app:%d:x" % (count - 1), "a"), 1)
        self.assertEqual(self.refused(last, "BF.ADD", "app:0:x", "a"), NO_KEY)

    def test_the_rules_of_the_documents_allow_an_application_the_commands_on_filters(self):
        client = self.client(self.start_with(""))
        filters = {name.decode() for category in ("bloom", "cuckoo") for name in client.call("ACL", "CAT", category)}
        for name, count in (("security.md", 1), ("operations/secure.md", 2)):
            found = re.findall(r"[`*] ?(\+@bloom [^`\n]* -@dangerous)", (DOCUMENTS / name).read_text(encoding="utf-8"))
            self.assertEqual(len(found), count, name)
            for rules in found:
                client.call("ACL", "SETUSER", "shop", "reset", *rules.split())
                denied = {command for command in filters if b"no permissions to run" in self.dry_run(client, "shop", command)}
                self.assertEqual(denied, KEPT_FROM_APPLICATIONS, name)

    @staticmethod
    def dry_run(client, user, command):
        (_, arity, *_), = client.call("COMMAND", "INFO", command)
        try:
            return client.call("ACL", "DRYRUN", user, command, *["1"] * (abs(arity) - 1))
        except Refused as refused:
            return str(refused).encode()

    def test_redis_py_works_as_a_user(self):
        daemon = self.start_with("user default off\nuser bob on >pw ~app:* +@all\n")
        with redis.Redis(port=daemon.port, username="bob", password="pw") as client:
            self.assertEqual(client.acl_whoami(), "bob")
            self.assertIn("bloom", client.acl_cat())
            with self.assertRaises(redis.exceptions.NoPermissionError):
                client.execute_command("BF.ADD", "other", "a")
            self.assertEqual(client.acl_log()[0]["reason"], "key")
            self.assertTrue(client.acl_setuser("eve", enabled=True, passwords=["+pw"], keys=["k"], commands=["+ping"]))
            self.assertEqual(client.acl_getuser("eve")["flags"], ["on", "sanitize-payload"])
            self.assertEqual(client.acl_deluser("eve"), 1)
