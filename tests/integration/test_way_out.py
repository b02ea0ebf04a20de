"""The way out of a full disk: deletions, a save and a start. sepald or another program may have filled the disk.

It needs the right to mount. Without it, the tests are skipped.
"""

import glob
import math
import os
import re
import shutil
import struct

from client import Client, Refused
from daemon import beside
from disk_case import DiskCase

MB = 1 << 20
SEGMENT_MB = 2
RESERVE_MB = 8
# The reserve begins with as much of its size as the segments do.
FIRST_RESERVE_MB = 4
STARTS = 6
# While saves keep pace with the adds, none is refused, and the data grows. When a save no longer fits, not even with the
# reserve, nothing but more room helps. These starts are to stay below that.
ADDS_OF_START_MAX = 100_000
# No item is counted here, so the rate may be so large that the data stays small beside the disk and the reserve.
ERROR_RATE = "1e-4"
ARGUMENTS = ("--bf-error-rate", ERROR_RATE, "--journal-segment", "%dmb" % SEGMENT_MB, "--disk-reserve", "%dmb" % RESERVE_MB,
             "--threads", "2")
# The capacity of a filter with a file of its own, about 12 MB.
BIG_FILTER = ("0.01", "10000000")


def bytes_under(directory):
    """The room of the files on the disk. A file that is removed meanwhile counts as 0."""
    total, seen = 0, set()
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total += status.st_blocks * 512
    return total


class WayOutTest(DiskCase):
    daemon_arguments = ARGUMENTS

    def add_until_refused(self, client, key="load", count_max=math.inf):
        """Adds until -MISCONF, but no more than that. Returns how many items were answered before."""
        count = 0
        while count < count_max:
            reply = client.pipeline([("BF.MADD", key, *range(count, count + 1000))])[0]
            if isinstance(reply, Refused):
                self.assertTrue(str(reply).startswith("MISCONF"), reply)
                return count
            count += 1000
        return count

    def adds_go_on(self, client, key="probe"):
        self.eventually("writes are refused for ever",
                        lambda: client.pipeline([("BF.ADD", key, "item")])[0] in (0, 1))

    def wait_for_reserve(self, client):
        self.eventually("there is no reserve",
                        lambda: int(client.info()["disk_reserve_bytes"]) >= FIRST_RESERVE_MB * MB)

    def reserve_more_than_a_save_finds(self, client):
        """The filter `load`, larger than the whole reserve, with items all over it: on a full disk, no save of it fits."""
        client.call("BF.RESERVE", "load", *BIG_FILTER)
        for first in range(0, 100_000, 10_000):
            client.call("BF.MADD", "load", *range(first, first + 10_000))

    def test_deletions_and_a_save_succeed_on_a_full_disk_and_make_room(self):
        self.on_disk_of(96)
        for policy in ("everysec", "always"):
            with self.subTest(policy):
                self.check_way_out("--journal", policy)
                shutil.rmtree(self.data)

    def check_way_out(self, *arguments):
        daemon = self.start("--journal-save-percent", "0", *arguments)
        with Client.of(daemon) as client:
            self.reserve_more_than_a_save_finds(client)
            for key in ("kept", "one", "two", "three"):
                client.call("BF.ADD", key, "alice")
            self.wait_for_reserve(client)
            self.fill()
            self.add_until_refused(client)
            self.assertEqual(client.call("DEL", "one"), 1)
            self.assertEqual(client.call("UNLINK", "two"), 1)
            self.assertEqual(client.call("EXPIRE", "three", "-1"), 1)
            self.assertRegex(str(client.pipeline([("EXPIRE", "kept", "100")])[0]), "^MISCONF")
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)
            self.assertEqual(client.call("DEL", "load"), 1)
            client.save()
            self.adds_go_on(client)
            self.add_until_refused(client)
            self.assertEqual(client.call("FLUSHALL"), b"OK")
            client.save()
            self.adds_go_on(client)
        daemon.kill()
        os.remove(self.ballast)
        daemon = self.start(*arguments)
        with Client.of(daemon) as client:
            self.assertEqual(client.call("BF.EXISTS", "probe", "item"), 1)
            self.assertEqual(client.call("EXISTS", "kept", "one", "two", "three", "load"), 0)
        daemon.kill()

    def test_a_kill_on_a_full_disk_is_followed_by_a_start_that_serves_and_deletes(self):
        self.on_disk_of(96)
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "load", ERROR_RATE, "100000")
            client.call("BF.ADD", "kept", "alice")
            client.call("BF.ADD", "gone", "alice")
            self.wait_for_reserve(client)
            self.fill()
            count = self.add_until_refused(client)
        some = range(0, count, 100)
        counts = []
        for number in range(STARTS):
            daemon.kill()
            daemon = self.start()
            with Client.of(daemon) as client:
                self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)
                self.assertEqual(client.call("BF.MEXISTS", "load", *some), [1] * len(some))
                counts.append(self.add_until_refused(client, "kept", ADDS_OF_START_MAX))
                if number == 0:
                    self.assertEqual(client.call("DEL", "gone"), 1)
                # Each start takes a piece of the reserve. If starts follow each other faster than a save ends, none is
                # left, and a deletion waits for that save.
                self.eventually("deletions are refused for ever", lambda: client.pipeline([("DEL", "gone")])[0] == 0)
        # The first start finds no room for an add. Otherwise the disk would not be full.
        self.assertLess(min(counts), ADDS_OF_START_MAX, counts)
        daemon.kill()
        daemon = self.start()
        with Client.of(daemon) as client:
            self.assertEqual(client.call("EXISTS", "gone"), 0)
            self.assertEqual(client.call("FLUSHALL"), b"OK")
            client.save()
            self.adds_go_on(client)
            os.remove(self.ballast)
            self.wait_for_reserve(client)

    def test_room_that_is_freed_as_the_refusal_asks_lets_deletions_go_on(self):
        """Also while a save does not fit: the room goes to the reserve, which has pieces for deletions then."""
        self.on_disk_of(96)
        daemon = self.start("--journal-save-percent", "0")
        with Client.of(daemon) as client:
            self.reserve_more_than_a_save_finds(client)
            client.call("BF.ADD", "kept", "alice")
            self.wait_for_reserve(client)
        refused = None
        # As after many starts on a full disk, each of which takes a piece. A start may find room in a segment that was
        # prepared and not used; the next one then finds none.
        for _ in range(STARTS):
            daemon.kill()
            for piece in glob.glob(os.path.join(self.data, "reserve-*")):
                os.remove(piece)
            self.fill()
            daemon = self.start("--journal-save-percent", "0")
            with Client.of(daemon) as client:
                self.add_until_refused(client, "kept")
                refused = client.pipeline([("DEL", "gone")])[0]
                if refused != 0:
                    break
        self.assertRegex(str(refused), "^MISCONF")
        with Client.of(daemon) as client:
            self.eventually("the save fits", lambda: client.info()["rdb_last_bgsave_status"] == "err")
            asked = re.search(r"; free (\d+) bytes on the disk of", client.info()["journal_refusal"])
            os.truncate(self.ballast, os.path.getsize(self.ballast) - int(asked.group(1)))
            self.eventually("deletions are refused", lambda: client.pipeline([("DEL", "gone")])[0] == 0)
            self.assertEqual(client.call("DEL", "load"), 1)
            client.save()
            self.adds_go_on(client)

    def test_room_that_is_freed_while_saves_do_not_fit_is_left_to_the_next_save(self):
        self.on_disk_of(128)
        daemon = self.start("--journal-save-percent", "0")
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "big", *BIG_FILTER)
            client.call("BF.RESERVE", "other", *BIG_FILTER)
            client.call("BF.ADD", "big", "alice")
            client.call("BF.ADD", "other", "alice")
            client.save()
            client.call("BF.ADD", "big", "bob")
            client.call("BF.ADD", "other", "bob")
            self.fill()
            self.assertIsInstance(client.pipeline([("SAVE",)])[0], Refused)
            self.add_until_refused(client, "big")
            # Exactly the room that the save needs. If the journal took a part of it, no save could ever finish.
            room = sum(int(client.call("BF.INFO", key, "SIZE")[0]) for key in ("big", "other"))
            os.truncate(self.ballast, os.path.getsize(self.ballast) - room - MB // 2)
            self.adds_go_on(client, "big")
            self.assertEqual(client.info()["rdb_last_bgsave_status"], "ok")

    def make_all_kinds(self, client):
        """Values of all kinds, some MB of them. Some are read in parts, while they may change. Returns their keys."""
        client.call("BF.RESERVE", "plain", "0.01", 1_000_000)
        client.call("BF.RESERVE", "window", "0.01", 100_000, "WINDOW", 86400)
        client.call("CF.RESERVE", "cuckoo", 100_000)
        for first in range(0, 90_000, 9_000):
            client.call("CF.INSERT", "cuckoo", "ITEMS", *range(first, first + 9_000))
            client.call("BF.MADD", "plain", *range(first, first + 9_000))
            client.call("BF.MADD", "window", *range(first, first + 9_000))
        # As RedisBloom sends it: items, buckets, removals, layers, slots of a bucket, tries, growth. Then its slots.
        client.call("CF.LOADCHUNK", "theirs", 1, struct.pack("<4Q3H", 0, 65_536, 0, 1, 2, 20, 1))
        client.call("CF.LOADCHUNK", "theirs", 2 * 65_536 + 1, bytes(2 * 65_536))
        for item in range(1000):
            client.call("CF.ADD", "theirs", item)
        client.call("SETRANGE", "string", 500_000, "end")
        return ("plain", "window", "cuckoo", "theirs", "string")

    def test_a_save_that_borrows_the_reserve_has_values_of_all_kinds(self):
        self.on_disk_of(64)
        # The save finds the disk full behind more or fewer of the values.
        for room_kb in (0, 40, 1000, 2000):
            with self.subTest(room_kb):
                daemon = self.start("--journal-save-percent", "0")
                with Client.of(daemon) as client:
                    keys = self.make_all_kinds(client)
                    dumps = [client.call("DUMP", key) for key in keys]
                    self.eventually("the reserve is not whole",
                                    lambda: int(client.info()["disk_reserve_bytes"]) == RESERVE_MB * MB)
                    self.fill()
                    os.truncate(self.ballast, os.path.getsize(self.ballast) - room_kb * 1024)
                    client.save()
                    self.assertIn("reserve lent to a save", daemon.text())
                daemon.kill()
                os.remove(self.ballast)
                daemon = self.start()
                with Client.of(daemon) as client:
                    self.assertEqual([client.call("DUMP", key) for key in keys], dumps)
                daemon.kill()
                shutil.rmtree(self.data)

    def test_a_directory_that_is_put_back_on_a_full_disk_is_used_again(self):
        self.on_disk_of(64)
        daemon = self.start("--journal-save-percent", "0")
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            # The files of the journal get their full size.
            for first in range(0, 200_000, 10_000):
                client.call("BF.MADD", "load", *range(first, first + 10_000))
            client.save()
            self.wait_for_reserve(client)
            self.fill()
            away = self.data + "-away"
            os.rename(self.data, away)
            self.eventually("adds are accepted", lambda: isinstance(client.pipeline([("BF.ADD", "gone", "item")])[0], Refused))
            self.assertRegex(client.info()["journal_refusal"], "is not there: it was moved or removed")
            os.rename(away, self.data)
            client.save()
            self.eventually("deletions are refused for ever", lambda: client.pipeline([("DEL", "gone")])[0] in (0, 1))
            self.assertNotRegex(client.info()["journal_refusal"], "is not there")
            self.adds_go_on(client)
            self.assertEqual(client.info()["journal_refusal"], "")
        daemon.kill()
        with Client.of(self.start()) as client:
            self.assertEqual(client.call("EXISTS", "gone"), 0)
            self.assertEqual(client.call("BF.EXISTS", "kept", "alice"), 1)
            self.assertEqual(client.call("BF.EXISTS", "probe", "item"), 1)

    def test_a_reserve_that_a_save_has_borrowed_is_made_again_though_nothing_changes(self):
        self.on_disk_of(64)
        daemon = self.start("--journal-save-percent", "0")
        with Client.of(daemon) as client:
            client.call("BF.ADD", "kept", "alice")
            self.wait_for_reserve(client)
            client.save()
            for _ in range(2):
                self.fill()
                self.assertEqual(client.call("FLUSHALL"), b"OK")
                client.save()
                self.wait_for_reserve(client)
        self.assertIn("reserve lent to a save", daemon.text())

    def test_filters_that_replace_each_other_do_not_fill_the_disk(self):
        self.on_disk_of(1024)
        daemon = self.start("--journal-save-min", "8mb", "--journal-size-max", "64mb",
                            "--journal-size-max-percent", "0")
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "source", *BIG_FILTER)
            client.call("BF.ADD", "source", "alice")
            most = [0]

            def watch(ended):
                while not ended.wait(0.005):
                    most[0] = max(most[0], bytes_under(self.data))

            with beside(watch):
                for _ in range(40):
                    self.assertEqual(client.call("COPY", "source", "target", "REPLACE"), 1)
            size = int(client.info()["filter_bytes"])
            # The bound, two generations, the reserve, and small files.
            self.assertLess(most[0], (64 + RESERVE_MB + 4) * MB + 2 * size)
            self.assertEqual(client.call("BF.EXISTS", "target", "alice"), 1)

    def test_a_filter_larger_than_the_bound_is_refused(self):
        self.on_disk_of(256)
        daemon = self.start("--journal-size-max", "16mb", "--journal-size-max-percent", "0")
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "source", *BIG_FILTER)
            reply = client.pipeline([("COPY", "source", "target")])[0]
            self.assertRegex(str(reply), "MISCONF .*journal_size_max")
            client.call("CONFIG", "SET", "journal-size-max", "100mb")
            self.assertEqual(client.call("COPY", "source", "target"), 1)

    def test_a_journal_at_its_bound_waits_for_a_save_and_look_ups_go_on(self):
        self.on_disk_of(256)
        daemon = self.start("--journal-save-percent", "0", "--journal-size-max", "8mb",
                            "--journal-size-max-percent", "0")
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "load", "0.000001", "2000000")
            for first in range(0, 1_500_000, 10_000):
                self.assertEqual(len(client.call("BF.MADD", "load", *range(first, first + 10_000))), 10_000)
            self.assertLessEqual(int(client.info()["journal_bytes"]), 8 * MB)
            self.assertGreater(int(client.info()["rdb_saves"]), 1)
