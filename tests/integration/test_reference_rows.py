"""The rows of COMMAND, and which of several errors comes first: compared with Redis itself, command by command.

Debian's Redis is 7.0, and Sepal's rows are those of 7.4: VERSIONS has what changed between the two.
"""

import os
import tempfile
import unittest

import redis_server
from client import Client, Refused
from daemon import DaemonTest

# (command, field): what 7.4 has instead.
VERSIONS = {
    ("client", "subcommands"), ("cluster", "subcommands"), ("function", "subcommands"),
    ("command|getkeys", "arity"), ("command|getkeysandflags", "arity"), ("latency|reset", "tips"), ("msetnx", "tips"),
    ("wait", "flags"), ("wait", "categories"), ("randomkey", "tips"), ("scan", "tips"), ("acl|deluser", "tips"), ("acl|save", "tips"),
    ("acl|setuser", "tips"), ("client|setname", "tips"), ("config|resetstat", "tips"), ("config|rewrite", "tips"),
}
FIELDS = ("arity", "flags", "first key", "last key", "step", "categories", "tips", "keys", "subcommands")
# Commands that Sepal does not have.
ABSENT = ("subscribe", "publish", "lpush", "migrate")
# They stop the server, or answer something else each time, or for ever.
NOT_SENT = {"cluster", "shutdown", "monitor", "sync", "psync", "replicaof", "slaveof", "failover", "quit", "hello"}


def rows_of(client):
    """The fields of each command and subcommand, by its name. The order of flags has no meaning."""
    rows = {}

    def take(row):
        name, arity, flags, first, last, step, categories, tips, keys, subcommands = row
        rows[name.decode()] = dict(zip(FIELDS, (arity, sorted(flags), first, last, step, sorted(categories), sorted(tips), keys,
                                                sorted(each[0] for each in subcommands))))
        for subcommand in subcommands:
            take(subcommand)

    for row in client.call("COMMAND"):
        take(row)
    return rows


def first_words(reply):
    """What an error is about: its code, and the text where that is the same in both versions."""
    if not isinstance(reply, Refused):
        return "no error"
    # Redis 7.2 began to name the user behind NOPERM.
    return str(reply).lower().split("noperm")[0]


@unittest.skipUnless(redis_server.IS_THERE, redis_server.WHY_NOT)
class ReferenceRowsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        redis = redis_server.Redis(os.path.join(folder.name, "redis"))
        self.addCleanup(redis.stop)
        daemon = self.start("--threads", "1")
        self.connect = (redis.client, lambda: Client.of(daemon))

    def both(self, *requests):
        """The replies of the two servers to the last of these requests, which one client sends."""
        replies = []
        for connect in self.connect:
            with connect() as client:
                replies.append(client.pipeline(requests)[-1])
        return replies

    def test_each_row_is_that_of_the_reference(self):
        with self.connect[0]() as one, self.connect[1]() as other:
            expected, found = rows_of(one), rows_of(other)
        shared = set(expected) & set(found)
        self.assertGreater(len(shared), 130)
        different = {(name, field): (expected[name][field], found[name][field])
                     for name in shared for field in FIELDS
                     if expected[name][field] != found[name][field] and (name, field) not in VERSIONS}
        self.assertEqual(different, {})

    def test_what_a_request_does_with_its_keys_is_told_as_by_the_reference(self):
        for request in (["SET", "k", "v"], ["SET", "k", "v", "GET"], ["SET", "k", "v", "EX", "1", "get"], ["SET", "k", "GET", "NX"],
                        ["BITFIELD", "k", "GET", "u8", "0"], ["BITFIELD", "k", "GET", "u8", "0", "SET", "u8", "0", "1"],
                        ["BITFIELD", "k", "INCRBY", "u8", "0", "1"], ["BITFIELD_RO", "k", "GET", "u8", "0"], ["GETEX", "k"],
                        ["GETEX", "k", "PERSIST"], ["GETDEL", "k"], ["COPY", "a", "b"], ["RENAME", "a", "b"], ["BITOP", "AND", "a", "b", "c"],
                        ["MSET", "a", "1", "b", "2"], ["MSETNX", "a", "1"], ["MOVE", "k", "1"], ["EXPIRE", "k", "1"], ["TTL", "k"],
                        ["OBJECT", "ENCODING", "k"], ["MEMORY", "USAGE", "k"], ["EVAL", "x", "2", "a", "b", "c"], ["EVAL_RO", "x", "1", "a"],
                        ["WATCH", "a", "b"], ["TOUCH", "a", "b"], ["DUMP", "k"], ["RESTORE", "k", "0", "x"], ["SETBIT", "k", "0", "1"]):
            expected, found = self.both(["COMMAND", "GETKEYSANDFLAGS", *request])
            self.assertEqual([[key, sorted(flags)] for key, flags in found], [[key, sorted(flags)] for key, flags in expected], request)

    def test_of_several_errors_the_reference_s_comes_first(self):
        rows = []
        for connect in self.connect:
            with connect() as client:
                client.call("ACL", "SETUSER", "queues", "on", ">pw", "~*", "+multi")
                client.call("ACL", "SETUSER", "nothing", "on", ">pw", "~*")
                rows.append(rows_of(client))
                client.call("ACL", "SETUSER", "default", "resetpass", ">secret")
        shared = [name for name in rows[0] if name in rows[1] and not rows[1][name]["subcommands"]
                  and name.split("|")[0] not in NOT_SENT and not name.startswith("command|getkeys")]
        self.assertGreater(len(shared), 120)
        begins = {"no login": [], "no rights": [["AUTH", "nothing", "pw"]], "in a transaction": [["AUTH", "queues", "pw"], ["MULTI"]]}
        for name in [*shared, *ABSENT]:
            words = name.split("|")
            needed = abs(rows[0][name]["arity"])
            for count in {needed} if name in ABSENT else {max(len(words), needed - 1), needed}:
                request = [*words, *["1"] * (count - len(words))]
                for state in ["no login"] if name in ABSENT else begins:
                    expected, found = self.both(*begins[state], request)
                    self.assertEqual(first_words(found), first_words(expected), (state, request))
