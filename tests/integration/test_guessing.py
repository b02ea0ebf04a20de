"""Clients that guess passwords, and what the log says about them and about those who administer the server."""

import os
import re

from client import Client, Refused
from daemon import DaemonTest, encode

GUESSES = 300
LINES_MAX = 10
CONNECTIONS = 20


class GuessingTest(DaemonTest):
    def test_guesses_hold_up_no_right_password(self):
        """All guesses are answered, each connection's in order; the right password is checked meanwhile."""
        daemon = self.start("--requirepass", "sesame", "--threads", "2")
        guesses = b"".join(encode("AUTH", f"wrong-{number}") for number in range(GUESSES // CONNECTIONS))
        guessing = [daemon.connect() for _ in range(CONNECTIONS)]
        for connection in guessing:
            connection.sendall(guesses + encode("PING"))
        with Client.of(daemon) as honest:
            self.assertEqual(honest.call("AUTH", "sesame"), b"OK")
            for connection in guessing:
                received = b""
                while received.count(b"\r\n") < GUESSES // CONNECTIONS + 1:
                    piece = connection.recv(65536)
                    self.assertTrue(piece, "the server closed the connection")
                    received += piece
                connection.close()
                *refused, last = received.splitlines()
                self.assertEqual({line.split()[0] for line in refused}, {b"-WRONGPASS"})
                self.assertTrue(last.startswith(b"-NOAUTH"))
            self.assertIn(f"acl_access_denied_auth:{GUESSES}\r\n".encode(), honest.call("INFO", "stats"))
        self.assertEqual(daemon.stop(), 0)
        lines = [line for line in daemon.text().splitlines() if "a login failed: " in line]
        self.assertTrue(1 <= len(lines) <= 2 * LINES_MAX, len(lines))
        self.assertIn('user=default address=127.0.0.1:', lines[0])
        self.assertNotIn("wrong-", daemon.text())
        told = re.findall('lines about clients left out: kind="failed logins" count=([0-9]+)', daemon.text())
        self.assertEqual(sum(map(int, told)) + len(lines), GUESSES)

    def test_the_log_says_who_administers(self):
        imports, users = os.path.join(self.directory, "imports"), os.path.join(self.directory, "users.acl")
        os.mkdir(imports)
        open(users, "w").close()
        daemon = self.start("--import-dir", imports, "--aclfile", users, directory=os.path.join(self.directory, "data"))
        with Client.of(daemon) as client:
            client.call("ACL", "SETUSER", "root", "on", ">sesame", "+@all", "~*")
            client.call("AUTH", "root", "sesame")
            client.call("CONFIG", "SET", "requirepass", "mustard", "timeout", "77")
            client.call("FLUSHALL")
            client.call("BF.RESERVE", "k", "0.01", "100")
            client.call("BF.EXPORT", "k", "f")
            with open(users, "w") as file:
                file.write("user default on nopass ~* +@all\nuser bob +@nosuch\n")
            for failing in (("SWAPDB", "0", "x"), ("BF.EXPORT", "k", "f"), ("BF.IMPORT", "a", "nothere"), ("ACL", "LOAD")):
                with self.assertRaises(Refused):
                    client.call(*failing)
            client.call("CONFIG", "GET", "timeout")
        self.assertEqual(daemon.stop(), 0)
        lines = [line.partition("a client administers: ")[2] for line in daemon.text().splitlines()]
        lines = [line.partition(" address=127.0.0.1:")[0] for line in lines if line]
        self.assertEqual(lines, ['command="ACL SETUSER (redacted) (redacted) (redacted) (redacted) (redacted)" user=default',
                                 'command="CONFIG SET requirepass (redacted) timeout 77" user=root',
                                 'command=FLUSHALL user=root', 'command="BF.EXPORT k f" user=root'])
        self.assertNotIn("sesame", daemon.text())
        self.assertNotIn("mustard", daemon.text())
