"""A redis-server with sepal.so for a test. It has its own directory and port, and ends with the test."""

import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from client import Client, Refused  # noqa: E402, F401
from daemon import EXACT_CUCKOO_RATE, EXACT_RATE, Daemon, encode, free_port  # noqa: E402, F401

MODULE = os.environ["SEPAL_MODULE"]
START_SECONDS_MAX = 300
STOP_SECONDS_MAX = 300
EVENTUALLY_SECONDS_MAX = 300


class Redis:
    """One process. `text()` is its log."""

    def __init__(self, directory, *arguments, module=(), wait=True, port=None, configuration=None):
        self.directory, self.arguments, self.module, self.configuration = directory, arguments, module, configuration
        self.port = port or free_port()
        self.log_path = os.path.join(directory, "log-%d" % random.getrandbits(32))
        self.process = subprocess.Popen(
            ["redis-server", *([str(configuration)] if configuration else []), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", directory, "--logfile", self.log_path,
             "--save", "", "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--loadmodule", MODULE, *map(str, module), *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if wait:
            self.wait_until_ready()

    @classmethod
    def again(cls, ended):
        """The same server once more: its directory, its port, its arguments."""
        return cls(ended.directory, *ended.arguments, module=ended.module, port=ended.port, configuration=ended.configuration)

    def text(self):
        path = pathlib.Path(self.log_path)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        while "Ready to accept connections" not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("redis-server does not start:\n" + self.text())
            time.sleep(0.02)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def client(self):
        return Client.of(self)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS_MAX)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(STOP_SECONDS_MAX)


@unittest.skipUnless(shutil.which("redis-server"), "there is no redis-server")
class RedisTest(unittest.TestCase):
    def setUp(self):
        self.directory = self.make_directory()

    def make_directory(self):
        directory = tempfile.mkdtemp(prefix="sepal-module-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        return directory

    def start(self, *arguments, directory=None, **options):
        server = Redis(directory or self.directory, *arguments, **options)
        self.addCleanup(server.kill)
        return server

    def start_sepald(self, *arguments):
        daemon = Daemon(self.make_directory(), *arguments)
        self.addCleanup(daemon.kill)
        return daemon

    def client_of(self, server):
        client = Client.of(server)
        self.addCleanup(client.close)
        return client

    def version_of(self, server):
        """Of Redis: (7, 0). A Valkey gives the version of Redis that it is like."""
        return tuple(map(int, field(self.client_of(server).call("INFO", "server"), "redis_version").split(".")[:2]))

    def eventually(self, what, condition):
        """Waits for the condition. `what` is what is wrong if it does not come."""
        deadline = time.monotonic() + EVENTUALLY_SECONDS_MAX
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def digests(self, client, keys):
        return client.call("DEBUG", "DIGEST-VALUE", *sorted(keys))

    def wait_until_rewritten(self, client):
        self.eventually("the AOF is not rewritten",
                        lambda: field(client.call("INFO", "persistence"), "aof_rewrite_in_progress") == "0"
                        and field(client.call("INFO", "persistence"), "aof_rewrite_scheduled") == "0")
        self.assertEqual(field(client.call("INFO", "persistence"), "aof_last_bgrewrite_status"), "ok")

    def rewrite_under_load(self, client, server, change):
        """change(client, items): another client calls it until the AOF is rewritten, each time with further items."""
        ends = threading.Event()

        def change_on():
            with server.client() as other:
                number = 0
                while not ends.is_set():
                    change(other, ["more/%d" % i for i in range(number, number + 100)])
                    number += 100

        changer = threading.Thread(target=change_on)
        changer.start()
        try:
            time.sleep(0.2)
            client.call("BGREWRITEAOF")
            self.wait_until_rewritten(client)
            time.sleep(0.2)
        finally:
            ends.set()
            changer.join()


def field(info, name):
    """A field of INFO's reply, as text."""
    for line in info.decode().splitlines():
        if line.startswith(name + ":"):
            return line.split(":", 1)[1]
    raise KeyError(name)
