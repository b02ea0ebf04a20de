"""kill -9 again and again, under load and while saves run. No answered change is lost, and no change is half done.

SEPAL_KILL_ROUNDS sets the number of kills. SEPAL_KILL_SEED repeats a run as far as possible.
"""

import collections
import os
import random
import signal
import time

from client import Client
from daemon import DaemonTest, say, sized
from workload import (DAEMON_ARGUMENTS, ERROR_RATE, SMALL_KEYS, Adder, Rotator, Saver, Structure, check_filter,
                      check_rotated, merged)

ROUNDS = int(os.environ.get("SEPAL_KILL_ROUNDS", sized("5", "10")))
SEED = int(os.environ.get("SEPAL_KILL_SEED", str(random.randrange(1 << 32))))

ADDERS = 17
# Filters of 5 MB have files of their own. Saves link these files while nothing is added.
BIG_FILTER_ITEMS = 1_000_000
# The filters of the adders with many keys, which grow at their second item, and then again and again.
SMALL_FILTER_ITEMS = 1
# In one of so many rounds, a stop begins before the kill.
STOP_KILL_EVERY = 5
STRUCTURE_DATABASES = (1, 2)
LOAD_SECONDS = sized((0.05, 0.4), (0.05, 0.9))
# In one of so many rounds, a start is killed as well.
START_KILL_EVERY = 4
# Used in turn: a server with the next settings replays the journal of the one before.
SETTINGS = (
    (),
    ("--journal", "always"),
    # With these settings, segments end and saves begin many times in a round.
    ("--journal-segment", "2mb", "--journal-save-min", "2mb"),
)
# Two adders add the same items, so that one of them may be told "known" for an item that the other was not told about.
TWINS = 2
ITEMS_APART = 1_000_000_000


class KillTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.states = {database: [{}] for database in STRUCTURE_DATABASES}
        self.expected = {}  # key -> Answers of the last two rounds
        self.counts = collections.Counter()

    def start_after_kill(self, number):
        arguments = (*DAEMON_ARGUMENTS, "--threads", "2", *SETTINGS[number % len(SETTINGS)])
        if number % START_KILL_EVERY == START_KILL_EVERY - 1:
            interrupted = self.start(*arguments, wait=False)
            time.sleep(self.random.uniform(0, 0.1))
            interrupted.kill()
        return self.start(*arguments)

    def check(self, daemon):
        with Client.of(daemon) as client:
            for database, possible in self.states.items():
                observed = Structure(daemon, database, None, {}).observed(client)
                self.assertIn(observed, possible, "database %d" % database)
                self.states[database] = [observed]
            for key, answers in self.expected.items():
                check_filter(self, client, key, answers)

    def forget_round(self, daemon, number):
        """Deletes filters that were checked twice, so that rounds do not take longer and longer."""
        old = [key for key in self.expected if key.startswith(b"round:%d:" % number)]
        if not old:
            return
        # A request that was not answered may not have arrived, and then its filter was never there.
        answered = [key for key in old if self.expected[key].answered()]
        with Client.of(daemon) as client:
            self.assertGreaterEqual(client.call("DEL", *old), len(answered))
        for key in old:
            del self.expected[key]

    def kill(self, daemon, number):
        if number % STOP_KILL_EVERY == STOP_KILL_EVERY - 1:
            daemon.send_signal(signal.SIGTERM)
            time.sleep(self.random.uniform(0, 0.1))
        daemon.kill()

    def load_and_kill(self, daemon, number):
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", b"round:%d:0" % number, ERROR_RATE, BIG_FILTER_ITEMS)
            client.pipeline([("BF.RESERVE", b"round:%d:0:small:%d" % (number, key), ERROR_RATE, SMALL_FILTER_ITEMS)
                             for key in range(SMALL_KEYS)])
        adders = [Adder(daemon, Adder.styles[at // TWINS % len(Adder.styles)],
                        b"round:%d:%d" % (number, at // TWINS // len(Adder.styles)), at // TWINS * ITEMS_APART)
                  for at in range(ADDERS)]
        structures = {database: Structure(daemon, database, self.random, state)
                      for database, (state,) in self.states.items()}
        workers = [*adders, *structures.values(), Saver(daemon)]
        for worker in workers:
            worker.start()
        time.sleep(self.random.uniform(*LOAD_SECONDS))
        self.kill(daemon, number)
        for worker in workers:
            worker.finish()
        for database, structure in structures.items():
            self.states[database] = structure.possible_states()
            self.counts["structure"] += structure.answered_count
        answers = {key: some for key, some in merged(adders).items() if some.answered() or some.unanswered}
        self.expected.update(answers)
        for some in answers.values():
            self.counts["new"] += len(some.new)
            self.counts["known"] += len(some.known)
            self.counts["unanswered"] += len(some.unanswered)
        for event in ("save started", "save finished"):
            self.counts[event] += sum(event in line for line in daemon.log if line)
        self.assertFalse(set().union(*(adder.refusals for adder in adders)))

    def test_filters_that_are_renamed_during_adds_keep_their_items(self):
        for number in range(max(1, ROUNDS // 5)):
            daemon = self.start(*DAEMON_ARGUMENTS, "--threads", "2", *SETTINGS[number % len(SETTINGS)])
            key = b"hot:%d" % number
            adders = [Adder(daemon, Adder.styles[at % 4], key, at * ITEMS_APART) for at in range(8)]
            workers = [*adders, Rotator(daemon, key), Saver(daemon)]
            for worker in workers:
                worker.start()
            time.sleep(self.random.uniform(*LOAD_SECONDS))
            self.kill(daemon, number)
            for worker in workers:
                worker.finish()
            daemon = self.start_after_kill(number)
            with Client.of(daemon) as client:
                check_rotated(self, client, key, merged(adders)[key])
                client.call("FLUSHALL")
            daemon.kill()

    def test_no_answered_change_is_lost_and_no_change_is_half_done(self):
        say("SEPAL_KILL_SEED=%d" % SEED)
        began = time.monotonic()
        for number in range(ROUNDS):
            daemon = self.start_after_kill(number)
            self.check(daemon)
            self.forget_round(daemon, number - 2)
            self.load_and_kill(daemon, number)
        daemon = self.start_after_kill(ROUNDS)
        self.check(daemon)
        self.assertEqual(daemon.stop(), 0)
        self.check(self.start_after_kill(ROUNDS))
        say("%d kills in %.1f s, nothing lost: %s" % (ROUNDS, time.monotonic() - began, dict(self.counts)))
