"""Transactions and scripts of several clients at once: no other client sees a part of one, and after kill -9 each is
there as a whole or not at all.

SEPAL_TRANSACTION_KILL_ROUNDS sets the number of kills.
"""

import itertools
import os
import random
import threading
import time

import redis

from client import Client, Refused
from daemon import DaemonTest, say, sized

ROUNDS = int(os.environ.get("SEPAL_TRANSACTION_KILL_ROUNDS", sized("3", "6")))
KEYS = [b"filter:%d" % number for number in range(5)]
WRITERS = 4
# One transaction in so many takes several frames of the journal.
LONG_EVERY = 7
LONG_ITEMS = 12_000
LOAD_SECONDS = (0.1, 0.5)
# At this rate, no test of this file is likely to ask for an item that a filter takes for a known one.
FILTER = ("0.000000000001", "2000000")
SETTINGS = (("--journal", "always"), ("--journal", "everysec"),
            ("--journal", "everysec", "--journal-segment", "2mb", "--journal-save-min", "2mb"))


# Adds each argument to the key of the same number.
ADD_ALL = "local r = {} for i = 1, #KEYS do r[i] = redis.call('BF.ADD', KEYS[i], ARGV[i]) end return r"


def items_of(name, is_long):
    """What a transaction adds: pairs of a key and an item."""
    pairs = [(key, b"%s:%d" % (name, at)) for at, key in enumerate(KEYS)]
    if is_long:
        pairs += [(KEYS[0], b"%s:more:%d" % (name, number)) for number in range(LONG_ITEMS)]
    return pairs


def script_of(pairs):
    """A script that adds the items."""
    return ("EVAL", ADD_ALL, len(pairs), *(key for key, _ in pairs), *(item for _, item in pairs))


class Writer(threading.Thread):
    """Sends one transaction after the other, until the server is gone."""

    def __init__(self, daemon, name):
        super().__init__()
        self.client = Client.of(daemon)
        self.name = name
        self.sent = []  # (name, is_long, answered)
        self.wrong = None

    def run(self):
        for number in itertools.count():
            name = b"%s:%d" % (self.name.encode(), number)
            is_long = number % LONG_EVERY == LONG_EVERY - 1
            pairs = items_of(name, is_long)
            self.sent.append((name, is_long, False))
            try:
                replies = self.add(pairs)
            except OSError:
                return
            if replies != [1] * len(pairs):
                self.wrong = replies
                return
            self.sent[-1] = (name, is_long, True)

    def add(self, pairs):
        adds = [("BF.ADD", key, item) for key, item in pairs]
        return self.client.pipeline([("MULTI",), *adds, ("EXEC",)])[-1]


class ScriptWriter(Writer):
    """Sends one script after the other."""

    def add(self, pairs):
        return self.client.pipeline([script_of(pairs)])[0]


class TransactionsTest(DaemonTest):
    def make_filters(self, daemon):
        with Client.of(daemon) as client:
            for key in KEYS:
                client.call("BF.RESERVE", key, *FILTER)

    def known(self, client, pairs):
        """For each pair, whether the filter knows the item."""
        answers = client.pipeline([("BF.EXISTS", key, item) for key, item in pairs])
        return [answer == 1 for answer in answers]

    def test_after_a_kill_each_transaction_and_script_is_whole_or_not_there(self):
        seed = random.randrange(1 << 32)
        say("seed %d" % seed)
        chosen = random.Random(seed)
        sent, lost, answered_count = [], 0, 0
        daemon = self.start(*SETTINGS[0])
        self.make_filters(daemon)
        for number in range(ROUNDS):
            writers = [(Writer, ScriptWriter)[writer % 2](daemon, "%d:%d" % (number, writer)) for writer in range(WRITERS)]
            for writer in writers:
                writer.start()
            if number == 0:
                self.eventually("nothing is answered", lambda: any(answered for writer in writers for _, _, answered in list(writer.sent)))
            time.sleep(chosen.uniform(*LOAD_SECONDS))
            daemon.kill()
            for writer in writers:
                writer.join()
                writer.client.close()
                self.assertIsNone(writer.wrong)
            daemon = self.start(*SETTINGS[(number + 1) % len(SETTINGS)])
            # Every start replays the transactions of this round; those of the round before are looked at again.
            earlier, sent = sent, [entry for writer in writers for entry in writer.sent]
            with Client.of(daemon) as client:
                for name, is_long, answered in sent + earlier:
                    known = self.known(client, items_of(name, is_long))
                    self.assertIn(sum(known), (0, len(known)), "a part of %r" % name)
                    self.assertTrue(known[0] or not answered, "lost %r" % name)
                    lost += not known[0]
            # On a busy machine a server may be killed before its first answer.
            answered_count += sum(answered for _, _, answered in sent)
            say("round %d: %d transactions" % (number, len(sent)))
        say("%d transactions were answered; %d were cut off, none in the middle" % (answered_count, lost))
        self.assertGreater(answered_count, 0)
        self.assertEqual(daemon.stop(), 0)

    def test_other_clients_see_all_of_a_transaction_or_script_or_nothing(self):
        daemon = self.start("--threads", "2")
        self.make_filters(daemon)
        writers = [Writer(daemon, "w0"), ScriptWriter(daemon, "w1")]
        ends = time.monotonic() + 2
        seen = set()
        with Client.of(daemon) as reader:
            for writer in writers:
                writer.start()
            while time.monotonic() < ends:
                name = b"w%d:%d" % (len(seen) % 2, len(writers[len(seen) % 2].sent))
                items = [b"%s:%d" % (name, 0)] + [b"%s:more:%d" % (name, at) for at in range(0, LONG_ITEMS, 100)]
                is_long = (len(writers[len(seen) % 2].sent) + 1) % LONG_EVERY == 0
                answers = set(reader.call("BF.MEXISTS", KEYS[0], *items[: len(items) if is_long else 1]))
                self.assertEqual(len(answers), 1, "a part of %r" % name)
                seen.add((name, answers.pop()))
        daemon.kill()
        for writer in writers:
            writer.join()
            writer.client.close()
            self.assertIsNone(writer.wrong)
        say("%d looks at transactions that were about to run" % len(seen))

    def test_of_clients_that_watch_one_key_only_one_wins(self):
        daemon = self.start("--threads", "2")
        self.make_filters(daemon)
        wins = []

        def race(client):
            for number in range(300):
                client.call("WATCH", KEYS[0])
                item = b"%d" % number
                known = client.call("BF.EXISTS", KEYS[0], item)
                replies = client.pipeline([("MULTI",), ("BF.ADD", KEYS[0], item), ("PING",), ("EXEC",)])
                if replies[-1] is not None and not known:
                    wins.append((number, replies[-1][0]))

        with Client.of(daemon) as one, Client.of(daemon) as other:
            threads = [threading.Thread(target=race, args=(client,)) for client in (one, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        numbers = [number for number, _ in wins]
        self.assertEqual(len(numbers), len(set(numbers)), "two clients have added one item")
        self.assertEqual({answer for _, answer in wins}, {1})
        self.assertEqual(daemon.stop(), 0)

    def test_the_default_pipeline_of_redis_py(self):
        daemon = self.start()
        client = redis.Redis(host="127.0.0.1", port=daemon.port)
        self.addCleanup(client.close)
        client.bf().create("users", 0.0001, 200_000)
        pipeline = client.pipeline()
        for number in range(100_000):
            pipeline.execute_command("BF.ADD", "users", number)
        pipeline.expire("users", 1000)
        replies = pipeline.execute()
        self.assertGreater(sum(replies[:-1]), 99_900)
        self.assertTrue(replies[-1])

        def add_if_new(pipe):
            known = pipe.execute_command("BF.EXISTS", "users", "alice")
            pipe.multi()
            if not known:
                pipe.execute_command("BF.ADD", "users", "alice")
                pipe.execute_command("BF.ADD", "mails", "alice@example.com")

        self.assertEqual(client.transaction(add_if_new, "users"), [1, 1])
        self.assertEqual(client.transaction(add_if_new, "users"), [])
        with self.assertRaises(redis.ResponseError):
            client.pipeline().execute_command("NOSUCH").execute()
        self.assertEqual(daemon.stop(), 0)

    def test_transactions_and_scripts_wait_for_the_journal_as_one(self):
        """The journal's bound is small, so that EXEC has to wait for a save again and again."""
        daemon = self.start("--journal-segment", "2mb", "--journal-size-max", "8mb", "--journal-size-max-percent", "0")
        self.make_filters(daemon)
        with Client.of(daemon) as client:
            for number in range(30):
                pairs = items_of(b"bounded:%d" % number, True)
                replies = client.pipeline([("MULTI",), *(("BF.ADD", key, item) for key, item in pairs), ("EXEC",)])
                self.assertNotIsInstance(replies[-1], Refused)
                self.assertEqual(sum(replies[-1]), len(pairs))
                # A script that has changed something cannot wait: this one records less than is asked for ahead.
                pairs = items_of(b"script:%d" % number, True)[:2000]
                self.assertEqual(sum(client.call(*script_of(pairs))), len(pairs))
        self.assertEqual(daemon.stop(), 0)
