"""What `sepal plan` accepts, and what it says of rates that no filter can keep."""

import os
import subprocess
import unittest

SEPAL = os.environ["SEPAL"]


def plan(*arguments):
    return subprocess.run([SEPAL, "plan", *arguments], capture_output=True, text=True)


class PlanTest(unittest.TestCase):
    def test_a_number_below_zero_is_refused_whatever_its_bits_would_make(self):
        for flag in ("--capacity", "--expansion"):
            for number in ("-1", "-18446744073709551615"):
                refused = plan("%s=%s" % (flag, number))
                self.assertNotEqual(refused.returncode, 0, flag + number)
                self.assertIn(flag + ": a number below zero", refused.stderr + refused.stdout)

    def test_the_rate_that_is_said_to_be_kept_is_the_one_that_was_planned_for(self):
        self.assertIn("keep 0.001\n", plan("--error", "0.001").stdout)
        self.assertIn("keep 0.25\n", plan("--error", "0.9").stdout)
        self.assertIn("keep 1e-15\n", plan("--error", "1e-300").stdout)


if __name__ == "__main__":
    unittest.main()
