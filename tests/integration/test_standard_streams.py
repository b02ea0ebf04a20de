"""Programs that are started with standard input, output and error closed write nothing of theirs into another file."""

import os
import subprocess

from daemon import SEPALD, DaemonTest, free_port

SEPAL = os.environ["SEPAL"]
NULL = "/dev/null"


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
            self.assertEqual(said.returncode, 0, said)
            self.assertEqual("configuration ok" in said.stdout, redirection != ">&-", said)

    def build(self, command, source, name):
        output = os.path.join(self.directory, name)
        run = subprocess.run(command(SEPAL, "build", source, "-o", output, "--error", "0.01", "--seed", "5"),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return run.returncode, output

    def test_what_the_tool_reports_is_not_written_into_its_output(self):
        status, with_streams = self.build(lambda *words: list(words), self.path, "with.sepal")
        self.assertEqual(status, 0)
        status, without = self.build(closed, self.path, "without.sepal")
        self.assertEqual(status, 0)
        with open(with_streams, "rb") as one, open(without, "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_a_closed_standard_input_is_no_empty_list(self):
        status, output = self.build(closed, "-", "none.sepal")
        self.assertNotEqual(status, 0)
        self.assertFalse(os.path.exists(output))
