"""`sepal migrate` from sepald to sepald, under load and cut off, and from a server that answers what RedisBloom answered."""

import json
import os
import random
import socketserver
import subprocess
import threading
import unittest

from client import Client, Refused
from daemon import SANITIZED, DaemonTest

SEPAL = os.environ["SEPAL"]
RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "redis_files")
LARGE_CAPACITY = 2_000_000 if SANITIZED else 150_000_000
DEADLINE = 4102444800123


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
        replies = client.pipeline([request for key in keys for request in (("BF.INFO", key), ("PEXPIRETIME", key))])
        for at, key in enumerate(keys):
            found[database, key] = (replies[2 * at], replies[2 * at + 1])
    return found


class MigrateTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.source = self.start(directory=os.path.join(self.directory, "source"))
        self.target = self.start(directory=os.path.join(self.directory, "target"))

    def migrate(self, status, *arguments):
        done = migrate(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def fill(self, small_count, large_capacity=200_000):
        """Filters of all kinds."""
        with Client.of(self.source) as client:
            requests = []
            for i in range(small_count):
                requests.append(("BF.INSERT", "small:%d" % i, "ITEMS", *["%d/%d" % (i, j) for j in range(1 + i % 150)]))
                if i % 3 == 0:
                    requests.append(("PEXPIREAT", "small:%d" % i, DEADLINE + i))
            requests += [("BF.RESERVE", "fixed", "0.0001", "1000", "NONSCALING"), ("BF.ADD", "fixed", "x"),
                         ("BF.RESERVE", "empty", "0.01", "100000"), ("BF.RESERVE", b"with \xff\x00", "0.01", "10"),
                         ("BF.RESERVE", "large", "0.001", large_capacity), ("PEXPIREAT", "large", DEADLINE),
                         ("SELECT", 15), ("BF.RESERVE", "grown", "0.01", "10", "EXPANSION", "1")]
            requests += [("BF.MADD", "grown", *["grown/%d" % i for i in range(k, k + 100)]) for k in range(0, 500, 100)]
            requests += [("SELECT", 0)]
            requests += [("BF.MADD", "large", *["large/%d" % i for i in range(k, k + 1000)])
                         for k in range(0, 50_000, 1000)]
            for reply in client.pipeline(requests):
                self.assertNotIsInstance(reply, Refused)

    def check_alike(self):
        with Client.of(self.source) as source, Client.of(self.target) as target:
            self.assertEqual(filters_of(source), filters_of(target))
            for client in (source, target):
                client.call("SELECT", 0)
            for k in range(0, 50_000, 1000):
                items = ["large/%d" % i for i in range(k, k + 1000)]
                self.assertEqual(target.call("BF.MEXISTS", "large", *items), [1] * 1000)
            absent = ["absent/%d" % i for i in range(1000)]
            for key in ["small:%d" % i for i in range(100, 150)] + ["large"]:
                self.assertEqual(source.call("BF.MEXISTS", key, *absent), target.call("BF.MEXISTS", key, *absent), key)
            for client in (source, target):
                client.call("SELECT", 15)
            items = ["grown/%d" % i for i in range(3000)]
            self.assertEqual(source.call("BF.MEXISTS", "grown", *items), target.call("BF.MEXISTS", "grown", *items))

    def test_all_kinds(self):
        self.fill(600)
        self.assertIn("filters  605 with ", self.migrate(0, address(self.source), address(self.target), "--dry-run"))
        with Client.of(self.target) as client:
            self.assertEqual(client.call("DBSIZE"), 0)
        told = self.migrate(0, address(self.source), address(self.target))
        self.assertIn("filters  605 with ", told)
        self.assertIn("checked  64 filters", told)
        self.check_alike()
        # A second run takes what came or changed since, and only that.
        with Client.of(self.source) as client:
            client.pipeline([("BF.ADD", "small:7", "later"), ("BF.ADD", "late", "x"), ("PERSIST", "small:0"),
                             ("PEXPIREAT", "small:1", DEADLINE), ("BF.ADD", "large", "later")])
        told = self.migrate(0, address(self.source), address(self.target))
        self.assertIn("filters  3 with ", told)
        self.assertIn("same     603 filters were at the target already, with these figures; 2 of them", told)
        self.check_alike()

    def test_databases_and_patterns(self):
        self.fill(20)
        self.migrate(0, address(self.source), address(self.target), "--match", "small:1*", "--db", "0")
        with Client.of(self.target) as client:
            self.assertEqual(client.call("DBSIZE"), 11)
        self.migrate(0, address(self.source, "/15"), address(self.target, "/3"))
        with Client.of(self.target) as client:
            client.call("SELECT", 3)
            self.assertEqual(client.call("KEYS", "*"), [b"grown"])
        self.assertIn("name one of the source",
                      self.migrate(1, address(self.source), address(self.target, "/3")))
        self.assertIn("the same server", self.migrate(1, address(self.source), address(self.source)))
        self.migrate(0, address(self.source, "/15"), address(self.source, "/4"))

    def test_passwords_and_sockets(self):
        self.fill(5)
        path = os.path.join(self.directory, "socket")
        self.start("--unixsocket", path, "--requirepass", "secret", directory=os.path.join(self.directory, "third"))
        self.assertIn("NOAUTH", self.migrate(1, address(self.source), "unix://" + path))
        done = migrate(address(self.source), "unix://" + path, SEPAL_TARGET_PASSWORD="wrong")
        self.assertIn("WRONGPASS", done.stderr)
        done = migrate(address(self.source), "unix://" + path, SEPAL_TARGET_PASSWORD="secret")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_refused(self):
        for wrong, why in (("rediss://a", "TLS"), ("redis://user:secret@a", "SEPAL_SOURCE_PASSWORD"), ("a:1", "no address"),
                           ("redis://:1", "no host"), ("redis://a:0", "no host"), ("redis://a/x", "no database"),
                           ("unix://a", "no socket")):
            told = self.migrate(2, wrong, address(self.target))
            self.assertIn(why, told)
            self.assertNotIn("secret", told.replace("sepal migrate", ""))
        self.assertIn("refused", self.migrate(1, "redis://127.0.0.1:1", address(self.target)))

    def test_a_target_that_went_on_is_left_alone(self):
        self.fill(3)
        self.migrate(0, address(self.source), address(self.target))
        with Client.of(self.target) as client:
            client.call("BF.MADD", "small:2", "there", "only")
        told = self.migrate(3, address(self.source), address(self.target))
        self.assertIn("LEFT OUT 1 filter: the target's filter has more items", told)
        self.assertIn("LEFT OUT 0:small:2", told)
        with Client.of(self.target) as client:
            self.assertEqual(client.call("BF.MEXISTS", "small:2", "there", "only"), [1, 1])

    def test_killed_under_load_and_run_again(self):
        self.fill(20_000 if not SANITIZED else 2_000, LARGE_CAPACITY)
        stop = threading.Event()
        added = []

        def load():
            chosen = random.Random(1)
            with Client.of(self.source) as client:
                while not stop.is_set():
                    key = "small:%d" % chosen.randrange(2_000) if chosen.random() < 0.7 else "large"
                    item = "load/%d" % len(added)
                    if not isinstance(client.call("BF.ADD", key, item), Refused):
                        added.append((key, item))

        loading = threading.Thread(target=load)
        loading.start()
        try:
            first = subprocess.Popen([SEPAL, "migrate", "-q", address(self.source), address(self.target)])
            with Client.of(self.target) as client:
                self.eventually("nothing is copied", lambda: client.call("DBSIZE") >= 1_000)
            first.kill()
            first.wait()
            with Client.of(self.target) as client:
                self.assertLess(client.call("DBSIZE"), 22_000)
            done = migrate(address(self.source), address(self.target))
            self.assertIn(done.returncode, (0, 3), done.stderr)
        finally:
            stop.set()
            loading.join()
        self.migrate(0, address(self.source), address(self.target))
        self.check_alike()
        with Client.of(self.target) as client:
            for at in range(0, len(added), 1000):
                answers = client.pipeline([("BF.EXISTS", key, item) for key, item in added[at:at + 1000]])
                self.assertEqual(answers, [1] * len(answers))


# --- a server that answers what RedisBloom answered ---------------------------------------------------------

SMALL_DUMP = bytes.fromhex(
    "07813016e5a289bef8040203020102050202020a047b14ae47e17a743f020804e9862fb2350e26400240800200"
    "05101204000a005001202840208410c209010203000c00c715fdd011c49ffa")


def read_request(stream):
    """A request, or None at the end."""
    line = stream.readline()
    if not line:
        return None
    words = []
    for _ in range(int(line[1:])):
        length = int(stream.readline()[1:])
        words.append(stream.read(length + 2)[:-2])
    return words


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


class RedisBloom(socketserver.ThreadingTCPServer):
    """Two filters and a string in database 0. It is older than PEXPIRETIME, as Redis 6 is."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Conversation)
        self.port = self.server_address[1]
        # What RedisBloom writes when it rewrites its append-only file is what BF.SCANDUMP answers.
        self.pieces = {}
        with open(os.path.join(RECORDED, "plain", "appendonly.aof.2.base.aof"), "rb") as file:
            while words := read_request(file):
                if words[0] == b"BF.LOADCHUNK":
                    self.pieces.setdefault(words[1], []).append((int(words[2]), words[3]))
        with open(os.path.join(RECORDED, "expected.json"), encoding="utf-8") as file:
            self.expected = json.load(file)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def scan_dump(self, key, iterator):
        before = 0
        for after, data in self.pieces[key]:
            if before == iterator:
                return b"*2\r\n:%d\r\n" % after + bulk(data)
            before = after
        return b"*2\r\n:0\r\n$0\r\n\r\n"

    def info(self, key):
        figures = {"Capacity": 10, "Size": 112, "Number of filters": 1, "Number of items inserted": 3, "Expansion rate": 2}
        if key == b"large":
            figures = self.expected["0:large"]["info"]
        return b"*10\r\n" + b"".join(b"+%s\r\n:%d\r\n" % (name.encode(), value) for name, value in figures.items())

    def answer(self, words):
        name, key = words[0].upper(), words[1] if len(words) > 1 else b""
        if name == b"INFO":
            return bulk(b"# Keyspace\r\ndb0:keys=3,expires=1\r\n" if key == b"keyspace" else b"run_id:another\r\n")
        if name == b"SCAN":
            return b"*2\r\n" + bulk(b"0") + b"*3\r\n" + bulk(b"small") + bulk(b"large") + bulk(b"text")
        if name == b"TYPE":
            return b"+string\r\n" if key == b"text" else b"+MBbloom--\r\n"
        if name == b"PTTL":
            return b":1000000\r\n" if key == b"small" else b":-1\r\n"
        if name == b"DUMP":
            return bulk(SMALL_DUMP)
        if name == b"BF.SCANDUMP":
            return self.scan_dump(key, int(words[2]))
        if name == b"BF.INFO":
            wrong = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
            return wrong if key == b"text" else self.info(key)
        if name == b"BF.MEXISTS":
            return b"*%d\r\n" % (len(words) - 2) + b":1\r\n" * (len(words) - 2)
        return b"+OK\r\n" if name in (b"SELECT", b"PING") else b"-ERR unknown command\r\n"


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        while words := read_request(self.rfile):
            self.wfile.write(self.server.answer(words))


class FromRedisBloomTest(DaemonTest):
    def test_recorded_filters(self):
        with RedisBloom() as source:
            target = self.start()
            for _ in range(2):
                done = migrate("redis://127.0.0.1:%d" % source.port, address(target))
                # It says yes to everything, so the check at the end finds a difference for each filter.
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("skipped  1 of type string", done.stdout)
                self.assertIn("LEFT OUT 2 filters: it answers differently on both sides", done.stdout)
            self.assertIn("same     2 filters", done.stdout)
            source.shutdown()
            about = source.expected["0:large"]
        with Client.of(target) as client:
            self.assertEqual(client.call("BF.MEXISTS", "small", "a", "b", "c", "zz"), [1, 1, 1, 0])
            self.assertGreater(client.call("PTTL", "small"), 0)
            for k in range(0, about["items"], 1000):
                self.assertNotIn(0, client.call("BF.MEXISTS", "large", *["large/%d" % i for i in range(k, k + 1000)]))
            absent = client.call("BF.MEXISTS", "large", *["absent/%d" % i for i in range(2000)])
            self.assertEqual([i for i, answer in enumerate(absent) if answer], about["absent_hits_of_2000"])


if __name__ == "__main__":
    unittest.main()
