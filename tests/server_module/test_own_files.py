"""What an earlier sepal.so has written is read by today's, and by sepald: dumps, pieces, RDB files and append-only files."""

import base64
import json
import os
import pathlib
import shutil

from redis_case import RedisTest

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden" / "sepal_files"
FILTERS = json.loads((FOLDER / "filters.json").read_text(encoding="utf-8"))
ABSENT = ["absent/%d" % i for i in range(2000)]


def items_of(key, numbers):
    return ["%s/%d" % (key, i) for i in numbers]


def family(filter):
    return "CF" if filter["cuckoo"] else "BF"


def count_of(client, filter, key):
    if not filter["cuckoo"]:
        return client.call("BF.CARD", key)
    told = client.call("CF.INFO", key)
    return told[told.index(b"Number of items inserted") + 1]


def load_pieces(client, filter, key):
    for iterator, piece in filter["pieces"]:
        answer = client.call(family(filter) + ".LOADCHUNK", key, iterator, base64.b64decode(piece))
        assert answer == b"OK", answer


class ReadTest(RedisTest):
    def check(self, client, filter, key):
        exists = family(filter) + ".MEXISTS"
        self.assertEqual(set(client.call(exists, key, *items_of(filter["key"], filter["items"]))), {1}, key)
        self.assertEqual([i for i, there in enumerate(client.call(exists, key, *ABSENT)) if there], filter["absent_hits_of_2000"], key)
        self.assertEqual(count_of(client, filter, key), filter["count"], key)

    def check_all(self, client):
        for filter in FILTERS:
            self.check(client, filter, filter["key"])

    def check_dumps(self, client):
        for filter in FILTERS:
            self.assertEqual(client.call("RESTORE", filter["key"], 0, base64.b64decode(filter["dump"])), b"OK", filter["key"])
            self.check(client, filter, filter["key"])
            if filter["pieces"]:
                load_pieces(client, filter, "pieces:" + filter["key"])
                self.check(client, filter, "pieces:" + filter["key"])

    def test_sepald_takes_dumps_and_pieces(self):
        self.check_dumps(self.client_of(self.start_sepald()))

    def test_dumps_and_pieces(self):
        self.check_dumps(self.client_of(self.start()))

    def test_an_rdb_file(self):
        directory = self.make_directory()
        shutil.copy(FOLDER / "dump.rdb", directory)
        self.check_all(self.client_of(self.start(directory=directory)))

    def test_an_append_only_file(self):
        directory = self.make_directory()
        shutil.copytree(FOLDER / "appendonlydir", os.path.join(directory, "appendonlydir"))
        self.check_all(self.client_of(self.start("--appendonly", "yes", directory=directory)))
