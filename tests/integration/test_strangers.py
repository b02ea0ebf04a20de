"""Clients on other machines, with and without protected mode."""

import os
import socket
import ssl
import unittest

import network
from certificates import Authority
from daemon import DaemonTest, encode, free_port

DENIED = b"-DENIED Sepal is in protected mode: the user 'default' has no password"
ALLOWED = network.enter()


@unittest.skipUnless(ALLOWED, "the system does not allow a network of its own (unshare --net)")
class StrangersTest(DaemonTest):
    def serve(self, *arguments):
        return self.start("--bind", "0.0.0.0", *arguments)

    def ask(self, daemon, address, *words):
        return network.ask(address, daemon.port, words)

    def test_strangers_are_refused_until_there_is_a_password(self):
        daemon = self.serve()
        self.assertIn("clients on other machines are refused", daemon.text())
        self.assertTrue(self.ask(daemon, network.ELSEWHERE, "PING").startswith(DENIED))
        self.assertEqual(self.ask(daemon, "127.0.0.1", "PING"), b"+PONG\r\n")
        line = daemon.wait_for_line("connections refused: count=1 last=" + network.ELSEWHERE)
        self.assertIn("protected mode", line)
        self.assertEqual(self.ask(daemon, "127.0.0.1", "CONFIG", "SET", "requirepass", "secret"), b"+OK\r\n")
        self.assertEqual(self.ask(daemon, network.ELSEWHERE, "AUTH", "secret"), b"+OK\r\n")
        self.assertTrue(self.ask(daemon, network.ELSEWHERE, "PING").startswith(b"-NOAUTH"))

    def test_a_storm_of_strangers_is_one_line_of_the_log(self):
        daemon = self.serve()
        for _ in range(200):
            self.assertTrue(self.ask(daemon, network.ELSEWHERE, "PING").startswith(DENIED))
        self.assertLessEqual(daemon.text().count("connections refused"), 3, daemon.text())

    def test_a_password_lets_strangers_try(self):
        daemon = self.serve("--requirepass", "secret")
        self.assertNotIn("other machines", daemon.text())
        self.assertTrue(self.ask(daemon, network.ELSEWHERE, "PING").startswith(b"-NOAUTH"))

    def test_without_protected_mode_strangers_may_do_everything_and_the_log_says_so(self):
        daemon = self.serve("--protected-mode", "no")
        self.assertIn("every client that reaches the port may do everything", daemon.text())
        self.assertEqual(self.ask(daemon, network.ELSEWHERE, "PING"), b"+PONG\r\n")
        self.assertEqual(self.ask(daemon, "127.0.0.1", "CONFIG", "SET", "protected-mode", "yes"), b"+OK\r\n")
        self.assertTrue(self.ask(daemon, network.ELSEWHERE, "PING").startswith(DENIED))

    def ask_over_tls(self, daemon, address, context):
        with socket.create_connection((address, daemon.port), timeout=300, source_address=(address, 0)) as connection:
            with context.wrap_socket(connection, server_hostname="localhost") as secured:
                secured.sendall(encode("PING"))
                return secured.recv(4096)

    def test_a_stranger_is_told_over_tls(self):
        authority = Authority(self.directory)
        server = authority.sign("server")
        tls = ("--port", "0", "--tls-port", str(free_port()), "--tls-cert-file", server.certificate, "--tls-key-file", server.key,
               "--tls-ca-cert-file", authority.certificate)
        context = ssl.create_default_context(cafile=authority.certificate)
        daemon = self.serve(*tls, "--dir", os.path.join(self.directory, "data"))
        self.assertTrue(self.ask_over_tls(daemon, network.ELSEWHERE, context).startswith(DENIED))
        self.assertEqual(self.ask_over_tls(daemon, "127.0.0.1", context), b"+PONG\r\n")
        self.assertIn("protected mode", daemon.wait_for_line("connections refused: count=1 last=" + network.ELSEWHERE))
        daemon.stop()
        # Clients with a certificate of this CA are no strangers, so the log has no advice.
        only_known = self.serve(*tls, "--tls-auth-clients", "yes", "--protected-mode", "no", "--dir",
                                os.path.join(self.directory, "data"))
        self.assertNotIn("protected_mode=false", only_known.text())

    def test_a_server_on_loopback_says_nothing(self):
        daemon = self.start()
        self.assertNotIn("protected_mode", daemon.text())
