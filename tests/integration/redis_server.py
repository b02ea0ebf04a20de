"""Redis itself, without a module, for tests that move strings from it."""

import os
import shutil
import subprocess
import time

from client import Client

IS_THERE = shutil.which("redis-server") is not None
WHY_NOT = "redis-server is not installed"
START_SECONDS_MAX = 300


class Redis:
    """A server of Redis on a socket in `directory`, which is made. It saves nothing unless `arguments` say so."""

    def __init__(self, directory, *arguments):
        os.makedirs(directory)
        self.path = os.path.join(directory, "socket")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", directory, "--save", "", *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("redis-server does not start")
            time.sleep(0.01)

    def _answers(self):
        try:
            with self.client() as client:
                return client.call("PING") == b"PONG"
        except OSError:
            return False

    def client(self):
        return Client.at_path(self.path)

    def address(self):
        return "unix://" + self.path

    def stop(self):
        self.process.terminate()
        self.process.wait()


def strings_of(client):
    """Value and deadline of each string of the selected database, which holds nothing else."""
    keys = sorted(client.call("KEYS", "*"))
    replies = client.pipeline([request for key in keys for request in (("GET", key), ("PEXPIRETIME", key))])
    return {key: (replies[2 * at], replies[2 * at + 1]) for at, key in enumerate(keys)}
