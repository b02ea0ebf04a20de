"""A data directory on a small file system of its own.

It needs the right to mount. Without it, the tests are skipped and say so.
"""

import os
import subprocess

from daemon import DaemonTest


def mount(*arguments):
    return subprocess.run(["mount", *arguments], capture_output=True, text=True)


def unmount(path):
    subprocess.run(["umount", "--lazy", path], capture_output=True)


def mount_small(test, place, size_mb):
    """A file system of its own in the folder `place`, until the test ends."""
    done = mount("-t", "tmpfs", "-o", "size=%dm" % size_mb, "sepal-test", place)
    if done.returncode != 0:
        test.skip_aloud("mounting is not allowed here: " + done.stderr.strip())
    test.addCleanup(unmount, place)


def fill(ballast):
    """Takes all free room of a file system with the file `ballast`."""
    with open(ballast, "ab", buffering=0) as file:
        for piece in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(b"x" * piece)
            except OSError:
                pass


class DiskCase(DaemonTest):
    """The data directory of sepald is `data`. The file `ballast` beside it fills the disk."""

    daemon_arguments = ()

    def on_disk_of(self, size_mb):
        mount_small(self, self.directory, size_mb)
        self.data = os.path.join(self.directory, "data")
        self.ballast = os.path.join(self.directory, "ballast")

    def start(self, *arguments, **options):
        return super().start(*self.daemon_arguments, *arguments, directory=self.data, **options)

    def fill(self):
        fill(self.ballast)
