"""What the tests of `sepal migrate` share."""

import os
import subprocess

from client import Client
from daemon import DaemonTest

SEPAL = os.environ["SEPAL"]
DEADLINE = 4102444800123
INFO = {b"MBbloom--": "BF.INFO", b"MBbloomCF": "CF.INFO"}


def address(daemon, rest=""):
    return "redis://127.0.0.1:%d%s" % (daemon.port, rest)


def migrate(*arguments, **environment):
    return subprocess.run([SEPAL, "migrate", *arguments], capture_output=True, text=True, timeout=500,
                          env={**os.environ, **environment})


def filters_of(client):
    """Figures and deadline of each filter, by database and key."""
    found = {}
    for database in range(16):
        client.call("SELECT", database)
        keys = client.call("KEYS", "*")
        types = client.pipeline([("TYPE", key) for key in keys])
        replies = client.pipeline([request for key, kind in zip(keys, types)
                                   for request in ((INFO[kind], key), ("PEXPIRETIME", key))])
        for at, (key, kind) in enumerate(zip(keys, types)):
            # The size of a cuckoo filter comes first. It is the memory that its cells have, which depends on their history.
            figures = replies[2 * at] if kind == b"MBbloom--" else replies[2 * at][2:]
            found[database, key] = (figures, replies[2 * at + 1])
    return found


class MigrateCase(DaemonTest):
    """Two servers of Sepal: a source and a target."""

    def setUp(self):
        super().setUp()
        self.source = self.start(directory=os.path.join(self.directory, "source"))
        self.target = self.start(directory=os.path.join(self.directory, "target"))

    def migrate(self, status, *arguments):
        done = migrate(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr
