"""Strings in the real daemon: kill -9 under load and while saves run, a stop without a journal, and the tools.

SEPAL_KILL_ROUNDS sets the number of kills. SEPAL_KILL_SEED repeats a run as far as possible.
"""

import collections
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from client import Client, Refused
from daemon import DaemonTest, sized
from workload import Saver, Worker

ROUNDS = int(os.environ.get("SEPAL_KILL_ROUNDS", sized("3", "6")))
SEED = int(os.environ.get("SEPAL_KILL_SEED", str(random.randrange(1 << 32))))
SEPAL = os.environ["SEPAL"]
LOAD_SECONDS = (0.1, 0.8)
SETTINGS = (
    ("--journal", "always"),
    # Segments end and saves begin many times in a round.
    ("--journal", "always", "--journal-segment", "2mb", "--journal-save-min", "2mb"),
    (),
)

# All setters set bits of one string. It is sparse, and grows now and then.
SHARED_BITS = 8 * 600_000
BATCH = 40
SCRIPT_BITS = 14
SET_BITS = ("for _, offset in ipairs(ARGV) do redis.call('SETBIT', KEYS[1], offset, 1) end "
            "return #ARGV")
# Longer than one record of the journal.
LONG_PIECE = 70_000


def bit_of(data, position):
    byte = position // 8
    return byte < len(data) and data[byte] >> (7 - position % 8) & 1


class Setter(Worker):
    """Sets bits of a string that other setters use as well."""

    def __init__(self, daemon, key, seed):
        super().__init__(daemon)
        self.key = key
        self.random = random.Random(seed)
        self.answered, self.sent = set(), set()

    def work(self, connection):
        client = Client(connection)
        while not self.stopping.is_set():
            positions = [self.random.randrange(SHARED_BITS) for _ in range(BATCH)]
            self.sent.update(positions)
            client.send(*(("SETBIT", self.key, position, 1) for position in positions))
            for position in positions:
                reply = client.receive()
                if reply not in (0, 1):
                    raise AssertionError("SETBIT was answered %r" % reply)
                self.answered.add(position)


class ScriptSetter(Worker):
    """Adds to a filter as go-zero does: a script sets the bits. No two scripts set the same bit."""

    def __init__(self, daemon, key):
        super().__init__(daemon)
        self.key = key
        self.firsts = itertools.count(0, SCRIPT_BITS)
        self.answered, self.unanswered = [], None

    def work(self, connection):
        client = Client(connection)
        while not self.stopping.is_set():
            self.unanswered = next(self.firsts)
            client.call("EVAL", SET_BITS, 1, self.key, *self.bits(self.unanswered))
            self.answered.append(self.unanswered)
            self.unanswered = None

    @staticmethod
    def bits(first):
        return [number * 7919 % 1_000_003 for number in range(first, first + SCRIPT_BITS)]


class Writer(Worker):
    """Changes strings of its own in every way, and knows what they must be after each answer."""

    keys = (b"one", b"two", b"three")

    def __init__(self, daemon, prefix, seed, state):
        super().__init__(daemon)
        self.prefix = prefix
        self.random = random.Random(seed)
        self.state = state
        self.unanswered = collections.deque()
        self.answered_count = 0

    def name(self, key):
        return b"%s:%s" % (self.prefix, key)

    def work(self, connection):
        client = Client(connection)
        while not self.stopping.is_set():
            changes = [self.draw() for _ in range(self.random.randrange(1, 6))]
            self.unanswered.extend(changes)
            client.send(*(self.request(change) for change in changes))
            while self.unanswered:
                reply = client.receive()
                if isinstance(reply, Refused):
                    raise AssertionError("%r was answered %s" % (self.unanswered[0][:2], reply))
                self.state = self.apply(self.state, self.unanswered.popleft())
                self.answered_count += 1

    def some_bytes(self):
        count = LONG_PIECE if self.random.random() < 0.1 else self.random.randrange(1, 60)
        return self.random.randbytes(count)

    def draw(self):
        one, other = self.random.sample(self.keys, 2)
        kind = self.random.choice(("SETBIT", "SETBIT", "SETBIT", "SETRANGE", "APPEND", "SET", "BITOP", "BITFIELD", "COPY",
                                   "RENAME", "DEL", "MSET"))
        if kind == "SETBIT":
            return kind, one, self.random.randrange(6000), self.random.randrange(2)
        if kind == "SETRANGE":
            far = self.random.random() < 0.1
            return kind, one, self.random.randrange(300_000 if far else 1000), self.some_bytes()
        if kind == "BITFIELD":
            return kind, one, self.random.randrange(1000), self.random.randrange(256)
        if kind in ("APPEND", "SET"):
            return kind, one, self.some_bytes()
        if kind == "MSET":
            return kind, one, self.some_bytes(), other, self.some_bytes()
        return kind, one, other

    def request(self, change):
        kind, one, *rest = change
        if kind == "BITOP":
            return "BITOP", "NOT", self.name(one), self.name(rest[0])
        if kind == "BITFIELD":
            return "BITFIELD", self.name(one), "SET", "u8", rest[0] * 8, rest[1]
        if kind == "COPY":
            return "COPY", self.name(one), self.name(rest[0]), "REPLACE"
        if kind == "RENAME":
            # Atomic, and no error if the key is not there.
            return ("EVAL", "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end return 1",
                    2, self.name(one), self.name(rest[0]))
        if kind == "DEL":
            return "DEL", self.name(one)
        if kind == "MSET":
            return "MSET", self.name(one), rest[0], self.name(rest[1]), rest[2]
        return (kind, self.name(one), *rest)

    @staticmethod
    def apply(state, change):
        kind, one, *rest = change
        after = dict(state)
        data = state.get(one, b"")

        def write(offset, part):
            after[one] = data[:offset].ljust(offset, b"\0") + part + data[offset + len(part):]

        if kind == "SETBIT":
            position, value = rest
            byte = data[position // 8] if position // 8 < len(data) else 0
            mask = 0x80 >> position % 8
            write(position // 8, bytes([byte | mask if value else byte & ~mask]))
        elif kind == "SETRANGE":
            write(*rest)
        elif kind == "BITFIELD":
            write(rest[0], bytes([rest[1]]))
        elif kind == "APPEND":
            after[one] = data + rest[0]
        elif kind == "SET":
            after[one] = rest[0]
        elif kind == "MSET":
            after[one], after[rest[1]] = rest[0], rest[2]
        elif kind == "DEL":
            after.pop(one, None)
        elif kind == "BITOP":
            source = state.get(rest[0], b"")
            after[one] = bytes(byte ^ 0xff for byte in source)
            if not source:
                del after[one]
        elif one in state:
            after[rest[0]] = data
            if kind == "RENAME":
                del after[one]
        return after

    def possible_states(self):
        states = [self.state]
        for change in self.unanswered:
            states.append(self.apply(states[-1], change))
        return states

    def observed(self, client):
        values = client.call("MGET", *(self.name(key) for key in self.keys))
        return {key: value for key, value in zip(self.keys, values) if value is not None}


class StringKillTest(DaemonTest):
    def test_no_answered_change_of_a_string_is_lost(self):
        print("SEPAL_KILL_SEED=%d" % SEED, file=sys.stderr, flush=True)
        randoms = random.Random(SEED)
        states = {b"writer:%d" % number: [{}] for number in range(3)}
        daemon = self.start("--threads", "2", *SETTINGS[0])
        for number in range(ROUNDS):
            setters = [Setter(daemon, b"shared:%d" % number, randoms.random()) for _ in range(4)]
            script = ScriptSetter(daemon, b"script:%d" % number)
            writers = [Writer(daemon, prefix, randoms.random(), state) for prefix, (state,) in states.items()]
            workers = [*setters, script, *writers, Saver(daemon)]
            for worker in workers:
                worker.start()
            time.sleep(randoms.uniform(*LOAD_SECONDS))
            daemon.kill()
            for worker in workers:
                worker.finish()
            daemon = self.start("--threads", "2", *SETTINGS[(number + 1) % len(SETTINGS)])
            with Client.of(daemon) as client:
                self.check_shared(client, b"shared:%d" % number, setters)
                self.check_script(client, script)
                for writer in writers:
                    states[writer.prefix] = [self.checked_state(client, writer)]
                client.call("DEL", b"shared:%d" % number, b"script:%d" % number)

    def check_shared(self, client, key, setters):
        data = client.call("GET", key) or b""
        answered = set().union(*(setter.answered for setter in setters))
        sent = set().union(*(setter.sent for setter in setters))
        lost = [position for position in answered if not bit_of(data, position)]
        self.assertEqual(lost, [], "%d of %d bits are lost" % (len(lost), len(answered)))
        count = sum(1 for position in sent if bit_of(data, position))
        self.assertEqual(client.call("BITCOUNT", key), count, "bits are set that no client set")

    def check_script(self, client, script):
        data = client.call("GET", script.key) or b""
        for first in script.answered:
            for position in script.bits(first):
                self.assertTrue(bit_of(data, position), "a bit of an answered script is lost")
        if script.unanswered is not None:
            bits = [bit_of(data, position) for position in script.bits(script.unanswered)]
            self.assertIn(sum(bits), (0, SCRIPT_BITS), "a script was half done")

    def checked_state(self, client, writer):
        observed = writer.observed(client)
        if observed not in writer.possible_states():
            lengths = [{key: len(value) for key, value in state.items()} for state in writer.possible_states()]
            self.fail("%r has strings of no moment: lengths %r; possible are %r, after %d changes"
                      % (writer.prefix, {key: len(value) for key, value in observed.items()}, lengths,
                         writer.answered_count))
        return observed


class StringStopTest(DaemonTest):
    def test_a_stop_without_a_journal_saves_the_bits_that_were_set(self):
        daemon = self.start("--journal", "off")
        with Client.of(daemon) as client:
            client.call("SETBIT", "bits", 100, 0)
            client.save()
            client.call("SETBIT", "bits", 5, 1)
        self.assertEqual(daemon.stop(), 0)
        with Client.of(self.start("--journal", "off")) as client:
            self.assertEqual(client.call("GETBIT", "bits", 5), 1)


class StringToolsTest(DaemonTest):
    """What the tools say about strings, and a salvage of them."""

    own_file = "generation-000000000001/filter-1-0"

    def setUp(self):
        super().setUp()
        self.import_folder = tempfile.mkdtemp(prefix="sepal-test-")
        self.addCleanup(shutil.rmtree, self.import_folder)
        daemon = self.start("--journal", "always", "--import-dir", self.import_folder)
        with Client.of(daemon) as client:
            # Long enough for a file of its own.
            client.call("SETBIT", "long", 80_000_000, 1)
            client.call("SET", "short", "hello", "EX", 10_000)
            client.call("BF.ADD", "filter", "item")
            client.save()
            client.call("SETBIT", "long", 9, 1)
            client.call("APPEND", "short", "!")
            client.call("SETRANGE", "new", 3, "abc")
        daemon.kill()

    def sepal(self, *arguments):
        done = subprocess.run([SEPAL, *arguments], capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def path(self, name):
        return os.path.join(self.directory, name)

    def test_the_tools_tell_strings_from_filters(self):
        self.assertEqual(self.sepal("verify", self.directory)[0], 0)
        code, text = self.sepal("verify", self.path(self.own_file))
        self.assertEqual((code, text), (0, "fine      %s has a string of 10000001 bytes\n" % self.path(self.own_file)))
        code, text = self.sepal("inspect", self.path(self.own_file))
        self.assertEqual(code, 0)
        self.assertIn('string offset=32 database=0 key="long" length=10000001 ', text)
        self.assertNotIn("error_rate", text)
        code, text = self.sepal("merge", self.path(self.own_file), self.path(self.own_file), "-o", self.path("merged"))
        self.assertEqual(code, 1)
        self.assertIn("%s holds a string; only filters can be merged" % self.path(self.own_file), text)
        self.assertFalse(os.path.exists(self.path("merged")))

    def test_a_string_is_not_imported_as_a_filter(self):
        shutil.copy(self.path(self.own_file), os.path.join(self.import_folder, "string.sepal"))
        with Client.of(self.start("--import-dir", self.import_folder)) as client:
            with self.assertRaisesRegex(Refused, "string.sepal holds a string instead of a filter"):
                client.call("BF.IMPORT", "imported", "string.sepal")
            with self.assertRaisesRegex(Refused, "WRONGTYPE"):
                client.call("BF.EXPORT", "long", "other.sepal")
            self.assertEqual(client.call("EXISTS", "imported"), 0)

    def test_a_salvage_keeps_strings(self):
        into = os.path.join(self.import_folder, "salvaged")
        code, text = self.sepal("salvage", self.directory, "--into", into)
        self.assertEqual(code, 0, text)
        self.directory = into
        with Client.of(self.start()) as client:
            self.assertEqual(client.call("GET", "short"), b"hello!")
            self.assertEqual(client.call("GET", "new"), b"\0\0\0abc")
            self.assertEqual(client.call("BITCOUNT", "long"), 2)
            self.assertEqual(client.call("GETBIT", "long", 80_000_000), 1)
            self.assertGreater(client.call("TTL", "short"), 9000)
