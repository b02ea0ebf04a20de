"""Clients that make changes as fast as they can and remember every answer, and checks of the filters afterwards.

An item whose add was answered, with 1 or with 0, must be found again, whatever happened to the server since. The count
of a filter must be the number of items that it knows. An answered change of keys must hold. A change without an answer
is done completely or not at all. The requests of one connection are run in order, so the keys must be in the state after
the answered requests and some of the unanswered ones.
"""

import collections
import itertools
import threading

from client import Client, Refused
from daemon import EXACT_RATE, encode

ERROR_RATE = EXACT_RATE
DAEMON_ARGUMENTS = ("--bf-error-rate", ERROR_RATE)

BATCH = 50
SMALL_KEYS = 200
QUESTIONS = 1000


class Answers:
    """The answers to the adds to one key."""

    def __init__(self):
        self.new, self.known, self.refused, self.unanswered = [], [], [], []

    def extend(self, other):
        self.new += other.new
        self.known += other.known
        self.refused += other.refused
        self.unanswered += other.unanswered

    def take(self, item, line):
        {b":1": self.new, b":0": self.known}.get(line, self.refused).append(item)

    def answered(self):
        return len(self.new) + len(self.known)


def merged(workers):
    """key -> Answers of all these adders."""
    merge = collections.defaultdict(Answers)
    for worker in workers:
        for key, answers in worker.answers.items():
            merge[key].extend(answers)
    return merge


class Worker(threading.Thread):
    """Works on its own connection until it is stopped or the server dies."""

    def __init__(self, daemon):
        super().__init__()
        self.daemon_process = daemon
        self.stopping = threading.Event()
        self.failure = None

    def run(self):
        try:
            with self.daemon_process.connect() as connection:
                self.work(connection)
        except OSError:
            pass
        except Exception as failure:
            self.failure = failure

    def finish(self):
        self.stopping.set()
        self.join()
        if self.failure:
            raise self.failure


class Adder(Worker):
    """Adds the numbers from `first` on, in one of the ways of `styles`. `refusals` has the texts of the errors it got."""

    styles = ("single", "pipeline", "madd", "insert", "spread")

    def __init__(self, daemon, style, prefix, first, pause_seconds=0):
        super().__init__(daemon)
        self.pause_seconds = pause_seconds
        self.style = style
        self.prefix = prefix
        self.numbers = itertools.count(first)
        self.answers = collections.defaultdict(Answers)
        self.refusals = set()

    def key(self, item):
        return b"%s:small:%d" % (self.prefix, item % SMALL_KEYS) if self.style == "spread" else self.prefix

    def work(self, connection):
        batch = 1 if self.style == "single" else BATCH
        send = self.send_array if self.style in ("madd", "insert") else self.send_each
        while not self.stopping.wait(self.pause_seconds):
            send(connection, list(itertools.islice(self.numbers, batch)))

    def send_each(self, connection, items):
        """Sends a request for each item, all at once."""
        left = collections.deque(items)
        try:
            connection.sendall(b"".join(encode(b"BF.ADD", self.key(item), item) for item in items))
            for line in lines(connection, lambda: len(left)):
                item = left.popleft()
                self.answers[self.key(item)].take(item, line)
                self.note(line)
        finally:
            for item in left:
                self.answers[self.key(item)].unanswered.append(item)

    def send_array(self, connection, items):
        """Sends all items in one request. They count as answered only when the whole reply has come."""
        answers = self.answers[self.prefix]
        words = [b"BF.MADD", self.prefix] if self.style == "madd" else [b"BF.INSERT", self.prefix, b"ITEMS"]
        replies = []
        try:
            connection.sendall(encode(*words, *items))
            for line in lines(connection, lambda: 1 + len(items) - len(replies)):
                replies.append(line)
                if replies[0].startswith(b"-"):
                    replies += replies * len(items)
        finally:
            if len(replies) <= len(items):
                answers.unanswered += items
        for item, line in zip(items, replies[1:]):
            answers.take(item, line)
            self.note(line)

    def note(self, line):
        if line.startswith(b"-"):
            self.refusals.add(line.decode())


def lines(connection, wanted):
    """Reads lines of replies until `wanted` returns that there are enough. Raises ConnectionError if the server died."""
    rest = b""
    while wanted() > 0:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError("closed")
        *whole, rest = (rest + piece).split(b"\r\n")
        yield from whole


class Saver(Worker):
    """Asks for one save after the other."""

    pause_seconds = 0.01

    def work(self, connection):
        client = Client(connection)
        while not self.stopping.wait(self.pause_seconds):
            client.pipeline([("BGSAVE",)])


class Rotator(Worker):
    """Renames a filter again and again while adders add to its key. The filter stays under another key."""

    pause_seconds = 0.04

    def __init__(self, daemon, key):
        super().__init__(daemon)
        self.key = key
        self.count = 0

    def work(self, connection):
        client = Client(connection)
        while not self.stopping.wait(self.pause_seconds):
            client.pipeline([("RENAME", self.key, b"%s:%d" % (self.key, self.count))])
            self.count += 1


class Structure(Worker):
    """Creates, deletes, renames and flushes the keys of its own database, and knows the right answers.

    A state is a dict: key -> (capacity, items). Each filter has another capacity, so it is recognised under any key.
    """

    keys = ("a", "b", "c", "d", "e", "f")
    items = tuple("item:%d" % number for number in range(8))
    default_capacity = 100
    capacities = itertools.count(1000)

    def __init__(self, daemon, database, random, state):
        super().__init__(daemon)
        self.database = database
        self.random = random
        self.state = state
        self.unanswered = collections.deque()
        self.answered_count = 0

    def work(self, connection):
        client = Client(connection)
        client.call("SELECT", self.database)
        while not self.stopping.is_set():
            requests = [self.draw() for _ in range(self.random.randrange(1, 9))]
            self.unanswered.extend(requests)
            client.send(*requests)
            while self.unanswered:
                self.check(client.receive())

    def draw(self):
        one, other = self.random.choice(self.keys), self.random.choice(self.keys)
        kind = self.random.random()
        if kind < 0.3:
            return ("BF.RESERVE", one, ERROR_RATE, str(next(self.capacities)), "NONSCALING")
        if kind < 0.7:
            return ("BF.ADD", one, self.random.choice(self.items))
        if kind < 0.8:
            return ("DEL", one, other)
        if kind < 0.9:
            return ("RENAME", one, other)
        return ("RENAMENX", one, other) if kind < 0.98 else ("FLUSHDB",)

    def check(self, reply):
        request = self.unanswered[0]
        after, expected = self.apply(self.state, request)
        if (str(reply) if isinstance(reply, Refused) else reply) != expected:
            raise AssertionError("%r was answered %r, not %r; before it: %r" % (request, reply, expected, self.state))
        self.state = after
        self.unanswered.popleft()
        self.answered_count += 1

    @classmethod
    def apply(cls, state, request):
        """The state after a request, and its reply."""
        name, *keys = request
        after = dict(state)
        if name == "FLUSHDB":
            return {}, b"OK"
        key = keys[0]
        if name == "BF.RESERVE":
            if key in state:
                return state, "ERR item exists"
            after[key] = (int(keys[2]), frozenset())
            return after, b"OK"
        if name == "BF.ADD":
            capacity, items = state.get(key, (cls.default_capacity, frozenset()))
            after[key] = (capacity, items | {keys[1]})
            return after, 0 if keys[1] in items else 1
        if name == "DEL":
            return {name: filter for name, filter in state.items() if name not in keys}, len(state.keys() & set(keys))
        if key not in state:
            return state, "ERR no such key"
        if name == "RENAMENX" and keys[1] in state:
            return state, 0
        after[keys[1]] = after.pop(key)
        return after, 1 if name == "RENAMENX" else b"OK"

    def possible_states(self):
        """The states after the answered requests and any number of the others."""
        states = [self.state]
        for request in self.unanswered:
            states.append(self.apply(states[-1], request)[0])
        return states

    def observed(self, client):
        client.call("SELECT", self.database)
        state = {}
        for key in self.keys:
            capacity = client.pipeline([("BF.INFO", key, "CAPACITY")])[0]
            if isinstance(capacity, Refused):
                continue
            present = client.call("BF.MEXISTS", key, *self.items)
            items = frozenset(itertools.compress(self.items, present))
            state[key] = (capacity[0], items)
            count = client.call("BF.CARD", key)
            if count != len(items):
                raise AssertionError("%s counts %d items and knows %d" % (key, count, len(items)))
        client.call("SELECT", 0)
        return state


def present_of(client, key, items):
    """The items of `items` that the filter knows."""
    parts = [items[at:at + QUESTIONS] for at in range(0, len(items), QUESTIONS)]
    present = set()
    for part in parts:
        present.update(itertools.compress(part, client.call("BF.MEXISTS", key, *part)))
    return present


def check_rotated(test, client, key, answers):
    """Checks that each answered item is in exactly one filter: the one under `key`, or one that was renamed from it."""
    sent = answers.new + answers.known + answers.unanswered
    test.assertEqual(answers.known, [], "items that were sent once were known")
    present, counted = set(), 0
    for name in client.call("KEYS", key + b"*"):
        here = present_of(client, name, sent)
        test.assertEqual(len(here), client.call("BF.CARD", name), "%r counts other items than it knows" % name)
        counted += len(here)
        present |= here
    lost = set(answers.new) - present
    test.assertEqual(len(lost), 0, "%r lost %d of %d answered items, such as %r"
                     % (key, len(lost), len(answers.new), sorted(lost)[:3]))
    test.assertEqual(counted, len(present), "an item is in two of the filters that were %r" % key)


def check_filter(test, client, key, answers):
    """Checks that the filter under `key` holds all answered items, and counts the items that it holds."""
    sent = list(set(answers.new) | set(answers.known) | set(answers.unanswered) | set(answers.refused))
    present = present_of(client, key, sent)
    lost = (set(answers.new) | set(answers.known)) - present
    test.assertEqual(len(lost), 0, "%r lost %d of %d answered items, such as %r"
                     % (key, len(lost), answers.answered(), sorted(lost)[:3]))
    test.assertEqual(len(answers.new), len(set(answers.new)), "an item of %r was new twice" % key)
    count = client.call("BF.CARD", key) if present else 0
    test.assertEqual(count, len(present), "%r counts other items than it knows" % key)
    test.assertGreaterEqual(count, len(answers.new))
    test.assertLessEqual(count, len(answers.new) + len(set(answers.unanswered) - set(answers.new)))
