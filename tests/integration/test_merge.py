"""Filters are merged and shrunk while clients add to them, also if the server dies meanwhile.

SEPAL_MERGE_KILLS is the number of kills of the server. SEPAL_MERGE_SEED repeats a run as far as possible.
"""

import os
import random
import threading
import time

from client import Client, Refused
from daemon import DaemonTest, say, sized
from workload import present_of

KILLS = int(os.environ.get("SEPAL_MERGE_KILLS", sized("10", "25")))
SEED = int(os.environ.get("SEPAL_MERGE_SEED", str(random.randrange(1 << 32))))

RATE = "0.01"
CAPACITY = 2_000_000
ITEMS = sized(4000, 20_000)
BATCH = 200
ADDERS = 3
ADDED_FROM = 100_000_000
APART = 10_000_000
D, S1, S2, NEW = b"d", b"s:1", b"s:2", b"new"
SHRUNK = CAPACITY // 4
# So long that nothing is forgotten during a test.
WINDOW = (b"WINDOW", b"3600")


def feed(client, key, numbers):
    for at in range(0, len(numbers), 1000):
        reply = client.call("BF.MADD", key, *(b"%d" % number for number in numbers[at:at + 1000]))
        if isinstance(reply, Refused):
            raise AssertionError("an add to %r was refused: %r" % (key, reply))


def found(client, key, numbers):
    return sum(len(present_of(client, key, [b"%d" % number for number in numbers[at:at + 5000]]))
               for at in range(0, len(numbers), 5000))


class Adder(threading.Thread):
    """Adds its own numbers to a filter, one by one or in batches, and counts those that were answered."""

    def __init__(self, daemon, index):
        super().__init__()
        self.client, self.index = Client.of(daemon), index
        self.first = ADDED_FROM + index * APART
        self.answered, self.error, self.ended = 0, None, threading.Event()

    def run(self):
        try:
            while not self.ended.is_set():
                numbers = range(self.first + self.answered, self.first + self.answered + BATCH)
                words = [b"%d" % number for number in numbers]
                requests = [("BF.MADD", D, *words)] if self.index % 2 else [("BF.ADD", D, word) for word in words]
                replies = self.client.pipeline(requests)
                refused = [reply for reply in replies if isinstance(reply, Refused)]
                if refused:
                    self.error = refused[0]
                    return
                self.answered += BATCH
        except OSError:
            pass
        finally:
            self.client.close()

    def numbers(self):
        return range(self.first, self.first + self.answered)


class MergeCase(DaemonTest):
    arguments = ("--threads", "2", "--journal-segment", "4mb", "--journal-save-min", "4mb")

    def reserve(self, client, *options):
        for key in D, S1, S2:
            self.assertEqual(client.call("BF.RESERVE", key, RATE, CAPACITY, *options), b"OK")
        feed(client, S1, range(ITEMS))
        feed(client, S2, range(ITEMS // 2, 2 * ITEMS))

    def begin_save(self, client):
        """BGSAVE, after the save that the server has begun by itself, if there is one."""
        self.eventually("no save begins", lambda: client.pipeline([("BGSAVE",)])[0] == b"Background saving started")

    def make(self, client, *words):
        """Until it is done. Where adders fill the filter meanwhile, it is refused, and nothing is done."""
        def is_made():
            reply = client.pipeline([words])[0]
            if isinstance(reply, Refused) and str(reply).endswith("meanwhile: try again"):
                return False
            self.assertEqual(reply, b"OK")
            return True
        self.eventually("it is refused again and again", is_made)

    def begin_adders(self, daemon):
        adders = [Adder(daemon, index) for index in range(ADDERS)]
        for adder in adders:
            adder.start()
        return adders

    def end(self, adders):
        for adder in adders:
            adder.ended.set()
            adder.join()
            self.assertIsNone(adder.error)

    def check_added(self, client, adders):
        for adder in adders:
            self.assertEqual(found(client, D, adder.numbers()), adder.answered, "an answered add is lost")


class LoadTest(MergeCase):
    def test_no_added_item_is_lost_while_filters_are_merged_shrunk_and_saved(self):
        daemon = self.start(*self.arguments)
        client = Client.of(daemon, self)
        self.reserve(client)
        adders = self.begin_adders(daemon)
        self.make(client, "BF.MERGE", D, 2, S1, S2)
        self.begin_save(client)
        self.make(client, "BF.MERGE", D, 1, S1)
        self.make(client, "BF.SHRINK", D, SHRUNK)
        self.make(client, "BF.MERGE", NEW, 2, S1, S2)
        time.sleep(0.1)
        self.end(adders)
        self.check_added(client, adders)
        self.assertEqual(found(client, D, range(2 * ITEMS)), 2 * ITEMS)
        self.assertEqual(found(client, NEW, range(2 * ITEMS)), 2 * ITEMS)
        capacity = client.call("BF.INFO", D, "CAPACITY")
        card = client.call("BF.CARD", D)
        self.assertEqual(daemon.stop(), 0)
        daemon = self.start(*self.arguments)
        client = Client.of(daemon, self)
        self.check_added(client, adders)
        self.assertEqual(found(client, D, range(2 * ITEMS)), 2 * ITEMS)
        self.assertEqual(client.call("BF.INFO", D, "CAPACITY"), capacity)
        self.assertEqual(client.call("BF.CARD", D), card)

    def test_no_added_item_is_lost_while_windows_are_merged_and_saved(self):
        daemon = self.start(*self.arguments)
        client = Client.of(daemon, self)
        self.reserve(client, *WINDOW)
        adders = self.begin_adders(daemon)
        self.make(client, "BF.MERGE", D, 2, S1, S2)
        self.begin_save(client)
        self.make(client, "BF.MERGE", D, 1, S1)
        self.make(client, "BF.MERGE", NEW, 2, S1, S2)
        time.sleep(0.1)
        self.end(adders)
        card = client.call("BF.CARD", D)
        for _ in range(2):
            self.check_added(client, adders)
            for key in D, NEW:
                self.assertEqual(found(client, key, range(2 * ITEMS)), 2 * ITEMS)
            self.assertEqual(client.call("BF.CARD", D), card)
            self.assertEqual(daemon.stop(), 0)
            daemon = self.start(*self.arguments)
            client = Client.of(daemon, self)

    def test_a_client_that_leaves_ends_its_merge_and_the_filter_can_be_merged_again(self):
        daemon = self.start(*self.arguments)
        client = Client.of(daemon, self)
        self.reserve(client)
        for _ in range(20):
            leaving = Client.of(daemon)
            leaving.send(("BF.MERGE", D, 2, S1, S2))
            leaving.close()
        self.assertEqual(client.call("BF.MERGE", D, 2, S1, S2), b"OK")
        self.assertEqual(client.call("BF.SHRINK", D, SHRUNK), b"OK")


class LongNameTest(DaemonTest):
    def test_a_key_of_the_greatest_length_is_shrunk_and_merged_and_is_there_after_a_kill(self):
        key = b"k" * 65536
        daemon = self.start("--journal", "always")
        client = Client.of(daemon, self)
        for capacity in (100_000, 2_000_000):  # at once, and by a thread beside the workers
            self.assertEqual(client.call("BF.RESERVE", key, RATE, capacity), b"OK")
            self.assertEqual(client.call("BF.ADD", key, "item"), 1)
            self.assertEqual(client.call("BF.SHRINK", key, capacity // 4), b"OK")
            self.assertEqual(client.call("BF.MERGE", key, 1, key), b"OK")
            daemon.kill()
            daemon = self.start("--journal", "always")
            client = Client.of(daemon, self)
            self.assertLess(client.call("BF.INFO", key, "CAPACITY")[0], capacity)
            self.assertEqual(client.call("BF.EXISTS", key, "item"), 1)
            self.assertEqual(client.call("DEL", key), 1)


class KilledMergeTest(MergeCase):
    """A merge and a fold are there whole or not at all, and each answered add is there."""

    def test_each_is_whole_or_not_there_whenever_the_server_dies(self):
        say("SEPAL_MERGE_SEED=%d" % SEED)
        chooser = random.Random(SEED)
        counts = {}
        for number in range(KILLS):
            self.kill_once(number, chooser, counts)
        say("%d kills, nothing lost: %s" % (KILLS, counts))

    def kill_once(self, number, chooser, counts):
        directory = os.path.join(self.directory, str(number))
        daemon = self.start(*self.arguments, directory=directory)
        client = Client.of(daemon)
        to_itself, to_new = ("BF.MERGE", D, 2, S1, S2), ("BF.MERGE", NEW, 2, S1, S2)
        request, options = [(to_itself, ()), (("BF.SHRINK", D, SHRUNK), ()), (to_new, ()),
                            (to_itself, WINDOW), (to_new, WINDOW)][number % 5]
        self.reserve(client, *options)
        adders = self.begin_adders(daemon)
        answers = []
        asking = threading.Thread(target=self.ask, args=(client, request, answers))
        asking.start()
        time.sleep(chooser.uniform(0, 0.04))
        daemon.kill()
        asking.join()
        for adder in adders:
            adder.ended.set()
            adder.join()
        daemon = self.start(*self.arguments, directory=directory)
        client = Client.of(daemon, self)
        self.check_added(client, adders)
        done = self.look(client, request)
        if answers:
            self.assertEqual(answers, [b"OK"])
            self.assertTrue(done, "an answered %s is not there" % request[0])
        word = " ".join([request[0], *(["of windows"] if options else []), "there" if done else "not there"])
        counts[word] = counts.get(word, 0) + 1
        self.assertEqual(daemon.stop(), 0)

    @staticmethod
    def ask(client, request, answers):
        try:
            answers.append(client.call(*request))
        except OSError:
            pass
        finally:
            client.close()

    def look(self, client, request):
        """Whether it was done; fails where a part of it was."""
        if request[0] == "BF.SHRINK":
            return client.call("BF.INFO", D, "CAPACITY")[0] < CAPACITY
        key = request[1]
        if key == NEW and not client.call("EXISTS", NEW):
            return False
        there = found(client, key, range(2 * ITEMS))
        if there == 2 * ITEMS:
            return True
        self.assertEqual(key, D)
        self.assertLess(there, 2 * ITEMS * 0.02, "a part of a merge is there")
        return False
