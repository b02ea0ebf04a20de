"""The report of a crash in the log."""

import os
import re
import signal

from client import Client
from daemon import SANITIZED, DaemonTest

SECRET = "open-sesame-7391"


def without_log_lines(report):
    """Other threads still log between the lines of the stack."""
    return "\n".join(line for line in report.split("\n") if not re.match(r"\d{4}-\d\d-\d\d ", line))


class CrashTest(DaemonTest):
    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skip_aloud("a sanitizer has its own reports")

    def test_a_crash_leaves_a_report_without_secrets(self):
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
            with self.subTest(number):
                daemon = self.start("--requirepass", SECRET, "--save-interval", "77")
                with Client.of(daemon) as client:
                    client.call("AUTH", SECRET)
                    client.call("CONFIG", "SET", "slowlog-max-len", "41", "requirepass", SECRET + "x")
                daemon.send_signal(number)
                self.assertEqual(daemon.wait(), -number)
                text = daemon.text()
                self.assertIn("sepald crashed: signal=%s sent_by_pid=%d thread=" % (number.name, os.getpid()), text)
                report = without_log_lines(text[text.index("sepald crashed"):])
                self.assertIn("sepald " + os.environ["SEPAL_VERSION"], report)
                self.assertRegex(report, r"\n  save_interval = ")
                self.assertIn("requirepass", report)
                self.assertNotIn(SECRET, text)
                self.assertRegex(report, r"stack [^\n]*\n[^\n]*sepald\(.*\+0x[0-9a-f]+\)")
                self.assertTrue(report.rstrip().endswith("end of the report"))

    def test_the_report_goes_to_the_log_file_also_after_a_rotation(self):
        log = os.path.join(self.directory, "log")
        daemon = self.start("--log-file", log, "--dir", os.path.join(self.directory, "data"), wait=False)
        self.eventually("it is ready", lambda: os.path.exists(log) and "ready" in read(log))
        os.rename(log, log + ".1")
        daemon.send_signal(signal.SIGHUP)
        self.eventually("the log is opened again", lambda: os.path.exists(log) and "log reopened" in read(log))
        daemon.send_signal(signal.SIGSEGV)
        self.assertEqual(daemon.wait(), -signal.SIGSEGV)
        self.assertIn("sepald crashed: signal=SIGSEGV", read(log))
        self.assertNotIn("sepald crashed", read(log + ".1"))
        # Names of the program's own functions are in the stack.
        self.assertTrue(re.search(r"sepald\(_Z\w+\+0x|sepald\(main\+0x", read(log)), read(log))

    def test_changes_before_a_crash_are_there_after_a_start(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "a", "1")
        daemon.send_signal(signal.SIGABRT)
        self.assertEqual(daemon.wait(), -signal.SIGABRT)
        daemon = self.start()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.EXISTS", "a", "1"), 1)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
