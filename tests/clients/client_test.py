"""What the tests of real clients share. Each client has a folder here, and each test runs the client's own program against a sepald.

A program is started as `PROGRAM tour` or `PROGRAM write`. Its environment has SEPAL_PORT; SEPAL_PASSWORD, that of the user
`default`; SEPAL_PROTOCOL, 2 or 3; SEPAL_USER and SEPAL_USER_PASSWORD, those of another user; and
SEPAL_SCRIPTS, which is 1. With SEPAL_TLS_CA, the path of a CA's certificate, the port is one of TLS.

`tour` goes through the library, and prints `ok PART` after each part that went well; it ends with a status other than 0 at the
first wrong reply. PARTS names the parts. What the parts leave in the keyspace, the driver compares with its own connection.

`write` adds the items w:0, w:1, ... to the key `written`, one after the other, until it is killed. It prints the number of each
item whose add is answered. It goes on when the server comes back: as the library does it, or with a new connection.
"""

import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import documents
from certificates import Authority
from client import Client
from daemon import DaemonTest, free_port

# The status of a test that ctest reports as skipped.
SKIPPED = 77
PASSWORD = "sesame"
USER, USER_PASSWORD = "worker", "of the mill"
TOUR_SECONDS_MAX = 300
TOOL_SECONDS_MAX = 300
# The programs of docs/clients.md wait for a second; a compiler comes before some of them.
SILENT_SECONDS_MAX = 60
# Items that a writer adds between two stops of the server.
ITEMS_BETWEEN = 300
# In so large a filter with such a rate, no lost item hides behind a false positive.
WRITTEN = ("BF.RESERVE", "written", "0.000001", "1000000")
PARTS = ("auth", "user", "commands", "errors", "binary", "pipeline", "transaction", "script", "batch")
PIPELINE, BATCH = 10_000, 100_000
BINARY_KEY, BINARY_ITEM = b"binary:" + bytes(range(256)), bytes(reversed(range(256)))
DOCUMENT = ROOT / "docs" / "clients.md"
# Where `install` puts what comes from npm.
INSTALLED = ROOT / "build" / "clients"


class Output:
    """The lines that a program prints, while it runs. `said` is the file of its standard error."""

    def __init__(self, process, said):
        self.process = process
        self.said = said
        self.lines = []
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for_count(self, count, seconds=TOOL_SECONDS_MAX):
        deadline = time.monotonic() + seconds
        with self._changed:
            while len(self.lines) < count:
                if self._ended or not self._changed.wait(max(0, deadline - time.monotonic())):
                    self.said.seek(0)
                    raise AssertionError("%d lines of %d, the last ones %r; it said:\n%s"
                                         % (len(self.lines), count, self.lines[-3:], self.said.read()[-4000:]))

    def wait_for_end(self, seconds=TOOL_SECONDS_MAX):
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended, seconds):
                raise AssertionError("the program does not end")


class ClientTest(DaemonTest):
    """A test with a client. `name` is its folder."""

    name = None

    def setUp(self):
        super().setUp()
        self.scratch = tempfile.mkdtemp(prefix="sepal-client-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)

    def connect(self, daemon):
        """The driver's own connection."""
        client = Client.of(daemon)
        self.addCleanup(client.close)
        client.call("AUTH", PASSWORD)
        return client

    def environment(self, daemon, protocol=2):
        self.connect(daemon).call("ACL", "SETUSER", USER, "on", ">" + USER_PASSWORD, "~*", "&*", "+@all")
        return dict(os.environ, SEPAL_PORT=str(daemon.port), SEPAL_PASSWORD=PASSWORD, SEPAL_PROTOCOL=str(protocol),
                    SEPAL_USER=USER, SEPAL_USER_PASSWORD=USER_PASSWORD, SEPAL_SCRIPTS="1")

    def start_locked(self, port=0, directory=None, more=()):
        return self.start("--requirepass", PASSWORD, "--port", str(port), *more, directory=directory)

    # --- tools with pages

    def start_tool(self, command, web, **options):
        """Starts a tool that serves pages on the port `web`, and waits until it listens. Returns the file that it logs to."""
        log = open(os.path.join(self.scratch, "log"), "w+", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.scratch, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + TOOL_SECONDS_MAX
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", web, timeout=TOOL_SECONDS_MAX)
            try:
                connection.connect()
                return log
            except ConnectionRefusedError:
                log.seek(0)
                self.assertIsNone(process.poll(), "it ended: " + log.read())
                self.assertLess(time.monotonic(), deadline, "it does not listen")
                time.sleep(0.02)
            finally:
                connection.close()

    # --- the tour

    def run_tour_over_tls(self, command, extra=None):
        """The tour at the port of TLS, with a certificate of a CA that only the program knows."""
        authority = Authority(self.scratch)
        server = authority.sign("server")
        port = free_port()
        self.run_tour(command, extra=dict(extra or {}, SEPAL_PORT=str(port), SEPAL_TLS_CA=authority.certificate),
                      more=("--tls-port", str(port), "--tls-cert-file", server.certificate, "--tls-key-file", server.key,
                            "--port", str(free_port())))

    def run_tour(self, command, protocol=2, extra=None, more=()):
        # Libraries that ask for no rate add to filters that take some absent items for known ones.
        daemon = self.start_locked(directory=os.path.join(self.directory, str(protocol)), more=("--seed", "1", *more))
        done = subprocess.run([*command, "tour"], env=dict(self.environment(daemon, protocol), **(extra or {})),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TOUR_SECONDS_MAX, cwd=self.scratch, errors="replace")
        self.assertEqual(done.returncode, 0, done.stdout)
        parts = re.findall(r"^ok (.*)$", done.stdout, re.M)
        self.assertEqual(parts, list(PARTS), done.stdout)
        self.check_tour(daemon)
        daemon.kill()

    def check_tour(self, daemon):
        """What the tour left, seen by another connection."""
        client = self.connect(daemon)
        self.assertEqual(client.call("BF.EXISTS", BINARY_KEY, BINARY_ITEM), 1)
        self.assertEqual(client.call("BF.EXISTS", BINARY_KEY, b""), 1, "the empty item")
        for key, prefix, count in (("piped", "p:", PIPELINE), ("batch", "b:", BATCH)):
            answers = client.call("BF.MEXISTS", key, *("%s%d" % (prefix, i) for i in range(count)))
            self.assertEqual(answers, [1] * count, key)
        self.assertEqual(client.call("BF.MEXISTS", "moved", "a", "b", "c"), [1, 1, 0])

    # --- the writer

    def run_writer(self, command, extra=None):
        """Stops and kills the server under a program that adds. Each answered add must be there, after every start."""
        daemon = self.start_locked(free_port())
        self.connect(daemon).call(*WRITTEN)
        # A library may tell each failed attempt, so what it says is shown only if the program ends.
        with tempfile.TemporaryFile("w+") as said, \
             subprocess.Popen([*command, "write"], env=dict(self.environment(daemon), **(extra or {})), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, cwd=self.scratch) as process:
            try:
                output = Output(process, said)
                daemon = self.stop_and_kill(daemon, output)
            finally:
                process.kill()
            output.wait_for_end()
        self.assert_written(daemon, self.answered(output, cut=True))

    def stop_and_kill(self, daemon, output):
        """Ends the server twice while the program adds, and checks after each start. Returns the last server."""
        for stop in (signal.SIGTERM, signal.SIGKILL):
            output.wait_for_count(len(output.lines) + ITEMS_BETWEEN)
            port = daemon.port
            daemon.send_signal(stop)
            daemon.wait()
            daemon.kill()
            answered = self.answered(output)
            daemon = self.start_locked(port)
            self.assert_written(daemon, answered)
        output.wait_for_count(len(output.lines) + ITEMS_BETWEEN)
        return daemon

    @staticmethod
    def answered(output, cut=False):
        # The kill can cut the last line.
        lines = list(output.lines)
        return [int(line) for line in (lines[:-1] if cut else lines)]

    def assert_written(self, daemon, numbers):
        self.assertEqual(numbers, list(range(len(numbers))), "each item is answered once, in order")
        answers = self.connect(daemon).call("BF.MEXISTS", "written", *("w:%d" % number for number in numbers))
        self.assertEqual([number for number, there in zip(numbers, answers) if there != 1], [], "lost")

    # --- the document

    def run_document(self, program, command, environment):
        """Runs the lines of a section of docs/clients.md as they are printed there, and compares what they print. A second
        run finds the filter, and ends with the error that the document names."""
        _, shown = sections(program.kind)[program.section]
        daemon = self.start()
        done = self.run_shown(program, command, environment, daemon.port)
        self.assertEqual((done.returncode, done.stdout), (0, shown), "what docs/clients.md shows under %s" % program.section)
        again = self.run_shown(program, command, environment, daemon.port)
        self.assertNotEqual(again.returncode, 0, again.stdout)
        self.assertIn("item exists", again.stdout)

    def run_document_without_answers(self, program, command, environment):
        """The lines of a section of docs/clients.md, and a server that takes connections and says nothing."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            done = self.run_shown(program, command, environment, silent.getsockname()[1], SILENT_SECONDS_MAX)
        self.assertNotEqual(done.returncode, 0, done.stdout)

    def run_shown(self, program, command, environment, port, seconds=TOUR_SECONDS_MAX):
        return self.run_source(program, sections(program.kind)[program.section][0], command, environment, port, seconds)

    def run_source(self, program, source, command, environment, port, seconds=TOUR_SECONDS_MAX):
        """Runs a program whose text has the port of the documents."""
        path = pathlib.Path(self.scratch, "shown" + program.suffix)
        path.write_text(source.replace(documents.DOCUMENTED_PORT, str(port)), encoding="utf-8")
        return subprocess.run([*command, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=seconds, cwd=self.scratch, env=environment)


def sections(kind):
    """heading: (program, what it prints) of the sections of docs/clients.md that have a block of this kind. The block behind
    the program, of kind text, has what the program prints."""
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks, _ = documents.read_blocks("docs/clients.md", text)
    headings = [(number, line[3:]) for number, line in enumerate(text.splitlines(), 1) if line.startswith("## ")]
    found = {}
    for block, after in zip(blocks, [*blocks[1:], None]):
        if block.kind == kind:
            heading = [title for number, title in headings if number < block.line][-1]
            found[heading] = (block.text, after.text if after and after.kind == "text" else "")
    return found


def main(missing=()):
    """Runs the tests of the calling program. `missing` says what the machine lacks: then the tests are skipped, or fail
    where all clients are asked for."""
    if missing:
        print("skipped: this machine lacks %s; scripts/install-dependencies --clients and tests/clients/install bring it"
              % ", ".join(missing))
        sys.exit(1 if os.environ.get("SEPAL_CLIENTS") == "all" else SKIPPED)
    unittest.main()
