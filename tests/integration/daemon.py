"""A real sepald for a test. It has a port that the system chooses and its own directory, and ends with the test."""

import contextlib
import errno
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import pauses

SEPALD = os.environ["SEPALD"]
# A sanitizer takes memory of its own and makes everything slower, so tests do not assert sizes and times under one.
SANITIZED = bool(os.environ.get("SEPAL_SANITIZE"))
# scripts/test --full says "full". Otherwise a test does the same with less: fewer rounds, fewer clients, smaller filters.
FULL = os.environ.get("SEPAL_TESTS") == "full"
# An error rate so small that no test meets a false positive, so that answers and counts can be compared exactly. The servers of
# the tests draw their seeds, as those of operators do: a fixed seed would leave untested what a server does with a seed of its
# own. So a test that expects an exact answer of a filter with many items makes it with this rate, or names a seed.
EXACT_RATE = "1e-13"
# The same for filters that delete. With a smaller rate they would hardly grow.
EXACT_CUCKOO_RATE = "1e-10"
# Files so small that a test may copy or read a whole data directory many times.
SMALL_FILES = ("--journal-segment", "2mb", "--disk-reserve", "1mb")
START_SECONDS_MAX = 300
STOP_SECONDS_MAX = 300
EVENTUALLY_SECONDS_MAX = 300


@contextlib.contextmanager
def beside(work, count=1):
    """Runs work(ended) in threads while the block runs. `ended` is set when the block ends, also by a failure, so that no
    thread keeps the process. What a thread raises, the end of the block raises."""
    ended, problems = threading.Event(), []

    def run():
        try:
            work(ended)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]


def say(text):
    print(text, file=sys.stderr, flush=True)


def sepal(*arguments, environment=None, **options):
    """Runs the program. `environment`: variables that are added."""
    return subprocess.run([os.environ["SEPAL"], *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **(environment or {})}, **options)


def sized(usual, full):
    """The size of a test: `full` in scripts/test --full, else `usual`."""
    return full if FULL else usual


# What keeps the ports that this process was given from all other tests, until it ends.
_kept_ports = []


def keep_port(port):
    """Whether no test has this port. Then this process keeps it: by a name for sockets that ends with the process, so that no
    other test gets the port before a server listens there, or while a test starts its server again."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind("\0sepal-test-port-%d" % port)
    except OSError as error:
        name.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    _kept_ports.append(name)
    return True


def free_port(offset=0):
    """A TCP port of the loopback address that nobody uses, and so is the port `offset` above it. No other call gets them.

    Both are below the ports that the system gives to clients. Otherwise a client of another test could take a port while
    the test starts its server again."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as text:
        first_of_clients = int(text.read().split()[0])
    # Documents show ports below 20,000, with those on which the nodes of a cluster talk to each other.
    ports = range(20_000, first_of_clients - offset) if first_of_clients - offset > 21_000 else range(1024, 65_536 - offset)
    while True:
        port = random.choice(ports)
        with socket.socket() as probe, socket.socket() as other:
            try:
                probe.bind(("127.0.0.1", port))
                if offset:
                    other.bind(("127.0.0.1", port + offset))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                if all([keep_port(each) for each in sorted({port, port + offset})]):
                    return port


class Daemon:
    """One process. `log` holds every line it has written so far."""

    def __init__(self, directory, *arguments, wait=True, open_files=None, environment=None, group=None, program=None,
                 before=None):
        """`open_files`: the soft and hard limit of descriptors at its start. `environment`: variables that are added.
        `group`: the control group that it is in, see control_group.py. `program`: the words of another program than SEPALD.
        `before`: what the new process calls before it becomes sepald."""
        self.directory = directory
        def limit():
            if open_files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
            if group is not None:
                group.join()
            if before is not None:
                before()

        self.log = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [*(program or [SEPALD]), "--port", "0", "--dir", directory, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            preexec_fn=limit if (open_files, group, before) != (None, None, None) else None, env={**os.environ, **(environment or {})})
        pauses.begin(self.process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = None
        if wait:
            line = self.wait_for_line("ready: address=")
            port = re.search(r"address=[^ ]*:(\d+)", line)
            self.port = int(port.group(1)) if port else None  # None if it listens only on a UNIX socket

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.log.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self.log.append(None)
            self._changed.notify_all()

    def wait_for_line(self, text, seconds=START_SECONDS_MAX):
        """The first line that contains `text`."""
        deadline = time.monotonic() + seconds
        at = 0
        with self._changed:
            while True:
                for line in self.log[at:]:
                    if line is None:
                        raise AssertionError("sepald ended before %r; it said:\n%s" % (text, self.text()))
                    if text in line:
                        return line
                at = len(self.log)
                if not self._changed.wait(max(0, deadline - time.monotonic())):
                    raise AssertionError("no %r within %s s; it said:\n%s" % (text, seconds, self.text()))

    def text(self):
        return "\n".join(line for line in self.log if line is not None)

    def connect(self, test=None):
        """A connection. It ends with the test, if there is one."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=300)
        if test:
            test.addCleanup(connection.close)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def send_signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=STOP_SECONDS_MAX):
        """Waits until it has ended and its log is read to the end. Returns its exit status."""
        status = self.process.wait(seconds)
        self._reader.join(seconds)
        return status

    def stop(self):
        """Sends SIGTERM. Returns the exit status."""
        self.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        self.process.stderr.close()


class DaemonTest(unittest.TestCase):
    """A test with a data directory. Its daemons end with the test."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="sepal-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def start(self, *arguments, directory=None, **options):
        daemon = Daemon(directory or self.directory, *arguments, **options)
        self.addCleanup(daemon.kill)
        return daemon

    def skip_aloud(self, reason):
        """Skips the test, and says so where the results are read."""
        say("SKIPPED: " + reason)
        self.skipTest(reason)

    def eventually(self, what, condition):
        """Waits for the condition. `what` is what is wrong if it does not come."""
        deadline = time.monotonic() + EVENTUALLY_SECONDS_MAX
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)


def encode(*words):
    """A request in RESP."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def read_lines(connection, count):
    """Reads so many lines of replies. Fails if the connection ends first."""
    data = b""
    while data.count(b"\r\n") < count:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("closed after %r" % data)
        data += piece
    return data.split(b"\r\n")[:-1]
