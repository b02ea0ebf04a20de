"""One client, through its own program: test_program.py NAME. client_test.py says what a program does."""

import os
import subprocess
import sys
import unittest

import client_test
from programs import GO_ENVIRONMENT, INSTALLED, PROGRAMS, command_of, missing
from refusals import REFUSALS

NAME = sys.argv.pop(1)
PROGRAM = PROGRAMS[NAME]


class ProgramTest(client_test.ClientTest):
    def setUp(self):
        super().setUp()
        self.environment_of_language = {}
        if PROGRAM.npm:
            modules = INSTALLED / NAME / "node_modules"
            self.environment_of_language["NODE_PATH"] = str(modules)
            os.symlink(modules, os.path.join(self.scratch, "node_modules"))
        self.command = command_of(NAME)
        if PROGRAM.go:
            self.environment_of_language.update(GO_ENVIRONMENT)
            self.build_with_go()

    def build_with_go(self):
        built = os.path.join(self.scratch, "client")
        done = subprocess.run(["go", "build", "-o", built, self.command[-1]], env=dict(os.environ, **GO_ENVIRONMENT), cwd=self.scratch,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.command = [built]

    def test_the_tour_of_the_library(self):
        for protocol in PROGRAM.protocols:
            with self.subTest(protocol=protocol):
                self.run_tour(self.command, protocol, self.environment_of_language)

    @unittest.skipUnless(PROGRAM.tls, "its program speaks no TLS")
    def test_the_tour_of_the_library_over_tls(self):
        self.run_tour_over_tls(self.command, self.environment_of_language)

    def test_no_answered_add_is_lost_when_the_server_stops_or_is_killed(self):
        self.run_writer(self.command, self.environment_of_language)

    def test_the_lines_of_the_document(self):
        self.run_document(PROGRAM, *self.document_command())

    def test_the_lines_of_the_document_end_if_the_server_says_nothing(self):
        self.run_document_without_answers(PROGRAM, *self.document_command())

    @unittest.skipUnless(NAME in REFUSALS, "another client has the same library")
    def test_a_refusal_inside_a_reply(self):
        source, shown = REFUSALS[NAME]
        daemon = self.start()
        client = client_test.Client.of(daemon, self)
        for key in ("full", "mirrored"):
            client.call("BF.RESERVE", key, "0.0001", "1", "NONSCALING")
            client.call("BF.ADD", key, "a")
        client.call("BF.RESERVE", "target", "0.0001", "100")
        client.call("BF.MIRROR", "mirrored", "target")
        done = self.run_source(PROGRAM, source, *self.document_command(), daemon.port)
        self.assertEqual((done.returncode, done.stdout), (0, shown))

    @staticmethod
    def document_command():
        """What runs a program of the document, and its environment."""
        command = PROGRAM.command
        if PROGRAM.compiled:
            command = ["sh", "-ec", "cc -o shown $1 -lhiredis %s; ./shown" % " ".join(PROGRAM.link), "sh"]
        return command, dict(os.environ, **(GO_ENVIRONMENT if PROGRAM.go else {}))


if __name__ == "__main__":
    client_test.main(missing(NAME))
