"""Each advice of the status page about a filter is followed: a server is brought into the state, the lines that the page prints are sent as they
are, by redis-cli, and the state is gone."""

import os
import re
import struct
import unittest
import urllib.parse

from page_case import SMALL, PageTest  # first: it adds the folder of the other modules
import client_test
from client import Refused
from overfilled import load_overfilled
from programs import missing

# A library that sets the clock of a program two days ahead.
CLOCK_AHEAD = os.environ.get("SEPAL_CLOCK_AHEAD")


class AdviceTest(PageTest):
    def follow(self, steps, own_source):
        """Does what the steps say. `own_source` adds items where they say so."""
        before = []
        for step in steps:
            before += step["lines"]
            if re.search("own source|for one window", step["text"]):
                # The lines up to here are sent at once, so that a SELECT holds for all of them.
                self.send(before)
                before = [line for line in before if line.startswith("SELECT")]
                own_source()
        self.send(before)

    def check(self, key, state, own_source=lambda: None, text=".", database=0):
        """The page has advice for the filter in this state. When it is followed, the server is well."""
        key_id = "%d/%s" % (database, urllib.parse.quote(key, safe="!~*'()"))
        advice = self.page.ask("filter", key_id, state)
        self.assertRegex(advice["text"], text)
        self.assertTrue(any(step["lines"] for step in advice["steps"]), advice)
        self.follow(advice["steps"], own_source)
        self.page.ask("filter", key_id, "fine")
        # What was refused stays told for some minutes.
        self.client.call("CONFIG", "RESETSTAT")
        self.page.ask("well", "fine")
        self.client.call("FLUSHALL")
        return advice

    def test_bloom_filters(self):
        self.serve()

        def own_source(key):
            return lambda: self.client.call("BF.MADD", key, *self.items(SMALL))
        self.full_bloom()
        self.check("plain", "full", own_source("plain:next"), "refuses new items.*Replace it by a larger filter, and add the refused items again.*has sent every item of its source.*swap")
        self.full_bloom(share=0.9)
        self.check("plain", "filling", own_source("plain:next"), "room for 1[0-9] more items")
        load_overfilled(self.client, "plain", SMALL)
        self.check("plain", "overfilled", own_source("plain:next"), "A larger filter brings the rate back")
        # Items that came meanwhile are in the new filter.
        self.full_bloom()
        self.client.call("BF.RESERVE", "other", "0.001", 3 * SMALL)
        self.client.call("BF.MIRROR", "plain", "other")
        self.try_adds("plain", self.items(SMALL, SMALL))
        advice = self.check("plain", "full", own_source("other"), "mirror is whole: the target gets each new item, also those that this filter refuses")
        self.assertEqual([step["lines"] for step in advice["steps"]], [[], ["BF.MIRROR plain COMMIT"]])

    def test_adds_that_were_refused_and_no_filter_is_full_any_more(self):
        self.serve()
        self.client.call("BF.RESERVE", "seen", "0.01", SMALL, "NONSCALING", "WINDOW", 4)
        self.try_adds("seen", self.items(2 * SMALL))
        self.assertRegex(self.page.ask("trouble", "their filter had no room")[0]["text"],
                         r"^\d+ adds were refused in the last [^:]*: their filter had no room\.It has room again, or is gone\. A filter that forgets .*replace it by one for more items\. Then add the refused items again\.$")
        self.client.call("CONFIG", "RESETSTAT")
        self.client.call("FLUSHALL")
        self.page.ask("well", "")
        # Of both reasons: the line about full filters has the sum.
        full = self.full_bloom()
        self.client.call("BF.RESERVE", "layered", "0.01", 1, "EXPANSION", 1)
        answer = self.client.call("BF.MADD", "layered", *self.items(1000))
        layers = sum(isinstance(one, Refused) for one in answer)
        self.assertGreater(layers, 100)
        self.page.ask("trouble", "2 filters are full")
        [trouble] = self.page.ask("trouble", "%d adds were refused" % (layers + full))
        self.client.call("FLUSHALL")
        troubles = self.page.ask("trouble", "as many layers as it may have")
        self.assertEqual([re.search(r"^(\d+) adds? w[^:]* refused [^:]*: ([^.]*)\.", one["text"]).groups() for one in troubles],
                         [(str(full), "their filter had no room"), (str(layers), "their filter had as many layers as it may have")])

    def test_a_small_filter_in_trouble_is_listed_before_larger_ones(self):
        self.serve("--http-metrics-filters", "5")
        for i in range(30):
            self.client.call("BF.RESERVE", "large:%d" % i, "0.01", 10_000)
        self.client.call("BF.RESERVE", "late", "0.01", 10_000)
        self.client.call("EXPIRE", "late", 7200)
        # Last: the page may ask for the server's figures at any moment.
        for key in ("small:1", "small:2"):
            self.full_bloom(key)
        self.page.ask("trouble", "2 filters are full")
        [trouble] = self.page.ask("trouble", "adds were refused")
        self.assertRegex(trouble["text"], r"refuse new items\. \d+ adds were refused in the last [^.]*\.Replace it by a larger filter\. After that, add the refused items again\. Until then, look-ups say that they are not there\. Choose one to see the lines to send.small:. small:. $")
        self.assertEqual(self.page.ask("text", "#verdict"), "2 of 33 filters are in trouble: 2 full")
        self.assertRegex(self.page.ask("text", "#watched"), r"^7 of 33 filters are listed: all 2 in trouble, and the largest \(http_metrics_filters is 5\)\. .* judged .*, and are judged again when something changes\.$")
        self.assertEqual(self.page.ask("text", "#shown"), "7 of 33 filters")
        self.assertRegex(self.page.ask("text", "#body tr.row"), "^fullsmall:[12]Bloom filter100%")
        self.assertRegex(self.page.ask("text", "#cards"), "33 keys, 1 with a deadline")

    def test_filters_that_cannot_be_chosen(self):
        """Their lines have KEY where the operator writes the key."""
        long = "long:" + 300 * "k"

        def check(key, why):
            self.full_bloom(key)
            [trouble] = self.page.ask("trouble", "It is not listed here")
            self.assertRegex(trouble["text"], r"^1 filter is full: .*It is not listed here, so its lines are not told: %s\. For a Bloom filter" % why)
            self.assertNotIn("Choose it", trouble["text"])
            self.assertEqual(trouble["lines"][-1], "RENAME KEY:next KEY")
            for line in trouble["lines"][:-1]:
                if line.endswith("COMMIT"):
                    self.client.call("BF.MADD", key + ":next", *self.items(SMALL))
                self.send([line.replace("KEY", key).replace("RATE", "0.001").replace("ITEMS", str(2 * SMALL))])
            self.client.call("CONFIG", "RESETSTAT")
            self.page.ask("well", "fine")
        self.serve()
        check(long, "its key has more than 256 bytes")
        # With one that is listed, it can be chosen.
        self.full_bloom("other:" + long)
        self.full_bloom()
        [trouble] = self.page.ask("trouble", "2 filters are full")
        self.assertRegex(trouble["text"], "Choose one to see the lines to send\\.plain")
        self.client.call("FLUSHALL")
        self.assertEqual(self.daemon.stop(), 0)
        self.serve("--http-metrics-pattern", "seen*")
        check("plain", r"its key has more than 256 bytes, or http_metrics_pattern \(seen\*\) leaves it out")
        self.assertEqual(self.daemon.stop(), 0)
        self.serve("--http-metrics-filters", "0")
        check("other", "http_metrics_filters is 0")

    def test_keys_of_other_databases_and_of_any_bytes(self):
        self.serve()
        self.client.call("SELECT", 3)
        key = 'a "key" \\ of\n\ttwo'
        self.full_bloom(key)

        def own_source():
            self.client.call("BF.MADD", key + ":next", *self.items(SMALL))
        advice = self.check(key, "full", own_source, database=3)
        self.assertEqual(advice["steps"][0]["lines"], ["SELECT 3"])
        for missing_id in ("0/no%20such", "3", "16384/plain"):
            self.assertTrue(self.page.ask("missing", missing_id))

    def broken(self):
        """Mirrors `plain` to a target that becomes full. The client goes on."""
        self.client.call("BF.RESERVE", "target", "0.001", 10, "NONSCALING")
        self.client.call("BF.MIRROR", "plain", "target")
        self.try_adds("plain", self.items(40, 1000))

    def test_mirrors(self):
        self.serve()

        def own_source():
            self.client.call("BF.MADD", "target", *self.items(SMALL), *self.items(40, 1000))
        self.client.call("BF.RESERVE", "plain", "0.001", SMALL)
        self.broken()
        # The full target and the broken mirror have one cause, and one line.
        [trouble] = self.page.ask("trouble", "broken mirror")
        self.assertRegex(trouble["text"], "^1 filter has a broken mirror: its target lacks items, and must not replace it. The filter itself works.Begin the mirror again with a larger target")
        # Nor is there a line for what the target refuses itself.
        self.assertGreater(self.try_adds("target", self.items(5, 2000)), 0)
        self.page.ask("asked")
        self.assertEqual(len(self.page.ask("trouble", "broken mirror")), 1)
        self.check("plain", "mirror broken", own_source, "mirror is broken: .*must not replace")
        self.full_bloom()
        self.broken()
        self.check("plain", "full", own_source, "mirror is broken")
        # From the side of the target there is nothing to send.
        self.client.call("BF.RESERVE", "plain", "0.001", SMALL)
        self.broken()
        target = self.page.ask("filter", "0/target", "full")
        self.assertRegex(target["text"], "It is the target of a mirror that is broken.*Choose the source, plain, to see what to do")
        self.assertEqual(target["steps"], [])

    def test_filters_that_delete(self):
        self.serve()
        for share, state in ((1.0, "full"), (0.9, "filling")):
            self.client.call("CF.RESERVE", "carts", SMALL, "EXPANSION", 0, "ERROR", "0.001")
            self.try_adds("carts", self.items(int(share * SMALL) + (5 if share == 1.0 else 0)), "CF.ADD")
            advice = self.check("carts", state, lambda: self.client.call("CF.INSERT", "carts:next", "ITEMS", *self.items(SMALL)), "Remove items.*in the place of the old one, which is deleted")
            self.assertEqual(advice["steps"][0]["lines"], ["CF.RESERVE carts:next 200 EXPANSION 0 ERROR 0.001"])
        # The other advice for it: remove items.
        self.client.call("CF.RESERVE", "carts", SMALL, "EXPANSION", 0)
        self.try_adds("carts", self.items(SMALL + 5), "CF.ADD")
        self.page.ask("filter", "0/carts", "full")
        [trouble] = self.page.ask("trouble", "1 filter is full")
        self.assertRegex(trouble["text"], "Replace it by a larger filter, or remove items")
        self.client.call("CF.MDEL", "carts", *self.items(50))
        self.page.ask("filter", "0/carts", "fine")
        self.client.call("FLUSHALL")
        # RedisBloom's own: 64 buckets of one slot, in one layer that does not grow.
        self.client.call("CF.LOADCHUNK", "moved", 1, struct.pack("<4Q3H", 64, 64, 0, 1, 1, 20, 0))
        self.client.call("CF.LOADCHUNK", "moved", 65, b"\x07" * 64)
        self.try_adds("moved", self.items(5), "CF.ADD")
        self.check("moved", "full", lambda: [self.client.call("CF.ADDNX", "moved:next", item) for item in self.items(10)], "Remove items")

    def test_items_of_a_replaced_filter_that_deletes_are_not_denied(self):
        """Also items that look alike: each has a copy of its own, so the removal of one leaves the other."""
        self.serve()
        self.client.call("CF.RESERVE", "carts", SMALL, "EXPANSION", 0, "ERROR", "0.3")
        self.try_adds("carts", self.items(SMALL + 5), "CF.ADD")
        advice = self.page.ask("filter", "0/carts", "full")
        [command] = re.findall(r"Add the items from your own source to the new key, with (CF\.\w+)\.", advice["text"])
        self.follow(advice["steps"], lambda: self.client.call(command, "carts:next", "ITEMS", *self.items(SMALL)))
        self.client.call("CF.MDEL", "carts", *self.items(SMALL // 2))
        kept = self.items(SMALL // 2, SMALL // 2)
        self.assertEqual(self.client.call("CF.MEXISTS", "carts", *kept), [1] * len(kept))

    def test_filters_that_forget_and_are_fine(self):
        self.serve()
        for key in ("lately", "today"):
            self.client.call("BF.RESERVE", key, "0.01", 100, "LAST")
            # It remembers some more than the last 100: there is room for them.
            self.client.call("BF.MADD", key, *self.items(150))
        self.page.ask("well", "both filters are fine")
        self.assertEqual(self.page.ask("text", "#kinds"), "2 filters that forget")
        self.assertRegex(self.page.ask("text", "#body"), r"[0-9]%")
        self.assertNotRegex(self.page.ask("text", "#body"), r"1(0[1-9]|[1-9][0-9])%")

    def test_filters_that_forget(self):
        self.serve()
        self.client.call("BF.RESERVE", "seen", "0.01", SMALL, "NONSCALING", "WINDOW", 3600)
        self.try_adds("seen", self.items(2 * SMALL))
        [trouble] = [one for one in self.page.ask("trouble", "1 filter is full") if "1 filter is full" in one["text"]]
        self.assertRegex(trouble["text"], r"Replace it, or wait for its next generation\. .* Choose it to see which, and the lines to send\.")
        advice = self.check("seen", "full", lambda: self.client.call("BF.MADD", "seen:next", *self.items(20)), "refuses new items until the next one begins")
        self.assertEqual(advice["steps"][0]["lines"], ["BF.RESERVE seen:next 0.01 200 NONSCALING WINDOW 3600"])

    @unittest.skipUnless(CLOCK_AHEAD, "no library to preload in this build")
    def test_a_filter_that_forgets_and_was_used_while_the_clock_was_ahead(self):
        self.serve(environment={"LD_PRELOAD": CLOCK_AHEAD})
        self.client.call("BF.RESERVE", "seen", "0.01", SMALL, "NONSCALING", "WINDOW", 3600)
        self.try_adds("seen", self.items(2 * SMALL))
        self.assertRegex(self.page.ask("filter", "0/seen", "full")["text"], "Wait for the next generation, or replace it")
        self.assertEqual(self.daemon.stop(), 0)
        self.serve()
        advice = self.check("seen", "full", lambda: self.client.call("BF.MADD", "seen:next", *self.items(20)),
                            r"This generation began in the future, on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, because the clock was ahead.*See that the server's clock is right now: it shows \d{4}-.*Then replace the filter by a new one, and add the refused items again")
        self.assertNotIn("Wait for", advice["text"])
        # As large as the old one: the size was no fault.
        self.assertEqual(advice["steps"][0]["lines"], ["BF.RESERVE seen:next 0.01 100 NONSCALING WINDOW 3600"])

    def test_a_filter_that_replaces_another_has_its_deadline(self):
        self.serve()
        deadline = 4_000_000_000_123

        def check(key, own_source):
            self.client.call("PEXPIREAT", key, deadline)
            self.follow(self.page.ask("filter", "0/" + key, "full")["steps"], own_source)
            self.page.ask("filter", "0/" + key, "fine")
            self.assertEqual(self.client.call("PEXPIRETIME", key), deadline)
            self.client.call("FLUSHALL")
        self.full_bloom()
        check("plain", lambda: self.client.call("BF.MADD", "plain:next", *self.items(SMALL)))
        self.full_bloom()
        self.client.call("BF.RESERVE", "other", "0.001", 3 * SMALL)
        self.client.call("BF.MIRROR", "plain", "other")
        check("plain", lambda: self.client.call("BF.MADD", "other", *self.items(SMALL)))
        self.client.call("CF.RESERVE", "carts", SMALL, "EXPANSION", 0)
        self.try_adds("carts", self.items(SMALL + 5), "CF.ADD")
        check("carts", lambda: self.client.call("CF.INSERT", "carts:next", "ITEMS", *self.items(SMALL)))
        self.client.call("BF.RESERVE", "seen", "0.01", SMALL, "NONSCALING", "WINDOW", 3600)
        self.try_adds("seen", self.items(2 * SMALL))
        check("seen", lambda: self.client.call("BF.MADD", "seen:next", *self.items(20)))

    def test_filters_of_many_layers(self):
        self.serve()
        self.client.call("BF.RESERVE", "plain", "0.01", 2, "EXPANSION", 1)
        self.client.call("BF.MADD", "plain", *self.items(40))
        self.check("plain", "grown", lambda: self.client.call("BF.MADD", "plain:next", *self.items(40)), "Nothing has to be done. One large layer would be faster and smaller")
        self.client.call("BF.RESERVE", "nearly", "0.01", 1, "EXPANSION", 1)
        self.client.call("BF.MADD", "nearly", *self.items(60))
        self.check("nearly", "filling", lambda: self.client.call("BF.MADD", "nearly:next", *self.items(60)), "It has [0-9]+ layers, and with all that it may have room for [0-9]+ more items. Then it refuses new items. *Prepare a larger filter in time")
        # RedisBloom's own grow by layers: here by one of 8 slots each time.
        self.client.call("CF.LOADCHUNK", "moved", 1, struct.pack("<4Q3H", 8, 8, 0, 1, 1, 20, 1))
        self.client.call("CF.LOADCHUNK", "moved", 9, b"\x07" * 8)
        self.try_adds("moved", self.items(100), "CF.ADD")
        self.check("moved", "grown", lambda: [self.client.call("CF.ADDNX", "moved:next", item) for item in self.items(100)], "A look-up searches [0-9]+ layers. A filter that is made for its items is faster")

    def test_memory(self):
        self.serve("--maxmemory", "8mb")
        self.client.call("BF.RESERVE", "plain", "0.01", 5_700_000)
        [trouble] = self.page.ask("trouble", "of maxmemory")
        self.assertRegex(trouble["text"], r"^Filters and keys take 7\.\d+ MiB, 9\d(\.\d)?% of maxmemory\..*plain 7\.\d+ MiB")
        large = ("BF.INSERT", "second", "CAPACITY", 2_000_000, "ITEMS", "x")
        with self.assertRaises(Refused):
            self.client.call(*large)
        [trouble] = self.page.ask("trouble", "1 add was refused in the last")
        self.send(trouble["lines"])
        self.client.call(*large)
        self.page.ask("over", "CONFIG SET")
        [trouble] = self.page.ask("trouble", "1 add was refused")
        self.assertRegex(trouble["text"], "for lack of memory. Now filters and keys take .*If more are refused")

    def test_filters_that_cannot_grow_for_lack_of_memory(self):
        self.serve("--maxmemory", "4mb", "--bf-expansion", "8")
        for key, command, reserve in (("plain", "BF.MADD", ("BF.RESERVE", "plain", "0.01", 1_000_000)),
                                      ("seen", "BF.MADD", ("BF.RESERVE", "seen", "0.01", 300_000, "EXPANSION", 8, "WINDOW", 3600)),
                                      ("moved", "CF.INSERT", ("CF.LOADCHUNK", "moved", 1, struct.pack("<4Q3H", 2 ** 19, 2 ** 19, 0, 1, 1, 1, 32))),
                                      ("parts", "CF.INSERT", ("CF.RESERVE", "parts", 1000, "ERROR", "0.0000001"))):
            self.client.call(*reserve)
            between = ("ITEMS",) if command == "CF.INSERT" else ()
            refused = None
            items = self.items(1_100_000)
            for first in range(0, len(items), 1000):
                answer = self.client.call(command, key, *between, *items[first:first + 1000])
                if (key, first) == ("plain", 900_000):
                    [trouble] = self.page.ask("trouble", "1 filter will not be able to grow")
                    self.assertRegex(trouble["text"], "it would take more memory than is left\\. Then it refuses new items\\. To grow takes up to [^ ]+ [KMGT]iB\\.Remove keys .*raise the limit")
                    self.assertRegex(self.page.ask("filter", "0/plain", "filling")["text"], "It has room for [\\d,]+ more items|room for .* more items. Then it refuses new items.*in time")
                if any(isinstance(one, Refused) or one == -1 for one in answer):
                    refused = items[first:first + 1000]
                    break
            self.assertIsNotNone(refused, key)
            [trouble] = self.page.ask("trouble", "1 filter cannot grow")
            self.assertRegex(trouble["text"], r"cannot grow: it would take more memory than is left\. It refuses new items\. [\d,]+ adds? w(as|ere) refused in the last [^.]* for lack of memory\. Filters and keys take [^%%]*%% of maxmemory\. To grow takes up to [^ ]+ [KMGT]iB\.Remove keys .*raise the limit.*After that, add the refused items again\. Until then, look-ups say that they are not there\.%s" % key)
            advice = self.page.ask("filter", "0/" + key, "full")
            self.assertRegex(advice["text"], "It has to grow, and would take more memory than is left\\. Now (its room is used up|parts of it have no room): it refuses new items")
            # The limit is raised, and nothing else changes.
            self.follow(advice["steps"], lambda: None)
            self.page.ask("over", "cannot grow")
            self.client.call(command, key, *between, *refused)
            self.page.ask("filter", "0/" + key, "fine")
            self.client.call("FLUSHALL")
            self.client.call("CONFIG", "SET", "maxmemory", "4mb")


if __name__ == "__main__":
    client_test.main(missing("status_page"))
