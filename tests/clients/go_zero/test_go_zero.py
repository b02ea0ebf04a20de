"""The two programs of examples/go_zero: go-zero's filter in Go and in node, run unchanged on sepald, and moved."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import client_test
from client import Client
from client_test import TOOL_SECONDS_MAX
from programs import GO_ENVIRONMENT, GO_PACKAGES, INSTALLED, missing

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "go_zero"
MURMUR = pathlib.Path(GO_PACKAGES, "src", "github.com", "spaolacci", "murmur3")


class GoZeroTest(client_test.ClientTest):
    def run_program(self, *words, **environment):
        environment = {**os.environ, "SEPAL_HOST": "127.0.0.1", "SEPAL_PORT": str(self.daemon.port), **environment}
        done = subprocess.run(words, env=environment, cwd=self.scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=TOOL_SECONDS_MAX)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_both_programs_say_the_same_of_the_bitmap_and_of_the_filter(self):
        self.daemon = self.start()
        in_go = self.run_program("go", "run", str(EXAMPLES / "filter.go"), **GO_ENVIRONMENT)
        os.symlink(INSTALLED / "ioredis" / "node_modules", os.path.join(self.scratch, "node_modules"))
        program = os.path.join(self.scratch, "filter.mjs")  # node looks for modules beside the program
        pathlib.Path(program).write_bytes((EXAMPLES / "filter.mjs").read_bytes())
        in_node = self.run_program("node", program)
        self.assertEqual(in_go, in_node)
        bitmap, filter_, *others = in_go.splitlines()
        self.assertEqual(bitmap.removeprefix("bitmap: "), filter_.removeprefix("filter: "))
        self.assertTrue(bitmap.startswith("bitmap: 10000 of 10000 orders known, and "), bitmap)
        self.assertEqual(others, ["new order added: true", "new order known: true"])
        guide = (EXAMPLES.parents[1] / "docs" / "guides" / "moving-from-a-bitmap.md").read_text(encoding="utf-8")
        self.assertIn(in_go, guide)
        with Client.of(self.daemon) as client:
            self.assertEqual(client.call("DBSIZE"), 0)


if __name__ == "__main__":
    lacks = [*missing("redigo"), *missing("ioredis")]
    if not MURMUR.is_dir():
        lacks.append("golang-github-spaolacci-murmur3-dev")
    client_test.main(lacks)
