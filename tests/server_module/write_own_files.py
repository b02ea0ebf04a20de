"""Writes a folder such as tests/golden/sepal_files, for test_own_files.py:

    SEPALD=build/release/sepald SEPAL_MODULE=build/release/sepal.so SEPAL_FOLDER=NEW python3 -m unittest write_own_files
"""

import base64
import json
import os
import pathlib
import shutil
import struct

from recorded import rdb_of_filters
from redis_case import Refused, RedisTest, field
from test_own_files import ABSENT, count_of, family, items_of

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "golden" / "redis_files" / "rdb.rdb"
YEARS = 100 * 365 * 86400


class Write(RedisTest):
    def made(self, client, add, key, numbers, cuckoo=False):
        items = items_of(key, numbers)
        add(items)
        return {"key": key, "cuckoo": cuckoo, "items": list(numbers)}

    def make(self, client):
        def bloom(key, *options, count):
            client.call("BF.RESERVE", key, *options)
            return self.made(client, lambda items: client.call("BF.MADD", key, *items), key, range(count))

        def cuckoo(key, *options, count, removed=0, copies=1):
            client.call("CF.RESERVE", key, *options)

            def add(items):
                for _ in range(copies):
                    client.call("CF.INSERT", key, "ITEMS", *items)
                for item in items_of(key, range(count, count + removed)):
                    client.call("CF.ADD", key, item)
                    client.call("CF.DEL", key, item)
            return self.made(client, add, key, range(count), True)
        client.call("CF.LOADCHUNK", "moved", 1, struct.pack("<4Q3H", 0, 256, 0, 1, 2, 20, 1))
        # RedisBloom's, on which Sepal's layers grow.
        client.call("BF.MADD", "default", *items_of("default", range(150, 600)))
        return [{"key": "default", "cuckoo": False, "items": list(range(600))},
                bloom("small", "0.01", 100, count=80),
                bloom("grown", "0.001", 50, "EXPANSION", 2, count=500),
                bloom("large", "0.01", 20_000, "NONSCALING", count=2000),
                bloom("last", "0.01", 1000, "LAST", count=500),
                bloom("window", "0.01", 300, "WINDOW", YEARS, "GENERATIONS", 2, "REFRESH", count=500),
                cuckoo("carts", 1000, "ERROR", "0.001", count=300, removed=50, copies=3),
                cuckoo("carts:grown", 50, count=2000),
                self.made(client, lambda items: client.call("CF.INSERT", "moved", "ITEMS", *items), "moved", range(700), True)]

    def pieces_of(self, client, filter):
        pieces, iterator = [], 0
        while True:
            try:
                iterator, piece = client.call(family(filter) + ".SCANDUMP", filter["key"], iterator)
            except Refused:
                return []  # a filter that forgets
            if iterator == 0:
                return pieces
            pieces.append([iterator, base64.b64encode(piece).decode("ascii")])

    def test_write(self):
        folder = pathlib.Path(os.environ["SEPAL_FOLDER"])
        folder.mkdir()
        directory = self.make_directory()
        pathlib.Path(directory, "dump.rdb").write_bytes(rdb_of_filters(RECORDED.read_bytes()))
        server = self.start(directory=directory)
        client = self.client_of(server)
        for key in client.call("KEYS", "*"):
            if key != b"default":
                client.call("DEL", key)
        for database in range(1, 16):
            client.call("SELECT", database)
            client.call("FLUSHDB")
        client.call("SELECT", 0)
        client.call("CONFIG", "SET", "aof-use-rdb-preamble", "no")
        client.call("CONFIG", "SET", "appendonly", "yes")

        def rewritten():
            self.eventually("the AOF is written", lambda: all(field(client.call("INFO", "persistence"), name) == "0" for name in ("aof_rewrite_in_progress", "aof_rewrite_scheduled")))
        rewritten()
        client.call("BGREWRITEAOF")
        rewritten()
        filters = self.make(client)
        for filter in filters:
            filter["count"] = count_of(client, filter, filter["key"])
            answers = client.call(family(filter) + ".MEXISTS", filter["key"], *ABSENT)
            filter["absent_hits_of_2000"] = [i for i, there in enumerate(answers) if there]
            filter["dump"] = base64.b64encode(client.call("DUMP", filter["key"])).decode("ascii")
            filter["pieces"] = self.pieces_of(client, filter)
        client.call("SAVE")
        server.stop()
        shutil.copy(os.path.join(directory, "dump.rdb"), folder)
        shutil.copytree(os.path.join(directory, "appendonlydir"), folder / "appendonlydir")
        (folder / "filters.json").write_text(json.dumps(filters, indent=1) + "\n", encoding="utf-8")
