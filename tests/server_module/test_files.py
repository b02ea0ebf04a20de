"""Filters of sepal.so in RDB files, AOF files and dumps: its own, and RedisBloom's."""

import json
import math
import os
import pathlib
import shutil
import string
import struct

from recorded import aof_of_filters, rdb_of_filters
from redis_case import Refused, RedisTest, field

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "golden" / "redis_files"
EXPECTED = json.loads((RECORDED / "expected.json").read_text(encoding="utf-8"))
FILTERS = [filter for name, filter in EXPECTED.items() if name != "skipped" and "info" in filter]


def crc64(data):
    """CRC-64 of Jones, reflected, as Redis ends a dump with it."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x95ac9329ac4bc9b5 if crc & 1 else 0)
    return crc


def sealed(dump):
    return dump[:-8] + struct.pack("<Q", crc64(dump[:-8]))


class RecordedTest(RedisTest):
    """Files that RedisBloom has written, in a later server."""

    def check(self, client, later):
        """`later`: the items that were added to the filter `default` after the others."""
        self.assertGreater(len(FILTERS), 5)
        for filter in FILTERS:
            key = filter["key"]
            client.call("SELECT", filter["db"])
            items = ["%s/%d" % (key, i) for i in range(filter["items"])]
            if items:
                self.assertEqual(set(client.call("BF.MEXISTS", key, *items)), {1}, key)
            absent = client.call("BF.MEXISTS", key, *("absent/%d" % i for i in range(2000)))
            self.assertEqual([i for i, there in enumerate(absent) if there], filter["absent_hits_of_2000"], key)
            added = len(later) if (filter["db"], key) == (0, "default") else 0
            self.assertEqual(client.call("BF.CARD", key), filter["card"] + added, key)
            info = client.call("BF.INFO", key)
            info = {name.decode(): value for name, value in zip(info[::2], info[1::2])}
            for name in ("Capacity", "Number of filters", "Expansion rate"):
                self.assertEqual(info[name], filter["info"][name], (key, name))

    def check_cuckoo(self, client):
        """expected.json counts it among the keys of other types."""
        client.call("SELECT", 3)
        self.assertEqual(client.call("TYPE", "cuckoo"), b"MBbloomCF")
        self.assertEqual(client.call("CF.MEXISTS", "cuckoo", "x", "absent"), [1, 0])
        self.assertEqual(client.call("CF.INFO", "cuckoo")[1], 1080)  # what RedisBloom tells of it
        self.assertEqual(client.call("CF.DEBUG", "cuckoo"),
                         b"bktsize:2 buckets:512 items:1 deletes:0 filters:1 max_iterations:20 expansion:1")

    def check_all(self, server, later=()):
        client = self.client_of(server)
        self.check(client, later)
        self.check_cuckoo(client)
        # What grows above RedisBloom's layers is kept with them.
        client.call("SELECT", 0)
        outcomes = client.call("BF.MADD", "default", *("more/%d" % i for i in range(2000)))
        self.assertGreater(sum(outcomes), 1900)
        client.call("DEBUG", "RELOAD")
        self.assertEqual(set(client.call("BF.MEXISTS", "default", *("more/%d" % i for i in range(2000)))), {1})
        self.assertEqual(set(client.call("BF.MEXISTS", "default", *("default/%d" % i for i in range(150)))), {1})

    def test_rdb_files(self):
        for name in ("rdb.rdb", "rdb-plain.rdb"):
            with self.subTest(name):
                directory = self.make_directory()
                pathlib.Path(directory, "dump.rdb").write_bytes(rdb_of_filters((RECORDED / name).read_bytes()))
                self.check_all(self.start(directory=directory))

    def test_append_only_files(self):
        for name in ("plain", "preamble"):
            with self.subTest(name):
                directory = self.make_directory()
                shutil.copytree(RECORDED / name, os.path.join(directory, "appendonlydir"))
                for file in pathlib.Path(directory, "appendonlydir").glob("*.aof"):
                    file.write_bytes(aof_of_filters(file.read_bytes()))
                for file in pathlib.Path(directory, "appendonlydir").glob("*.rdb"):
                    file.write_bytes(rdb_of_filters(file.read_bytes()))
                self.check_all(self.start("--appendonly", "yes", directory=directory), later=("after", "rewrite"))


class ManyLayersTest(RedisTest):
    def payload(self, layer_count):
        """RedisBloom's, of a filter of many layers for 10 items each: it has no limit of layers."""
        letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
        name = sum(letters.index(letter) << 58 - 6 * at for at, letter in enumerate("MBbloom--"))
        unsigned = lambda value: b"\x02\x80" + struct.pack(">I", value)
        real = lambda value: b"\x04" + struct.pack("<d", value)
        fields = b"".join(map(unsigned, (0, layer_count, 5, 1)))
        for layer in range(layer_count):
            rate = 0.01 * 0.5**layer
            bits_per_item = -math.log(rate) / math.log(2)**2
            bits = -(-int(10 * bits_per_item) // 64) * 64
            fields += unsigned(10) + real(rate) + unsigned(math.ceil(math.log(2) * bits_per_item)) + real(bits_per_item)
            fields += unsigned(bits) + unsigned(0) + b"\x05\x80" + struct.pack(">I", bits // 8) + bytes(bits // 8) + unsigned(0)
        return sealed(b"\x07\x81" + struct.pack(">Q", name | 4) + fields + b"\0\x09\0" + bytes(8))

    def test_a_server_starts_with_a_filter_of_more_layers_than_an_add_may_make(self):
        for count in (65, 300):
            with self.subTest(layers=count):
                directory = self.make_directory()
                server = self.start(directory=directory)
                client = self.client_of(server)
                self.assertEqual(client.call("RESTORE", "k", 0, self.payload(count)), b"OK")
                self.assertEqual(client.call("BF.INFO", "k", "FILTERS"), [count])
                items = ["item/%d" % i for i in range(12)]
                self.assertEqual(client.call("BF.MADD", "k", *items)[:5], [1] * 5)
                self.assertEqual(client.call("RESTORE", "again", 0, client.call("DUMP", "k")), b"OK")
                iterator = 0
                while True:
                    iterator, piece = client.call("BF.SCANDUMP", "k", iterator)
                    if iterator == 0:
                        break
                    self.assertEqual(client.call("BF.LOADCHUNK", "pieces", iterator, piece), b"OK")
                client.call("SAVE")
                server.kill()
                server = self.start(directory=directory)
                client = self.client_of(server)
                # An AOF without preamble has the filters as pieces.
                client.call("CONFIG", "SET", "aof-use-rdb-preamble", "no")
                client.call("CONFIG", "SET", "appendonly", "yes")
                self.eventually("the AOF is written", lambda: field(client.call("INFO", "persistence"), "aof_rewrite_in_progress") == "0" and field(client.call("INFO", "persistence"), "aof_rewrite_scheduled") == "0")
                client.call("DEBUG", "LOADAOF")
                for key in ("k", "again", "pieces"):
                    self.assertEqual(client.call("BF.INFO", key, "FILTERS"), [count], key)
                    self.assertEqual(client.call("BF.MEXISTS", key, *items), client.call("BF.MEXISTS", "k", *items))


class OwnTest(RedisTest):
    def fill(self, client):
        """Filters of several kinds. Returns what each has: key: (count, form of items)."""
        client.call("BF.RESERVE", "grown", "0.001", "10")
        client.call("BF.MADD", "grown", *("grown/%d" % i for i in range(3000)))
        client.call("BF.RESERVE", "fixed", "0.01", "1000", "NONSCALING")
        client.call("BF.MADD", "fixed", *("fixed/%d" % i for i in range(900)))
        client.call("BF.RESERVE", "large", "0.01", "5000000")
        client.call("BF.MADD", "large", *("large/%d" % i for i in range(5000)))
        client.call("BF.RESERVE", "empty", "0.01", "3000000")
        client.call("BF.ADD", "one", "one/0")
        return {"grown": 3000, "fixed": 900, "large": 5000, "empty": 0, "one": 1}

    def check(self, client, counts):
        for key, count in counts.items():
            if count:
                self.assertEqual(set(client.call("BF.MEXISTS", key, *("%s/%d" % (key, i) for i in range(count)))), {1}, key)

    def test_a_save_and_a_start(self):
        server = self.start()
        client = self.client_of(server)
        counts = self.fill(client)
        before = self.digests(client, counts)
        client.call("SAVE")
        # No bit is set in most of its pieces.
        self.assertLess(os.path.getsize(os.path.join(self.directory, "dump.rdb")), 8_000_000)
        server.kill()
        client = self.client_of(self.start())
        self.assertEqual(self.digests(client, counts), before)
        self.check(client, counts)

    def test_a_dump_and_a_restore(self):
        client = self.client_of(self.start())
        counts = self.fill(client)
        for key in counts:
            dump = client.call("DUMP", key)
            self.assertEqual(client.call("RESTORE", "copy", 0, dump, "REPLACE"), b"OK")
            self.assertEqual(len(set(self.digests(client, [key, "copy"]))), 1, key)

    def test_a_damaged_dump_is_refused_and_the_server_goes_on(self):
        server = self.start()
        client = self.client_of(server)
        self.fill(client)
        dump = client.call("DUMP", "fixed")
        refused = 0
        head = 150  # the id of the type, and the header
        for at in (*range(1, head), *range(head, len(dump) - 10, 29)):
            for value in (0, 0xff, dump[at] ^ 1):
                changed = sealed(dump[:at] + bytes([value]) + dump[at + 1:])
                reply = client.pipeline([("RESTORE", "copy", 0, changed, "REPLACE")])[0]
                refused += isinstance(reply, Refused)
                self.assertIn(client.call("BF.EXISTS", "copy", "fixed/1"), (0, 1))
                client.pipeline([("BF.MADD", "copy", *range(20)), ("BF.INFO", "copy")])
        # Bits and counts may be any. The header and the lengths may not.
        self.assertGreater(refused, 50)
        for length in range(10, min(len(dump) - 10, 200)):
            reply = client.pipeline([("RESTORE", "copy", 0, sealed(dump[:length] + dump[-10:]), "REPLACE")])[0]
            self.assertIsInstance(reply, Refused)
        self.assertIn("sepal: ", server.text())
        self.assertEqual(client.call("PING"), b"PONG")

    def test_append_only_files_and_kills(self):
        for preamble in ("yes", "no"):
            with self.subTest(preamble):
                directory = self.make_directory()
                arguments = ("--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", preamble)
                server = self.start(*arguments, directory=directory)
                client = self.client_of(server)
                counts = self.fill(client)
                before = self.digests(client, counts)
                server.kill()
                server = self.start(*arguments, directory=directory)
                client = self.client_of(server)
                self.assertEqual(self.digests(client, counts), before, "the commands of the AOF")
                self.rewrite_under_load(client, server, lambda other, items: other.call("BF.MADD", "more", *items))
                more = client.call("BF.CARD", "more")
                after = self.digests(client, [*counts, "more"])
                server.kill()
                server = self.start(*arguments, directory=directory)
                client = self.client_of(server)
                self.assertEqual(self.digests(client, [*counts, "more"]), after, "a rewritten AOF")
                self.check(client, counts)
                self.assertEqual(client.call("BF.CARD", "more"), more)
