"""Arguments of `sepal plan`, and its output for rates that no filter can keep."""

import os
import subprocess
import unittest

SEPAL = os.environ["SEPAL"]


def plan(*arguments):
    return subprocess.run([SEPAL, "plan", *arguments], capture_output=True, text=True)


class PlanTest(unittest.TestCase):
    def test_the_printed_rate_is_the_planned_one(self):
        self.assertIn("keep 0.001\n", plan("--error", "0.001").stdout)
        self.assertIn("keep 0.25\n", plan("--error", "0.9").stdout)
        self.assertIn("keep 1e-15\n", plan("--error", "1e-300").stdout)
