"""A server that answers what RedisBloom answered."""

import json
import os
import socketserver
import struct
import threading

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "redis_files")
TEXT = b"a text"
SMALL_DUMP = bytes.fromhex(
    "07813016e5a289bef8040203020102050202020a047b14ae47e17a743f020804e9862fb2350e26400240800200"
    "05101204000a005001202840208410c209010203000c00c715fdd011c49ffa")


# What CF.SCANDUMP answers for a filter of two buckets with the item "a": its header, and its slots.
CUCKOO_PIECES = {0: (1, struct.pack("<QQQQHHH", 1, 2, 0, 1, 2, 20, 1)), 1: (5, b"\0\0\xc4\0")}
# It says that it is larger than a payload may be.
CUCKOO_INFO = {"Size": 1 << 30, "Number of buckets": 2, "Number of filters": 1, "Number of items inserted": 1,
               "Number of items deleted": 0, "Bucket size": 2, "Expansion rate": 1, "Max iterations": 20}
KEYS = (b"small", b"large", b"cuckoo", b"changing", b"text", b"shorter", b"list", b"sketch")
TYPES = {b"text": b"string", b"shorter": b"string", b"list": b"list", b"sketch": b"TopK-TYPE", b"cuckoo": b"MBbloomCF",
         b"changing": b"MBbloomCF"}


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


def told(figures):
    return b"*%d\r\n" % (2 * len(figures)) + b"".join(b"+%s\r\n:%d\r\n" % (name.encode(), value) for name, value in figures.items())


class RedisBloom(socketserver.ThreadingTCPServer):
    """Two filters, two cuckoo filters, of which one changes all the time, a list, a sketch and two strings in database 0, of which
    one becomes shorter. It is older than PEXPIRETIME, as Redis 6 is."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Conversation)
        self.port = self.server_address[1]
        # What RedisBloom writes when it rewrites its append-only file is what BF.SCANDUMP answers.
        self.pieces = {}
        self.added = 0  # to the filter that changes
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
        return told(figures)

    def cuckoo_info(self, key):
        if key == b"changing":
            self.added += 1
        return told({**CUCKOO_INFO, "Number of items inserted": 1 + (self.added if key == b"changing" else 0)})

    def answer(self, words):
        name, key = words[0].upper(), words[1] if len(words) > 1 else b""
        if name == b"INFO":
            return bulk(b"# Keyspace\r\ndb0:keys=8,expires=1\r\n" if key == b"keyspace" else b"redis_mode:cluster\r\nrun_id:another\r\n")
        if name == b"BF.LOADCHUNK" and not key:
            return b"-ERR wrong number of arguments for 'BF.LOADCHUNK' command\r\n"
        if name == b"SCAN":
            return b"*2\r\n" + bulk(b"0") + b"*%d\r\n" % len(KEYS) + b"".join(map(bulk, KEYS))
        if name == b"TYPE":
            return b"+" + TYPES.get(key, b"MBbloom--") + b"\r\n"
        if name == b"STRLEN":
            return b":%d\r\n" % (len(TEXT) if key == b"text" else 100_000)
        if name in (b"GET", b"GETRANGE"):
            return bulk(TEXT)
        if name == b"PTTL":
            return b":1000000\r\n" if key == b"small" else b":-1\r\n"
        if name == b"DUMP":
            return bulk(SMALL_DUMP)
        if name == b"BF.SCANDUMP":
            return self.scan_dump(key, int(words[2]))
        if name == b"BF.INFO":
            wrong = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
            return wrong if key in TYPES else self.info(key)
        if name == b"CF.INFO":
            return self.cuckoo_info(key)
        if name == b"CF.SCANDUMP":
            after, piece = CUCKOO_PIECES.get(int(words[2]), (0, None))
            return b"*2\r\n:%d\r\n" % after + (b"$-1\r\n" if piece is None else bulk(piece))
        if name in (b"BF.MEXISTS", b"CF.MEXISTS"):
            return b"*%d\r\n" % (len(words) - 2) + b":1\r\n" * (len(words) - 2)
        return b"+OK\r\n" if name in (b"SELECT", b"PING") else b"-ERR unknown command\r\n"


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        while words := read_request(self.rfile):
            self.wfile.write(self.server.answer(words))
