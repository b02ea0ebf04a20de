"""The status page in a browser: Debian's chromium, driven by playwright-core, and looked at by axe-core. browse.js has the steps.

With SEPAL_SCREENSHOTS=FOLDER it tests nothing, and writes pictures of the page, with 5,000 filters, into that folder: those of docs/screenshots/.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
import client_test
from client import Client
from client_test import INSTALLED
from daemon import free_port
from overfilled import load_overfilled
from programs import missing

MODULES = INSTALLED / "status_page" / "node_modules"
PARTS = ("content", "sorting", "search", "keys", "charts", "advice", "cuckoo", "planner", "accessible", "keyboard", "dark", "screens", "odd keys", "copies", "escape",
         "small rates", "far deadline", "planner reads", "without style", "many rows")
BROWSER_SECONDS_MAX = 900
CAPACITY = 20_000
# Keys that look alike where a page shows them carelessly, and what the page shows.
ODD = {
    b"odd": "odd", b"odd ": "odd\\x20", b" odd": "\\x20odd", b"odd odd": "odd odd", b"odd  odd": "odd \\x20odd", b"odd\t": "odd\\x09", b"odd\n": "odd\\x0a", b"odd\0": "odd\\x00",
    b"odd\x7f": "odd\\x7f", b"odd\\x00": "odd\\\\x00", b"odd\\": "odd\\\\", b"odd\xff": "odd\\xff", b"odd\\xff": "odd\\\\xff", b"odd\xc3": "odd\\xc3", b"odd\xed\xa0\x80": "odd\\xed\\xa0\\x80",
    "odd\u00e9".encode(): "odd\u00e9", "odde\u0301".encode(): "odde\\xcc\\x81", "odd\u00a0odd".encode(): "odd\\xc2\\xa0odd", "odd\u200b".encode(): "odd\\xe2\\x80\\x8b",
    "odd\u202edo".encode(): "odd\\xe2\\x80\\xaedo", "\ufeffodd".encode(): "\\xef\\xbb\\xbfodd", "odd\u05d0:\u05d1".encode(): "odd\u05d0:\u05d1", "odd\u212a".encode(): "odd\\xe2\\x84\\xaa",
    "odd\uff41".encode(): "odd\\xef\\xbd\\x81", b"odd'\"$(`": "odd'\"$(`", b"odd%20": "odd%20", b"": "(empty key)", b"\xff\xfe": "\\xff\\xfe", "\u540d:odd".encode(): "\u540d:odd",
}
LONG = "long:" + "tenant:0123456789:" * 8
MARKUP = "<img src=x onerror=alert(1)>"
PICTURES = os.environ.get("SEPAL_SCREENSHOTS")
SMALL_FILTERS = 5000 if PICTURES else 40


class StatusPageTest(client_test.ClientTest):
    def add(self, key, count, prefix=""):
        for first in range(0, count, 1000):
            self.client.call("BF.MADD", key, *("%s%d" % (prefix, i) for i in range(first, min(count, first + 1000))))

    def make_filters(self):
        load_overfilled(self.client, "overfilled", CAPACITY)
        for key, share in (("full", 1.1), ("filling", 0.9)):
            self.client.call("BF.RESERVE", key, "0.01", "1000", "NONSCALING")
            for i in range(int(1000 * share)):
                try:
                    self.client.call("BF.ADD", key, i)
                except Exception as error:
                    self.assertIn("full", str(error))
        self.client.call("BF.RESERVE", "sessions", "0.001", "1000000")
        self.add("sessions", 50_000)
        self.client.call("BF.RESERVE", "grown", "0.01", "500")
        self.add("grown", 9000)
        self.client.call("CF.RESERVE", "carts", "2000", "ERROR", "0.001", "EXPANSION", "0")
        for first in range(0, 1700, 100):
            self.client.call("CF.INSERT", "carts", "ITEMS", *range(first, first + 100))
        self.client.call("CF.LOADCHUNK", "moved", 1, struct.pack("<4Q3H", 64, 64, 5, 1, 2, 20, 1))
        self.client.call("CF.LOADCHUNK", "moved", 129, b"\x07\x00" * 64)
        for key in (MARKUP, b"binary\xff"):
            self.client.call("BF.ADD", key, "x")
        self.make_odd()
        for i in range(SMALL_FILTERS):
            self.client.call("BF.RESERVE", "user:%d" % i, "0.01", 1000 + 10 * i)
            self.add("user:%d" % i, 37 * i % 900 + 1)

    def make_odd(self):
        """Keys that are hard to show, in database 1, each with as many items as its place; and a filter that errs hardly ever."""
        if PICTURES:
            return
        with Client.of(self.daemon) as client:
            client.call("SELECT", 1)
            for place, key in enumerate(ODD, 1):
                client.call("BF.RESERVE", key, "0.01", "100")
                client.call("BF.MADD", key, *range(place))
            for end in "ab":
                client.call("BF.ADD", LONG + end, "x")
        self.client.call("BF.RESERVE", "tiny", "0.000000001", "1000")
        self.client.call("BF.ADD", "tiny", "x")
        self.client.call("BF.INSERT", "far", "EX", 9_000_000_000_000, "ITEMS", "x")

    def test_the_page_in_a_browser(self):
        web = free_port()
        daemon = self.start("--http-port", str(web), "--http-metrics-filters", "10000")
        self.daemon = daemon
        self.client = Client.of(daemon)
        self.addCleanup(self.client.close)
        self.make_filters()
        names = ["overfilled", "full", "filling", "carts", "moved", "sessions", "grown", MARKUP, "binary\\xff", *("user:%d" % i for i in range(SMALL_FILTERS)),
                 "tiny", "far", LONG + "a", LONG + "b", *ODD.values()]
        odd = {} if PICTURES else self.odd_ids(web, len(names))
        facts = {"keys": names, "odd": {odd_id: ODD[key] for odd_id, key in odd.items()}, "long": LONG + "b", "largest": "sessions", "markup": MARKUP, "overfilled_capacity": CAPACITY}
        # chromium writes its profile into HOME.
        environment = dict(os.environ, SEPAL_WEB="http://127.0.0.1:%d" % web, SEPAL_CHROMIUM=shutil.which("chromium"),
                           SEPAL_MODULES=str(MODULES), SEPAL_FACTS=json.dumps(facts), HOME=self.scratch)
        if PICTURES:
            self.keep_busy(daemon)
        done = subprocess.run(["node", str(FOLDER / "browse.js")], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=BROWSER_SECONDS_MAX, cwd=self.scratch)
        self.assertEqual(done.returncode, 0, done.stdout)
        if PICTURES:
            return
        self.assertEqual(re.findall(r"^ok (.*)$", done.stdout, re.M), list(PARTS), done.stdout)
        self.follow(json.loads(re.search(r"^advice (.*)$", done.stdout, re.M).group(1)))
        self.send_copied(json.loads(re.search(r"^copied (.*)$", done.stdout, re.M).group(1)), odd, daemon.port)
        self.compare_plans(json.loads(re.search(r"^planned (.*)$", done.stdout, re.M).group(1)))
        for line in json.loads(re.search(r"^cuckoo (.*)$", done.stdout, re.M).group(1)):
            self.assertEqual(self.client.call(*shlex.split(line)), b"OK")

    def odd_ids(self, web, count):
        """The odd keys by their ids in the address of the page, as soon as the server has seen all filters and their history begins."""
        while True:
            rows = self.ask(web, "filters")["rows"]
            odd = {}
            for database, key, encoded, *_ in rows:
                if database == 1 and not key.startswith(LONG):
                    odd["1/" + (encoded or urllib.parse.quote(key, safe="!~*'()"))] = urllib.parse.unquote_to_bytes(encoded) if encoded else key.encode()
            if len(rows) == count and self.ask(web, "filter?database=0&key=overfilled")["history"]:
                self.assertEqual(set(odd.values()), set(ODD))
                return odd
            time.sleep(0.02)

    @staticmethod
    def ask(web, path):
        with urllib.request.urlopen("http://127.0.0.1:%d/api/%s" % (web, path)) as answer:
            return json.load(answer)

    def send_copied(self, copied, odd, port):
        """What the page copies, redis-cli takes: each key has its own number of items."""
        self.assertEqual(set(copied), set(odd))
        lines = "select 1\n" + "".join("BF.CARD %s\n" % text for text in copied.values())
        done = subprocess.run(["redis-cli", "-p", str(port)], input=lines, stdout=subprocess.PIPE, text=True, timeout=BROWSER_SECONDS_MAX, check=True)
        places = {key: place for place, key in enumerate(ODD, 1)}
        self.assertEqual(done.stdout.split(), ["OK", *(str(places[odd[odd_id]]) for odd_id in copied)])

    def compare_plans(self, planned):
        """`sepal plan` reads the same words, and makes the same line of them."""
        for items, rate, window, wanted in planned:
            asked, capacity, *forgets = wanted.split()
            if "," in items:
                continue
            if not re.fullmatch(r"[\d.e+-]+", rate):
                rate = asked
            words = ["--rate" if "/" in items else "--capacity", items, "--error", rate]
            done = subprocess.run([os.environ["SEPAL"], "plan", *words, *(["--window", window] if window else [])],
                                  stdout=subprocess.PIPE, text=True, timeout=BROWSER_SECONDS_MAX, check=True)
            if window:
                line = re.search(r"BF\.RESERVE key (\S+) (\d+)(.*)", done.stdout)
                self.assertEqual((float(line.group(1)), line.group(2), line.group(3).split()), (float(asked), capacity, forgets))
            else:
                first = re.match(r"error rate (\S+), .*?(\d+)", done.stdout)
                self.assertEqual((float(first.group(1)), first.group(2)), (float(asked), capacity), done.stdout)

    def keep_busy(self, daemon):
        """So that there is a load, and a history that changes."""
        ended = threading.Event()

        def work():
            with Client.of(daemon) as client:
                number = 50_000
                while not ended.wait(0.05):
                    client.call("BF.MADD", "sessions", *(str(number + i) for i in range(400)))
                    client.call("BF.MEXISTS", "user:7", *(str(i) for i in range(100)))
                    number += 400
        thread = threading.Thread(target=work)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ended.set)

    def follow(self, lines):
        """What the page tells an operator to type."""
        for line in lines[:2]:
            self.client.call(*shlex.split(line))
        self.add("overfilled:next", CAPACITY)
        self.client.call(*shlex.split(lines[2]))
        answers = self.client.call("BF.STATS", "overfilled")
        stats = dict(zip(answers[::2], answers[1::2]))
        self.assertLess(float(stats[b"false_positive_rate_now"]), 0.01)


if __name__ == "__main__":
    client_test.main(missing("status_page"))
