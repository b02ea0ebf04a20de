"""A client that understands every reply, for tests that need more than single lines."""

import socket
import time

import pauses
from daemon import encode


class Refused(Exception):
    """An error reply. Its text is without the '-'."""


class Client:
    """One connection. An error inside an array, or among the replies of a pipeline, is a Refused in the list."""

    def __init__(self, connection):
        self.connection = connection
        self._replies = connection.makefile("rb", 1 << 16)

    @classmethod
    def of(cls, daemon, test=None):
        """A client of the daemon. It ends with the test, if there is one."""
        client = cls(daemon.connect())
        if test:
            test.addCleanup(client.close)
        return client

    @classmethod
    def at_path(cls, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(300)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            raise
        return cls(connection)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self._replies.close()
        self.connection.close()

    def send(self, *requests):
        pauses.before_request()
        self.connection.sendall(b"".join(encode(*request) for request in requests))

    def receive(self):
        """The next reply: an int, bytes, None, a list, or a Refused. Raises ConnectionError if there is none."""
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed after %r" % line)
        kind, value = line[:1], line[1:-2]
        if kind == b":":
            return int(value)
        if kind == b"+":
            return value
        if kind == b"-":
            return Refused(value.decode())
        if int(value) < 0:
            return None
        if kind == b"*":
            return [self.receive() for _ in range(int(value))]
        data = self._replies.read(int(value) + 2)
        if len(data) != int(value) + 2:
            raise ConnectionError("closed inside a reply")
        return data[:-2]

    def call(self, *words):
        """The reply to one request. Raises Refused."""
        self.send(words)
        reply = self.receive()
        if isinstance(reply, Refused):
            raise reply
        return reply

    def pipeline(self, requests):
        self.send(*requests)
        return [self.receive() for _ in requests]

    def save(self):
        """SAVE, after the save that the server has begun by itself, if there is one. Raises Refused."""
        while isinstance(reply := self.pipeline([("SAVE",)])[0], Refused) and "already in progress" in str(reply):
            time.sleep(0.02)
        if isinstance(reply, Refused):
            raise reply

    def info(self, *sections):
        """The fields of INFO."""
        lines = self.call("INFO", *sections).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)
