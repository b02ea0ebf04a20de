"""TLS: certificates of the server and of clients, what is refused, new certificates while it runs, and large requests and replies."""

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import warnings

import redis

from certificates import Authority
from client import Client, Refused
from daemon import EXACT_RATE, DaemonTest, beside, encode, free_port

# A handshake that the server refuses ends with an alert, or with a reset if the client had sent more.
REFUSED = (ssl.SSLError, ConnectionError)
HALF_OPEN = 400


class TlsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.directory, "tls")
        os.mkdir(self.folder)
        self.ca = Authority(self.folder)
        self.server = self.ca.sign("server")

    def files(self, signed=None):
        signed = signed or self.server
        return ("--tls-cert-file", signed.certificate, "--tls-key-file", signed.key, "--tls-ca-cert-file", self.ca.certificate)

    def serve(self, *arguments, signed=None, plain=True):
        """A server with two ports. `tls_port` is the one of TLS."""
        tls_port = free_port()
        ports = ("--port", str(free_port())) if plain else ()
        daemon = self.start(*ports, "--tls-port", str(tls_port), *self.files(signed), "--dir",
                            os.path.join(self.directory, "data"), *arguments)
        daemon.tls_port = tls_port
        return daemon

    def context(self, signed=None, ca=None):
        context = ssl.create_default_context(cafile=(ca or self.ca).certificate)
        if signed:
            context.load_cert_chain(signed.certificate, signed.key)
        return context

    def raw(self, daemon):
        connection = socket.create_connection(("127.0.0.1", daemon.tls_port), timeout=300)
        self.addCleanup(connection.close)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def connect(self, daemon, signed=None, context=None):
        secured = (context or self.context(signed)).wrap_socket(self.raw(daemon), server_hostname="localhost")
        self.addCleanup(secured.close)
        return secured

    def client(self, daemon, signed=None, context=None):
        client = Client(self.connect(daemon, signed, context))
        self.addCleanup(client.close)
        return client

    def refused(self, daemon, signed=None, context=None):
        """The client has no success, at the latest with its first request."""
        with self.assertRaises(REFUSED):
            self.client(daemon, signed, context).call("PING")

    def plain(self, daemon):
        client = Client.of(daemon, self)
        return client

    def failures(self, daemon, page=None):
        return {line.split('"')[1]: int(float(line.split()[-1])) for line in (page or self.page(daemon)).splitlines()
                if line.startswith("sepal_tls_handshakes_failed_total{")}

    def serial(self, daemon):
        """The serial number of the certificate that the server shows now."""
        return self.connect(daemon).getpeercert()["serialNumber"]

    # --- clients of others

    def redis_cli(self, daemon, *arguments):
        return subprocess.run(["redis-cli", "-p", str(daemon.tls_port), "--tls", *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300)

    def test_redis_cli(self):
        daemon = self.serve()
        trusted = ("--cacert", self.ca.certificate)
        self.assertEqual(self.redis_cli(daemon, *trusted, "BF.ADD", "key", "item").stdout, "1\n")
        self.assertEqual(self.redis_cli(daemon, "--insecure", "BF.EXISTS", "key", "item").stdout, "1\n")
        self.assertIn("certificate verify failed", self.redis_cli(daemon, "PING").stderr)
        # The first line of the log about a refusal comes at once.
        self.assertIn("alert", daemon.wait_for_line("connections refused: count=1"))

    def test_redis_py(self):
        daemon = self.serve()
        client = redis.Redis(port=daemon.tls_port, ssl=True, ssl_ca_certs=self.ca.certificate)
        self.assertTrue(client.ping())
        client.bf().create("key", EXACT_RATE, 1000)
        pipeline = client.pipeline(transaction=True)
        for number in range(1000):
            pipeline.execute_command("BF.ADD", "key", "item:%d" % number)
        self.assertEqual(pipeline.execute(), [1] * 1000)
        client.close()
        with self.assertRaises(redis.ConnectionError):
            redis.Redis(port=daemon.tls_port, ssl=True, ssl_ca_certs=Authority(self.folder, "other").certificate).ping()

    # --- one connection

    def test_the_same_keys_are_behind_both_ports(self):
        daemon = self.serve()
        self.assertEqual(self.client(daemon).call("BF.ADD", "key", "item"), 1)
        plain = self.plain(daemon)
        self.assertEqual(plain.call("BF.EXISTS", "key", "item"), 1)
        info = plain.info("server")
        self.assertEqual(info["tcp_port"], str(daemon.port))
        self.assertEqual(info["listener2"], "name=tls,bind=127.0.0.1,port=%d" % daemon.tls_port)
        self.assertEqual(plain.call("CONFIG", "GET", "tls-port"), [b"tls-port", b"%d" % daemon.tls_port])

    def test_with_port_0_there_is_only_tls(self):
        daemon = self.serve(plain=False)
        self.assertEqual(daemon.port, daemon.tls_port)
        client = self.client(daemon)
        self.assertEqual(client.info("server")["tcp_port"], str(daemon.tls_port))
        self.assertEqual(client.call("CONFIG", "GET", "port"), [b"port", b"0"])
        self.assertNotIn("listener0", client.info("server"))

    def test_versions(self):
        daemon = self.serve()
        for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            context = self.context()
            context.minimum_version = context.maximum_version = version
            connection = self.connect(daemon, context=context)
            self.assertEqual(connection.version(), name)
            self.assertEqual(Client(connection).call("PING"), b"PONG")
        old = self.context()
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        self.refused(daemon, context=old)
        self.assertIn("unsupported protocol", daemon.wait_for_line("connections refused"))
        self.assertEqual(self.client(daemon).call("CONFIG", "SET", "tls-protocols", "TLSv1.3"), b"OK")
        only_old = self.context()
        only_old.maximum_version = ssl.TLSVersion.TLSv1_2
        self.refused(daemon, context=only_old)

    def test_plain_text_at_the_port_of_tls(self):
        daemon = self.serve()
        connection = self.raw(daemon)
        connection.sendall(encode("PING"))
        answer = b""
        try:
            while piece := connection.recv(4096):
                answer += piece
        except ConnectionError:
            pass
        self.assertNotIn(b"PONG", answer)
        self.assertIn("wrong version number", daemon.wait_for_line("connections refused"))

    def test_tls_at_the_plain_port(self):
        daemon = self.serve()
        for _ in range(20):  # a ClientHello has a line's end in it by chance only
            connection = socket.create_connection(("127.0.0.1", daemon.port), timeout=300)
            self.addCleanup(connection.close)
            with self.assertRaises(REFUSED):
                self.context().wrap_socket(connection, server_hostname="localhost")
        self.assertEqual(self.plain(daemon).call("PING"), b"PONG")

    def test_requests_and_replies_of_some_megabytes(self):
        daemon = self.serve()
        client = self.client(daemon)
        items = [b"item:%d" % number for number in range(100_000)]
        client.call("BF.RESERVE", "key", "0.001", "200000")
        self.assertGreater(sum(client.call("BF.MADD", "key", *items)), 99_000)
        self.assertEqual(client.call("BF.MEXISTS", "key", *items), [1] * len(items))
        blob = os.urandom(6_000_000)
        self.assertEqual(client.call("SET", "blob", blob), b"OK")
        self.assertEqual(client.call("GET", "blob"), blob)
        # The client reads nothing before it has sent all: the replies wait at the server.
        replies = client.pipeline([("GET", "blob"), ("BF.EXISTS", "key", items[0])] * 5 + [("PING",)] * 100_000)
        self.assertEqual(replies[:10], [blob, 1] * 5)
        self.assertEqual(replies[10:], [b"PONG"] * 100_000)

    def test_a_pipeline_that_is_cut_anywhere(self):
        daemon = self.serve()
        client = self.client(daemon)
        request = encode("ECHO", b"x" * 3000)
        for size in (1, 7, 1000, 16384, 16385, 40_000):
            sent = request * (200 if size > 7 else 2)
            for at in range(0, len(sent), size):
                client.connection.sendall(sent[at:at + size])
            for _ in range(len(sent) // len(request)):
                self.assertEqual(client.receive(), b"x" * 3000, size)

    def test_a_request_behind_a_large_one(self):
        """It comes in the same record as the end of the large one, whose memory has no room for it. OpenSSL holds it, and the socket
        tells nothing of it any more. It is answered, although the client sends nothing more."""
        daemon = self.serve("--threads", "1")
        client = self.client(daemon)
        for size in (100_000, 300_000, 1_000_000, 5_000_000):
            for more in (1, 50):
                value = b"x" * size
                self.assertEqual(client.pipeline([("SET", "blob", value)] + [("PING",)] * more), [b"OK"] + [b"PONG"] * more)

    def test_many_clients_with_long_pipelines(self):
        daemon = self.serve("--threads", "1")
        clients = [self.client(daemon) for _ in range(24)]
        for round_number in range(10):
            for number, client in enumerate(clients):
                client.send(*[("ECHO", b"%d:%d:%d" % (round_number, number, each)) for each in range(1 + 900 * (number % 3))])
            for number, client in enumerate(clients):
                for each in range(1 + 900 * (number % 3)):
                    self.assertEqual(client.receive(), b"%d:%d:%d" % (round_number, number, each))

    def test_a_transaction_and_a_script(self):
        daemon = self.serve()
        client = self.client(daemon)
        self.assertEqual(client.pipeline([("MULTI",), ("BF.ADD", "key", "a"), ("BF.EXISTS", "key", "a"), ("EXEC",)]),
                         [b"OK", b"QUEUED", b"QUEUED", [1, 1]])
        self.assertEqual(client.call("EVAL", "return redis.call('BF.EXISTS', KEYS[1], 'a')", 1, "key"), 1)

    def test_both_sides_end_in_order(self):
        daemon = self.serve()
        connection = self.connect(daemon)
        connection.sendall(encode("PING"))
        self.assertEqual(connection.recv(100), b"+PONG\r\n")
        connection.sendall(encode("BF.ADD", "key", "last"))
        # unwrap() tells the server that nothing more comes, and waits until the server has said the same.
        self.assertEqual(connection.recv(100), b":1\r\n")
        connection.unwrap()
        client = self.client(daemon)
        client.send(("QUIT",))
        self.assertEqual(client.receive(), b"OK")
        self.assertEqual(client.connection.recv(100), b"")

    def test_a_client_that_breaks_in_the_middle(self):
        daemon = self.serve()
        watcher = self.client(daemon)
        watcher.call("SET", "blob", b"x" * 5_000_000)
        for moment in range(30):
            connection = self.connect(daemon)
            connection.sendall(encode("GET", "blob") * 3)
            if moment % 3:
                connection.recv(1000)
            # A reset, and no end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        self.eventually("the broken clients are gone", lambda: watcher.info("clients")["connected_clients"] == "1")
        self.assertEqual(watcher.call("PING"), b"PONG")

    def test_a_killed_client(self):
        daemon = self.serve()
        victim, killer = self.client(daemon), self.client(daemon)
        number = victim.call("CLIENT", "ID")
        self.assertEqual(killer.call("CLIENT", "KILL", "ID", number), 1)
        with self.assertRaises(REFUSED):
            while True:
                victim.call("PING")

    def test_a_stop_answers_what_has_come(self):
        daemon = self.serve()
        client = self.client(daemon)
        self.assertEqual(client.call("PING"), b"PONG")
        half = self.raw(daemon)
        half.sendall(b"\x16\x03\x01")
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(client.connection.recv(100), b"")

    # --- strangers

    def page(self, daemon):
        connection = socket.create_connection(("127.0.0.1", daemon.http_port), timeout=300)
        with connection, connection.makefile("rb") as answer:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return answer.read().decode()

    def test_half_open_connections_stop_no_other_client(self):
        http_port = free_port()
        daemon = self.serve("--maxclients", "20", "--http-port", str(http_port))
        daemon.http_port = http_port
        healthy = self.client(daemon)
        stuck = []
        for number in range(HALF_OPEN):
            connection = self.raw(daemon)
            # Some send nothing, some the beginning of a message of 256 bytes.
            if number % 2:
                connection.sendall(b"\x16\x03\x01\x01\x00\x01\x00")
            stuck.append(connection)
            if number % 40 == 0:
                self.assertEqual(healthy.call("PING"), b"PONG")
        # They take no place of a client, and the oldest have made room for newer ones.
        for _ in range(5):
            self.assertEqual(self.client(daemon).call("PING"), b"PONG")
        def are_told():
            """Each of them is kept or counted. The last ones may still wait to be accepted, and the page is a little older."""
            page = self.page(daemon)
            kept = int(re.search(r"^sepal_tls_handshakes (\d+)$", page, re.M).group(1))
            failures = self.failures(daemon, page)
            return kept < HALF_OPEN / 2 and failures["displaced"] + failures["timeout"] == HALF_OPEN - kept

        self.eventually("half-open ones are neither kept nor counted", are_told)
        self.assertEqual(healthy.info("clients")["connected_clients"], "6")
        for connection in stuck:
            connection.close()
        self.eventually("the half-open ones are gone", lambda: "sepal_tls_handshakes 0\n" in self.page(daemon))

    def test_strangers_that_hold_all_handshakes_leave_a_slow_client_its_time(self):
        daemon = self.serve()
        beginning = b"\x16\x03\x01\x01\x00\x01\x00"

        def strangers(count):
            held = [self.raw(daemon) for _ in range(count)]
            for connection in held:
                connection.sendall(beginning)
            return held

        held = strangers(HALF_OPEN)
        served = 0
        for _ in range(20):
            slow = self.raw(daemon)
            held += strangers(5)
            try:
                with self.context().wrap_socket(slow, server_hostname="localhost") as secured:
                    secured.sendall(encode("PING"))
                    served += secured.recv(100) == b"+PONG\r\n"
            except (OSError, ssl.SSLError):
                pass
        # Fewer than half of a worker's places are taken anew meanwhile.
        self.assertEqual(served, 20)

    def test_a_handshake_has_a_deadline(self):
        daemon = self.serve("--login-timeout", "1")
        silent, slow = self.raw(daemon), self.raw(daemon)
        slow.sendall(b"\x16\x03\x01\x01\x00\x01\x00")
        healthy = self.client(daemon)
        for connection in (silent, slow):
            self.assertEqual(connection.recv(100), b"")
        self.assertIn("login_timeout", daemon.wait_for_line("connections refused"))
        # No password is asked for, so clients stay after the handshake.
        self.assertEqual(healthy.call("PING"), b"PONG")

    def test_maxclients_is_told_over_tls(self):
        daemon = self.serve("--maxclients", "1")
        self.client(daemon).call("PING")
        other = self.client(daemon)
        self.assertEqual(str(other.receive()), "ERR max number of clients reached")

    def test_failed_handshakes_are_counted_by_reason(self):
        http_port = free_port()
        daemon = self.serve("--http-port", str(http_port), "--tls-auth-clients", "yes")
        daemon.http_port = http_port
        self.raw(daemon).sendall(encode("PING"))
        self.refused(daemon)
        with self.assertRaises(REFUSED):
            self.connect(daemon, context=self.context(ca=Authority(self.folder, "other")))
        self.raw(daemon).close()
        wanted = {"protocol": 1, "client_certificate": 1, "refused_by_client": 1, "closed": 1, "timeout": 0, "displaced": 0}
        self.eventually("each reason is counted", lambda: self.failures(daemon) == wanted)

    # --- certificates of clients

    def test_certificates_of_clients(self):
        alice = self.ca.sign("alice", "alice")
        expired = self.ca.sign("expired", "alice", days=-1)
        stranger = Authority(self.folder, "other").sign("stranger", "alice")
        daemon = self.serve("--tls-auth-clients", "yes")
        self.assertEqual(self.client(daemon, alice).call("PING"), b"PONG")
        for signed in (None, expired, stranger):
            self.refused(daemon, signed)
        self.assertEqual(self.client(daemon, alice).call("CONFIG", "SET", "tls-auth-clients", "optional"), b"OK")
        for signed in (None, alice):
            self.assertEqual(self.client(daemon, signed).call("PING"), b"PONG")
        for signed in (expired, stranger):
            self.refused(daemon, signed)
        self.assertEqual(self.client(daemon).call("CONFIG", "SET", "tls-auth-clients", "no"), b"OK")
        for signed in (None, alice, expired, stranger):
            self.assertEqual(self.client(daemon, signed).call("PING"), b"PONG")

    def test_the_certificate_names_the_user(self):
        daemon = self.serve("--tls-auth-clients", "optional", "--tls-auth-clients-user", "CN", "--requirepass", "sesame")
        plain = self.plain(daemon)
        plain.call("AUTH", "sesame")
        plain.call("ACL", "SETUSER", "alice", "on", "resetpass", "~a:*", "+bf.add", "+acl|whoami")
        plain.call("ACL", "SETUSER", "off", "off", "nopass", "~*", "+@all")
        alice = self.client(daemon, self.ca.sign("alice", "alice"))
        self.assertEqual(alice.call("ACL", "WHOAMI"), b"alice")
        self.assertEqual(alice.call("BF.ADD", "a:key", "item"), 1)
        with self.assertRaisesRegex(Refused, "NOPERM"):
            alice.call("BF.ADD", "b:key", "item")
        # Without a certificate, or with one that names no user, the client has to log in, as all others.
        for signed in (None, self.ca.sign("bob", "bob"), self.ca.sign("off", "off"), self.ca.sign("nameless", "")):
            with self.assertRaisesRegex(Refused, "NOAUTH"):
                self.client(daemon, signed).call("PING")
        log = plain.call("ACL", "LOG")
        entries = [dict(zip(entry[::2], entry[1::2])) for entry in log]
        self.assertEqual([entry[b"username"] for entry in entries if entry[b"reason"] == b"tls-cert"], [b"off", b"bob"])
        for entry in entries:  # the client of an entry is as old as its connection
            self.assertRegex(entry[b"client-info"].decode(), r" age=\d{1,2} idle=\d{1,2} ")
        self.assertEqual(plain.info("stats")["acl_access_denied_tls_cert"], "2")
        # A user that is deleted loses its clients. What a client sent before its worker closes it is refused.
        plain.call("ACL", "DELUSER", "alice")
        with self.assertRaises(REFUSED):
            while True:
                with self.assertRaisesRegex(Refused, "NOAUTH"):
                    alice.call("ACL", "WHOAMI")

    def test_no_user_is_named_by_a_certificate_that_is_not_asked_for(self):
        alone = ("tls-auth-clients-user", "CN")
        both = ("tls-auth-clients", "optional", *alone)
        plain = self.plain(self.serve())
        with self.assertRaisesRegex(Refused, "set tls_auth_clients to yes or optional"):
            plain.call("CONFIG", "SET", *alone)
        self.assertEqual(plain.call("CONFIG", "SET", *both), b"OK")
        with self.assertRaisesRegex(Refused, "set tls_auth_clients to yes or optional"):
            plain.call("CONFIG", "SET", "tls-auth-clients", "no")
        self.assertEqual(plain.call("CONFIG", "GET", "tls-auth-clients"), [b"tls-auth-clients", b"optional"])

    # --- new files while it runs

    def replace(self, signed):
        shutil.copy(signed.certificate, self.server.certificate)
        shutil.copy(signed.key, self.server.key)

    def test_sighup_reads_the_certificate_anew(self):
        daemon = self.serve()
        before = self.client(daemon)
        self.assertEqual(self.serial(daemon), self.server.serial)
        renewed = self.ca.sign("renewed")
        self.replace(renewed)
        self.assertEqual(self.serial(daemon), self.server.serial)
        daemon.send_signal(signal.SIGHUP)
        line = daemon.wait_for_line("certificate read: subject=\"CN = localhost\" serial=" + renewed.serial)
        self.assertRegex(line, r" not_after=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(self.serial(daemon), renewed.serial)
        with open(self.server.certificate, "w") as file:
            file.write("nothing\n")
        daemon.send_signal(signal.SIGHUP)
        line = daemon.wait_for_line("certificates not read anew")
        self.assertIn(self.server.certificate + ": the certificate cannot be read: it has no PEM certificate", line)
        self.assertEqual(self.serial(daemon), renewed.serial)
        self.assertEqual(before.call("PING"), b"PONG")

    def test_config_set_reads_the_certificate_anew(self):
        daemon = self.serve()
        client = self.client(daemon)
        renewed = self.ca.sign("renewed")
        with self.assertRaisesRegex(Refused, "server.key: the key does not fit the certificate .*renewed.crt: key values mismatch"):
            client.call("CONFIG", "SET", "tls-cert-file", renewed.certificate)
        self.assertEqual(client.call("CONFIG", "GET", "tls-cert-file")[1].decode(), self.server.certificate)
        self.assertEqual(self.serial(daemon), self.server.serial)
        client.call("CONFIG", "SET", "tls-cert-file", renewed.certificate, "tls-key-file", renewed.key)
        self.assertEqual(self.serial(daemon), renewed.serial)
        # The same value reads the file once more.
        another = self.ca.sign("another")
        shutil.copy(another.certificate, renewed.certificate)
        shutil.copy(another.key, renewed.key)
        client.call("CONFIG", "SET", "tls-cert-file", renewed.certificate)
        self.assertEqual(self.serial(daemon), another.serial)
        with self.assertRaisesRegex(Refused, "No such file"):
            client.call("CONFIG", "SET", "tls-ca-cert-file", "/nowhere")
        with self.assertRaisesRegex(Refused, "immutable"):
            client.call("CONFIG", "SET", "tls-port", "1")
        self.assertEqual(client.call("PING"), b"PONG")

    def test_reloads_beside_new_connections(self):
        daemon = self.serve()

        def connect(ended):
            while not ended.is_set():
                with self.context().wrap_socket(socket.create_connection(("127.0.0.1", daemon.tls_port), timeout=300),
                                                server_hostname="localhost") as connection:
                    connection.sendall(encode("PING"))
                    self.assertEqual(connection.recv(100), b"+PONG\r\n")

        with beside(connect, count=3), self.client(daemon) as client:
            for _ in range(30):
                client.call("CONFIG", "SET", "tls-cert-file", self.server.certificate)

    # --- the pages for operators

    def ask_http(self, port, context, path="/healthz"):
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=300)
        self.addCleanup(connection.close)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def test_pages_over_tls(self):
        port = free_port()
        daemon = self.serve("--http-port", str(port), "--http-tls", "yes")
        self.assertEqual(self.ask_http(port, self.context()), (200, "alive\n"))
        status, text = self.ask_http(port, self.context(), "/metrics")
        self.assertIn("sepal_connections 0", text)
        plain = http.client.HTTPConnection("localhost", port, timeout=300)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            plain.request("GET", "/healthz")
            plain.getresponse()
        silent = [socket.create_connection(("127.0.0.1", port), timeout=300) for _ in range(60)]
        self.assertEqual(self.ask_http(port, self.context()), (200, "alive\n"))
        for each in silent:
            each.close()
        connection = http.client.HTTPSConnection("localhost", port, context=self.context(), timeout=300)
        for _ in range(3):
            connection.request("GET", "/")
            self.assertIn("<title>", connection.getresponse().read().decode())
        renewed = self.ca.sign("renewed")
        self.replace(renewed)
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("serial=" + renewed.serial)
        with self.context().wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=300),
                                        server_hostname="localhost") as secured:
            self.assertEqual(secured.getpeercert()["serialNumber"], renewed.serial)
        # A connection that was there goes on.
        connection.request("GET", "/healthz")
        self.assertEqual(connection.getresponse().read(), b"alive\n")
        connection.close()
        self.assertEqual(daemon.stop(), 0)

    def test_pages_want_the_certificates_of_clients_too(self):
        port = free_port()
        self.serve("--http-port", str(port), "--http-tls", "yes", "--tls-auth-clients", "yes")
        self.assertEqual(self.ask_http(port, self.context(self.ca.sign("alice", "alice"))), (200, "alive\n"))
        with self.assertRaises(REFUSED):
            self.ask_http(port, self.context())

    def test_pages_over_tls_without_a_port_of_tls(self):
        port = free_port()
        daemon = self.start("--http-port", str(port), "--http-tls", "yes", *self.files(), directory=os.path.join(self.directory, "data"))
        self.assertEqual(self.ask_http(port, self.context()), (200, "alive\n"))
        self.assertEqual(self.plain(daemon).call("CONFIG", "GET", "http-tls"), [b"http-tls", b"yes"])

    # --- a wrong start

    def test_starts_that_cannot_succeed(self):
        other = self.ca.sign("other")
        locked = self.ca.sign("locked", passphrase="sesame")
        port = ("--tls-port", str(free_port()))
        for arguments, reason in (
                (port, "TLS needs a certificate: set tls_cert_file"),
                ((*port, "--tls-cert-file", other.certificate), "TLS needs a key: set tls_key_file"),
                ((*port, *self.files()[:4], "--tls-auth-clients", "yes"), "set tls_ca_cert_file"),
                ((*port, *self.files(), "--tls-auth-clients-user", "CN"), "set tls_auth_clients to yes or optional"),
                ((*port, *self.files(), "--tls-cert-file", "/nowhere"), "/nowhere: the certificate cannot be read: No such file"),
                ((*port, *self.files(), "--tls-key-file", other.key), "key values mismatch"),
                ((*port, *self.files(locked)), "locked.key: the key cannot be read, or has a passphrase"),
                ((*port, *self.files(), "--tls-ca-cert-file", self.server.key), "server.key: the CA certificate cannot be read: it has no PEM certificate"),
                ((*port, "--tls-cert-file", self.server.key, "--tls-key-file", self.server.key),
                 "server.key: the certificate cannot be read: it has no PEM certificate"),
                ((*port, "--tls-cert-file", self.server.certificate, "--tls-key-file", self.server.certificate),
                 "server.crt: the key cannot be read, or has a passphrase: it has no PEM key that OpenSSL knows"),
                (("--http-port", port[1], "--http-tls", "yes"), "TLS needs a certificate"),
                ((*port, "--port", port[1], *self.files()), "port and tls_port are the same")):
            with self.subTest(reason):
                daemon = self.start(*arguments, wait=False, directory=os.path.join(self.directory, "data"))
                self.assertNotEqual(daemon.wait(), 0)
                self.assertIn(reason, daemon.text())

    def test_a_certificate_that_no_port_uses_is_a_warning(self):
        files = "--tls-cert-file", self.server.certificate, "--tls-key-file", self.server.key
        for arguments, is_told in (((), True), (("--tls-port", str(free_port())), False)):
            daemon = self.start(*files, *arguments, directory=os.path.join(self.directory, "data"))
            told = "there is a certificate, but no port speaks TLS"
            (self.assertIn if is_told else self.assertNotIn)(told, daemon.text())
            daemon.kill()

    def test_a_certificate_that_has_expired_is_a_warning(self):
        daemon = self.serve(signed=self.ca.sign("old", days=-1))
        self.assertRegex(daemon.text(), r"the certificate is not valid any more: not_after=\S+Z advice=\"renew tls_cert_file\"\n")
        with self.assertRaises(REFUSED):
            self.connect(daemon)

    def test_a_certificate_that_has_not_begun_is_used_with_a_warning(self):
        daemon = self.serve(signed=self.ca.sign("later", begins=2))
        self.assertRegex(daemon.text(), r"the certificate is not valid yet: not_before=\S+Z advice=\"check the clock, or the certificate\"\n")
        with self.assertRaises(REFUSED):
            self.connect(daemon)
