"""What a server turned away, and what the status page says about it: a client that was turned away does what the advice says, and is served."""

import json
import pathlib
import signal
import socket
import ssl
import sys
import urllib.request

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
import client_test
import network
from certificates import Authority
from client import Client, Refused
from daemon import encode, free_port
from page_case import TIMEOUT, PageTest
from programs import missing

# So many bytes may a request have in a test.
REQUEST_MAX = 1 << 20


class TurnedAwayTest(PageTest):
    def status(self):
        with urllib.request.urlopen("http://127.0.0.1:%d/api/server" % self.web, timeout=TIMEOUT) as reply:
            return json.load(reply)

    def check_told(self, text, what):
        """The page has this line, and it alone. It is told for some minutes, so it is there when its advice was followed."""
        [trouble] = self.page.ask("trouble", text)
        self.assertRegex(trouble["text"], "^In the last [^:]*: " + what)
        return trouble

    def test_what_was_turned_away(self):
        self.serve()
        self.client.call("ACL", "SETUSER", "reader", "on", ">secret", "~mine:*", "+bf.exists", "+acl|whoami")
        with Client.of(self.daemon) as client:
            with self.assertRaises(Refused):
                client.call("AUTH", "reader", "wrong")
            client.call("AUTH", "reader", "secret")
            for words in (("BF.ADD", "mine:1", "x"), ("BF.EXISTS", "yours", "x")):
                with self.assertRaises(Refused):
                    client.call(*words)
        # What clients are refused is no trouble for ever, and no alarm.
        for text, said in (("wrong password", "auth"), ("command that its user may not use", "command"), ("key that its user may not use", "key")):
            [trouble] = [one for one in self.page.ask("trouble", text) if text in one["text"]]
            self.assertRegex(trouble["text"], "^In the last .*: 1 ")
            self.assertIn(said, self.send(trouble["lines"]))
        self.assertRegex(self.page.ask("text", "#cards"), r"Refused in the last (\d+ )?(second|minute)s?look here3")

    def test_errors_are_counted(self):
        """The items of a request are answered one by one: there may be more errors than requests."""
        self.serve()
        with Client.of(self.daemon) as client:
            for _ in range(2):
                with self.assertRaises(Refused):
                    client.call("AUTH", "nobody", "wrong")
        self.page.ask("trouble", "2 wrong passwords")
        self.assertRegex(self.page.ask("text", "#cards"), r"Refused in the last (\d+ )?(second|minute)s?look here2wrong passwords2 error replies; each item of a request can have one")

    def test_clients_on_other_machines(self):
        if not NETWORK:
            self.skipTest("the system does not allow a network of its own (unshare --net)")
        settings = pathlib.Path(self.scratch, "sepald.toml")
        settings.write_text('bind = ["0.0.0.0"]\n')
        self.serve("--config", str(settings))
        self.assertTrue(network.ask(network.ELSEWHERE, self.daemon.port, ("PING",)).startswith(b"-DENIED"))
        trouble = self.check_told("from another machine", "1 connection from another machine: there is no password")
        self.assertIn("Set requirepass in sepald.toml, start sepald again, and give clients the password.", trouble["text"])
        # The client of the test itself need not log in while the browser starts.
        settings.write_text('bind = ["0.0.0.0"]\nlogin_timeout = 0\nrequirepass = "sesame"\n')
        self.assertEqual(self.daemon.stop(), 0)
        self.serve("--config", str(settings))
        self.page.ask("well", "")
        self.assertEqual(network.ask(network.ELSEWHERE, self.daemon.port, ("AUTH", "sesame"), ("PING",)), b"+OK\r\n+PONG\r\n")
        self.page.ask("well", "")

    def test_too_long_requests(self):
        self.serve()
        self.client.call("CONFIG", "SET", "client-query-buffer-limit", REQUEST_MAX)
        self.client.call("BF.RESERVE", "plain", "0.000001", 50_000)
        items = ["%0100d" % number for number in range(20_000)]
        with self.assertRaises(ConnectionError):
            with Client.of(self.daemon) as client:
                client.send(("BF.MADD", "plain", *items))
                raise ConnectionError(str(client.receive()))
        trouble = self.check_told("too long", "1 request that was too long.*Let clients send fewer items at once")
        self.assertIn(str(REQUEST_MAX), self.send(trouble["lines"]))
        with Client.of(self.daemon) as client:
            for first in range(0, len(items), 1000):
                self.assertEqual(sum(client.call("BF.MADD", "plain", *items[first:first + 1000])), 1000)
        self.check_told("too long", "1 request that")

    def test_clients_that_do_not_log_in(self):
        self.serve("--requirepass", "sesame", "--login-timeout", "1")
        self.assertEqual(self.client.connection.recv(1), b"")
        trouble = self.check_told("did not log in", "1 connection closed: it did not log in within login_timeout")
        self.assertIn("Let clients log in as soon as they are connected.", trouble["text"])
        with Client.of(self.daemon) as client:
            self.assertEqual(client.call("AUTH", "sesame"), b"OK")
            self.daemon.wait_for_line("they took longer than login_timeout")
            self.check_told("did not log in", "1 connection closed")
            self.assertEqual(client.call("PING"), b"PONG")

    def test_a_browser_at_the_port_for_redis(self):
        self.serve()
        request = b"GET /api/server HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

        def ask(port):
            with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
                connection.sendall(request)
                return connection.recv(4096)
        self.assertFalse(ask(self.daemon.port).startswith(b"HTTP/1.1 200"))
        trouble = self.check_told("of HTTP", "1 request of HTTP to the port for Redis")
        self.assertIn("Let browsers and scrapers use the http_port.", trouble["text"])
        self.assertTrue(ask(self.web).startswith(b"HTTP/1.1 200"))

    def test_clients_that_do_not_read(self):
        self.serve("--maxmemory-clients", "16mb")
        self.client.call("BF.RESERVE", "plain", "0.01", 8_000_000)  # 10 MB
        readers = [socket.socket() for _ in range(10)]
        for reader in readers:
            self.addCleanup(reader.close)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", self.daemon.port))
            reader.sendall(encode("CLIENT", "SETNAME", "reader") + encode("DUMP", "plain"))
        told = self.daemon.wait_for_line("client closed")
        trouble = self.check_told("did not read", r"\d+ connections? closed: .*The log says which \(client closed\)")
        self.assertRegex(told, r"address=127\.0\.0\.1:\d+ unread_bytes=[1-9]")
        held = [int(line.split(" tot-mem=")[1].split()[0]) for line in self.send(trouble["lines"]).splitlines() if " name=reader " in line]
        self.assertGreater(max(held), 1 << 20)
        # The clients that hold much are mended.
        for reader in readers:
            reader.close()
        self.eventually("the replies are still held", lambda: " name=reader " not in self.send(trouble["lines"]))
        with Client.of(self.daemon) as client:
            self.assertGreater(len(client.call("DUMP", "plain")), 9_000_000)

    def ping_over_tls(self, authority=None, own=None):
        """By a client that has a certificate of its own, or none, and that trusts an authority, or none."""
        context = ssl.create_default_context(cafile=authority.certificate if authority else None)
        if own:
            context.load_cert_chain(own.certificate, own.key)
        with socket.create_connection(("127.0.0.1", self.tls_port), timeout=TIMEOUT) as connection:
            try:
                with context.wrap_socket(connection, server_hostname="localhost") as secured:
                    secured.sendall(encode("PING"))
                    return secured.recv(4096)
            except (ssl.SSLError, ConnectionError) as problem:
                return str(problem)

    def test_failed_handshakes(self):
        authority = Authority(self.scratch)
        own, of_client = authority.sign("server"), authority.sign("client")
        self.tls_port = free_port()
        self.serve("--port", str(free_port()), "--tls-port", str(self.tls_port), "--tls-cert-file", own.certificate, "--tls-key-file", own.key, "--tls-ca-cert-file", authority.certificate, "--tls-auth-clients", "yes")
        said = "The log names the last address \\(connections refused\\)\\. "

        self.assertIn("CERTIFICATE_VERIFY_FAILED", self.ping_over_tls(own=of_client))
        self.check_told("TLS handshakes failed", "TLS handshakes failed: refused by the client, which does not trust the certificate \\(1\\)\\." + said + "Give the client the CA of tls_cert_file")
        self.daemon.wait_for_line("connections refused: ")
        self.assertRegex(self.ping_over_tls(authority), "(?i)certificate.required")
        trouble = self.page.ask("trouble", "certificate of the client missing or not valid (1)")[0]
        self.assertRegex(trouble["text"], said + "Give the client a certificate that the CA of tls_ca_cert_file has signed, and its key\\. Give the client the CA of tls_cert_file")
        with socket.create_connection(("127.0.0.1", self.tls_port), timeout=TIMEOUT) as plain:
            plain.sendall(b"PING\r\n")
            plain.recv(4096)
        trouble = self.page.ask("trouble", "not TLS, or too old (1)")[0]
        self.assertIn("Let the client speak TLS 1.2 or later at the tls_port.", trouble["text"])
        with socket.create_connection(("127.0.0.1", self.tls_port), timeout=TIMEOUT):
            pass
        trouble = self.page.ask("trouble", "the client went away (1)")[0]
        self.assertIn("If the client is one of yours, its own log may say more.", trouble["text"])
        # As the advice says. What failed stays told, and nothing is added.
        self.assertEqual(self.ping_over_tls(authority, of_client), b"+PONG\r\n")
        before = trouble["text"].split(": ", 1)[1]
        self.assertEqual(self.page.ask("trouble", "TLS handshakes failed")[0]["text"].split(": ", 1)[1], before)

    def test_a_certificate_that_is_not_valid(self):
        """What clients refuse for it has its line, and no line of its own."""
        authority = Authority(self.scratch)
        self.tls_port = free_port()
        signed = authority.sign("server", begins=2)
        self.serve("--port", str(free_port()), "--tls-port", str(self.tls_port), "--tls-cert-file", signed.certificate, "--tls-key-file", signed.key)
        for begins, days, said in ((2, 30, r"^The TLS certificate is valid only from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC on: clients refuse it until then\. The server's clock shows \d{4}-\d\d-\d\d \d\d:\d\d:00 UTC\.Check the server's clock\. If it is right, replace"),
                                   (None, -1, r"^The TLS certificate has ended on .*: clients refuse it\.Replace its files")):
            authority.sign("server", begins=begins, days=days)
            self.daemon.send_signal(signal.SIGHUP)
            self.page.ask("trouble", "valid only from" if begins else "has ended on")
            self.client.call("CONFIG", "RESETSTAT")
            self.assertIn("CERTIFICATE_VERIFY_FAILED", self.ping_over_tls(authority))
            self.eventually("the refusal is not counted", lambda: self.status()["tls_handshakes_failed"]["refused_by_client"] == 1)
            self.page.ask("asked")
            [trouble] = self.page.ask("trouble", "TLS certificate")
            self.assertRegex(trouble["text"], said)
            self.assertEqual(trouble["lines"], ["systemctl reload sepald"])
        authority.sign("server")
        self.daemon.send_signal(signal.SIGHUP)
        self.page.ask("over", "TLS certificate has ended")
        self.assertEqual(self.ping_over_tls(authority), b"+PONG\r\n")

    def test_a_certificate_without_a_user(self):
        authority = Authority(self.scratch)
        own, of_client = authority.sign("server"), authority.sign("client", common_name="till-7")
        self.tls_port = free_port()
        self.serve("--port", str(free_port()), "--tls-port", str(self.tls_port), "--tls-cert-file", own.certificate, "--tls-key-file", own.key, "--tls-ca-cert-file", authority.certificate,
                   "--tls-auth-clients", "yes", "--tls-auth-clients-user", "CN", "--requirepass", "sesame", "--login-timeout", "0")
        self.client.call("AUTH", "sesame")
        self.assertIn(b"NOAUTH", self.ping_over_tls(authority, of_client))
        trouble = self.check_told("without a user", "1 TLS certificate without a user")
        self.assertEqual(trouble["lines"], ["ACL LOG"])
        self.assertIn(b"till-7", b"".join(part for part in self.client.call("ACL", "LOG")[0] if isinstance(part, bytes)))
        self.client.call("ACL", "SETUSER", "till-7", "on", "+ping")
        self.assertEqual(self.ping_over_tls(authority, of_client), b"+PONG\r\n")


if __name__ == "__main__":
    NETWORK = network.enter()
    client_test.main(missing("status_page"))
