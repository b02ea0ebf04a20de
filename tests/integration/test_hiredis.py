"""hiredis: a small C++ client, run against a real sepald."""

import os
import subprocess
import unittest

from daemon import DaemonTest


class HiredisTest(DaemonTest):
    def test_hiredis_understands_every_reply(self):
        daemon = self.start()
        done = subprocess.run([os.environ["HIREDIS_CLIENT"], str(daemon.port)], capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
