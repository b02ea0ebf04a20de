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

    def test_a_window_has_the_items_that_come_in_it(self):
        told = plan("--window", "1h", "--rate", "20000/s", "--error", "0.001")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertTrue(told.stdout.startswith("error rate 0.001, 72000000 items in 1 hour, 4 generations\n"), told.stdout)
        self.assertIn("to create it      BF.RESERVE key 0.001 72000000 WINDOW 3600\n", told.stdout)
        self.assertEqual(told.stdout, plan("--window", "60m", "--capacity", "72m", "--error", "0.001").stdout)
        self.assertIn("to create it      BF.RESERVE key 0.01 5000000 LAST GENERATIONS 8\n", plan("--last", "5m", "--generations", "8").stdout)

    def test_a_window_that_no_server_takes_is_refused(self):
        for words, why in ((("--window", "1s", "--rate", "1/s", "--generations", "16"), "a generation has at least a tenth of a second"),
                           (("--window", "11000000d", "--rate", "1/s"), "a window has at most ten thousand years"),
                           (("--last", "3"), "a generation has at least one item"),
                           (("--window", "1h", "--rate", "1e19/ms"), "a filter of this capacity and error rate fits into no machine's memory")):
            told = plan(*words)
            self.assertEqual((told.returncode, told.stdout, told.stderr), (1, "", "sepal plan: %s\n" % why))
