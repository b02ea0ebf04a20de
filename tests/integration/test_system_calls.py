"""sepald and `sepal backup` under the filters of system calls that their units have. A call that a filter denies fails under the unit; here it
ends the process, so that the test sees it."""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess

import system_calls
from certificates import Authority
from client import Client
from daemon import EXACT_RATE, SANITIZED, SEPALD, DaemonTest, encode, free_port, sepal
from test_install import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEPAL = os.environ["SEPAL"]
UNITS = {SEPALD: "sepald.service", SEPAL: "sepal-backup@.service"}
# Root alone gives files away and becomes another user, and the units have a user of their own. A backup makes no filter.
NEVER_CALLED = {"sepald.service": {"lchown", "setuid"}, "sepal-backup@.service": {"lchown", "mincore"}}
# Its layers are mapped and watched by the thread that moves them to huge pages.
LARGE = 4_000_000
OTHER_GROUP = 12_345


def text_of(unit):
    return (ROOT / "config" / unit).read_text(encoding="utf-8")


class SystemCallsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.analyze = program("systemd-analyze")
        if system_calls.numbers() is None:
            self.skip_aloud("the numbers of the system calls are read from the headers of x86_64 alone")
        if SANITIZED:
            self.skip_aloud("a sanitizer makes calls of its own")
        self.data = os.path.join(self.directory, "data")

    def filter_of(self, unit):
        return system_calls.Filter(system_calls.allowed_calls(text_of(unit), self.analyze))

    def serve(self, *arguments, **options):
        return self.start(*arguments, directory=self.data, before=self.filter_of("sepald.service").enter, **options)

    def test_a_call_that_is_denied_ends_the_process(self):
        """Otherwise the other tests would find nothing."""
        denied = system_calls.Filter(system_calls.allowed_calls(text_of("sepald.service"), self.analyze) - {"listen"})
        daemon = self.start(directory=self.data, before=denied.enter, wait=False)
        self.assertEqual(daemon.wait(), -signal.SIGSYS)

    def test_what_the_programs_import_is_allowed(self):
        """Also what no test does: functions of the C library have the names of the calls that they make."""
        for path, unit in UNITS.items():
            with self.subTest(unit):
                done = subprocess.run(["nm", "--dynamic", "--undefined-only", path], capture_output=True, text=True, check=True)
                imported = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}
                calls = imported & set(system_calls.numbers())
                self.assertIn("madvise", calls)
                self.assertEqual(calls - NEVER_CALLED[unit] - system_calls.allowed_calls(text_of(unit), self.analyze), set())

    def test_filters_of_all_kinds_and_a_restart(self):
        exports = os.path.join(self.directory, "exports")
        os.mkdir(exports)
        arguments = ("--import-dir", exports, "--port", str(free_port()), "--unixsocket", os.path.join(self.directory, "socket"))
        daemon = self.serve(*arguments)
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "bloom", "0.001", LARGE)
            client.call("BF.RESERVE", "window", "0.001", LARGE, "WINDOW", "3600")
            client.call("CF.RESERVE", "cuckoo", LARGE)
            client.call("BF.RESERVE", "growing", EXACT_RATE, 1000)
            pieces = [range(start, start + 1000) for start in range(0, 50_000, 1000)]
            client.pipeline([("BF.MADD", key, *piece) for key in ("bloom", "window", "growing") for piece in pieces])
            client.pipeline([("CF.INSERT", "cuckoo", "ITEMS", *piece) for piece in pieces])
            self.assertEqual([client.call("BF.EXISTS", key, "49999") for key in ("bloom", "window", "growing")], [1] * 3)
            client.pipeline([("SET", "string", "value"), ("EXPIRE", "string", "1000")])
            client.call("BF.RESERVE", "merged", "0.001", LARGE)
            client.call("BF.MERGE", "merged", 1, "bloom")
            client.call("COPY", "bloom", "copied")
            client.call("RESTORE", "restored", "0", client.call("DUMP", "growing"))
            client.call("BF.EXPORT", "bloom", "bloom.sepal")
            client.call("BF.IMPORT", "imported", "bloom.sepal")
            self.assertEqual(client.call("EVAL", "return redis.call('GET', 'string')", "0"), b"value")
            client.save()
            client.call("DEL", "copied", "imported")
            client.call("BGSAVE")
        self.assertEqual(daemon.stop(), 0)
        daemon = self.serve(*arguments)
        with Client.of(daemon) as client:
            self.assertEqual(client.call("CF.EXISTS", "cuckoo", "49999"), 1)
            client.call("FLUSHALL")
        self.assertEqual(daemon.stop(), 0)

    def test_settings_signals_and_pages(self):
        config, users, log = (pathlib.Path(self.directory, name) for name in ("sepald.toml", "users.acl", "log"))
        config.write_text("port = 0\n")
        users.write_text("user bob on >pw +@all ~*\n")
        if os.geteuid() == 0:
            os.chown(config, 0, OTHER_GROUP)
        before = config.stat()
        authority = Authority(self.directory)
        signed = authority.sign("server")
        port, tls_port, http_port = free_port(), free_port(), free_port()
        daemon = self.serve("--config", str(config), "--aclfile", str(users), "--log-file", str(log), "--port", str(port), "--tls-port", str(tls_port),
                            "--tls-cert-file", signed.certificate, "--tls-key-file", signed.key, "--http-port", str(http_port), wait=False)
        self.eventually("it is ready", lambda: log.exists() and "ready: address=" in log.read_text())
        daemon.port = port
        with Client.of(daemon) as client:
            client.call("CONFIG", "SET", "timeout", "77")
            client.call("CONFIG", "REWRITE")
            client.call("ACL", "SETUSER", "eve", "on", ">pw", "+@all", "~*")
            client.call("ACL", "SAVE")
        self.assertIn("timeout = ", config.read_text())
        self.assertEqual((config.stat().st_uid, config.stat().st_gid), (before.st_uid, before.st_gid))
        log.rename(str(log) + ".1")
        daemon.send_signal(signal.SIGHUP)
        self.eventually("the log is opened anew", lambda: log.exists() and "log reopened" in log.read_text())
        context = ssl.create_default_context(cafile=authority.certificate)
        with socket.create_connection(("127.0.0.1", tls_port), timeout=300) as plain, context.wrap_socket(plain, server_hostname="localhost") as secured:
            secured.sendall(encode("PING"))
            self.assertEqual(secured.recv(100), b"+PONG\r\n")
        for page in ("/", "/metrics", "/readyz", "/api/server"):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", http_port, timeout=300)) as connection:
                connection.request("GET", page)
                self.assertEqual(connection.getresponse().status, 200, page)
        # The report of a crash is written as well.
        daemon.send_signal(signal.SIGSEGV)
        self.assertEqual(daemon.wait(), -signal.SIGSEGV)
        self.assertTrue(log.read_text().rstrip().endswith("end of the report"))

    def test_a_backup(self):
        daemon = self.start(directory=self.data)
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "bloom", "0.001", LARGE)
        words = ("backup", "--from", "redis://127.0.0.1:%d" % daemon.port, "--keep", "2", os.path.join(self.directory, "backups"))
        for _ in range(3):
            done = sepal(*words, preexec_fn=self.filter_of("sepal-backup@.service").enter)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
