"""Each advice of the status page is followed: a server is brought into the state, the lines that the page prints are sent as they are,
by redis-cli, and the state is gone. follow.js reads the page in Debian's chromium."""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import urllib.parse

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
import client_test
from certificates import Authority
from client import Client, Refused
from client_test import INSTALLED
from daemon import beside, free_port
from disk_case import fill, mount, unmount
from overfilled import load_overfilled
from programs import missing

TIMEOUT = 300
SMALL = 100  # items of a filter


class Page:
    """A browser with the page of a server."""

    def __init__(self, test, daemon, web):
        environment = dict(os.environ, SEPAL_CHROMIUM=shutil.which("chromium"), SEPAL_MODULES=str(INSTALLED / "status_page" / "node_modules"), HOME=test.scratch)
        self.test = test
        self.process = subprocess.Popen(["node", str(FOLDER / "follow.js")], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=test.scratch)
        test.addCleanup(self.end)
        self.ask("open", "http://127.0.0.1:%d/" % web)

    def end(self):
        self.process.stdin.close()
        self.process.wait(TIMEOUT)
        self.process.stdout.close()

    def ask(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            self.test.fail("%r: %s" % (words, answer["error"]))
        return answer


class PageTest(client_test.ClientTest):
    def serve(self, *arguments, **options):
        self.web = free_port()
        self.daemon = self.start("--http-port", str(self.web), *arguments, **options)
        self.client = Client.of(self.daemon, self)
        self.page = Page(self, self.daemon, self.web)

    def send(self, lines):
        """By one redis-cli, as printed. All are taken."""
        done = subprocess.run(["redis-cli", "-p", str(self.daemon.port)], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
        self.assertNotRegex(done.stdout, r"(?m)^(ERR|[A-Z]+ERR|Invalid|OOM|MISCONF|WRONGTYPE)|error", lines)
        return done.stdout


class AdviceTest(PageTest):
    def try_adds(self, key, items, command="BF.ADD"):
        for item in items:
            try:
                self.client.call(command, key, item)
            except Refused:
                pass

    def follow(self, steps, own_source):
        """Does what the steps say. `own_source` adds items where they say so."""
        before = []
        for step in steps:
            before += step["lines"]
            if not step["lines"]:
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
        self.page.ask("well", "fine")
        self.client.call("FLUSHALL")
        return advice

    def items(self, count, first=0):
        return ["item:%d" % i for i in range(first, first + count)]

    def full_bloom(self, key="plain", share=1.0):
        self.client.call("BF.RESERVE", key, "0.001", SMALL, "NONSCALING")
        self.try_adds(key, self.items(int(share * SMALL) + (5 if share == 1.0 else 0)))

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
        self.assertRegex(trouble["text"], r"refuse new items\. \d+ adds were refused in the last [^.]*\.Replace it by a larger filter\. Add the refused items again then\. Choose one to see the lines to send.small:. small:. $")
        self.assertEqual(self.page.ask("text", "#verdict"), "2 of 33 filters are in trouble: 2 full")
        self.assertRegex(self.page.ask("text", "#watched"), r"^7 of 33 filters are listed: all 2 in trouble, and the largest \(http_metrics_filters is 5\)\. .* judged .*, and are judged again when something changes\.$")
        self.assertEqual(self.page.ask("text", "#shown"), "7 of 33 filters")
        self.assertRegex(self.page.ask("text", "#body tr.row"), "^fullsmall:[12]Bloom filter100%")
        self.assertRegex(self.page.ask("text", "#cards"), "33 keys, 1 with a deadline")

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
        self.assertRegex(trouble["text"], "^1 filter has a broken mirror: its target lacks items.Begin the mirror again with a larger target")
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
            self.check("carts", state, lambda: [self.client.call("CF.ADDNX", "carts:next", item) for item in self.items(SMALL)], "Remove items.*The old filter is deleted")
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

    def test_filters_that_forget(self):
        self.serve()
        self.client.call("BF.RESERVE", "seen", "0.01", SMALL, "NONSCALING", "WINDOW", 3600)
        self.try_adds("seen", self.items(2 * SMALL))
        advice = self.check("seen", "full", lambda: self.client.call("BF.MADD", "seen:next", *self.items(20)), "refuses new items until the next one begins")
        self.assertEqual(advice["steps"][0]["lines"], ["BF.RESERVE seen:next 0.01 200 NONSCALING WINDOW 3600"])

    def test_filters_of_many_layers(self):
        self.serve()
        self.client.call("BF.RESERVE", "plain", "0.01", 2, "EXPANSION", 1)
        self.client.call("BF.MADD", "plain", *self.items(40))
        self.check("plain", "grown", lambda: self.client.call("BF.MADD", "plain:next", *self.items(40)), "Nothing has to be done. One large layer would be faster and smaller")
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
                                      ("moved", "CF.INSERT", ("CF.LOADCHUNK", "moved", 1, struct.pack("<4Q3H", 2 ** 19, 2 ** 19, 0, 1, 1, 1, 32)))):
            self.client.call(*reserve)
            between = ("ITEMS",) if command == "CF.INSERT" else ()
            refused = None
            items = self.items(1_100_000)
            for first in range(0, len(items), 1000):
                answer = self.client.call(command, key, *between, *items[first:first + 1000])
                if (key, first) == ("plain", 900_000):
                    [trouble] = self.page.ask("trouble", "1 filter will not be able to grow")
                    self.assertRegex(trouble["text"], "its next layer would take more memory than is left\\. Then it refuses new items\\.Remove keys .*raise the limit")
                    self.assertRegex(self.page.ask("filter", "0/plain", "filling")["text"], "It has room for [\\d,]+ more items|room for .* more items. Then it refuses new items.*in time")
                if any(isinstance(one, Refused) or one == -1 for one in answer):
                    refused = items[first:first + 1000]
                    break
            self.assertIsNotNone(refused, key)
            [trouble] = self.page.ask("trouble", "1 filter cannot grow")
            self.assertRegex(trouble["text"], r"its next layer would take more memory than is left\. It refuses new items\. [\d,]+ adds? w(as|ere) refused in the last [^.]* for lack of memory\.Remove keys .*raise the limit.*Add the refused items again then\.%s" % key)
            advice = self.page.ask("filter", "0/" + key, "full")
            self.assertRegex(advice["text"], "It has to grow, and its next layer would take more memory than is left\\. Now its room is used up: it refuses new items")
            # The limit is raised, and nothing else changes.
            self.follow(advice["steps"], lambda: None)
            self.page.ask("over", "cannot grow")
            self.client.call(command, key, *between, *refused)
            self.page.ask("filter", "0/" + key, "fine")
            self.client.call("FLUSHALL")
            self.client.call("CONFIG", "SET", "maxmemory", "4mb")

    def test_keys(self):
        self.serve("--keys-max", "20")
        for i in range(19):
            self.client.call("SET", "key:%d" % i, "x")
        [trouble] = self.page.ask("trouble", "19 keys of at most 20")
        self.assertRegex(trouble["text"], "raise keys_max in sepald.toml and start sepald again")
        self.daemon.stop()
        self.serve("--keys-max", "40")
        self.assertEqual(self.client.call("DBSIZE"), 19)
        self.page.ask("well", "")

    def test_clients(self):
        self.serve("--maxclients", "40")
        with_clients = [self.daemon.connect(self) for _ in range(36)]
        [trouble] = self.page.ask("trouble", "connections of at most 40")
        self.assertEqual(trouble["lines"], ["CLIENT LIST", "CONFIG SET maxclients 80"])
        self.send(trouble["lines"])
        self.page.ask("well", "")
        self.assertEqual(self.client.call("CONFIG", "GET", "maxclients"), [b"maxclients", b"80"])
        self.assertEqual(len(with_clients), 36)

    def on_small_disk(self, *arguments):
        place = os.path.join(self.scratch, "disk")
        os.mkdir(place)
        done = mount("-t", "tmpfs", "-o", "size=64m", "sepal-test", place)
        if done.returncode != 0:
            self.skipTest("mounting is not allowed here: " + done.stderr.strip())
        self.addCleanup(unmount, place)
        self.ballast = os.path.join(place, "ballast")
        self.serve("--journal-segment", "2mb", "--disk-reserve", "1mb", *arguments, directory=os.path.join(place, "data"))

    def test_a_full_disk(self):
        self.on_small_disk()
        self.client.call("BF.RESERVE", "plain", "0.01", 1000)
        fill(self.ballast)

        filling = threading.Lock()
        self.filled = True

        def write(ended):
            """A client that goes on, and something else that takes what becomes free."""
            with Client.of(self.daemon) as client:
                for number in itertools.count():
                    if ended.is_set():
                        return
                    with filling:
                        if self.filled:
                            fill(self.ballast)
                    try:
                        client.call("BF.MADD", "plain", *("item:%d:%d" % (number, i) for i in range(1000)))
                    except Refused as refusal:
                        self.assertTrue(str(refusal).startswith("MISCONF"), refusal)
        with beside(write):
            troubles = self.page.ask("trouble", "Changes are refused")
            self.assertRegex(troubles[0]["text"], "Look-ups go on, and no change that was answered is lost.*First free room on that disk.*Only then")
            self.assertRegex(self.page.ask("text", "#cards"), "Journalrefusesrefuses changes")
            with filling:
                self.filled = False
                os.remove(self.ballast)
            self.send(troubles[0]["lines"])
            self.page.ask("over", "Changes are refused")
        self.client.call("BF.ADD", "plain", "again")

    def test_a_save_that_failed(self):
        self.on_small_disk("--journal", "off")
        self.client.call("BF.RESERVE", "plain", "0.01", 20_000_000)
        self.client.call("BF.ADD", "plain", "x")
        fill(self.ballast)
        with self.assertRaises(Refused):
            self.client.call("SAVE")
        [trouble] = self.page.ask("trouble", "The last save failed: ")
        os.remove(self.ballast)
        self.send(trouble["lines"])
        self.page.ask("well", "")

    def test_a_certificate_that_ends(self):
        authority = Authority(self.scratch)
        signed = authority.sign("server", days=5)
        self.serve("--tls-port", str(free_port()), "--tls-cert-file", signed.certificate, "--tls-key-file", signed.key)
        [trouble] = self.page.ask("trouble", "The TLS certificate ends in")
        self.assertRegex(trouble["text"], r"on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\..*Replace its files, then send SIGHUP")
        self.assertEqual(trouble["lines"], ["systemctl reload sepald"])
        authority.sign("server", days=300)
        self.daemon.send_signal(signal.SIGHUP)
        self.page.ask("well", "")

    def test_a_pause_of_clients(self):
        self.serve()
        self.client.call("BF.RESERVE", "plain", "0.01", SMALL)
        self.client.call("CLIENT", "PAUSE", 3_600_000, "WRITE")
        with Client.of(self.daemon) as writer:
            writer.send(("BF.ADD", "plain", "x"))
            [trouble] = self.page.ask("trouble", "Clients are paused for another")
            self.assertRegex(trouble["text"], r"^Clients are paused for another (1 hour|60 minutes|59 minutes), by CLIENT PAUSE: requests that may change something wait, and look-ups go on\.")
            self.assertEqual(self.client.call("BF.EXISTS", "plain", "x"), 0)
            self.send(trouble["lines"])
            self.page.ask("well", "")
            self.assertEqual(writer.receive(), 1)

    def test_a_pause_that_no_command_can_end(self):
        self.serve()
        self.client.call("BF.ADD", "plain", "x")
        self.client.call("CLIENT", "PAUSE", 3_600_000)
        with Client.of(self.daemon) as client:
            client.send(("CLIENT", "UNPAUSE"))
            [trouble] = self.page.ask("trouble", "Clients are paused for another")
        self.assertRegex(trouble["text"], r"by CLIENT PAUSE: no request is answered\.No command can end it, because each would wait too\.")
        self.assertEqual(trouble["lines"], ["systemctl restart sepald"])
        # What systemctl does.
        self.assertEqual(self.daemon.stop(), 0)
        self.serve()
        self.page.ask("well", "")
        self.assertEqual(self.client.call("BF.EXISTS", "plain", "x"), 1)

    def test_what_was_turned_away(self):
        self.serve()
        self.client.call("ACL", "SETUSER", "reader", "on", ">secret", "~mine:*", "+bf.exists", "+acl|whoami")
        with Client.of(self.daemon) as client:
            with self.assertRaises(Refused):
                client.call("AUTH", "reader", "wrong")
            client.call("AUTH", "reader", "secret")
            for words in (("BF.ADD", "mine:1", "x"), ("BF.EXISTS", "yours", "x")):
                with self.assertRaises(Refused):
                    client.call(*words)
        # What clients are refused is no trouble for ever, and no alarm.
        for text, said in (("wrong password", "auth"), ("command that its user may not use", "command"), ("key that its user may not use", "key")):
            [trouble] = [one for one in self.page.ask("trouble", text) if text in one["text"]]
            self.assertRegex(trouble["text"], "^In the last .*: 1 ")
            self.assertIn(said, self.send(trouble["lines"]))
        self.assertRegex(self.page.ask("text", "#cards"), "3look|Refused, last minuteslook here3")

    def test_errors_are_counted(self):
        """The items of a request are answered one by one: there may be more errors than requests."""
        self.serve()
        with Client.of(self.daemon) as client:
            for _ in range(2):
                with self.assertRaises(Refused):
                    client.call("AUTH", "nobody", "wrong")
        self.page.ask("trouble", "2 wrong passwords")
        self.assertRegex(self.page.ask("text", "#cards"), "Refused, last minuteslook here2wrong passwords2 error replies; each item of a request can have one")


if __name__ == "__main__":
    client_test.main(missing("status_page"))
