"""`sepal migrate` from sepald to sepald, under load and cut off, and from RedisBloom's answers."""

import os
import random
import subprocess
import sys
import unittest

import redis_server
from certificates import Authority
from client import Client, Refused
from daemon import SANITIZED, DaemonTest, beside, free_port, sized
from migrate_case import DEADLINE, SEPAL, MigrateCase, address, filters_of, migrate
from recorded_redisbloom import TEXT, RedisBloom

GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "guides", "moving-from-redisbloom.md")
LARGE_CAPACITY = 2_000_000 if SANITIZED else sized(15_000_000, 150_000_000)


class MigrateTest(MigrateCase):
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

    def test_a_check_that_a_server_refuses_is_told(self):
        with Client.of(self.source) as client:
            client.pipeline([("BF.ADD", "k", "x"), ("ACL", "SETUSER", "default", "-bf.mexists")])
        with Client.of(self.target) as client:
            client.call("ACL", "SETUSER", "default", "-bf.mexists")
        told = self.migrate(3, address(self.source), address(self.target))
        self.assertIn("it was copied and not checked: NOPERM", told)
        self.assertIn("checked  0 filters", told)

    def test_mirrors_are_not_moved(self):
        with Client.of(self.source) as client:
            client.pipeline([("BF.ADD", "from", "x"), ("BF.ADD", "to", "y")])
            self.assertNotIn("mirrors", self.migrate(0, address(self.source), address(self.target)))
            client.call("BF.MIRROR", "from", "to")
        self.assertIn("mirrors  the links of BF.MIRROR at the source are not moved", self.migrate(0, address(self.source), address(self.target)))

    def test_databases_and_patterns(self):
        self.fill(20)
        unmatched = "sepal migrate: --match 'zzz*': the source has no such key\n"
        for mode in ((), ("--dry-run",), ("--quiet",)):
            self.assertIn(unmatched, self.migrate(0, address(self.source), address(self.target), "--match", "zzz*", *mode))
        self.assertNotIn("no such key", self.migrate(0, address(self.source), address(self.target), "--match", "small:1*", "--db", "0"))
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
        told = self.migrate(1, address(self.source), "unix://" + path)
        self.assertIn("NOAUTH", told)
        self.assertIn("NOAUTH Authentication required; set SEPAL_TARGET_PASSWORD; if it is not that of the user default, name the user in ", told)
        self.assertIn("; set SEPAL_SOURCE_PASSWORD", self.migrate(1, "unix://" + path, address(self.target)))
        done = migrate(address(self.source), "unix://" + path, SEPAL_TARGET_PASSWORD="wrong")
        self.assertIn("WRONGPASS", done.stderr)
        self.assertIn("or user is disabled; correct SEPAL_TARGET_PASSWORD", done.stderr)
        done = migrate(address(self.source), "unix://" + path, SEPAL_TARGET_PASSWORD="secret")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_users_of_the_guide_have_the_rights_that_are_needed(self):
        self.fill(30)
        with Client.of(self.source) as client:
            client.pipeline([("CF.ADD", "cuckoo", "x"), ("CF.RESERVE", "large cuckoo", 200_000)])
        with open(GUIDE, encoding="utf-8") as guide:
            rules = [line.split() for line in guide if line.startswith("ACL SETUSER mover")]
        self.assertEqual(len(rules), 2)
        names = []
        for daemon, rule in zip((self.source, self.target), rules):
            with Client.of(daemon) as client:
                self.assertEqual(client.call(*rule), b"OK")
                client.pipeline([("SET", "short", "x"), ("SET", "long", "\xff" * 200_000), ("PEXPIREAT", "long", DEADLINE),
                                 ("SET", "lasting", "y" * 200_000)]
                                if daemon is self.source else
                                # Keys that get another value, and lose their deadline.
                                [("SET", "short", "other", "PXAT", DEADLINE), ("SET", "long", "other"),
                                 ("BF.ADD", "small:1", "other"), ("PEXPIREAT", "small:1", DEADLINE)])
            names.append("redis://mover@127.0.0.1:%d/0" % daemon.port)
        for _ in range(2):
            done = migrate(*names, SEPAL_SOURCE_PASSWORD="sesame", SEPAL_TARGET_PASSWORD="mustard")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for daemon in (self.source, self.target):
            with Client.of(daemon) as client:
                self.assertEqual(client.call("ACL", "LOG"), [])
                self.assertEqual(client.call("STRLEN", "long"), 400_000)
                self.assertEqual(client.call("PEXPIRETIME", "long"), DEADLINE)
                self.assertEqual([client.call("PEXPIRETIME", key) for key in ("short", "lasting")], [-1, -1])

    def test_over_tls(self):
        self.fill(300, large_capacity=3_000_000)
        folder = os.path.join(self.directory, "tls")
        os.mkdir(folder)
        authority = Authority(folder)
        server, mover = authority.sign("server"), authority.sign("mover", "mover")
        port = free_port()
        third = self.start("--port", "0", "--tls-port", str(port), "--tls-cert-file", server.certificate, "--tls-key-file",
                           server.key, "--tls-ca-cert-file", authority.certificate, "--tls-auth-clients", "yes",
                           "--unixsocket", os.path.join(folder, "socket"), directory=os.path.join(self.directory, "third"))
        there = "rediss://localhost:%d" % port
        trust, identity = ("--cacert", authority.certificate), ("--cert", mover.certificate, "--key", mover.key)
        self.migrate(0, address(self.source), there, *trust, *identity)
        self.migrate(0, there, address(self.target), *trust, *identity)
        with Client.of(self.source) as source, Client.of(self.target) as target:
            self.assertEqual(filters_of(source), filters_of(target))
        told = self.migrate(0, address(self.source), there, "--insecure", *identity)
        self.assertIn("copied:", told)
        self.assertIn("certificate verify failed", self.migrate(1, address(self.source), there, *identity))
        self.assertRegex(self.migrate(1, address(self.source), there, *trust), "certificate required|reset|closed")
        self.assertIn("belong together", self.migrate(2, address(self.source), there, "--cert", mover.certificate))
        self.assertIn("No such file", self.migrate(1, address(self.source), there, "--cacert", "/nowhere"))
        self.assertIn("wrong version number", self.migrate(1, address(self.source), address(self.target).replace("redis:", "rediss:")))
        third.stop()

    def test_what_is_refused(self):
        for wrong, why in (("rediss://", "no host"), ("redis://user:secret@a", "put it into the environment"), ("a:1", "no address"),
                           ("redis://:1", "no host"), ("redis://a:0", "no host"), ("redis://a/x", "no database"),
                           ("unix://a", "no socket")):
            told = self.migrate(2, wrong, address(self.target))
            self.assertIn(why, told)
            self.assertNotIn("secret", told.replace("sepal migrate", ""))
        with Client.of(self.target) as client:
            client.call("BF.ADD", "k", "x")
        for why, source in (("refused", "redis://127.0.0.1:1"), ("the same server", address(self.target))):
            told = self.migrate(1, source, address(self.target))
            self.assertIn(why, told)
            self.assertNotIn("run this again", told)
        self.assertIn("127.0.0.1:1: Connection refused; no server listens there: start it, or correct the address",
                      self.migrate(1, address(self.source), "redis://127.0.0.1:1"))
        nowhere = os.path.join(self.directory, "no socket")
        self.assertIn("no socket: No such file or directory; no server listens there", self.migrate(1, "unix://" + nowhere, address(self.target)))

    def test_a_target_that_went_on_is_left_alone(self):
        self.fill(3)
        self.migrate(0, address(self.source), address(self.target))
        with Client.of(self.target) as client:
            client.call("BF.MADD", "small:2", "there", "only")
        told = self.migrate(3, address(self.source), address(self.target))
        self.assertIn("LEFT OUT 1 key: the target's filter has more items", told)
        self.assertIn("LEFT OUT 0:small:2", told)
        with Client.of(self.target) as client:
            self.assertEqual(client.call("BF.MEXISTS", "small:2", "there", "only"), [1, 1])

    def test_killed_under_load_and_run_again(self):
        self.fill(2_000 if SANITIZED else sized(4_000, 20_000), LARGE_CAPACITY)
        added = []

        def load(ended):
            chosen = random.Random(1)
            with Client.of(self.source) as client:
                while not ended.is_set():
                    key = "small:%d" % chosen.randrange(2_000) if chosen.random() < 0.7 else "large"
                    item = "load/%d" % len(added)
                    if not isinstance(client.call("BF.ADD", key, item), Refused):
                        added.append((key, item))

        with beside(load):
            first = subprocess.Popen([SEPAL, "migrate", "-q", address(self.source), address(self.target)])
            with Client.of(self.target) as client:
                self.eventually("nothing is copied", lambda: client.call("DBSIZE") >= 1_000)
            first.kill()
            first.wait()
            with Client.of(self.target) as client:
                self.assertLess(client.call("DBSIZE"), 22_000)
            done = migrate(address(self.source), address(self.target))
            self.assertIn(done.returncode, (0, 3), done.stderr)
        self.migrate(0, address(self.source), address(self.target))
        self.check_alike()
        with Client.of(self.target) as client:
            for at in range(0, len(added), 1000):
                answers = client.pipeline([("BF.EXISTS", key, item) for key, item in added[at:at + 1000]])
                self.assertEqual(answers, [1] * len(answers))


# --- strings, from and to Redis -----------------------------------------------------------------------------

MEASURE = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
sys.exit(status)
"""


@unittest.skipUnless(redis_server.IS_THERE, redis_server.WHY_NOT)
class StringsTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.redis = redis_server.Redis(os.path.join(self.directory, "redis"))
        self.addCleanup(self.redis.stop)
        self.target = self.start(directory=os.path.join(self.directory, "target"))

    def migrate(self, status, *arguments, source=None, target=None):
        done = migrate(source or self.redis.address(), target or address(self.target), *arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def check_alike(self):
        with self.redis.client() as source, Client.of(self.target) as target:
            self.assertEqual(redis_server.strings_of(source), redis_server.strings_of(target))

    def fill(self):
        chosen = random.Random(5)
        requests = [("SET", "empty", ""), ("SET", "number", "12345"), ("SET", b"with \xff\x00", b"\0\xff"),
                    ("SET", "text", "hello " * 100, "PXAT", DEADLINE), ("SETBIT", "sparse", 8 * 100_000_000, 1),
                    ("SETBIT", "sparse", 77, 1), ("SETBIT", "sparse", 8 * 5_000_000, 1), ("SETBIT", "zeros", 8 * 2_000_000, 0),
                    ("SET", "dense", chosen.randbytes(3_000_001)), ("PEXPIREAT", "dense", DEADLINE + 1),
                    ("SET", "at the limit", chosen.randbytes(65_536)), ("SET", "above", chosen.randbytes(65_537)),
                    ("RPUSH", "list", "x"), ("SELECT", 3), ("SET", "third", "x")]
        with self.redis.client() as client:
            for reply in client.pipeline(requests):
                self.assertNotIsInstance(reply, Refused)
            client.call("SELECT", 0)
            client.call("DEL", "list")

    def test_all_kinds(self):
        self.fill()
        told = self.migrate(0, "--dry-run")
        self.assertIn("strings  10 with ", told)
        with Client.of(self.target) as client:
            self.assertEqual(client.call("DBSIZE"), 0)
        told = self.migrate(0)
        self.assertIn("strings  10 with ", told)
        self.assertIn("checked  9 strings", told)
        self.check_alike()
        with Client.of(self.target) as client:
            # Three bits in 100 MB.
            self.assertLess(client.call("MEMORY", "USAGE", "sparse"), 1 << 20)
            self.assertEqual(client.call("STRLEN", "zeros"), 2_000_001)
            client.call("SELECT", 3)
            self.assertEqual(client.call("GET", "third"), b"x")
            self.assertEqual(client.call("DBSIZE"), 1)
        told = self.migrate(0)
        self.assertNotIn("strings  ", told.replace("10 strings", "").replace("9 strings", ""))
        self.assertIn("same     10 strings were at the target already, byte for byte; 0 of them", told)
        # And on to Redis, into another database.
        self.migrate(0, source=address(self.target, "/0"), target=self.redis.address() + "?db=7")
        with self.redis.client() as source, Client.of(self.target) as target:
            source.call("SELECT", 7)
            self.assertEqual(redis_server.strings_of(source), redis_server.strings_of(target))

    def test_a_second_run_takes_what_changed(self):
        self.fill()
        self.migrate(0)
        with self.redis.client() as client:
            client.pipeline([("INCRBY", "number", 77), ("PERSIST", "text"), ("SETBIT", "sparse", 8 * 99_000_000 + 1, 1),
                             ("APPEND", "above", "more"), ("SET", "dense", b"\xff" * 100_000), ("SET", "new", "x")])
        told = self.migrate(0)
        self.assertIn("strings  5 with ", told)
        self.assertIn("same     6 strings were at the target already, byte for byte; 1 of them", told)
        self.check_alike()

    def test_a_target_that_went_on_is_left_alone(self):
        self.fill()
        self.migrate(0)
        with Client.of(self.target) as client:
            client.pipeline([("SETBIT", "sparse", 1_000_003, 1), ("SETBIT", "empty", 3, 1), ("BF.ADD", "third", "x")])
        with self.redis.client() as client:
            client.pipeline([("SET", "third", "now in database 0")])
        told = self.migrate(3)
        self.assertIn("LEFT OUT 2 keys: the target's string has all bits of the source's and more, so it is left alone", told)
        self.assertIn("LEFT OUT 1 key: the target has another value under its key", told)
        self.assertIn("LEFT OUT 0:sparse", told)
        with Client.of(self.target) as client:
            self.assertEqual(client.call("BITCOUNT", "sparse"), 4)
            self.assertEqual(client.call("BF.EXISTS", "third", "x"), 1)

    def test_a_database_that_the_target_lacks_is_told_and_the_others_are_copied(self):
        redis = redis_server.Redis(os.path.join(self.directory, "many"), "--databases", "70001")
        self.addCleanup(redis.stop)
        with redis.client() as client:
            client.pipeline([("SET", "a", "x"), ("SELECT", 16), ("SET", "b", "y"), ("RPUSH", "list", "z"), ("SELECT", 70000), ("SET", "c", "z")])
        for flags in ("--dry-run",), ():
            told = self.migrate(3, *flags, source=redis.address())
            self.assertIn("strings  1 with 1 bytes", told)
            self.assertIn("skipped  1 of type list", told)
            for database, key in (16, "b"), (70000, "c"):
                self.assertIn("LEFT OUT 1 key: the target refuses database %d: ERR DB index is out of range" % database, told)
                self.assertIn("LEFT OUT %d:%s\n" % (database, key), told)
        with Client.of(self.target) as client:
            self.assertEqual(client.call("GET", "a"), b"x")
        told = self.migrate(0, "--db", "16", source=redis.address(), target=address(self.target, "/5"))
        self.assertIn("strings  1 with 1 bytes", told)
        self.assertIn("refuses database 16", self.migrate(1, "--db", "16", source=redis.address(), target=address(self.target, "/16")))

    def test_what_the_user_may_not_read_is_told(self):
        with self.redis.client() as client:
            client.pipeline([("SET", "a", "x"), ("SET", "b", "y"), ("SET", "long", "z" * 100_000)])
            for rules, left in ((("~a",), {"b", "long"}), (("~*", "-strlen"), {"a", "b", "long"}), (("~*", "-get"), {"a", "b"}),
                                (("~*", "-getrange"), {"long"})):
                with self.subTest(rules), Client.of(self.target) as target:
                    client.call("ACL", "SETUSER", "mover", "reset", "on", "nopass", "+@all", *rules)
                    target.call("FLUSHALL")
                    source = self.redis.address().replace("unix://", "unix://mover@")
                    done = migrate(source, address(self.target), SEPAL_SOURCE_PASSWORD="any")
                    self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                    self.assertIn("NOPERM", done.stdout)
                    self.assertEqual({line[len("LEFT OUT 0:"):] for line in done.stdout.splitlines() if line.startswith("LEFT OUT 0:")}, left)
                    self.assertEqual({key.decode() for key in target.call("KEYS", "*")}, {"a", "b", "long"} - left)

    def test_a_target_without_room_keeps_nothing_half(self):
        self.fill()
        small = self.start("--maxmemory", "2mb", directory=os.path.join(self.directory, "small"))
        told = self.migrate(3, target=address(small))
        self.assertIn("LEFT OUT 1 key: OOM", told)
        self.assertIn("LEFT OUT 0:dense", told)
        with Client.of(small) as client:
            self.assertEqual(client.call("EXISTS", "dense"), 0)
            self.assertEqual(client.call("KEYS", "sepal-migrate:*"), [])
            self.assertEqual(client.call("BITCOUNT", "sparse"), 3)

    def test_a_user_without_a_permission_leaves_the_key_as_it_was(self):
        with self.redis.client() as client, Client.of(self.target) as target:
            client.call("SET", "long", b"\xff" * 100_000)
            target.call("SET", "long", b"\1" * 100_000)
            target.call("ACL", "SETUSER", "default", "-persist")
            told = self.migrate(3)
            self.assertIn("NOPERM", told)
            self.assertEqual(target.call("GET", "long"), b"\1" * 100_000)
            self.assertEqual(target.call("KEYS", "*"), [b"long"])
            target.call("ACL", "SETUSER", "default", "+persist")
        self.migrate(0)
        self.check_alike()

    def test_a_user_without_transactions_is_enough(self):
        with self.redis.client() as client, Client.of(self.target) as target:
            client.call("SET", "long", b"\xff" * 100_000)
            target.call("ACL", "SETUSER", "default", "-@transaction")
        self.migrate(0)
        self.check_alike()

    def test_long_strings_go_to_a_target_with_a_mirror(self):
        with self.redis.client() as client, Client.of(self.target) as target:
            client.call("SET", "long", b"\xff" * 100_000)
            client.call("SET", "passing", b"\xff" * 100_000, "PXAT", DEADLINE)
            target.pipeline([("BF.ADD", "from", "x"), ("BF.ADD", "to", "y"), ("BF.MIRROR", "from", "to")])
            self.migrate(0)
            self.assertEqual(target.call("GET", "long"), b"\xff" * 100_000)
            self.assertEqual(target.pipeline([("TTL", "long"), ("PEXPIRETIME", "passing")]), [-1, DEADLINE])

    def remove_copies_of(self, copying):
        """Removes the temporary keys as long as the program runs. Returns how many there were."""
        removed = 0
        with Client.of(self.target) as client:
            while copying.poll() is None:
                for key in client.call("KEYS", "sepal-migrate:*"):
                    removed += client.call("DEL", key)
        return removed

    def test_a_copy_that_is_removed_on_its_way_is_told(self):
        with self.redis.client() as client:
            client.call("SET", "long", random.Random(3).randbytes(64 << 20))
        removed = 0
        while removed == 0:
            with Client.of(self.target) as client:
                client.call("FLUSHALL")
            copying = subprocess.Popen([SEPAL, "migrate", self.redis.address(), address(self.target)], stdout=subprocess.PIPE, text=True)
            removed = self.remove_copies_of(copying)
            told = copying.communicate()[0]
        self.assertEqual(copying.returncode, 3, told)
        self.assertIn("LEFT OUT 0:long", told)
        with Client.of(self.target) as client:
            self.assertEqual(client.call("EXISTS", "long"), 0)
        self.migrate(0)
        self.check_alike()

    def test_killed_under_load_and_run_again(self):
        """SEPAL_MIGRATE_STRINGS sets how many filters of go-zero the source has."""
        count = int(os.environ.get("SEPAL_MIGRATE_STRINGS", sized("300", "600")))
        bits = 8 * 20_000
        self.fill()
        chosen = random.Random(2)
        with self.redis.client() as client:
            for at in range(0, count, 100):
                requests = []
                for i in range(at, min(at + 100, count)):
                    requests += [("SETBIT", "gozero:%d" % i, bits - 1, 0), ("SETRANGE", "gozero:%d" % i, 0, chosen.randbytes(1000))]
                client.pipeline(requests)
        added = []

        def load(ended):
            with self.redis.client() as client:
                while not ended.is_set():
                    key = "gozero:%d" % chosen.randrange(count) if chosen.random() < 0.8 else "sparse"
                    places = [chosen.randrange(bits) for _ in range(14)]
                    client.pipeline([("SETBIT", key, place, 1) for place in places])
                    added.append((key, places))

        with beside(load):
            self.cut_off_a_run(count)
            self.check_memory()
        self.migrate(0)
        with Client.of(self.target) as client:
            # Of runs that were killed while they copied a long string.
            for unfinished in client.call("KEYS", "sepal-migrate:*"):
                self.assertGreater(client.call("TTL", unfinished), 0)
                client.call("DEL", unfinished)
        self.check_alike()
        self.assertGreater(len(added), 0)
        with Client.of(self.target) as client:
            for key, places in added[-1000:]:
                self.assertEqual(client.pipeline([("GETBIT", key, place) for place in places]), [1] * 14)

    def set_bits(self, key, items):
        """Sets the bits of a filter of 1000 bits as a client with murmur3-32 and one hash does. `items`: their positions."""
        with self.redis.client() as client:
            for position in items.values():
                client.call("SETBIT", key, position, 1)

    def test_bitmaps_become_filters(self):
        # MurmurHash3 x86 32 with seed 0, modulo 1000.
        first, second = {"a": 0x3C2569B2 % 1000, "b": 0x95DE7E03 % 1000}, {"abc": 0xB3DD93FA % 1000}
        rule = ("--bitmap", "users:*", "murmur3-32 BITS 1000 HASHES 1 CAPACITY 100")
        self.set_bits("users:1", first)
        self.set_bits("users:2", second)
        self.set_bits("other", first)
        with self.redis.client() as client:
            client.call("PEXPIREAT", "users:2", DEADLINE)
            client.call("SETBIT", "users:long", 5000, 1)
        told = self.migrate(0, "--dry-run", *rule)
        self.assertIn("bitmaps  3 of the strings are to become filters", told)
        self.assertNotIn("no such key", told)
        told = self.migrate(0, "--dry-run", "--bitmap", "user:*", rule[2], *rule)
        self.assertIn("bitmaps  3 of the strings are to become filters", told)
        self.assertIn("sepal migrate: --bitmap 'user:*': the source has no string with such a key\n", told)
        self.assertNotIn("'users:*'", told)
        told = self.migrate(3, *rule)
        self.assertIn("bitmaps  2 of the strings have become filters", told)
        self.assertIn("LEFT OUT 0:users:long", told)
        self.assertIn("it stays a string: ERR a bit behind BITS is set", told)
        with Client.of(self.target) as target:
            self.assertEqual(target.call("BF.MEXISTS", "users:1", "a", "b", "abc"), [1, 1, 0])
            self.assertEqual(target.call("BF.MEXISTS", "users:2", "a", "abc"), [0, 1])
            self.assertEqual(target.call("PEXPIRETIME", "users:2"), DEADLINE)
            self.assertEqual([target.call("TYPE", key) for key in ("other", "users:long")], [b"string", b"string"])
            target.call("BF.ADD", "users:1", "new")
        with self.redis.client() as client:
            client.call("DEL", "users:long")
        with Client.of(self.target) as target:
            target.call("DEL", "users:long")
        told = self.migrate(0, *rule)
        self.assertIn("before   2 bitmaps became filters in an earlier run", told)
        with Client.of(self.target) as target:
            self.assertEqual(target.call("BF.MEXISTS", "users:1", "a", "new"), [1, 1])
        # Without the rule, the filter is another value.
        self.assertIn("the target has another value under its key", self.migrate(3))

    def test_a_rule_that_the_target_does_not_take_moves_nothing(self):
        self.set_bits("users:1", {"a": 1})
        for scheme, text in (("go-zero CAPACITY 100", "BITS"), ("nothing BITS 1 CAPACITY 1", "go-zero"), ("", "wrong number of arguments")):
            told = self.migrate(1, "--bitmap", "users:*", scheme)
            self.assertIn(text, told)
            self.assertNotIn("run this again", told)
        with Client.of(self.target) as target:
            self.assertEqual(target.call("DBSIZE"), 0)

    def cut_off_a_run(self, count):
        """Ends a run by kill -9 when it has copied some strings and not all. A run may be faster than the kill, so there are several."""
        with Client.of(self.target) as client:
            for _ in range(50):
                client.call("FLUSHALL")
                run = subprocess.Popen([SEPAL, "migrate", "-q", self.redis.address(), address(self.target)])
                self.eventually("nothing is copied", lambda: client.call("DBSIZE") >= count // 8)
                run.kill()
                run.wait()
                if client.call("DBSIZE") < count:
                    return
        self.fail("every run was at its end before it was killed")

    def check_memory(self):
        """A run under load. A small process starts it, because a process begins with the highest memory of the one before it."""
        run = subprocess.run([sys.executable, "-c", MEASURE, SEPAL, "migrate", "-q", self.redis.address(), address(self.target)],
                             capture_output=True, text=True, timeout=500)
        self.assertIn(run.returncode, (0, 3), run.stderr)
        kilobytes, seconds = run.stdout.split()[-2:]
        print("sepal migrate: at most %s KiB, %s s of CPU" % (kilobytes, seconds))
        if not SANITIZED:
            self.assertLess(int(kilobytes), 64 << 10)


class FromRedisBloomTest(DaemonTest):
    def test_recorded_filters(self):
        with RedisBloom() as source:
            target = self.start()
            for _ in range(2):
                done = migrate("redis://127.0.0.1:%d" % source.port, address(target))
                # It says yes to everything, so the check at the end finds a difference for each filter.
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("skipped  1 of type list", done.stdout)
                self.assertIn("LEFT OUT 1 key: sepald has no top-k lists (TopK-TYPE)", done.stdout)
                self.assertIn("LEFT OUT 0:sketch", done.stdout)
                self.assertIn("cluster  the source is one node of a cluster", done.stdout)
                self.assertIn("checked  1 strings", done.stdout)
                self.assertIn("LEFT OUT 1 key: it became shorter while it was copied", done.stdout)
                self.assertIn("LEFT OUT 3 keys: it answers differently on both sides", done.stdout)
                self.assertIn("LEFT OUT 1 key: it changed while it was copied; stop its writers and run this again", done.stdout)
                self.assertIn("LEFT OUT 0:changing", done.stdout)
            self.assertIn("same     3 filters", done.stdout)
            source.shutdown()
            about = source.expected["0:large"]
        with Client.of(target) as client:
            self.assertEqual(client.call("BF.MEXISTS", "small", "a", "b", "c", "zz"), [1, 1, 1, 0])
            self.assertGreater(client.call("PTTL", "small"), 0)
            self.assertEqual(client.call("GET", "text"), TEXT)
            # The temporary key of the filter that changed is gone.
            self.assertEqual(client.call("DBSIZE"), 4)
            self.assertEqual(client.call("CF.MEXISTS", "cuckoo", "a", "zz"), [1, 0])
            self.assertEqual(client.call("TTL", "cuckoo"), -1)
            for k in range(0, about["items"], 1000):
                self.assertNotIn(0, client.call("BF.MEXISTS", "large", *["large/%d" % i for i in range(k, k + 1000)]))
            absent = client.call("BF.MEXISTS", "large", *["absent/%d" % i for i in range(2000)])
            self.assertEqual([i for i, answer in enumerate(absent) if answer], about["absent_hits_of_2000"])
