"""The password of `default` from a file or from the environment, and SIGHUP, which reads it and the users anew."""

import os
import pathlib
import signal
from unittest import mock

from client import Client, Refused
from daemon import DaemonTest

FAILED, WRONG_SETTINGS = 1, 2


class PasswordsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.file = pathlib.Path(self.directory, "secret")
        self.users = pathlib.Path(self.directory, "users.acl")

    def serve(self, *arguments, wait=True):
        return self.start(*arguments, directory=self.data, wait=wait)

    def accepts(self, daemon, *login):
        with Client.of(daemon) as client:
            try:
                return client.call("AUTH", *login) == b"OK"
            except Refused:
                return False

    def refuses_to_start(self, status, reason, *arguments):
        for more in ((), ("--check-config",)):
            daemon = self.serve(*arguments, *more, wait=False)
            self.assertEqual((daemon.wait(), daemon.text()), (status, daemon.text()))
            self.assertIn(reason, daemon.text())

    def test_the_first_line_of_the_file_is_the_password(self):
        for text in ("sesame", "sesame\n", "sesame\r\nmore\n"):
            with self.subTest(text):
                self.file.write_bytes(text.encode())
                daemon = self.serve("--requirepass-file", str(self.file))
                self.assertTrue(self.accepts(daemon, "sesame"))
                self.assertFalse(self.accepts(daemon, "sesam"))
                self.assertNotIn("sesame", daemon.text())
                self.assertEqual(daemon.stop(), 0)

    def test_files_that_give_no_password_are_refused(self):
        path = str(self.file)
        self.refuses_to_start(FAILED, "cannot be opened", "--requirepass-file", path)
        # Another start with this setting fails too, whatever the file has by then.
        self.refuses_to_start(WRONG_SETTINGS, "port and tls_port are the same", "--requirepass-file", path, "--port", "7", "--tls-port", "7")
        self.file.write_text("\nsesame\n")
        self.refuses_to_start(FAILED, "has no password in its first line", "--requirepass-file", path)
        self.file.write_text("x" * 16_385)
        self.refuses_to_start(FAILED, "longer than 16384 bytes", "--requirepass-file", path)
        self.refuses_to_start(FAILED, "cannot be", "--requirepass-file", self.directory)
        self.refuses_to_start(WRONG_SETTINGS, "both set", "--requirepass-file", path, "--requirepass", "x")
        self.file.write_text("x" * 16_384 + "\n")
        self.assertTrue(self.accepts(self.serve("--requirepass-file", path), "x" * 16_384))

    def test_the_environment_is_the_last_place(self):
        with mock.patch.dict(os.environ, {"SEPAL_REQUIREPASS": "mustard"}):
            daemon = self.serve()
            self.assertTrue(self.accepts(daemon, "mustard"))
            self.assertNotIn("mustard", daemon.text())
            self.assertEqual(daemon.stop(), 0)
            daemon = self.serve("--requirepass", "sesame")
            self.assertFalse(self.accepts(daemon, "mustard"))
            self.assertTrue(self.accepts(daemon, "sesame"))

    def test_an_empty_variable_is_no_place_of_a_password(self):
        settings = pathlib.Path(self.directory, "sepald.toml")
        settings.write_text("maxclients = 77\n")
        with mock.patch.dict(os.environ, {"SEPAL_REQUIREPASS": ""}):
            daemon = self.serve("--config", str(settings))
            with Client.of(daemon) as client:
                self.assertEqual(client.call("CONFIG", "SET", "requirepass", "sesame"), b"OK")
                self.assertEqual(client.call("CONFIG", "REWRITE"), b"OK")
        self.assertIn('requirepass = "sesame"', settings.read_text())

    def test_a_hang_up_signal_reads_password_and_users_anew(self):
        self.file.write_text("sesame\n")
        self.users.write_text("user bob on >pw +@all ~*\n")
        daemon = self.serve("--requirepass-file", str(self.file), "--aclfile", str(self.users))
        self.file.write_text("mustard\n")
        self.users.write_text("user eve on >pw +@all ~*\n")
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("users loaded")
        self.assertTrue(self.accepts(daemon, "mustard"))
        self.assertFalse(self.accepts(daemon, "sesame"))
        self.assertTrue(self.accepts(daemon, "eve", "pw"))
        self.assertFalse(self.accepts(daemon, "bob", "pw"))
        self.assertNotIn("SIGHUP ignored", daemon.text())

    def test_a_hang_up_signal_keeps_users_that_are_not_saved_while_the_file_is_the_same(self):
        self.users.write_text("user bob on >pw +@all ~*\n")
        daemon = self.serve("--aclfile", str(self.users))
        with Client.of(daemon) as client:
            client.call("ACL", "SETUSER", "eve", "on", ">pw", "+@all", "~*")
            client.call("ACL", "SETUSER", "default", "off")
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("users not read anew: their file has not changed")
        self.assertTrue(self.accepts(daemon, "eve", "pw"))
        with Client.of(daemon) as client:
            client.call("AUTH", "bob", "pw")
            client.call("ACL", "SETUSER", "late", "on", ">pw", "+@all", "~*")
            client.call("ACL", "SAVE")
            client.call("ACL", "SETUSER", "later", "on", ">pw", "+@all", "~*")
            daemon.send_signal(signal.SIGHUP)
            self.eventually("the second signal is not logged", lambda: daemon.text().count("users not read anew") == 2)
            self.assertTrue(self.accepts(daemon, "later", "pw"))
            # ACL LOAD reads the file in any case.
            self.assertEqual(client.call("ACL", "LOAD"), b"OK")
            self.assertTrue(self.accepts(daemon, "late", "pw"))
            self.assertFalse(self.accepts(daemon, "later", "pw"))

    def test_a_new_password_gets_to_the_users_once_their_file_can_be_read(self):
        self.file.write_text("sesame\n")
        self.users.write_text("user bob on >pw +@all ~*\n")
        daemon = self.serve("--requirepass-file", str(self.file), "--aclfile", str(self.users))
        self.file.write_text("mustard\n")
        aside = self.users.rename(str(self.users) + ".aside")
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("users not read anew")
        aside.rename(self.users)
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("users loaded")
        self.assertTrue(self.accepts(daemon, "mustard"))
        self.assertFalse(self.accepts(daemon, "sesame"))

    def test_a_file_that_is_wrong_at_a_hang_up_signal_changes_nothing(self):
        self.file.write_text("sesame\n")
        daemon = self.serve("--requirepass-file", str(self.file))
        self.file.write_text("\n")
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("password not read anew")
        self.assertTrue(self.accepts(daemon, "sesame"))
        self.file.write_text("mustard\n")
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("password read anew")
        self.assertTrue(self.accepts(daemon, "mustard"))

    def test_the_password_does_not_get_into_the_configuration_file(self):
        self.file.write_text("sesame\n")
        settings = pathlib.Path(self.directory, "sepald.toml")
        settings.write_text('requirepass_file = "%s"\n' % self.file)
        daemon = self.serve("--config", str(settings))
        with Client.of(daemon) as client:
            client.call("AUTH", "sesame")
            client.call("CONFIG", "SET", "maxclients", "77")
            self.assertEqual(client.call("CONFIG", "REWRITE"), b"OK")
        self.assertIn("maxclients = 77", settings.read_text())
        self.assertNotIn("sesame", settings.read_text())
