"""The journal's policies through kill -9, and changes of them in a running server."""

import os
import pathlib
import threading
import time

from client import Client, Refused
from daemon import EXACT_RATE, DaemonTest, encode, read_lines, say
from workload import DAEMON_ARGUMENTS, Adder, Structure, check_filter, merged

CONNECTIONS = 50


class JournalTest(DaemonTest):
    def start(self, *arguments, wait=True):
        return super().start(*DAEMON_ARGUMENTS, *arguments, wait=wait)

    def known(self, *items, key="k"):
        """Starts a server, returns how many of these items it knows, and kills it."""
        daemon = self.start()
        with Client.of(daemon) as client:
            known = [item for item in items if client.call("BF.EXISTS", key, item)]
        daemon.kill()
        return known

    def test_answered_adds_survive_a_kill_under_everysec_and_always(self):
        for policy in ("everysec", "always"):
            daemon = self.start("--journal", policy)
            with Client.of(daemon) as client:
                client.call("BF.ADD", policy, "a")
                client.call("BF.MADD", policy, "b", "c")
                client.call("RENAME", policy, policy + "-renamed")
                client.call("BF.RESERVE", policy + "-reserved", "0.001", "12345")
                client.call("BF.ADD", "deleted", "x")
                client.call("DEL", "deleted")
                client.call("SELECT", 3)
                client.call("BF.ADD", "flushed", "x")
                client.call("FLUSHDB")
            daemon.kill()
            daemon = self.start("--journal", policy)
            with Client.of(daemon) as client:
                self.assertEqual(client.call("BF.CARD", policy + "-renamed"), 3)
                self.assertEqual(client.call("BF.MEXISTS", policy + "-renamed", "a", "b", "c", "d"), [1, 1, 1, 0])
                self.assertEqual(client.call("BF.INFO", policy + "-reserved", "CAPACITY"), [12345])
                self.assertEqual(client.call("EXISTS", policy, "deleted", "flushed"), 0)
                client.call("SELECT", 3)
                self.assertEqual(client.call("DBSIZE"), 0)
            daemon.kill()

    def test_off_keeps_what_was_saved(self):
        daemon = self.start("--journal", "off")
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", "saved")
            client.save()
            client.call("BF.ADD", "k", "unsaved")
            self.assertEqual(client.info()["aof_enabled"], "0")
        daemon.kill()
        daemon = self.start("--journal", "off")
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.MEXISTS", "k", "saved", "unsaved"), [1, 0])

    def test_many_kills_in_a_row_without_a_save(self):
        for number in range(20):
            daemon = self.start()
            with Client.of(daemon) as client:
                self.assertEqual(client.call("BF.CARD", "k"), number)
                self.assertEqual(client.call("BF.ADD", "k", number), 1)
            daemon.kill()
        self.assertEqual(len(self.known(*range(20))), 20)

    def test_replayed_changes_count_as_changes_since_the_last_save(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", "saved")
            client.save()
            client.call("BF.MADD", "k", "a", "b")
            client.call("RENAME", "k", "l")
        daemon.kill()
        daemon = self.start()
        with Client.of(daemon) as client:
            self.assertEqual(client.info()["rdb_changes_since_last_save"], "3")
            client.call("BF.ADD", "l", "c")
            self.assertEqual(client.info()["rdb_changes_since_last_save"], "4")
        # So a stop saves it, and the next start does not have to replay it.
        daemon.stop()
        daemon = self.start()
        with Client.of(daemon) as client:
            self.assertEqual(client.info()["rdb_changes_since_last_save"], "0")
            self.assertEqual(client.call("BF.CARD", "l"), 4)
        daemon.kill()

    def test_an_add_to_the_target_of_a_mirror_alone_is_saved_at_a_stop(self):
        daemon = self.start("--journal", "off")
        with Client.of(daemon) as client:
            client.pipeline([("BF.RESERVE", "t", "0.01", 1000), ("BF.ADD", "s", "x"), ("BF.MIRROR", "s", "t")])
            client.save()
            self.assertEqual(client.call("BF.ADD", "s", "x"), 0)
            self.assertEqual(client.info()["rdb_changes_since_last_save"], "1")
        daemon.stop()
        with Client.of(self.start("--journal", "off")) as client:
            self.assertEqual(client.call("BF.EXISTS", "t", "x"), 1)
            # With the gate closed: the second item makes the target grow, which counts as well.
            client.pipeline([("BF.RESERVE", "full", EXACT_RATE, 1, "NONSCALING"), ("BF.ADD", "full", "x"),
                             ("BF.RESERVE", "u", EXACT_RATE, 1), ("BF.MIRROR", "full", "u")])
            client.save()
            client.call("BF.MADD", "full", "x", "y")
            self.assertEqual(client.info()["rdb_changes_since_last_save"], "3")

    def test_a_server_that_is_full_starts_again_from_its_journal(self):
        daemon = self.start("--maxmemory", "1mb")
        with Client.of(daemon) as client:
            replies = client.pipeline([("BF.RESERVE", "user:%d" % number, "0.01", "100") for number in range(20_000)])
            created = replies.count(b"OK")
            self.assertGreater(created, 1000)
            self.assertLess(created, len(replies))
        daemon.kill()
        with Client.of(self.start("--maxmemory", "1mb")) as client:
            self.assertEqual(client.call("DBSIZE"), created)

    def test_records_of_a_journal_that_is_off_now_stay(self):
        for policy, item in (("everysec", "a"), ("off", "b"), ("everysec", "c"), ("off", "d"), ("always", "e")):
            daemon = self.start("--journal", policy)
            with Client.of(daemon) as client:
                client.call("BF.ADD", "k", item)
            daemon.kill()
        self.assertEqual(self.known("a", "c", "e"), ["a", "c", "e"])

    def test_saves_keep_the_journal_short(self):
        daemon = self.start("--journal-segment", "2mb", "--journal-save-min", "2mb", "--threads", "2")
        client = Client.of(daemon, self)
        client.call("BF.RESERVE", "k", "0.01", 1_000_000)
        for at in range(0, 1_000_000, 1000):
            client.pipeline([("BF.MADD", "k", *range(at, at + 1000))])
        self.assertGreater(int(client.info()["journal_position"]), 16_000_000)
        files = lambda: len(list(pathlib.Path(self.directory).glob("journal-*")))
        self.eventually("segments are left", lambda: files() <= 5)
        self.eventually("the journal is long", lambda: int(client.info()["journal_since_save"]) < 8 << 20)

    def test_a_server_without_changes_takes_little_of_the_disk_and_the_files_grow_with_changes(self):
        daemon = self.start()

        def taken():
            return sum(path.stat().st_blocks * 512 for path in pathlib.Path(self.directory).rglob("*"))

        with Client.of(daemon) as client:
            def reserve():
                return int(client.info()["disk_reserve_bytes"])

            # An add begins the segment that is in use. The reserve is made after the others.
            client.call("BF.ADD", "k", "item")
            self.eventually("there is no reserve", lambda: reserve() > 0 and int(client.info()["journal_bytes"]) > 3 << 20)
            self.assertLess(taken(), 8_000_000)
            client.call("BF.RESERVE", "load", "0.001", "1000000")
            for first in range(0, 200_000, 1000):
                client.call("BF.MADD", "load", *range(first, first + 1000))
            if os.statvfs(self.directory).f_bavail * os.statvfs(self.directory).f_frsize < 1 << 30:
                return
            self.eventually("the reserve does not grow", lambda: reserve() > 4 << 21)
            self.assertGreater(taken(), 32_000_000)

    def test_config_set_switches_the_journal_off_and_on(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("CONFIG", "GET", "appendonly"), [b"appendonly", b"yes"])
            client.call("BF.ADD", "k", "before")
            client.call("CONFIG", "SET", "appendonly", "no")
            self.assertEqual(client.info()["aof_enabled"], "0")
            client.call("BF.ADD", "k", "meanwhile")
            client.call("CONFIG", "SET", "appendonly", "yes")
            self.assertEqual(client.info()["aof_enabled"], "1")
            # A save begins by itself, and writes the items that were added without a record.
            self.eventually("no save", lambda: int(client.info()["changes_unsaved"]) == 0)
            client.call("BF.ADD", "k", "after")
        daemon.kill()
        self.assertEqual(self.known("before", "meanwhile", "after", "never"), ["before", "meanwhile", "after"])

    def test_a_kill_between_switching_on_and_the_save_loses_nothing_recorded_before(self):
        for _ in range(5):
            daemon = self.start()
            with Client.of(daemon) as client:
                client.call("BF.ADD", "k", "before")
                client.call("CONFIG", "SET", "appendonly", "no")
                client.call("BF.ADD", "k", "meanwhile")
                client.call("CONFIG", "SET", "appendonly", "yes")
                client.call("BF.ADD", "k", "after")
            daemon.kill()
            self.assertIn("before", self.known("before", "meanwhile", "after"))

    def test_waitaof_tells_when_the_journal_is_on_the_disk(self):
        daemon = self.start("--journal", "everysec")
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", "a")
            self.eventually("no sync", lambda: client.call("WAITAOF", 1, 0, 0) == [1, 0])
            # What was changed while the journal was off is on the disk when a save has it.
            for policy in ("always", "everysec"):
                client.call("CONFIG", "SET", "appendonly", "no", "appendfsync", policy)
                saves = int(client.info()["rdb_saves"])
                client.call("BF.ADD", "k", policy)
                client.call("CONFIG", "SET", "appendonly", "yes")
                self.eventually("no sync", lambda: client.call("WAITAOF", 1, 0, 0) == [1, 0])
                self.assertGreater(int(client.info()["rdb_saves"]), saves)
            client.call("CONFIG", "SET", "appendfsync", "always")
            requests = [request for item in range(10) for request in (("BF.ADD", "l", item), ("WAITAOF", 1, 0, 0))]
            self.assertEqual(client.pipeline(requests), [1, [1, 0]] * 10)

    def test_waitaof_does_not_vouch_for_changes_without_a_record(self):
        for policy in ("everysec", "always"):
            with self.subTest(policy=policy):
                daemon = self.start("--journal", "off")
                with Client.of(daemon) as client:
                    *done, vouched = client.pipeline([
                        ("BF.ADD", "k", policy),
                        ("CONFIG", "SET", "appendonly", "yes", "appendfsync", policy),
                        ("WAITAOF", 1, 0, 0)])
                    self.assertEqual(done, [1, b"OK"])
                    # 1 is right once a save has the item. On a busy machine its end may come before WAITAOF runs: then the kill
                    # follows at once, and shows whether it was true.
                    if vouched != [1, 0]:
                        self.assertEqual(vouched, [0, 0])
                        self.eventually("no save", lambda: client.call("WAITAOF", 1, 0, 0) == [1, 0])
                        self.assertGreater(int(client.info()["rdb_saves"]), 0)
                daemon.kill()
                self.assertEqual(self.known(policy, "never"), [policy])

    def test_config_set_changes_when_syncs_are_made(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            for policy in (b"always", b"everysec"):
                client.call("CONFIG", "SET", "appendfsync", policy)
                self.assertEqual(client.call("CONFIG", "GET", "appendfsync"), [b"appendfsync", policy])
                client.call("BF.ADD", "k", policy)
            reply = client.pipeline([("CONFIG", "SET", "appendfsync", "sometimes")])[0]
            self.assertIsInstance(reply, Refused)
        daemon.kill()
        self.assertEqual(self.known("always", "everysec"), ["always", "everysec"])

    def test_always_answers_many_connections_and_one_sync_serves_many(self):
        daemon = self.start("--journal", "always", "--threads", "2")
        with Client.of(daemon) as client:
            before = client.info()
            adders = [Adder(daemon, "single", b"k", at * 1_000_000) for at in range(CONNECTIONS)]
            for adder in adders:
                adder.start()
            # More than one of each connection.
            self.eventually("few are added", lambda: int(client.info()["items_added"]) - int(before["items_added"]) > 3 * CONNECTIONS)
            time.sleep(1)
            for adder in adders:
                adder.finish()
            after = client.info()
            syncs = int(after["journal_syncs"]) - int(before["journal_syncs"])
            answers = merged(adders)
            added = sum(some.answered() for some in answers.values())
            say("always, %d connections: %d adds, %d syncs, %.1f adds to one sync"
                % (CONNECTIONS, added, syncs, added / max(syncs, 1)))
            self.assertGreater(added, CONNECTIONS)
            self.assertGreater(syncs, 0)
        daemon.kill()
        with Client.of(self.start()) as client:
            for key, some in answers.items():
                check_filter(self, client, key, some)

    def test_always_keeps_replies_in_order_and_closes_after_them(self):
        daemon = self.start("--journal", "always")
        with daemon.connect() as connection:
            connection.sendall(encode("BF.ADD", "k", "a") + encode("ECHO", "x") + encode("BF.ADD", "k", "a")
                               + encode("BF.EXISTS", "k", "a") + encode("QUIT"))
            self.assertEqual(read_lines(connection, 6), [b":1", b"$1", b"x", b":0", b":1", b"+OK"])
            self.assertEqual(connection.recv(1), b"")

    def test_always_survives_clients_that_leave_before_their_answer(self):
        daemon = self.start("--journal", "always", "--threads", "2")

        def leave(number):
            for at in range(50):
                with daemon.connect() as connection:
                    connection.sendall(encode("BF.ADD", "k", "%d:%d" % (number, at)))

        threads = [threading.Thread(target=leave, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.ADD", "k", "last"), 1)
            self.eventually("connections are left", lambda: client.info()["connected_clients"] == "1")
        self.assertEqual(daemon.stop(), 0)

    def test_always_and_everysec_serve_beside_each_other_in_time(self):
        """Changes the policy while connections wait for their syncs."""
        daemon = self.start("--threads", "2")
        adders = [Adder(daemon, Adder.styles[at % len(Adder.styles)], b"k", at * 1_000_000_000) for at in range(10)]
        for adder in adders:
            adder.start()
        with Client.of(daemon) as client:
            for at in range(20):
                client.call("CONFIG", "SET", "appendfsync", ("always", "everysec")[at % 2])
                time.sleep(0.02)
            client.call("CONFIG", "SET", "appendfsync", "everysec")
        for adder in adders:
            adder.finish()
        answers = merged(adders)
        self.assertFalse(set().union(*(adder.refusals for adder in adders)))
        daemon.kill()
        with Client.of(self.start()) as client:
            for key, some in answers.items():
                check_filter(self, client, key, some)

    def test_a_stop_under_always_answers_what_it_has_done(self):
        daemon = self.start("--journal", "always", "--threads", "2")
        adders = [Adder(daemon, Adder.styles[at % len(Adder.styles)], b"k", at * 1_000_000_000) for at in range(20)]
        for adder in adders:
            adder.start()
        time.sleep(0.5)
        self.assertEqual(daemon.stop(), 0)
        for adder in adders:
            adder.finish()
        with Client.of(self.start()) as client:
            for key, some in merged(adders).items():
                check_filter(self, client, key, some)

    def test_answered_changes_of_structure_hold_under_always(self):
        import random
        daemon = self.start("--journal", "always")
        structure = Structure(daemon, 1, random.Random(1), {})
        structure.start()
        time.sleep(0.5)
        daemon.kill()
        structure.finish()
        with Client.of(self.start()) as client:
            self.assertIn(structure.observed(client), structure.possible_states())
