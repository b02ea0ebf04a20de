"""kill -9 again and again, while clients add to filters with a window. No answered add is denied within its time, and counts are right.

SEPAL_KILL_ROUNDS sets the number of kills. SEPAL_KILL_SEED repeats a run as far as possible.
"""

import collections
import itertools
import os
import random
import threading
import time

from client import Client, Refused
from daemon import EXACT_RATE, DaemonTest, say, sized

ROUNDS = int(os.environ.get("SEPAL_KILL_ROUNDS", sized("4", "10")))
SEED = int(os.environ.get("SEPAL_KILL_SEED", str(random.randrange(1 << 32))))
LOAD_SECONDS = sized((0.05, 0.3), (0.05, 0.9))

# The filters are so small that they grow in each round.
ERROR_RATE, CAPACITY = EXACT_RATE, 100
LONG_SECONDS, SHORT_SECONDS, GENERATIONS = 100_000_000, 4, 4
LAST_ITEMS = 200
# A time of the test is in seconds, and a server counts milliseconds.
ROUNDING_SECONDS = 0.01
# The words of each filter, and how long it keeps an item.
KINDS = {
    b"long": (("WINDOW", LONG_SECONDS), LONG_SECONDS),
    b"long:renewed": (("WINDOW", LONG_SECONDS, "REFRESH"), LONG_SECONDS),
    b"short": (("WINDOW", SHORT_SECONDS), SHORT_SECONDS),
    b"short:renewed": (("WINDOW", SHORT_SECONDS, "REFRESH"), SHORT_SECONDS),
}
# A filter is new in each of so many rounds, so that rounds do not take longer and longer.
ROUNDS_OF_A_FILTER = 5
CLIENTS = 8
# Two clients add the same items.
TWINS = 2
BATCH = 40
QUESTIONS = 1000
SETTINGS = ((), ("--journal", "always"), ("--journal-segment", "2mb", "--journal-save-min", "2mb"))


class Known:
    """What clients know of an item. An add takes place between the time before it was sent and the time behind its answer."""

    def __init__(self):
        self.new = []  # (before, behind) of the adds that were answered 1
        self.last_before = None  # the last answered add
        self.last_behind = 0.0  # behind the last add, answered or not

    def take(self, before, behind, answer):
        """`answer` is None where none came: then `behind` is a time behind the kill."""
        self.last_behind = max(self.last_behind, behind)
        if answer is not None:
            self.last_before = max(before, self.last_before or before)
        if answer == 1:
            self.new.append((before, behind))

    def kept_until(self, seconds, renewed):
        """The item is there until then at least. None: it may have been forgotten."""
        if renewed:
            return None if self.last_before is None else self.last_before + seconds
        return max((before for before, _ in self.new), default=-seconds) + seconds if self.new else None

    def forgotten_at(self, seconds):
        return self.last_behind + seconds * (1 + 1 / GENERATIONS)

    def told_new_twice(self, seconds):
        adds = sorted(self.new)
        return any(later[1] < earlier[0] + seconds for earlier, later in itertools.pairwise(adds))


class Adder(threading.Thread):
    """Adds new items, some that it has added lately, and some that its twin adds as well, until the server dies."""

    def __init__(self, daemon, keys, number, rng):
        super().__init__()
        self.client = Client.of(daemon)
        self.keys = keys
        self.twins = number // TWINS
        self.random = rng
        self.numbers = itertools.count(rng.randrange(1 << 40))
        self.adds = []  # (kind, item, before, behind, answer)
        self.asked = []  # (kind, item, before) of adds that have no answer

    def batch(self, recent):
        items = [b"%d:%d" % (self.twins, self.random.randrange(1 << 12)) for _ in range(BATCH // 4)]
        items += [b"%d:%d" % (self.twins, next(self.numbers)) for _ in range(BATCH // 2)]
        return items + self.random.choices(recent, k=BATCH // 4) if recent else items

    def requests(self, kind, key, items):
        style = self.random.choice(("add", "madd", "insert"))
        if style == "add":
            return [("BF.ADD", key, item) for item in items]
        if style == "madd":
            return [("BF.MADD", key, *items)]
        return [("BF.INSERT", key, "ERROR", ERROR_RATE, "CAPACITY", CAPACITY, *KINDS[kind][0], "ITEMS", *items)]

    def run(self):
        recent = collections.defaultdict(lambda: collections.deque(maxlen=2000))
        try:
            while True:
                kind = self.random.choice(list(KINDS))
                items = self.batch(recent[kind])
                recent[kind].extend(items)
                before = time.time()
                self.asked = [(kind, item, before) for item in items]
                replies = self.client.pipeline(self.requests(kind, self.keys[kind], items))
                answers = replies if len(replies) == len(items) else replies[0]
                behind = time.time()
                self.adds += [(kind, item, before, behind, answer) for item, answer in zip(items, answers)]
                self.asked = []
        except OSError:
            self.client.close()


class LastAdder(threading.Thread):
    """Adds the numbers from `first` on to a filter of the last items, one after the other."""

    def __init__(self, daemon, key, first):
        super().__init__()
        self.client = Client.of(daemon)
        self.key = key
        self.answered = self.sent = first
        self.wrong = []

    def run(self):
        try:
            while True:
                self.sent = self.answered + BATCH
                replies = self.client.pipeline([("BF.ADD", self.key, number) for number in range(self.answered, self.sent)])
                self.wrong += [reply for reply in replies if reply != 1]
                self.answered = self.sent
        except OSError:
            self.client.close()


class WindowKillTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.counts = collections.Counter()
        self.known = {}  # kind -> item -> Known
        self.last = 0  # so many numbers are in the filter of the last items, or were

    def reserve(self, daemon, number):
        """Makes new filters when their time has come."""
        if number % ROUNDS_OF_A_FILTER == 0:
            self.keys = {kind: b"%s:%d" % (kind, number) for kind in KINDS}
            self.known = {kind: collections.defaultdict(Known) for kind in KINDS}
        with Client.of(daemon) as client:
            if number == 0:
                client.call("BF.RESERVE", "last", ERROR_RATE, LAST_ITEMS, "LAST")
            for kind, key in self.keys.items():
                if number % ROUNDS_OF_A_FILTER == 0:
                    client.call("BF.RESERVE", key, ERROR_RATE, CAPACITY, *KINDS[kind][0])
                self.assertEqual(client.call("TYPE", key), b"SPbloomWF")

    def ask(self, client, key, items):
        """Which of them it knows. Its count must be theirs, unless some are forgotten meanwhile."""
        items = list(items)
        requests = [("BF.MEXISTS", key, *items[at:at + QUESTIONS]) for at in range(0, len(items), QUESTIONS)]
        count, *answers, count_behind = client.pipeline([("BF.CARD", key), *requests, ("BF.CARD", key)])
        present = [answer for some in answers for answer in some]
        if count == count_behind:
            self.counts["counted"] += 1
            self.assertEqual(sum(present), count, key)
        return dict(zip(items, present))

    def check_kind(self, client, kind):
        seconds, renewed = KINDS[kind][1], b"renewed" in kind
        known = self.known[kind]
        before = time.time()
        present = self.ask(client, self.keys[kind], known)
        behind = time.time()
        for item, its in known.items():
            self.assertFalse(its.told_new_twice(seconds), (kind, item, its.new))
            until = its.kept_until(seconds, renewed)
            if until is not None and behind < until:
                self.counts[kind.decode() + " kept"] += 1
                self.assertEqual(present[item], 1, (kind, item, vars(its)))
            elif before > its.forgotten_at(seconds) + ROUNDING_SECONDS:
                self.counts[kind.decode() + " forgotten"] += 1
                self.assertEqual(present[item], 0, (kind, item, vars(its)))

    def check_last(self, client, sent):
        """`self.last` numbers were answered, and some of the next ones up to `sent` may be there."""
        first = max(0, self.last - 2 * LAST_ITEMS)
        present = self.ask(client, "last", range(first, sent))
        while present.get(self.last):
            self.last += 1
        self.assertFalse(any(present[number] for number in range(self.last, sent)))
        kept = range(max(0, self.last - LAST_ITEMS), self.last)
        self.assertEqual([number for number in kept if not present[number]], [])
        generation = -(-LAST_ITEMS // GENERATIONS)
        self.assertFalse(any(present[number] for number in range(first, self.last - LAST_ITEMS - generation)))
        self.counts["last kept"] += len(kept)

    def load_and_kill(self, daemon):
        adders = [Adder(daemon, self.keys, number, random.Random(self.random.random())) for number in range(CLIENTS)]
        last = LastAdder(daemon, "last", self.last)
        for worker in (*adders, last):
            worker.start()
        for _ in range(2):
            time.sleep(self.random.uniform(*LOAD_SECONDS) / 2)
            with Client.of(daemon) as client:
                try:
                    client.call("BGSAVE")
                except Refused:
                    pass  # one runs
        daemon.kill()
        killed = time.time()
        for worker in (*adders, last):
            worker.join()
        for adder in adders:
            for kind, item, before, behind, answer in adder.adds:
                self.known[kind][item].take(before, behind, answer)
                self.counts["new" if answer == 1 else "known"] += 1
                self.assertIn(answer, (0, 1))
            for kind, item, before in adder.asked:
                self.known[kind][item].take(before, killed, None)
            self.counts["unanswered"] += len(adder.asked)
        self.assertEqual(last.wrong, [])
        self.last = last.answered
        return last.sent

    def check(self, daemon, sent):
        with Client.of(daemon) as client:
            for kind in KINDS:
                self.check_kind(client, kind)
                layers = dict(zip(*[iter(client.call("BF.INFO", self.keys[kind]))] * 2))[b"Number of filters"]
                self.counts["layers"] += layers
            self.check_last(client, sent)

    def test_no_answered_add_is_denied_within_its_time(self):
        say("SEPAL_KILL_SEED=%d" % SEED)
        began = time.monotonic()
        sent = 0
        for number in range(ROUNDS):
            daemon = self.start("--threads", "2", *SETTINGS[number % len(SETTINGS)])
            if number > 0:
                self.check(daemon, sent)
            self.reserve(daemon, number)
            sent = self.load_and_kill(daemon)
        daemon = self.start("--threads", "2")
        self.check(daemon, sent)
        self.assertEqual(daemon.stop(), 0)
        self.check(self.start("--threads", "2"), self.last)
        say("%d kills in %.1f s, nothing lost: %s" % (ROUNDS, time.monotonic() - began, dict(self.counts)))
