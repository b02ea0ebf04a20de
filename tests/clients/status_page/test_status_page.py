"""The status page in a browser: Debian's chromium, driven by playwright-core, and looked at by axe-core. browse.js has the steps.

With SEPAL_SCREENSHOTS=FOLDER it tests nothing, and writes pictures of the page, with 5,000 filters, into that folder: those of docs/screenshots/.
"""

import json
import math
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import threading

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
import client_test
from client import Client
from client_test import INSTALLED
from daemon import free_port
from programs import missing

MODULES = INSTALLED / "status_page" / "node_modules"
PARTS = ("content", "sorting", "search", "keys", "charts", "advice", "cuckoo", "planner", "accessible", "keyboard", "dark", "phone", "without style",
         "many rows")
BROWSER_SECONDS_MAX = 280
CAPACITY = 20_000
MARKUP = "<img src=x onerror=alert(1)>"
PICTURES = os.environ.get("SEPAL_SCREENSHOTS")
SMALL_FILTERS = 5000 if PICTURES else 40


class StatusPageTest(client_test.ClientTest):
    def add(self, key, count, prefix=""):
        for first in range(0, count, 1000):
            self.client.call("BF.MADD", key, *("%s%d" % (prefix, i) for i in range(first, min(count, first + 1000))))

    def make_overfilled(self):
        """A filter as RedisBloom dumps it (include/sepal/bloom/foreign/redisbloom.hpp), with three quarters of its bits set: two times its room."""
        bits_per_item = -math.log(0.01) / math.log(2) ** 2
        size = (int(CAPACITY * bits_per_item) // 64 + 1) * 8
        no_rounding, wide_hashes, no_scaling = 1, 4, 8
        header = struct.pack("<QIII" + "QQQddIQB", CAPACITY, 1, no_rounding | wide_hashes | no_scaling, 2,
                             size, 8 * size, CAPACITY, 0.01, bits_per_item, 7, CAPACITY, 0)
        chance = random.Random(7)
        bits = bytes(one | other for one, other in zip(chance.randbytes(size), chance.randbytes(size)))
        self.client.call("BF.LOADCHUNK", "overfilled", 1, header)
        self.client.call("BF.LOADCHUNK", "overfilled", 1 + size, bits)

    def make_filters(self):
        self.make_overfilled()
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
        for i in range(SMALL_FILTERS):
            self.client.call("BF.RESERVE", "user:%d" % i, "0.01", 1000 + 10 * i)
            self.add("user:%d" % i, 37 * i % 900 + 1)

    def test_the_page_in_a_browser(self):
        web = free_port()
        daemon = self.start("--http-port", str(web), "--http-metrics-filters", "10000")
        self.client = Client.of(daemon)
        self.addCleanup(self.client.close)
        self.make_filters()
        names = ["overfilled", "full", "filling", "carts", "moved", "sessions", "grown", MARKUP, "binary\\xff", *("user:%d" % i for i in range(SMALL_FILTERS))]
        facts = {"keys": names, "largest": "sessions", "markup": MARKUP, "overfilled_capacity": CAPACITY}
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
        for line in json.loads(re.search(r"^cuckoo (.*)$", done.stdout, re.M).group(1)):
            self.assertEqual(self.client.call(*shlex.split(line)), b"OK")

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
