"""The clients of the soak for the kinds of value beside plain Bloom filters and strings."""

import collections
import time

from client import Refused
from clients import Actor, Wrong


def refused(replies):
    """Whether a request, or one of its items, was refused for want of room."""
    return replies is None or any(isinstance(reply, Refused) for reply in replies)


class Deleter(Actor):
    """A filter that deletes: some items stay, the others come and go."""

    question = "CF.MEXISTS"
    stay_max = 30_000
    gone_max = 2_000

    def begin(self):
        super().begin()
        self.here, self.next = collections.deque(), 0

    def step(self):
        stay = self.items.get(self.name, 0)
        if stay > self.stay_max:
            self.items[self.name] = stay = 0
            self.here.clear()
            self.expect(1, "DEL", self.name)
        added = self.ask("CF.INSERT", self.name, "CAPACITY", "1000", "ITEMS", *("item:%d" % number for number in range(stay, stay + 20)))
        if refused(added):
            return
        if added != [1] * 20:
            raise Wrong("CF.INSERT answered %r" % added)
        self.items[self.name] = stay + 20
        fresh = ["guest:%d" % number for number in range(self.next, self.next + 50)]
        self.next += 50
        if not refused(self.ask("CF.INSERT", self.name, "NOCREATE", "ITEMS", *fresh)):
            self.here.extend(fresh)
        if self.here:
            guests = [self.here[self.random.randrange(len(self.here))] for _ in range(10)]
            found = self.ask("CF.MEXISTS", self.name, *guests)
            if found is not None and not all(found):
                raise Wrong("false negative: %s lacks %s" % (self.name, guests[found.index(0)]))
        if len(self.here) > self.gone_max:
            gone = [self.here.popleft() for _ in range(self.gone_max // 2)]
            if self.ask("CF.MDEL", self.name, *gone) not in ([1] * len(gone), None):
                raise Wrong("CF.MDEL did not find an item that was added")
        self.check_known(self.name, [self.random.randrange(stay + 20) for _ in range(20)])


class Forgetter(Actor):
    """A filter that forgets: an item is found for the window, and has gone some time after it."""

    window = 3.0
    items_a_step = 40
    rate = 0.01

    def begin(self):
        super().begin()
        self.added = collections.deque()  # (when the request was sent, when the answer came, the items)
        self.next = 0
        self.long = self.name + ":long"

    def step(self):
        fresh = ["item:%d" % number for number in range(self.next, self.next + self.items_a_step)]
        self.next += self.items_a_step
        sent = time.monotonic()
        replies = self.ask("BF.INSERT", self.name, "ERROR", self.rate, "CAPACITY", "5000", "WINDOW", self.window, "REFRESH", "ITEMS", *fresh)
        if not refused(replies):
            self.added.append((sent, time.monotonic(), fresh))
        if self.added:
            sent, answered, items = self.random.choice(self.added)
            begun = time.monotonic()
            found = self.ask("BF.MEXISTS", self.name, *items)
            if found is not None and time.monotonic() - sent < self.window and not all(found):
                raise Wrong("%s lacks an item that was added %.2f s before" % (self.name, time.monotonic() - sent))
            # A generation is a quarter of the window. A window more is for a machine that stood still.
            if found is not None and begun - answered > 2.25 * self.window and sum(found) > len(found) / 4:
                raise Wrong("%s has %d of %d items, %.2f s after they were added" % (self.name, sum(found), len(found), begun - answered))
        while self.added and time.monotonic() - self.added[0][1] > 4 * self.window:
            self.added.popleft()
        known = self.items.get(self.long, 0)
        replies = self.ask("BF.INSERT", self.long, "CAPACITY", "20000", "WINDOW", "864000", "ITEMS", *("item:%d" % number for number in range(known, known + 5)))
        if not refused(replies):
            self.items[self.long] = known + 5
        time.sleep(0.01)


class Uniter(Actor):
    """Filters that are united, and one question to all of them."""

    parts = 3
    items_max = 800  # for all parts together, so that the union keeps its rate

    def step(self):
        keys = ["%s:%d" % (self.name, number) for number in range(self.parts)]
        union = self.name + ":all"
        self.items.pop(union, None)
        self.ask("DEL", union, *keys)
        made = [self.ask("BF.RESERVE", key, "0.01", "1000") for key in keys]
        share = self.random.randrange(1, self.items_max // self.parts)
        for number, key in enumerate(keys):
            items = ["item:%d" % item for item in range(number * share, (number + 1) * share)]
            if made[number] is None or refused(self.ask("BF.MADD", key, *items)):
                return
        if self.ask("BF.MERGE", union, len(keys), *keys) is None:
            return
        self.items[union] = share * self.parts
        self.check_known(union, range(self.items[union]))
        found = self.ask("BF.FIND", len(keys), *keys, "ITEMS", *("item:%d" % (number * share) for number in range(self.parts)))
        if found is not None and any(not 1 <= at <= number + 1 for number, at in enumerate(found)):
            raise Wrong("BF.FIND answered %r" % found)


class Crowd(Actor):
    """Thousands of small filters, each with a deadline of its own."""

    keys_a_step = 200
    seconds_max = 20

    def begin(self):
        super().begin()
        self.next = 0
        self.there = collections.deque()  # (the key, a time before its deadline, a time after it)

    def step(self):
        keys = ["%s:%d" % (self.name, number) for number in range(self.next, self.next + self.keys_a_step)]
        self.next += self.keys_a_step
        made = self.pipeline([("BF.INSERT", key, "CAPACITY", "100", "ITEMS", "item") for key in keys])
        lives = [self.random.uniform(1, self.seconds_max) for _ in keys]
        sent = time.monotonic()
        set_ = self.pipeline([("PEXPIRE", key, int(life * 1000)) for key, life in zip(keys, lives)])
        answered = time.monotonic()
        self.there.extend((key, sent + life - 0.1, answered + life) for key, life, one, two in zip(keys, lives, made, set_) if one and two)
        asked = [self.there[self.random.randrange(len(self.there))] for _ in range(100)] if self.there else []
        begun = time.monotonic()
        found = self.pipeline([("BF.EXISTS", key, "item") for key, _, _ in asked])
        ended = time.monotonic()
        for (key, until, after), there in zip(asked, found):
            if there == 0 and ended < until:
                raise Wrong("%s has gone %.2f s before its deadline" % (key, until - ended))
            if there == 1 and begun > after + 1:
                raise Wrong("%s is there %.2f s after its deadline" % (key, begun - after))
        while self.there and self.there[0][2] < begun - self.seconds_max:
            self.there.popleft()
        time.sleep(0.05)


KINDS = (Deleter, Forgetter, Uniter, Crowd)
