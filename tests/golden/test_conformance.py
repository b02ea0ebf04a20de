"""The recorded exchanges with the reference server, replayed against sepald.

Every case that sends only commands of conformance/core-commands.txt runs. deviations.txt names the cases that differ
on purpose, with the reason for each. If one of them passes, that is an error too, so the list stays
true.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
from daemon import DaemonTest  # noqa: E402


def deviations():
    lines = (HERE / "deviations.txt").read_text().splitlines()
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


class ConformanceTest(DaemonTest):
    def replay(self, *arguments):
        # A fixed seed: the cases add items to filters that an add has made, and count on "new" for each.
        daemon = self.start("--seed", "1", "--threads", os.environ.get("SEPALD_TEST_THREADS", "2"))
        cases = sorted(HERE.glob("conformance/cases/*.jsonl"))
        done = subprocess.run(
            [sys.executable, str(HERE / "conformance/replay.py"), "--port", str(daemon.port), "--commands",
             str(HERE / "conformance/core-commands.txt"), *arguments, *map(str, cases)],
            capture_output=True, text=True, timeout=600)
        daemon.stop()
        return done.stdout

    def test_every_exchange_except_the_named_deviations_is_as_recorded(self):
        skips = [word for name in deviations() for word in ("--skip", name)]
        said = self.replay(*skips)
        self.assertRegex(said, r"\n?[0-9]+ passed, 0 failed\n$")
        # A run without cases would pass as well.
        self.assertGreater(int(re.search(r"([0-9]+) passed", said).group(1)), 500)

    def test_every_named_deviation_is_still_one(self):
        names = deviations()
        said = self.replay(*[word for name in names for word in ("--only", name)])
        failed = set(re.findall(r"^FAIL ([^:]+):", said, re.MULTILINE))
        self.assertEqual(failed, set(names))


if __name__ == "__main__":
    unittest.main()
