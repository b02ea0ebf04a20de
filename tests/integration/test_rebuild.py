"""Filters are rebuilt with BF.MIRROR while other clients add to them and ask them, also if the server dies meanwhile.

SEPAL_REBUILD_ITEMS sets the size of the filter (the long run has 10000000), SEPAL_REBUILD_KILLS the number of kills of
the server. SEPAL_REBUILD_SEED repeats a run as far as possible.
"""

import multiprocessing
import os
import random
import threading
import time

from client import Client, Refused
from daemon import EXACT_RATE, Daemon, DaemonTest, say, sized
from workload import ERROR_RATE, Adder, merged, present_of

ITEMS = int(os.environ.get("SEPAL_REBUILD_ITEMS", sized("40000", "200000")))
KILLS = int(os.environ.get("SEPAL_REBUILD_KILLS", sized("4", "8")))
SEED = int(os.environ.get("SEPAL_REBUILD_SEED", str(random.randrange(1 << 32))))

PROCESSES = 4
CONNECTIONS = 5  # of each process
BATCH = 50
# The first item that connections add, and the distance between the items of two connections.
ADDED_FROM = 100_000_000
APART = 10_000_000
QUIET_SECONDS = sized(0.2, 2)
FEED_BATCH = 1000
PIECE = 100_000

KEY, NEXT = b"users", b"users:next"


def feed(client, key, numbers, depth=8):
    """Adds the numbers of a list or range, several requests at a time."""
    for at in range(0, len(numbers), depth * FEED_BATCH):
        some = numbers[at:at + depth * FEED_BATCH]
        for reply in client.pipeline([("BF.MADD", key, *(b"%d" % number for number in some[first:first + FEED_BATCH]))
                                      for first in range(0, len(some), FEED_BATCH)]):
            if isinstance(reply, Refused) or any(isinstance(item, Refused) for item in reply):
                raise AssertionError("an add to %r was refused: %r" % (key, reply))


def missing(client, key, numbers):
    """How many numbers of a list or range the filter does not know."""
    count = 0
    for at in range(0, len(numbers), PIECE):
        items = {b"%d" % number for number in numbers[at:at + PIECE]}
        count += len(items) - len(present_of(client, key, list(items)))
    return count


class Traffic(multiprocessing.Process):
    """Connections that add new items and ask for known ones, one batch after the other, at full speed.

    They ask only for items that a rebuild keeps: the even numbers below ITEMS, and the added items. `sent` counts for
    each connection how many of its numbers were ever sent. A rebuild finds these in its source."""

    def __init__(self, address, number, sent, phase):
        super().__init__(daemon=True)
        self.address, self.number, self.sent, self.phase = address, number, sent, phase
        self.results = multiprocessing.Queue()

    def run(self):
        chooser = random.Random(SEED + self.number)
        clients = [Client.of(self.address) for _ in range(CONNECTIONS)]
        answered = [0] * CONNECTIONS
        denied, refused, durations = 0, 0, {}
        while self.phase.value >= 0:
            phase = self.phase.value
            for index, client in enumerate(clients):
                first = self.first(index) + answered[index]
                self.sent[self.number * CONNECTIONS + index] = answered[index] + BATCH
                known = [b"%d" % (2 * chooser.randrange(ITEMS // 2)) for _ in range(BATCH)]
                known += [b"%d" % (self.first(index) + chooser.randrange(answered[index]))
                          for _ in range(BATCH if answered[index] else 0)]
                requests = [("BF.ADD", KEY, b"%d" % number) for number in range(first, first + BATCH)]
                began = time.perf_counter()
                *added, present = client.pipeline([*requests, ("BF.MEXISTS", KEY, *known)])
                durations.setdefault(phase, []).append(time.perf_counter() - began)
                refused += sum(isinstance(reply, Refused) for reply in added)
                denied += present.count(0)
                answered[index] += BATCH
        for client in clients:
            client.close()
        self.results.put((answered, denied, refused, durations))

    def first(self, index):
        return ADDED_FROM + (self.number * CONNECTIONS + index) * APART


def milliseconds(durations, share):
    return 1000 * sorted(durations)[min(len(durations) - 1, int(len(durations) * share))]


class Address:
    """The parts of a daemon that Client.of() needs, for other processes."""

    def __init__(self, port):
        self.port = port

    connect = Daemon.connect


class RebuildTest(DaemonTest):
    def test_nothing_is_lost_or_denied_while_a_filter_is_rebuilt_under_load(self):
        daemon = self.start("--threads", "2")
        client = Client.of(daemon, self)
        client.call("BF.RESERVE", KEY, "0.001", ITEMS + ITEMS // 2)
        feed(client, KEY, range(ITEMS))
        sent = multiprocessing.Array("Q", PROCESSES * CONNECTIONS)
        phase = multiprocessing.Value("i", 0)
        traffic = [Traffic(Address(daemon.port), number, sent, phase) for number in range(PROCESSES)]
        for process in traffic:
            process.start()
        time.sleep(QUIET_SECONDS)
        phase.value = 1
        began = time.monotonic()
        self.rebuild(client, sent)
        seconds = time.monotonic() - began
        phase.value = 2
        time.sleep(QUIET_SECONDS)
        phase.value = -1
        results = [process.results.get() for process in traffic]
        for process in traffic:
            process.join()
        self.check(client, results)
        for number, name in ((0, "before"), (1, "during"), (2, "behind")):
            durations = [each for result in results for each in result[3].get(number, [])]
            say("%s the rebuild: %d batches, ms at 50%% %.2f, 99%% %.2f, 99.9%% %.2f, worst %.2f" % (
                name, len(durations), *(milliseconds(durations, share) for share in (0.5, 0.99, 0.999, 1))))
        added_count = sum(sum(result[0]) for result in results)
        say("%d items rebuilt in %.1f s; %d were added in all" % (ITEMS // 2, seconds, added_count))

    def rebuild(self, client, sent):
        """Adds the items of the source: the even numbers, and the items that were sent before the mirror began."""
        client.call("BF.RESERVE", NEXT, "0.001", ITEMS)
        self.assertEqual(client.call("BF.MIRROR", KEY, NEXT), b"OK")
        before = list(sent)
        feed(client, NEXT, range(0, ITEMS, 2))
        for index, count in enumerate(before):
            feed(client, NEXT, range(ADDED_FROM + index * APART, ADDED_FROM + index * APART + count))
        status = client.call("BF.MIRROR", KEY)
        self.assertEqual(status[5], b"whole")
        self.assertEqual(client.call("BF.MIRROR", KEY, "COMMIT"), b"OK")

    def check(self, client, results):
        self.assertIsNone(client.call("BF.MIRROR", KEY))
        self.assertEqual([result[1:3] for result in results], [(0, 0)] * PROCESSES, "denied or refused")
        self.assertEqual(missing(client, KEY, range(0, ITEMS, 2)), 0)
        for number, (answered, *_) in enumerate(results):
            for index, count in enumerate(answered):
                first = ADDED_FROM + (number * CONNECTIONS + index) * APART
                self.assertEqual(missing(client, KEY, range(first, first + count)), 0)
        gone = range(1, ITEMS, 2)
        self.assertLess(len(gone) - missing(client, KEY, gone), len(gone) // 100, "what was deleted is still found")


class NotedAdder(Adder):
    """Notes an item before it adds it, as an application does in its database."""

    sent_until = None

    def send_each(self, connection, items):
        self.sent_until = items[-1] + 1
        super().send_each(connection, items)

    def send_array(self, connection, items):
        self.sent_until = items[-1] + 1
        super().send_array(connection, items)


class Rebuild(threading.Thread):
    """Rebuilds the filter once, unless the server dies before."""

    def __init__(self, client, keys, capacity, kept_items, adders):
        super().__init__()
        self.client, self.keys, self.capacity = client, keys, capacity
        self.kept_items, self.adders = kept_items, adders
        self.source = []
        self.mirrored, self.committed = False, False
        self.committing = threading.Event()

    def run(self):
        try:
            self.rebuild(*self.keys)
        except OSError:
            pass
        finally:
            self.client.close()

    def rebuild(self, key, following):
        self.client.call("BF.RESERVE", following, ERROR_RATE, self.capacity)
        self.client.call("BF.MIRROR", key, following)
        self.source = [*self.kept_items]
        for index, adder in enumerate(self.adders):
            first = ADDED_FROM + index * APART
            self.source += range(first, adder.sent_until or first)
        self.mirrored = True
        feed(self.client, following, self.source)
        self.committing.set()
        self.client.call("BF.MIRROR", key, "COMMIT")
        self.committed = True


def grown_capacities(capacity):
    """Of a filter that was made with this capacity, and whose layers double: quick adders may let it grow."""
    return [capacity * (2 ** layers - 1) for layers in range(1, 6)]


class KilledRebuildTest(DaemonTest):
    """The server is killed before, during or after the COMMIT. The filter is the whole old one or the whole new one, and
    has all answered items. If the mirror still exists, its target has all items that were added since it began."""

    old_items, kept_items = range(0, 4000), range(0, 4000, 2)
    old_capacity, new_capacity = sized((200_000, 220_000), (1_000_000, 1_100_000))
    adders_count = 4

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.arguments = ("--threads", "2", "--journal-segment", "2mb", "--journal-save-min", "2mb")

    def test_the_filter_is_the_old_one_or_the_new_one_whenever_the_server_dies(self):
        say("SEPAL_REBUILD_SEED=%d" % SEED)
        counts = {"old": 0, "new": 0, "mirrored": 0}
        for number in range(KILLS):
            self.run_and_kill(number, counts)
        say("%d kills, nothing lost: %s" % (KILLS, counts))

    def run_and_kill(self, number, counts):
        key, following = b"k:%d" % number, b"k:%d:next" % number
        daemon = self.start(*self.arguments)
        client = Client.of(daemon)
        client.call("BF.RESERVE", key, ERROR_RATE, self.old_capacity)
        feed(client, key, self.old_items)
        adders = [NotedAdder(daemon, Adder.styles[at % 4], key, ADDED_FROM + at * APART)
                  for at in range(self.adders_count)]
        for adder in adders:
            adder.start()
        time.sleep(0.1)
        rebuild = Rebuild(client, (key, following), self.new_capacity, self.kept_items, adders)
        rebuild.start()
        if number % 2:
            rebuild.committing.wait(10)
            time.sleep(self.random.uniform(0, 0.002))
        else:
            time.sleep(self.random.uniform(0, 0.1))
        daemon.kill()
        rebuild.join()
        for adder in adders:
            adder.finish()
        self.check(number, key, following, rebuild, merged(adders)[key], counts)

    def check(self, number, key, following, rebuild, answers, counts):
        daemon = self.start(*self.arguments)
        with Client.of(daemon) as client:
            self.assertFalse(answers.refused)
            answered = [int(item) for item in answers.new + answers.known]
            sent = [int(item) for item in answers.unanswered]
            capacity = client.call("BF.INFO", key, "CAPACITY")[0]
            is_new = capacity in grown_capacities(self.new_capacity)
            self.assertTrue(is_new or capacity in grown_capacities(self.old_capacity), capacity)
            if rebuild.committed:
                self.assertTrue(is_new, "a COMMIT that was answered is undone")
            if not rebuild.committing.is_set():
                self.assertFalse(is_new)
            self.assertEqual(missing(client, key, answered), 0, "lost")
            base = self.kept_items if is_new else self.old_items
            self.assertEqual(missing(client, key, base), 0)
            present = present_of(client, key, [b"%d" % item for item in [*answered, *sent, *self.old_items]])
            self.assertEqual(client.call("BF.CARD", key), len(present), "not whole")
            counts["new" if is_new else "old"] += 1
            if is_new:
                self.assertFalse(client.call("EXISTS", following))
            elif rebuild.mirrored:
                counts["mirrored"] += 1
                self.check_mirror(client, key, following, rebuild, answered)
            client.call("FLUSHALL")
        daemon.kill()

    def check_mirror(self, client, key, following, rebuild, answered):
        status = client.call("BF.MIRROR", key)
        self.assertEqual(status[1], following)
        self.assertEqual(status[5], b"whole")
        # The mirror goes on: after the items of the source are added, no item is missing.
        feed(client, following, rebuild.source)
        client.call("BF.MADD", key, b"one more")
        self.assertEqual(client.call("BF.MIRROR", key, "COMMIT"), b"OK")
        self.assertEqual(missing(client, key, answered), 0, "lost by the mirror")
        self.assertEqual(client.call("BF.EXISTS", key, b"one more"), 1)


class FullSourceTest(DaemonTest):
    def test_a_mirror_keeps_what_its_full_source_refuses_also_after_a_kill(self):
        daemon = self.start("--threads", "1")
        client = Client.of(daemon)
        old = ["old%d" % number for number in range(100)]
        client.call("BF.RESERVE", "users", EXACT_RATE, len(old), "NONSCALING")
        client.call("BF.MADD", "users", *old)
        with self.assertRaisesRegex(Refused, "^ERR non scaling filter is full$"):
            client.call("BF.ADD", "users", "refused")
        self.assertEqual(client.call("BF.RESERVE", "users:next", EXACT_RATE, 200, "NONSCALING"), b"OK")
        self.assertEqual(client.call("BF.MIRROR", "users", "users:next"), b"OK")
        refused = "ERR non scaling filter is full, but the target of its mirror has the item"
        replies = client.call("BF.MADD", "users", "old1", "new1", "new2")
        self.assertEqual([str(reply) for reply in replies], ["0", refused, refused])
        # Nothing that the target took is lost with the process.
        client.close()
        daemon.kill()
        daemon = self.start("--threads", "1", directory=daemon.directory)
        client = Client.of(daemon, self)
        with self.assertRaisesRegex(Refused, refused):
            client.call("BF.ADD", "users", "new3")
        client.call("BF.MADD", "users:next", *old)
        self.assertEqual(client.call("BF.MIRROR", "users", "COMMIT"), b"OK")
        self.assertEqual(set(client.call("BF.MEXISTS", "users", *old, "new1", "new2", "new3")), {1})
        self.assertEqual(client.call("BF.ADD", "users", "new4"), 1)
