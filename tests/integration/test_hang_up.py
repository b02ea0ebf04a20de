"""SIGHUP while sepald starts. It ends no server, and what it asks for is done as soon as it can be."""

import array
import fcntl
import os
import pathlib
import signal
import subprocess
import termios
import unittest

from client import Client
from daemon import SEPALD, DaemonTest

# Sends SIGHUP before main(). Sanitizers have to be the first library, so there is none with them.
PRELOADED = os.environ.get("SEPAL_HANG_UP_AT_START")
PAGE = 4096


class FullPipe:
    """A log that takes its first line, and no other until it is read."""

    def __init__(self, test):
        read_end, write_end = os.pipe()
        self.read_end, self.write_end = os.fdopen(read_end, encoding="utf-8"), os.fdopen(write_end, "wb", buffering=0)
        test.addCleanup(self.read_end.close)
        test.addCleanup(self.write_end.close)
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, PAGE)
        self.filled = PAGE - 250
        self.write_end.write(b"." * self.filled)

    def has_line(self):
        waiting = array.array("i", [0])
        fcntl.ioctl(self.read_end, termios.FIONREAD, waiting)
        return waiting[0] > self.filled

    def lines(self):
        """Each line, until sepald ends."""
        self.write_end.close()
        self.read_end.read(self.filled)
        yield from self.read_end


class HangUpTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.password = pathlib.Path(self.directory, "password")

    @unittest.skipUnless(PRELOADED, "no library to preload in this build")
    def test_it_comes_before_main(self):
        daemon = self.start(environment={"LD_PRELOAD": PRELOADED})
        daemon.wait_for_line("SIGHUP ignored")
        self.assertEqual(daemon.stop(), 0)

    @unittest.skipUnless(PRELOADED, "no library to preload in this build")
    def test_it_ends_what_serves_nothing(self):
        for word in ("--version", "--check-config", "--healthcheck"):
            done = subprocess.run([SEPALD, word, "--dir", self.directory], env={**os.environ, "LD_PRELOAD": PRELOADED}, capture_output=True)
            self.assertEqual(done.returncode, -signal.SIGHUP, done)

    def is_pending(self, process):
        with open("/proc/%d/status" % process.pid, encoding="ascii") as status:
            [pending] = [line.split()[1] for line in status if line.startswith("ShdPnd:")]
        return bool(int(pending, 16) & 1 << (signal.SIGHUP - 1))

    def test_it_comes_when_the_password_is_read_and_nothing_else_is_done(self):
        self.password.write_text("first\n")
        pipe = FullPipe(self)
        process = subprocess.Popen([SEPALD, "--port", "0", "--dir", os.path.join(self.directory, "data"), "--requirepass-file", str(self.password), "--unixsocket", os.path.join(self.directory, "socket")],
                                   stdout=subprocess.DEVNULL, stderr=pipe.write_end)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.eventually("no line", pipe.has_line)
        self.password.write_text("second\n")
        process.send_signal(signal.SIGHUP)
        self.eventually("SIGHUP is not taken", lambda: not self.is_pending(process))
        log, seen = pipe.lines(), []
        while not (any("ready: " in line for line in seen) and any("read anew" in line or "SIGHUP ignored" in line for line in seen)):
            line = next(log, None)
            self.assertIsNotNone(line, "sepald ended: " + "".join(seen))
            seen.append(line)
        with Client.at_path(os.path.join(self.directory, "socket")) as client:
            self.assertEqual(client.call("AUTH", "second"), b"OK", seen)
        process.terminate()
        self.assertEqual(process.wait(), 0)
        seen += log
        self.assertEqual(sum("password read anew" in line for line in seen), 1, seen)


if __name__ == "__main__":
    unittest.main()
