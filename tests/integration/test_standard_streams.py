"""Programs that are started with standard input, output and error closed write nothing of theirs into another file. Those
whose standard output takes nothing say so."""

import itertools
import os
import re
import subprocess

from client import Client
from daemon import SEPALD, DaemonTest, free_port

SEPAL = os.environ["SEPAL"]
NULL = "/dev/null"
FULL = "/dev/full"  # to write there fails: the disk is full
RDB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "redis_files", "rdb-plain.rdb")


def closed(*words):
    """The command line that runs `words` with all three closed."""
    return ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words]


class StandardStreamsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.path = os.path.join(self.directory, "items")
        with open(self.path, "w") as file:
            file.writelines("item-%d\n" % number for number in range(100))

    def start_closed(self):
        """A sepald whose log nothing reads, once it serves."""
        process = subprocess.Popen(closed(SEPALD, "--port", str(free_port()), "--dir", self.data))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.eventually("sepald does not serve", lambda: process.poll() is not None or self.is_healthy())
        self.assertIsNone(process.poll())
        return process

    def is_healthy(self):
        return subprocess.run(closed(SEPALD, "--healthcheck", "--dir", self.data)).returncode == 0

    def test_the_log_of_sepald_goes_nowhere(self):
        process = self.start_closed()
        streams = [os.readlink("/proc/%d/fd/%d" % (process.pid, number)) for number in range(3)]
        self.assertEqual(streams, [NULL] * 3)
        with open(os.path.join(self.data, "LOCK")) as lock:
            self.assertEqual([line for line in lock if "starting" in line or "ready" in line], [])
        process.terminate()
        self.assertEqual(process.wait(), 0)
        self.assertEqual([name for name in os.listdir(self.data) if self.has_log(name)], [])

    def has_log(self, name):
        path = os.path.join(self.data, name)
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return b"starting: version=" in file.read()

    def test_only_one_of_them_is_closed(self):
        for redirection in ("<&-", ">&-", "2>&-"):
            said = subprocess.run(["sh", "-c", 'exec "$@" %s' % redirection, "sh", SEPALD, "--check-config", "--dir", self.data],
                                  capture_output=True, text=True)
            is_lost = redirection == ">&-"
            self.assertEqual(said.returncode, 1 if is_lost else 0, said)
            self.assertEqual("configuration ok" in said.stdout, not is_lost, said)
            self.assertEqual(said.stderr, "sepald: standard output cannot be written: it is closed\n" if is_lost else "")

    def build(self, command, source, name):
        output = os.path.join(self.directory, name)
        run = subprocess.run(command(SEPAL, "build", source, "-o", output, "--error", "0.01", "--seed", "5"),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return run.returncode, output

    def test_what_the_tool_reports_is_not_written_into_its_output(self):
        status, with_streams = self.build(lambda *words: list(words), self.path, "with.sepal")
        self.assertEqual(status, 0)
        # The output is whole. What it has printed about it is lost.
        status, without = self.build(closed, self.path, "without.sepal")
        self.assertEqual(status, 1)
        with open(with_streams, "rb") as one, open(without, "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_a_closed_standard_input_is_no_empty_list(self):
        status, output = self.build(closed, "-", "none.sepal")
        self.assertNotEqual(status, 0)
        self.assertFalse(os.path.exists(output))


class FullOutputTest(DaemonTest):
    """What a program prints on standard output is its result, so it must not be lost without a word."""

    def setUp(self):
        super().setUp()
        self.numbers = itertools.count()

    def new(self):
        """The path of something that is not there."""
        return os.path.join(self.directory, "new-%d" % next(self.numbers))

    def check(self, make_words, status=0, lost_status=1):
        """`make_words`: gives the words of a program that prints something, and ends with `status`."""
        printed = subprocess.run(make_words(), capture_output=True, text=True)
        self.assertEqual(printed.returncode, status, printed)
        self.assertNotEqual(printed.stdout, "", printed)
        words = make_words()
        program = os.path.basename(words[0])
        with open(FULL, "w") as full:
            lost = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
        self.assert_lost(lost, lost_status, program, "No space left on device")
        shut = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *make_words()], stderr=subprocess.PIPE, text=True)
        self.assert_lost(shut, lost_status, program, "it is closed")

    def assert_lost(self, lost, status, program, reason):
        self.assertEqual(lost.returncode, status, lost)
        # The reason of a write that failed in the midst of a long text is not known any more.
        self.assertRegex(lost.stderr, r"(?m)^%s: standard output cannot be written(: %s)?$" % (program, reason), lost)

    def served(self):
        """A sepald with a filter, whose data is in the directory that is returned with it."""
        data = self.new()
        daemon = self.start(directory=data)
        Client.of(daemon, self).call("BF.ADD", "plain", "x")
        return daemon, data

    def words_of_commands(self):
        """The words for each command of sepal."""
        items, filter_file = self.new(), self.new()
        with open(items, "w") as file:
            file.writelines("item-%d\n" % number for number in range(100))
        subprocess.run([SEPAL, "build", items, "-o", filter_file, "--seed", "5", "-q"], check=True)
        daemon, data = self.served()
        self.assertEqual(daemon.stop(), 0)
        backup = self.new()
        subprocess.run([SEPAL, "backup", "--dir", data, "-q", backup], check=True)
        source, target = ("redis://127.0.0.1:%d" % self.served()[0].port for _ in range(2))
        return {
            "plan": [lambda: ["--capacity", "1000"]],
            "build": [lambda: [items, "-o", self.new()]],
            "merge": [lambda: [filter_file, "-o", self.new()]],
            "convert": [lambda: [RDB, "--data", self.new()], lambda: [RDB, "--dry-run"]],
            "migrate": [lambda: [source, target], lambda: [source, target, "--dry-run"]],
            "backup": [lambda: ["--dir", data, self.new()], lambda: ["--dir", data, "--keep", "1", self.new()]],
            "restore": [lambda: [backup, "--dir", self.new()]],
            "verify": [lambda: [filter_file], lambda: [data]],
            "inspect": [lambda: [filter_file], lambda: [filter_file, "--json"]],
            "salvage": [lambda: [data, "--into", self.new()]],
            "help": [lambda: [], lambda: ["plan"]],
            "version": [lambda: []],
        }

    def test_each_command_of_sepal(self):
        commands = self.words_of_commands()
        listed = subprocess.run([SEPAL, "--help"], capture_output=True, text=True, check=True).stdout.split("Subcommands:")[1]
        self.assertEqual(re.findall(r"(?m)^  (\w+) ", listed), list(commands))
        for command, ways in commands.items():
            for way in [*ways, lambda: ["--help"]]:
                incomplete = 3 if command == "convert" and way in ways else 0
                self.check(lambda: [SEPAL, command, *way()], incomplete, incomplete or 1)
        for word in ("--help", "--version"):
            self.check(lambda: [SEPAL, word])

    def test_sepald(self):
        for word in ("--help", "--version", "help", "version"):
            self.check(lambda: [SEPALD, word])
        self.check(lambda: [SEPALD, "--check-config", "--dir", self.new()])

    def test_a_healthy_server_stays_healthy(self):
        _, data = self.served()
        self.check(lambda: [SEPALD, "--healthcheck", "--dir", data], lost_status=0)
