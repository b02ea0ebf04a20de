"""The clients of the soak. Each kind is a class; each of its clients is a process of its own.

A client repeats step() until it is told to stop, or until the server is killed. It counts what it sent, and reports each
answer that is wrong. It forgets its items before it removes their key: the server may be killed before it answers.
"""

import collections
import contextlib
import http.client
import random
import socket
import ssl
import struct
import time

from client import Client, Refused
from daemon import encode

PASSWORD = "soak"
REPLY_SECONDS_MAX = 300
LOGINS_MAX = 20
# What a server may answer to any command that needs memory.
FULL = ("OOM ", "ERR Insufficient memory")

Place = collections.namedtuple("Place", "port tls_port http_port authority")


class Wrong(Exception):
    """The server has answered what it must not answer."""


def context_of(place):
    return ssl.create_default_context(cafile=place.authority)


class Actor:
    """One client. `sent` counts the requests that were answered; `items` has how many items each filter was given."""

    tls = False
    question = "BF.MEXISTS"  # asks whether the items of its filters are there

    def __init__(self, place, number):
        self.place, self.number = place, number
        self.random = random.Random("%s %d" % (type(self).__name__, number))
        self.sent = collections.Counter()
        self.items = {}
        self.unsure = 0  # scripts that were refused: some of their commands may have run
        self.name = "%s:%d" % (type(self).__name__.lower(), number)

    def socket(self, tls=False):
        port = self.place.tls_port if tls else self.place.port
        connection = socket.create_connection(("127.0.0.1", port), timeout=REPLY_SECONDS_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def connect(self):
        """A client that is logged in. On a busy machine a login may take longer than login_timeout: then it begins again."""
        for _ in range(LOGINS_MAX - 1):
            with contextlib.suppress(OSError):
                return self.log_in()
        return self.log_in()

    def log_in(self):
        connection = self.socket(self.tls)
        if self.tls:
            connection = context_of(self.place).wrap_socket(connection, server_hostname="localhost")
        client = Client(connection)
        client.call("AUTH", PASSWORD)
        return client

    def begin(self):
        self.client = self.connect()

    def run(self, stop):
        self.begin()
        while not stop.is_set():
            self.step()
        self.end()

    def end(self):
        self.client.close()

    def ask(self, *words):
        """The reply; None if the server had no room."""
        return self.pipeline([words])[0]

    def pipeline(self, requests):
        """The replies. A request that was refused for want of room has None."""
        replies = self.client.pipeline(requests)
        for at, (words, reply) in enumerate(zip(requests, replies)):
            if isinstance(reply, Refused):
                if not str(reply).startswith(FULL):
                    raise Wrong("%s answered %s" % (" ".join(map(str, words))[:200], reply))
                replies[at] = None
            else:
                self.sent[words[0].lower()] += 1
        return replies

    def expect(self, wanted, *words):
        reply = self.ask(*words)
        if reply is not None and reply != wanted:
            raise Wrong("%s answered %r in place of %r" % (" ".join(map(str, words))[:200], reply, wanted))

    def check_known(self, key, numbers):
        """All of these items have been added."""
        found = self.ask(self.question, key, *("item:%d" % number for number in numbers))
        if found is not None and not all(found):
            raise Wrong("false negative: %s lacks item:%d" % (key, list(numbers)[found.index(0)]))


class Adder(Actor):
    """Filters that grow over many layers, are asked, and are removed and begun anew."""

    filters = 4
    items_max = 60_000

    def step(self):
        key = "%s:%d" % (self.name, self.random.randrange(self.filters))
        first = self.items.get(key, 0)
        if first > self.items_max:
            self.items[key] = first = 0
            self.expect(1, "DEL", key)
        count = self.random.choice((1, 16, 200))
        items = ["item:%d" % number for number in range(first, first + count)]
        if self.random.random() < 0.5:
            replies = self.pipeline([("BF.ADD", key, item) for item in items])
        else:
            replies = self.ask("BF.MADD", key, *items) or [None]
        # An add that was refused for want of room ends what is known of the filter: those behind it may be lost.
        known = replies.index(None) if None in replies else count
        if self.random.random() < 0.01 and known == count and first == 0:
            self.ask("BF.RESERVE", key + ":reserved", "0.001", str(self.random.randrange(1, 100_000)))
            self.ask("DEL", key + ":reserved")
        self.items[key] = first + known
        if self.items[key]:
            self.check_known(key, [self.random.randrange(self.items[key]) for _ in range(20)])


class AdderOverTls(Adder):
    tls = True


class Rebuilder(Actor):
    """Rebuilds a filter while it is added to, by BF.MIRROR."""

    def begin(self):
        super().begin()
        self.items[self.name] = 0

    def add(self, key, first, count):
        return self.ask("BF.MADD", key, *("item:%d" % number for number in range(first, first + count))) is not None

    def step(self):
        known, following = self.items[self.name], self.name + ":next"
        if known > 20_000:
            known = self.items[self.name] = 0
            self.ask("DEL", self.name)
        if not self.add(self.name, known, 100):
            return
        self.ask("DEL", following)
        if self.ask("BF.RESERVE", following, "0.01", "1000") is None:
            self.items[self.name] += 100
            return
        self.expect(b"OK", "BF.MIRROR", self.name, following)
        filled = all([self.add(following, first, min(1000, known + 100 - first)) for first in range(0, known + 100, 1000)])
        added = self.add(self.name, known + 100, 50)
        if filled and added:
            self.expect(b"OK", "BF.MIRROR", self.name, "COMMIT")
        else:
            self.ask("BF.MIRROR", self.name, "OFF")
            self.ask("DEL", following)
        self.items[self.name] = known + (150 if added else 100)
        self.check_known(self.name, [self.random.randrange(self.items[self.name]) for _ in range(100)])


class Transactor(Actor):
    """Transactions that succeed, that are given up, and that fail because a watched key has changed."""

    def step(self):
        key, count = self.name, self.items.get(self.name, 0)
        kind = self.random.randrange(4)
        if kind == 0:
            self.client.pipeline([("MULTI",), ("BF.ADD", key, "never"), ("DISCARD",)])
            return
        if kind == 1:
            self.client.call("WATCH", key + ":watched")
            with self.connect() as other:
                other.call("SET", key + ":watched", "x")
            replies = self.client.pipeline([("MULTI",), ("BF.ADD", key, "never"), ("EXEC",)])
            if replies[-1] is not None:
                raise Wrong("EXEC ran although its watched key had changed")
            return
        requests = [("BF.ADD", key, "item:%d" % number) for number in range(count, count + 20)]
        asked = [("BF.EXISTS", key, "item:%d" % number) for number in range(count, count + 20)]
        *queued, replies = self.client.pipeline([("MULTI",), *requests, *asked, ("EXEC",)])
        if isinstance(replies, Refused):
            if not str(replies).startswith(("EXECABORT", *FULL)):
                raise Wrong("EXEC answered %s" % replies)
            return
        if replies[20:] != [1] * 20:
            raise Wrong("a transaction did not see its own adds: %r" % replies)
        self.sent["bf.add"] += 20
        self.sent["bf.exists"] += 20
        self.items[key] = count + 20
        if count > 50_000:
            self.items[key] = 0
            self.expect(1, "DEL", key)


CHECK_THEN_ADD = """
if redis.call('BF.EXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('BF.ADD', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[1])
return 1
"""
TOO_LARGE = "local t = {} for i = 1, 1e9 do t[i] = {i} end"


class Scripter(Actor):
    """Scripts: check then add, and scripts that take too much memory."""

    def begin(self):
        super().begin()
        self.sha = self.client.call("SCRIPT", "LOAD", CHECK_THEN_ADD)
        self.items[self.name] = 0

    def step(self):
        if self.random.random() < 0.002:
            reply = self.client.pipeline([("EVAL", TOO_LARGE, "0")])[0]
            if not isinstance(reply, Refused) or "memory" not in str(reply):
                raise Wrong("a script without an end was answered %r" % reply)
        count = self.items[self.name]
        if count > 30_000:
            self.items[self.name] = count = 0
            self.ask("DEL", self.name)
        requests = [("EVALSHA", self.sha, "2", self.name, self.name + ":last", "item:%d" % number)
                    for number in range(count, count + 16)]
        replies = self.client.pipeline(requests)
        self.sent["bf.exists"] += sum(isinstance(reply, int) for reply in replies)
        self.sent["bf.add"] += replies.count(1)
        known = next((at for at, reply in enumerate(replies) if not isinstance(reply, int)), len(replies))
        self.items[self.name] = count + known
        for reply in replies[known:]:
            if not isinstance(reply, Refused):
                continue
            if not str(reply).startswith(FULL) and "OOM" not in str(reply):
                raise Wrong("a script answered %s" % reply)
            self.unsure += 1


class Bits(Actor):
    """Strings, beside a model of their bits."""

    def begin(self):
        super().begin()
        self.bits, self.size = set(), 1 << 20
        self.ask("DEL", self.name)

    def step(self):
        if self.random.random() < 0.001:
            self.ask("DEL", self.name)
            self.bits.clear()
        offsets = [self.random.randrange(self.size) for _ in range(30)]
        for offset, before in zip(offsets, self.pipeline([("SETBIT", self.name, offset, "1") for offset in offsets])):
            if before is None:
                continue
            if before != (offset in self.bits):
                raise Wrong("bit %d was %r" % (offset, before))
            self.bits.add(offset)
        self.expect(len(self.bits), "BITCOUNT", self.name)
        offset = self.random.randrange(self.size)
        self.expect(int(offset in self.bits), "GETBIT", self.name, offset)


class Expirer(Actor):
    """Keys with deadlines. None is there after its deadline."""

    def step(self):
        keys = ["%s:%d" % (self.name, number) for number in range(50)]
        self.pipeline([("BF.ADD", key, "item") for key in keys])
        self.pipeline([("SET", key + ":string", "x" * 1000, "PX", 150) for key in keys])
        self.pipeline([("PEXPIRE", key, self.random.randrange(1, 200)) for key in keys])
        time.sleep(0.4)
        there = self.pipeline([("EXISTS", key, key + ":string") for key in keys])
        if any(there):
            raise Wrong("%d keys are there after their deadline" % sum(map(bool, there)))


class Storm(Actor):
    """Many connections at once: some ask, some are not logged in, some break off, some stick in a TLS handshake."""

    count = 60

    def begin(self):
        pass

    def end(self):
        pass

    def step(self):
        connections = [self.socket(tls=number % 4 == 0) for number in range(self.count)]
        for number, connection in enumerate(connections):
            try:
                connection.sendall((b"\x16\x03\x01", encode("PING"), encode("AUTH", PASSWORD) + encode("PING"),
                                    b"*2\r\n$4\r\nAUTH\r\n$100000\r\nxxx")[number % 4])
            except ConnectionError:
                pass
        time.sleep(self.random.random() * 0.2)
        for connection in connections:
            if self.random.random() < 0.5:  # a reset in place of an end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        time.sleep(0.1)


class SlowReader(Actor):
    """Asks for many dumps of a large filter, and does not read them for a while, or ever."""

    def step(self):
        self.ask("BF.RESERVE", self.name, "0.01", "4000000") if not self.client.call("EXISTS", self.name) else None
        with self.connect() as slow:
            slow.send(*[("DUMP", self.name)] * 20)
            time.sleep(self.random.random() * 2)
            try:
                for _ in range(self.random.choice((0, 5, 20))):
                    slow.receive()
            except (ConnectionError, socket.timeout):
                pass  # it held most, and was closed


class Hostile(Actor):
    """Bytes at random, and requests with bytes changed. An answer is an error or the end of the connection."""

    requests = [encode("GETBIT", "hostile", "7"), encode("HELLO", "3"), encode("CLIENT", "INFO"), encode("TTL", "hostile"),
                encode("BF.INFO", "hostile"), encode("BF.LOADCHUNK", "hostile:chunk", "1", b"\0" * 100),
                encode("RESTORE", "hostile:restored", "0", b"\x05\x10" + b"\0" * 60), encode("OBJECT", "ENCODING", "x")]

    def begin(self):
        pass

    def end(self):
        pass

    def bytes(self):
        if self.random.random() < 0.3:
            return self.random.randbytes(self.random.randrange(1, 5000))
        data = bytearray(b"".join(self.random.choices(self.requests, k=20)))
        for _ in range(self.random.randrange(1, 6)):
            data[self.random.randrange(len(data))] = self.random.randrange(256)
        return bytes(data[:self.random.randrange(1, len(data))])

    def step(self):
        with self.socket() as connection:
            connection.settimeout(0.05)
            try:
                if self.random.random() < 0.8:
                    connection.sendall(encode("AUTH", PASSWORD))
                connection.sendall(self.bytes())
                while connection.recv(65536):
                    pass
            except (socket.timeout, ConnectionError):
                pass


class Operator(Actor):
    """Saves, copies, looks into the server, and changes its settings."""

    policies = ("always", "everysec")

    def begin(self):
        super().begin()
        self.watching = None

    def page(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.place.http_port, timeout=REPLY_SECONDS_MAX)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise Wrong("GET %s answered %d" % (path, answer.status))
        return body

    def step(self):
        actions = [
            lambda: self.client.pipeline([("BGSAVE",)]),
            lambda: self.client.pipeline([("BGREWRITEAOF",)]),
            lambda: self.ask("CONFIG", "SET", "appendfsync", self.random.choice(self.policies)),
            lambda: self.ask("INFO", "all"),
            lambda: self.ask("CLIENT", "LIST"),
            lambda: self.ask("SLOWLOG", "GET"),
            lambda: self.ask("MEMORY", "DOCTOR"),
            lambda: self.client.pipeline([("COPY", "adder:0:0", "operator:copy", "REPLACE"), ("DEL", "operator:copy")]),
            lambda: self.expect(None, "BF.RESERVE", "operator:huge", "0.01", "1000000000"),
            lambda: self.page("/metrics"),
            lambda: self.page("/"),
            lambda: self.page("/api/filters"),
            lambda: self.page("/readyz"),
            self.watch,
        ]
        self.random.choice(actions)()
        time.sleep(0.1)

    def watch(self):
        """Begins to watch all requests, or ends it."""
        if self.watching is not None:
            self.watching.close()
            self.watching = None
            return
        self.watching = self.connect()
        self.watching.call("MONITOR")

    def end(self):
        if self.watching is not None:
            self.watching.close()
        super().end()


class CarefulOperator(Operator):
    """An operator of a server that may be killed: each answered change is on the disk."""

    policies = ("always",)


class Probe(Actor):
    """Asks one question at a time, and notes how long each answer took."""

    def begin(self):
        super().begin()
        self.seconds = []
        self.client.call("DEL", "probe")
        if self.ask("BF.ADD", "probe", "item:0") is not None:
            self.items["probe"] = 1

    def step(self):
        begun = time.monotonic()
        self.expect(1 if self.items else 0, "BF.EXISTS", "probe", "item:0")
        self.seconds.append(time.monotonic() - begun)
        time.sleep(0.002)


KINDS = (Adder, Adder, AdderOverTls, Rebuilder, Transactor, Scripter, Bits, Expirer, Storm, SlowReader, Hostile, Operator, Probe)
