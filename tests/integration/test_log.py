"""The log file: rotation by SIGHUP, and cases in which that signal changes nothing."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import termios
import time

from daemon import SANITIZED, SEPALD, DaemonTest, encode, free_port, read_lines

SECONDS_MAX = 300
ROOT = pathlib.Path(__file__).resolve().parents[2]


class LogTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        self.logs = pathlib.Path(self.directory) / "logs"
        self.logs.mkdir()
        self.log = self.logs / "sepald.log"

    def await_text(self, path, text):
        deadline = time.monotonic() + SECONDS_MAX
        while not (path.exists() and text in path.read_text()):
            self.assertLess(time.monotonic(), deadline, "no %r in %s" % (text, path))
            time.sleep(0.01)

    def start_with_file(self, *arguments):
        daemon = self.start("--log-file", str(self.log), *arguments, directory=self.data, wait=False)
        self.await_text(self.log, '"event":"ready"' if "json" in arguments else "ready: address=")
        return daemon

    def test_after_a_hang_up_signal_lines_go_to_a_new_file(self):
        for text_format in ("text", "json"):
            with self.subTest(text_format):
                daemon = self.start_with_file("--log-format", text_format)
                rotated = self.logs / "sepald.log.1"
                self.log.rename(rotated)
                daemon.send_signal(signal.SIGHUP)
                self.await_text(self.log, "log reopened")
                before = rotated.read_text()
                self.assertEqual(daemon.stop(), 0)
                self.assertIn('"event":"stopped"' if text_format == "json" else "stopped: ", self.log.read_text())
                self.assertEqual(rotated.read_text(), before)
                self.assertNotIn("log reopened", before)
                self.assertEqual(self.log.read_text().startswith("{"), text_format == "json")
                self.log.unlink()

    def test_files_of_redis_in_the_data_directory_are_named_with_what_to_do(self):
        folder = pathlib.Path(self.data)
        (folder / "appendonlydir").mkdir(parents=True)
        (folder / "dump.rdb").write_bytes(b"REDIS0011")
        daemon = self.start(directory=self.data)
        daemon.wait_for_line("ready: ")
        told = [line for line in daemon.log if "sepald does not read files of Redis" in line]
        self.assertEqual(len(told), 2, daemon.log)
        for line, name in zip(told, ("dump.rdb", "appendonlydir")):
            self.assertIn("warning", line)
            self.assertIn("sepal convert %s --data NEW" % (folder / name).resolve(), line)
        daemon.stop()
        (folder / "appendonlydir").rmdir()
        (folder / "dump.rdb").unlink()
        daemon = self.start(directory=self.data)
        daemon.wait_for_line("ready: ")
        self.assertFalse(any("files of Redis" in line for line in daemon.log))

    def test_a_file_that_was_not_renamed_is_added_to(self):
        daemon = self.start_with_file()
        daemon.send_signal(signal.SIGHUP)
        self.await_text(self.log, "log reopened")
        self.assertIn("ready: address=", self.log.read_text())
        self.assertEqual(daemon.stop(), 0)

    def test_a_file_that_cannot_be_opened_again_leaves_the_log_where_it_was(self):
        daemon = self.start_with_file()
        aside = pathlib.Path(self.directory) / "aside"
        self.logs.rename(aside)
        daemon.send_signal(signal.SIGHUP)
        self.await_text(aside / "sepald.log", "log not reopened")
        self.assertIn("there is no folder " + str(self.logs), (aside / "sepald.log").read_text())
        self.assertEqual(daemon.stop(), 0)
        self.assertIn("stopped: ", (aside / "sepald.log").read_text())

    def test_without_a_log_file_a_hang_up_signal_changes_nothing(self):
        daemon = self.start("--dir", self.data)
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_line("SIGHUP ignored")
        with daemon.connect() as connection:
            connection.sendall(encode("PING"))
            self.assertEqual(read_lines(connection, 1), [b"+PONG"])
        self.assertEqual(daemon.stop(), 0)

    def test_commands_that_sepal_does_not_have_write_no_line(self):
        daemon = self.start(directory=self.data)
        before = len(daemon.log)
        with daemon.connect() as connection:
            for _ in range(10):
                connection.sendall((encode("SUBSCRIBE", "news") + encode("NOSUCH", "a")) * 500)
                lines = read_lines(connection, 1000)
                self.assertEqual(set(lines), {
                    b"-ERR Sepal has no channels: clients can neither publish nor subscribe "
                    b"(docs/protocol.md, \"What Sepal does not have\")",
                    b"-ERR unknown command 'NOSUCH', with args beginning with: 'a' "})
        self.assertEqual(daemon.stop(), 0)
        self.assertFalse([line for line in daemon.log[before:] if line and ("SUBSCRIBE" in line or "NOSUCH" in line)])
        self.assertLess(len(daemon.log) - before, 100)

    def test_each_line_of_json_is_an_event_with_fields(self):
        daemon = self.start_with_file("--log-format", "json", "--requirepass", 'a "b" \\ c', "--http-port", str(free_port()))
        with socket.create_connection(("127.0.0.1", self.port_in_log())) as connection:
            connection.sendall(encode("AUTH", 'a "b" \\ c') +
                               encode("EVAL", "redis.log(redis.LOG_WARNING, 'one\\ntwo \\27[2J \\255')", "0"))
            self.assertEqual(len(read_lines(connection, 2)), 2)
        self.await_text(self.log, '"event":"script_says"')
        self.assertEqual(daemon.stop(), 0)
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        for line in lines:
            self.assertEqual(list(line)[:4], ["time", "level", "event", "message"])
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:?\d\d$")
            self.assertRegex(line["event"], "^[a-z_]+$")
        by_event = {line["event"]: line for line in lines}
        self.assertEqual(by_event["starting"]["pid"], daemon.process.pid)
        self.assertEqual(by_event["stopped"]["level"], "info")
        self.assertIsInstance(by_event["stopped"]["seconds"], float)
        self.assertEqual(by_event["script_says"]["level"], "warning")
        self.assertIs(by_event["listening_for_http"]["tls"], False)
        self.assertEqual(by_event["memory_shared"]["workers"], by_event["starting"]["workers"])
        self.assertNotIn('a "b"', self.log.read_text())

    # As systemd starts a service whose standard error is its journal.
    IN_JOURNAL = ["sh", "-c", 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$0" "$@"', SEPALD]

    def test_a_line_in_the_journal_of_systemd_has_a_priority_and_no_time_of_its_own(self):
        os.mkdir(self.data)
        pathlib.Path(self.data, "dump.rdb").write_bytes(b"REDIS0011")  # which is a warning
        daemon = self.start("--log-level", "debug", program=self.IN_JOURNAL, directory=self.data)
        os.rename(self.data, self.data + ".away")
        with daemon.connect() as connection:
            connection.sendall(encode("SAVE"))
            self.assertRegex(read_lines(connection, 1)[0], b"^-")
        os.rename(self.data + ".away", self.data)
        daemon.send_signal(signal.SIGABRT)
        daemon.wait()
        lines = daemon.text().splitlines()
        if SANITIZED:
            lines = [line for line in lines if line.startswith("<")]
        else:
            report = next(at for at, line in enumerate(lines) if "sepald crashed" in line)
            self.assertRegex(lines[report], "^<2>sepald crashed: signal=SIGABRT")
            lines = [line for line in lines[:report] if line]
        for line in lines:
            self.assertRegex(line, "^<3>error   |^<4>warning |^<6>info    |^<7>debug   ")
        for begin in ("<3>error   save failed", "<4>warning ", "<6>info    ready: "):
            self.assertTrue(any(line.startswith(begin) for line in lines), lines)

    def test_in_the_journal_json_has_a_priority_too_and_a_start_that_fails_is_an_error(self):
        daemon = self.start("--log-format", "json", program=self.IN_JOURNAL, directory=self.data, wait=False)
        line = daemon.wait_for_line('"event":"ready"')
        self.assertTrue(line.startswith('<6>{"time":'), line)
        self.assertEqual(daemon.stop(), 0)
        daemon = self.start("--threads", "nonsense", program=self.IN_JOURNAL, directory=self.data, wait=False)
        self.assertEqual(daemon.wait(), 2)
        self.assertRegex(daemon.text(), "^<3>sepald: ")
        # The variable alone does not say so: a child of a service has it, too.
        daemon = self.start(environment={"JOURNAL_STREAM": "8:1"}, directory=self.data)
        self.assertRegex(daemon.text(), r"^\d{4}-")
        # The journal does not read a file.
        self.assertEqual(daemon.stop(), 0)
        daemon = self.start("--log-file", str(self.log), program=self.IN_JOURNAL, directory=self.data, wait=False)
        self.await_text(self.log, "ready: address=")
        self.assertEqual(daemon.stop(), 0)
        self.assertRegex(self.log.read_text(), r"^\d{4}-")

    def port_in_log(self):
        ready = next(json.loads(line) for line in self.log.read_text().splitlines() if '"event":"ready"' in line)
        return int(ready["address"].rsplit(":", 1)[1])

    def test_the_documents_list_every_event_with_its_level_and_fields(self):
        text = (ROOT / "docs" / "operations" / "watch.md").read_text(encoding="utf-8")
        table = re.search(r"<!-- events -->\n(.*?)<!-- /events -->", text, re.S).group(1)
        rows = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in table.splitlines()[2:]]
        documented = {name.strip("`"): (set(levels.split(", ")), set(re.findall(r"`(\w+)`", fields)))
                      for name, levels, fields, _ in rows}
        self.assertEqual(len(documented), len(rows), "an event has two rows")
        self.assertEqual([row[0] for row in rows], sorted(row[0] for row in rows))
        found = {}
        for level, name, fields in events_of_source():
            levels, names = found.setdefault(name, (set(), set()))
            names.update(fields)
            levels.update(level)
        self.assertEqual(set(documented), set(found))
        for name, (levels, fields) in found.items():
            self.assertEqual(documented[name][1], fields, name)
            self.assertTrue(levels <= documented[name][0], name)

    def test_no_field_has_a_truth_as_text(self):
        for file in sorted((ROOT / "src").rglob("*.cpp")):
            for call in re.findall(r"\blog::(?:debug|info|warn|error|write)\((.*?)\);", file.read_text(encoding="utf-8"), re.S):
                self.assertNotRegex(call, r'\{"[a-z_]+",\s*(?:[^{}]*[?:] *)?"(?:yes|no|true|false|on|off)"', file)
                self.assertNotRegex(call, r'\{"[a-z_]+",\s*name_of\(', file)

    def test_only_the_module_log_writes_lines(self):
        for file in sorted((ROOT / "src").rglob("*.cpp")):
            if "log" not in file.parts and file.name != "logging.cpp":
                self.assertNotIn("spdlog::", file.read_text(encoding="utf-8"), file)

    def test_a_terminal_that_is_closed_does_not_end_the_server(self):
        terminal, other_end = pty.openpty()
        port = free_port()
        process = subprocess.Popen([SEPALD, "--port", str(port), "--dir", self.data, "--log-file", str(self.log)],
                                   stdin=other_end, stdout=other_end, stderr=other_end, start_new_session=True,
                                   preexec_fn=take_terminal)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(other_end)
        self.await_text(self.log, "ready: address=")
        os.close(terminal)
        self.await_text(self.log, "log reopened")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(SECONDS_MAX), 0)


# The level that the source calls by another name than the log does.
IN_LOG = {"warn": "warning"}


def events_of_source():
    """Of each call that writes a line: the levels that it names, the event, and its fields."""
    for file in sorted((ROOT / "src").rglob("*.cpp")):
        text = file.read_text(encoding="utf-8")
        for call in re.finditer(r"\blog::(debug|info|warn|error|write)\(", text):
            depth, at = 1, call.end()
            while depth:
                if text[at] == '"':
                    at = re.compile(r'"(?:\\.|[^"\\])*"').match(text, at).end()
                    continue
                depth += {"(": 1, ")": -1}.get(text[at], 0)
                at += 1
            words = text[call.end():at]
            if "log" in file.parts:
                continue
            levels = re.findall(r"log::Level::(\w+)", words) if call[1] == "write" else [call[1]]
            levels = [IN_LOG.get(level, level) for level in levels]
            yield levels, re.search(r'"([a-z_]+)"', words)[1], re.findall(r'\{"([a-z_]+)",', words)


def take_terminal():
    """Makes standard input the controlling terminal, so that its end sends SIGHUP."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
