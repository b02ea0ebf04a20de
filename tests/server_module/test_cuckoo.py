"""Cuckoo filters of sepal.so: commands, memory, rights, files, and moves between the server and sepald."""

import resource
import string
import struct
import threading
import time

from cuckoo_case import CuckooTest, header_of_redisbloom
from moves import Moves
from redis_case import EXACT_CUCKOO_RATE, Refused, encode, field
from test_commands import plain
from test_files import sealed


class CommandTest(CuckooTest):
    def test_a_filter_is_a_key_like_others(self):
        client = self.client_of(self.start())
        self.assertEqual(client.call("CF.RESERVE", "k", 1000, "ERROR", EXACT_CUCKOO_RATE), b"OK")
        self.assertEqual(client.call("EXPIRE", "k", 100), 1)
        self.assertEqual(client.call("TYPE", "k"), b"MBbloomCF")
        self.assertEqual(client.call("SCAN", 0, "TYPE", "MBbloomCF"), [b"0", [b"k"]])
        self.assertEqual(client.call("CF.INSERT", "k", "ITEMS", "a", "a", "b"), [1, 1, 1])
        self.assertEqual(client.call("COPY", "k", "copy"), 1)
        self.assertEqual(client.call("CF.ADD", "copy", "c"), 1)
        self.assertEqual(client.call("CF.DEL", "copy", "a"), 1)
        self.assertEqual(client.pipeline([("CF.COUNT", "k", "a"), ("CF.COUNT", "copy", "a")]), [2, 1])
        self.assertEqual(client.call("RENAME", "copy", "renamed"), b"OK")
        self.assertEqual(client.call("CF.MEXISTS", "renamed", "a", "b", "c"), [1, 1, 1])
        self.assertEqual(client.call("CF.MEXISTS", "k", "a", "b", "c"), [1, 1, 0])
        self.assertIn(client.call("TTL", "k"), range(1, 101))
        client.call("PEXPIRE", "k", 1)
        self.eventually("the key does not expire", lambda: client.call("EXISTS", "k") == 0)
        self.assertEqual(client.call("CF.ADD", "k", "new"), 1)
        self.assertEqual(client.call("CF.COUNT", "k", "a"), 0)
        self.assertEqual(client.call("UNLINK", "k", "renamed"), 2)
        self.assertEqual(client.call("DBSIZE"), 0)

    def test_both_kinds_of_filters_tell_each_other_apart(self):
        client = self.client_of(self.start())
        client.call("BF.ADD", "bloom", "a")
        client.call("CF.ADD", "cuckoo", "a")
        for words in (("BF.ADD", "cuckoo", "a"), ("BF.INFO", "cuckoo"), ("BF.RESERVE", "cuckoo", "0.1", 10), ("BF.SCANDUMP", "cuckoo", 0),
                      ("CF.ADD", "bloom", "a"), ("CF.INSERT", "bloom", "ITEMS", "a"), ("CF.RESERVE", "bloom", 10), ("CF.INFO", "bloom"),
                      ("CF.SCANDUMP", "bloom", 0), ("CF.LOADCHUNK", "bloom", 1, header_of_redisbloom(4))):
            self.assertIn("WRONGTYPE", str(client.pipeline([words])[0]), words)
        self.assertEqual(client.pipeline([("BF.EXISTS", "cuckoo", "a"), ("CF.EXISTS", "bloom", "a"), ("CF.COUNT", "bloom", "a")]), [0, 0, 0])
        self.assertEqual([str(reply) for reply in client.pipeline([("CF.DEL", "bloom", "a"), ("CF.COMPACT", "bloom")])],
                         ["Not found", "Cuckoo filter was not found"])

    def test_only_a_change_ends_what_a_client_watches(self):
        server = self.start()
        client, other = self.client_of(server), self.client_of(server)
        client.call("CF.ADD", "k", "a")
        for words, changes in ((("CF.ADDNX", "k", "a"), False), (("CF.DEL", "k", "absent"), False), (("CF.ADD", "k", "a"), True),
                               (("CF.DEL", "k", "a"), True), (("CF.COMPACT", "k"), True)):
            client.call("WATCH", "k")
            other.call(*words)
            self.assertEqual(client.pipeline([("MULTI",), ("PING",), ("EXEC",)])[-1], None if changes else [b"PONG"], words)

    def test_memory_is_the_servers(self):
        server = self.start("--maxmemory", "64mb")
        client = self.client_of(server)

        def used():
            return int(field(client.call("INFO", "memory"), "used_memory"))

        before = used()
        client.call("CF.RESERVE", "big", 20_000_000)
        usage = client.call("MEMORY", "USAGE", "big")
        self.assertGreater(usage, 20_000_000)
        # The server counts the ends of the allocator's size classes, which are never touched, as well.
        self.assertLess(abs(used() - before - usage), 0.2 * usage)
        # What does not fit is refused before it is allocated.
        for words in (("CF.RESERVE", "bigger", 60_000_000), ("CF.LOADCHUNK", "bigger", 1, header_of_redisbloom(1 << 26)),
                      ("CF.LOADCHUNK", "bigger", 1, header_of_redisbloom(1 << 40))):
            self.assertEqual(str(client.pipeline([words])[0]), "ERR Insufficient memory to create filter")
        client.call("CF.LOADCHUNK", "foreign", 1, header_of_redisbloom(4, bucket_size=1, expansion=32768))
        replies = {str(reply) for reply in client.call("CF.INSERT", "foreign", "ITEMS", *range(140_000))}
        self.assertEqual(replies, {"1", "-1"})
        # An item can be taken back when the memory is used up.
        client.call("CF.ADD", "k", "a")
        client.call("CONFIG", "SET", "maxmemory", "1mb")
        self.assertIn("OOM", str(client.pipeline([("CF.ADD", "k", "b")])[0]))
        self.assertEqual(client.pipeline([("CF.DEL", "k", "a"), ("CF.MDEL", "k", "a"), ("CF.COMPACT", "k")]), [1, [0], b"OK"])
        client.call("FLUSHALL", "ASYNC")
        self.eventually("the memory does not come back", lambda: used() < before + 2_000_000)

    def test_memory_follows_growth_and_removals(self):
        client = self.client_of(self.start())
        items = ["item/%d" % i for i in range(100_000)]
        before = int(field(client.call("INFO", "memory"), "used_memory"))
        for at in range(0, len(items), 1000):
            client.call("CF.INSERT", "k", "ITEMS", *items[at:at + 1000])
        usage = client.call("MEMORY", "USAGE", "k")
        self.assertGreater(usage, 100_000)
        self.assertLess(int(field(client.call("INFO", "memory"), "used_memory")) - before, 1.5 * usage)
        for at in range(0, len(items), 1000):
            self.assertEqual(set(client.call("CF.MDEL", "k", *items[at:at + 1000])), {1})
        self.assertLess(client.call("MEMORY", "USAGE", "k"), usage / 4)

    def test_users_can_have_the_right_to_read_a_key_only(self):
        server = self.start()
        client, reader = self.client_of(server), self.client_of(server)
        client.call("CF.ADD", "k", "a")
        client.call("ACL", "SETUSER", "reader", "on", ">secret", "+cf.exists", "+cf.add", "+cf.del", "%R~*")
        reader.call("AUTH", "reader", "secret")
        self.assertEqual(reader.call("CF.EXISTS", "k", "a"), 1)
        for words in (("CF.ADD", "k", "b"), ("CF.DEL", "k", "a")):
            self.assertIn("NOPERM", str(reader.pipeline([words])[0]))
        client.call("ACL", "SETUSER", "reader", "resetkeys", "%W~*")
        self.assertEqual(reader.pipeline([("CF.ADD", "k", "b"), ("CF.DEL", "k", "b")]), [1, 1])
        self.assertIn("NOPERM", str(reader.pipeline([("CF.EXISTS", "k", "a")])[0]))

    def test_stats_and_shapes_are_those_of_sepald(self):
        server = self.start(module=("SEED", 7))
        client, sepald = self.client_of(server), self.client_of(self.start_sepald("--seed", "7"))
        for each in (client, sepald):
            self.fill(each)
        for key in ("grown", "fixed", "large", "copies", "layers", "churned", "foreign"):
            ours, theirs = plain(client.call("CF.STATS", key)), plain(sepald.call("CF.STATS", key))
            # Lines in the server's memory need some bytes more, which may be a size class of its allocator more.
            memory = ours.pop("memory_bytes"), theirs.pop("memory_bytes")
            self.assertLess(abs(memory[0] - memory[1]), max(512, 0.3 * memory[1]), key)
            self.assertEqual(ours, theirs, key)
            self.assertEqual(client.call("CF.DEBUG", key), sepald.call("CF.DEBUG", key))
        with server.connect() as connection, connection.makefile("rb") as replies:
            connection.sendall(encode("HELLO", "3") + encode("CF.INFO", "grown"))
            while not replies.readline().startswith(b"%8"):
                pass
            self.assertEqual(replies.readline(), b"+Size\r\n")


class FileTest(CuckooTest):
    def test_a_save_and_a_start(self):
        server = self.start()
        client = self.client_of(server)
        has = self.fill(client)
        before = self.digests(client, has)
        client.call("SAVE")
        server.kill()
        client = self.client_of(self.start())
        self.assertEqual(self.digests(client, has), before)
        self.check(client, has)
        for key in has:
            # A full filter refuses it. Then a removal could take an item that it has.
            if client.pipeline([("CF.ADD", key, "new")]) == [1]:
                self.assertEqual(client.call("CF.DEL", key, "new"), 1)
        self.check(client, has)

    def test_append_only_files_and_kills(self):
        for preamble, fsync in (("yes", "no"), ("no", "always")):
            with self.subTest(preamble=preamble, fsync=fsync):
                directory = self.make_directory()
                arguments = ("--appendonly", "yes", "--appendfsync", fsync, "--aof-use-rdb-preamble", preamble)
                server = self.start(*arguments, directory=directory)
                client = self.client_of(server)
                has = self.fill(client)
                before = self.digests(client, has)
                server.kill()
                server = self.start(*arguments, directory=directory)
                client = self.client_of(server)
                self.assertEqual(self.digests(client, has), before, "the commands of the AOF")
                self.rewrite_under_load(client, server, self.churn)
                after = self.digests(client, [*has, "more"])
                server.kill()
                client = self.client_of(self.start(*arguments, directory=directory))
                self.assertEqual(self.digests(client, [*has, "more"]), after, "a rewritten AOF")
                self.check(client, has)

    def churn(self, client, items):
        client.call("CF.INSERT", "more", "ITEMS", *items)
        client.call("CF.MDEL", "more", *items[:70])

    def test_a_rewrite_without_memory_keeps_the_last_file(self):
        arguments = ("--appendonly", "yes", "--aof-use-rdb-preamble", "no")
        server = self.start(*arguments)
        client = self.client_of(server)
        client.call("CF.RESERVE", "k", 50_000_000)
        client.call("CF.ADD", "k", "a")
        # The rewrite wants the whole filter in one string.
        with open("/proc/%d/status" % server.process.pid, encoding="ascii") as file:
            has = next(int(line.split()[1]) for line in file if line.startswith("VmSize:"))
        most = (has << 10) + (16 << 20)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (most, most))
        client.call("BGREWRITEAOF")
        self.eventually("the rewrite does not end", lambda: field(client.call("INFO", "persistence"), "aof_rewrite_in_progress") == "0")
        self.assertEqual(field(client.call("INFO", "persistence"), "aof_last_bgrewrite_status"), "err")
        self.assertIn("sepal: a cuckoo filter cannot be written", server.text())
        server.kill()
        self.assertEqual(self.client_of(self.start(*arguments)).call("CF.EXISTS", "k", "a"), 1)

    def test_a_kill_under_load_loses_nothing_that_was_answered(self):
        arguments = ("--appendonly", "yes", "--appendfsync", "always")
        server = self.start(*arguments)
        copies, unsure = {}, set()

        def churn():
            number = 0
            with server.client() as client:
                while True:
                    batch = ["%d" % i for i in range(number, number + 20)]
                    unsure.update(batch)
                    try:
                        client.call("CF.INSERT", "k", "ITEMS", *batch)
                        client.call("CF.MDEL", "k", *batch[:10])
                    except (OSError, EOFError):
                        return
                    unsure.difference_update(batch)
                    copies.update({item: int(at >= 10) for at, item in enumerate(batch)})
                    number += 20

        client = self.client_of(server)
        client.call("CF.RESERVE", "k", 100_000, "ERROR", EXACT_CUCKOO_RATE)
        churner = threading.Thread(target=churn)
        churner.start()
        time.sleep(1)
        server.kill()
        churner.join()
        self.assertGreater(len(copies), 1000)
        client = self.client_of(self.start(*arguments))
        items = [item for item in copies if item not in unsure]
        self.assertEqual(client.pipeline([("CF.COUNT", "k", item) for item in items]), [copies[item] for item in items])

    def test_a_damaged_dump_is_refused_and_the_server_goes_on(self):
        server = self.start()
        client = self.client_of(server)
        self.fill(client)
        for key in ("fixed", "foreign"):
            dump = client.call("DUMP", key)
            refused = 0
            head = 150  # the id of the type, and the head
            for at in (*range(1, head), *range(head, len(dump) - 10, 53)):
                for value in (0, 0xff, dump[at] ^ 1):
                    changed = sealed(dump[:at] + bytes([value]) + dump[at + 1:])
                    reply = client.pipeline([("RESTORE", "copy", 0, changed, "REPLACE")])[0]
                    refused += isinstance(reply, Refused)
                    self.assertIn(client.call("CF.EXISTS", "copy", "fixed/1"), (0, 1))
                    client.pipeline([("CF.INSERT", "copy", "ITEMS", *range(20)), ("CF.MDEL", "copy", *range(20)), ("CF.INFO", "copy")])
                    client.call("DEL", "copy")
            self.assertGreater(refused, 50, key)
            for length in range(10, min(len(dump) - 10, 200)):
                reply = client.pipeline([("RESTORE", "copy", 0, sealed(dump[:length] + dump[-10:]), "REPLACE")])[0]
                self.assertIsInstance(reply, Refused)
        self.assertIn("sepal: ", server.text())
        self.assertEqual(client.call("PING"), b"PONG")


class MovingTest(Moves, CuckooTest):
    lasting = "grown"

    def check_same(self, source, target, has):
        self.check(target, has)
        absent = ["absent/%d" % i for i in range(5000)]
        for key in has:
            self.assertEqual(target.call("CF.DEBUG", key), source.call("CF.DEBUG", key), key)
            self.assertEqual(target.call("CF.MEXISTS", key, *absent), source.call("CF.MEXISTS", key, *absent), key)
        for key in set(has) - {"fixed"}:
            # It goes on there as it would have here.
            for each in (source, target):
                each.call("CF.INSERT", key, "ITEMS", *("more/%d" % i for i in range(3000)))
                each.call("CF.MDEL", key, *("more/%d" % i for i in range(0, 3000, 2)))
            self.assertEqual(target.call("CF.DEBUG", key), source.call("CF.DEBUG", key), key)
        self.check(target, has)

    def test_a_filter_of_redisbloom_with_many_layers(self):
        """RedisBloom makes up to 65535, so no bound may refuse them: a server would not start with such a file."""
        buckets, layers = 64, 300
        self.assertEqual(self.theirs.call("CF.LOADCHUNK", "k", 1, header_of_redisbloom(buckets, layers=layers)), b"OK")
        self.assertEqual(self.theirs.call("CF.LOADCHUNK", "k", 1 + 2 * buckets * layers, bytes(range(128))), b"OK")
        self.assertEqual(self.theirs.call("COPY", "k", "copy"), 1)
        debug = self.theirs.call("CF.DEBUG", "k")
        self.assertIn(b"filters:300 ", debug)
        # As RedisBloom saves it.
        fields = b"".join(b"\x02\x80" + struct.pack(">I", value) for value in (layers, buckets, 0, 0, 2, 20, 1))
        fields += (b"\x02\x40\x40\x05\x40\x80" + bytes(128)) * layers
        letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
        name = sum(letters.index(letter) << 58 - 6 * at for at, letter in enumerate("MBbloomCF"))
        payload = b"\x07\x81" + struct.pack(">Q", name | 4) + fields + b"\0\x09\0"
        self.assertEqual(self.theirs.call("RESTORE", "theirs", 0, sealed(payload + bytes(8))), b"OK")
        self.assertEqual(self.theirs.call("CF.DEBUG", "theirs"), debug)
        self.assertEqual(self.theirs.call("RESTORE", "again", 0, self.theirs.call("DUMP", "k")), b"OK")
        self.theirs.call("DEBUG", "RELOAD")
        self.assertEqual(len(set(self.digests(self.theirs, ["k", "copy", "again"]))), 1)

    def move(self, source, target, key):
        """In pieces. Returns the last of them, and how many there were."""
        iterator, pieces = 0, []
        while True:
            iterator, data = source.call("CF.SCANDUMP", key, iterator)
            if iterator == 0:
                return pieces[-1], len(pieces)
            pieces.append((iterator, data))
            self.assertEqual(target.call("CF.LOADCHUNK", key, iterator, data), b"OK")

    def test_filters_of_redisbloom_in_pieces(self):
        for source, target in ((self.ours, self.theirs), (self.theirs, self.ours)):
            has = {"foreign": self.fill(source)["foreign"]}
            source.call("CF.LOADCHUNK", "wide", 1, header_of_redisbloom(1 << 20))
            has["wide"] = {"wide/1": 1}
            source.call("CF.ADD", "wide", "wide/1")
            for key in has:
                self.assertGreater(self.move(source, target, key)[1], 2)
            self.check_same(source, target, has)
            for client in (source, target):
                client.call("FLUSHALL")

    def test_filters_of_sepal_in_pieces(self):
        for source, target in ((self.ours, self.theirs), (self.theirs, self.ours)):
            has = self.fill(source)
            del has["foreign"]
            for key in has:
                last, count = self.move(source, target, key)
                self.assertGreater(count, 1)
                self.assertEqual(target.call("CF.INFO", key)[7], source.call("CF.INFO", key)[7], key)
                if key != "empty":
                    with self.assertRaisesRegex(Refused, "has items of this chunk already"):
                        target.call("CF.LOADCHUNK", key, *last)
            self.check(target, has)
            with self.assertRaisesRegex(Refused, "Invalid header"):
                target.call("CF.LOADCHUNK", "new", 1, "SPCH")
            with self.assertRaisesRegex(Refused, "Couldn't load chunk"):
                target.call("CF.LOADCHUNK", "grown", 2, "SPCC")
            for client in (source, target):
                client.call("FLUSHALL")


del CuckooTest  # unittest would run it as well
