"""The pages for operators: what they tell, what they refuse, and that no client of them holds up anything."""

import http.client
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import threading
import time

from client import Client
from daemon import EXACT_RATE, SANITIZED, DaemonTest, beside, free_port

SECONDS_MAX = 300
BIG_FILTERS = 2 if SANITIZED else 4
BIG_CAPACITY = 40_000_000
STARTS_MAX = 20


def samples(text):
    """Name with labels -> value."""
    return {name: float(value) for name, value in re.findall(r"^([^#\n].*) (\S+)$", text, re.M)}


class HttpTest(DaemonTest):
    def serve(self, *arguments, wait=True):
        self.web = free_port()
        return self.start("--http-port", str(self.web), *arguments, wait=wait)

    def get(self, path, method="GET", **headers):
        """Status, headers, text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.web, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode()
        finally:
            connection.close()

    def metrics(self):
        status, headers, text = self.get("/metrics")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        return samples(text)

    def eventually_metrics(self, what, condition):
        """The text is made at most five times a second, and filters are measured every few seconds."""
        self.eventually(what, lambda: condition(self.metrics()))
        return self.metrics()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.web), timeout=SECONDS_MAX)


class PagesTest(HttpTest):
    def test_there_is_no_http_unless_it_is_asked_for(self):
        daemon = self.start()
        self.assertNotIn("HTTP", daemon.text())

    def test_a_server_that_runs_is_alive_and_ready(self):
        self.serve()
        self.assertEqual(self.get("/healthz")[0::2], (200, "alive\n"))
        self.assertEqual(self.get("/readyz")[0::2], (200, "ready\n"))
        self.assertEqual(self.get("/nothing")[0], 404)

    def test_metrics_tell_what_clients_did(self):
        daemon = self.serve("--maxclients", "99")
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "big", "0.01", 1_000_000)
            # So many items that the estimate, which looks at a part of the bits, errs little.
            client.call("BF.MADD", "big", *range(10_000, 60_000))
            for number in range(1000):
                client.call("BF.ADD", "big", number)
            client.call("BF.EXISTS", "big", 1)
            big = '{database="0",key="big"}'
            told = self.eventually_metrics("the filter is not measured", lambda now: now.get("sepal_filter_lookups_total" + big) == 1)
            self.assertEqual(told["sepal_filter_adds_total" + big], told["sepal_filter_items" + big])
            items = told["sepal_filter_items" + big]
            self.assertAlmostEqual(told["sepal_filter_items_estimated" + big], items, delta=0.05 * items)
            self.assertEqual(told["sepal_filter_false_positive_asked_ratio" + big], 0.01)
            self.assertEqual(told['sepal_command_calls_total{command="bf.add"}'], 1000)
            self.assertEqual(told["sepal_connections"], 1)
            self.assertEqual(told["sepal_connections_max"], 99)
            self.assertEqual(told['sepal_command_duration_seconds_count{command="bf.add"}'], 1000)
            client.call("DEL", "big")
            self.eventually_metrics("the filter is still there", lambda now: "sepal_filter_items" + big not in now)

    def test_openmetrics_when_it_is_asked_for(self):
        self.serve()
        status, headers, text = self.get("/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"))
        self.assertTrue(text.endswith("# EOF\n"))

    def test_only_the_largest_filters_that_match_are_told(self):
        daemon = self.serve("--http-metrics-filters", "2", "--http-metrics-pattern", "seen:*")
        with Client.of(daemon) as client:
            for number in range(1, 5):
                client.call("BF.RESERVE", "seen:%d" % number, "0.01", number * 1000)
            client.call("BF.RESERVE", "unseen", "0.01", 100_000)
            names = {'sepal_filter_items{database="0",key="seen:%d"}' % number for number in (3, 4)}
            self.eventually_metrics("the filters are not told",
                                    lambda told: {name for name in told if name.startswith("sepal_filter_items{")} == names)

    def test_a_taken_port_ends_the_start(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            daemon = self.start("--http-port", str(taken.getsockname()[1]), wait=False)
            self.assertEqual(daemon.wait(), 1)
            self.assertIn("cannot listen for HTTP on 127.0.0.1 port %d" % taken.getsockname()[1], daemon.text())


class StatusPageTest(HttpTest):
    """The files of the page and what they show. tests/clients/status_page looks at it in a browser."""

    def ask(self, path, status=200):
        answered, headers, text = self.get(path)
        self.assertEqual((answered, headers["Content-Type"]), (status, "application/json"), text)
        return json.loads(text)

    def rows(self):
        answer = self.ask("/api/filters")
        return {row[1]: dict(zip(answer["columns"], row)) for row in answer["rows"]}

    def test_the_page_is_whole_and_takes_nothing_from_elsewhere(self):
        self.serve()
        status, headers, text = self.get("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        policy = headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        named = set(re.findall(r'(?:href|src)="(/[^"#]+)"', text))
        for name in sorted(named):
            status, headers, body = self.get(name)
            self.assertEqual((status, headers["X-Content-Type-Options"], headers["Referrer-Policy"]), (200, "nosniff", "no-referrer"), name)
            named |= {"/" + module for module in re.findall(r'from "\./([^"]+)"', body)}
        files = pathlib.Path(__file__).resolve().parents[2] / "src" / "app" / "page"
        self.assertEqual(named, {"/" + file.name for file in files.iterdir()} - {"/index.html"})
        for name in sorted(named | {"/"}):
            body = self.get(name)[2]
            self.assertNotRegex(body.replace("http://www.w3.org/", ""), "https?://|innerHTML|eval\\(")
            status, headers, nothing = self.get(name, "HEAD")
            self.assertEqual((status, headers["Content-Length"], nothing), (200, str(len(body.encode())), ""), name)

    def test_the_page_is_there_for_this_server_only(self):
        self.serve()
        for path in ("/", "/page.js", "/api/server", "/api/filters", "/api/filter?database=0&key=a", "/api/plan"):
            self.assertEqual(self.get(path, Host="evil.example")[0], 421)
            self.assertEqual(self.get(path, "POST")[0], 405)

    def test_the_server_at_a_glance(self):
        daemon = self.serve("--maxmemory", "1gb", "--maxclients", "99")
        with Client.of(daemon) as client:
            client.call("BF.MADD", "k", "a", "b")
            with self.assertRaises(Exception):
                client.call("BF.INFO", "other")
            self.eventually("it is not told", lambda: self.ask("/api/server")["items_added"] == 2)
            told = self.ask("/api/server")
        self.assertEqual((told["keys"], told["connections_max"], told["errors"]), (1, 99, {"ERR": 1}))
        self.assertEqual(told["memory"]["maxmemory_bytes"], 1 << 30)
        self.assertGreater(told["memory"]["used_bytes"], 0)
        self.assertEqual((told["journal"]["policy"], told["journal"]["accepting"], told["save"]["ok"]), ("everysec", True, True))

    def test_a_filter_with_its_layers_curve_and_history(self):
        daemon = self.serve()
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", b"grown\xff&", "0.01", 1000)
            client.call("BF.MADD", b"grown\xff&", *range(1500))
            self.eventually("it has grown", lambda: self.rows().get("grown\\xff&", {}).get("layer_count") == 2)
            row = self.rows()["grown\\xff&"]
            asked = "/api/filter?database=0&key=" + row["key_encoded"]
            self.eventually("it has a history", lambda: len(self.ask(asked)["history"]) >= 2)
            told = self.ask(asked)
            stats = client.call("BF.STATS", b"grown\xff&")
            stats = dict(zip(stats[::2], stats[1::2]))
        self.assertEqual(told["items"], sum(layer["items"] for layer in told["layers"]))
        self.assertEqual(told["capacity"], sum(layer["capacity"] for layer in told["layers"]))
        self.assertAlmostEqual(told["false_positive_rate_now"], float(stats[b"false_positive_rate_now"]), delta=told["false_positive_rate_now"] / 100)
        loads, rates = zip(*((point["load"], point["false_positive_rate"]) for point in told["curve"]))
        self.assertEqual((loads[0], loads[-1]), (0, 3))
        self.assertEqual(list(rates), sorted(rates))
        ages, fills = zip(*((point["age_seconds"], point["fill"]) for point in told["history"]))
        self.assertEqual(list(ages), sorted(ages, reverse=True))
        self.assertAlmostEqual(fills[-1], told["fill"], places=5)

    def test_small_filters_in_trouble_are_told_beside_the_largest(self):
        daemon = self.serve("--http-metrics-filters", "2", "--http-metrics-pattern", "[^h]*")
        with Client.of(daemon) as client:
            for number in range(50):
                client.call("BF.RESERVE", "large:%d" % number, "0.01", 100 * (number + 1) ** 2)
            for key in ("small", "hidden"):
                client.call("BF.RESERVE", key, EXACT_RATE, 10, "NONSCALING")
                client.call("BF.MADD", key, *range(50))
            client.call("CF.RESERVE", "forgets", 10, "EXPANSION", 0)
            client.call("BF.MIRROR", "large:0", "small")
            client.call("BF.ADD", "large:0", "item")
            self.eventually("the states are not told", lambda: self.ask("/api/filters")["troubled"] == 3)
            answer = self.ask("/api/filters")
            metrics = self.metrics()
        rows = [dict(zip(answer["columns"], row)) for row in answer["rows"]]
        self.assertEqual([row["key"] for row in rows[:2]], ["small", "large:0"])
        self.assertEqual({row["key"] for row in rows[2:]}, {"large:48", "large:49"})
        self.assertEqual([row["state"] for row in rows], ["full", "mirror_broken", "fine", "fine"])
        self.assertEqual(rows[1]["mirror"]["other"], "small")
        self.assertEqual((answer["total"], answer["shown"], answer["troubled_shown"]), (53, 4, 2))
        self.assertEqual(answer["states"], {"full": 2, "overfilled": 0, "mirror_broken": 1, "filling": 0, "grown": 0, "fine": 50})
        self.assertEqual(answer["kinds"], {"bloom": 52, "cuckoo": 1, "redisbloom_cuckoo": 0, "window": 0})
        for state, count in answer["states"].items():
            self.assertEqual(metrics['sepal_filters{state="%s"}' % state], count)
        self.assertEqual(self.ask("/api/server")["filters"]["states"], answer["states"])

    def test_a_full_filter_is_replaced_and_no_item_is_lost(self):
        """As the page advises."""
        daemon = self.serve()
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "users", EXACT_RATE, 10, "NONSCALING")
            client.call("BF.MADD", "users", *range(50))
            self.eventually("it is not full", lambda: self.rows().get("users", {}).get("state") == "full")
            before = self.ask("/api/server")["adds_refused"]
            self.assertEqual((before["full"], before["mirrored"]), (1, 0))
            self.assertEqual(self.ask("/api/server")["recent"]["adds_refused"], before)
            self.assertEqual(client.call("BF.RESERVE", "users:next", EXACT_RATE, 100, "NONSCALING"), b"OK")
            self.assertEqual(client.call("BF.MIRROR", "users", "users:next"), b"OK")
            with self.assertRaisesRegex(Exception, "full, but the target of its mirror has the item"):
                client.call("BF.ADD", "users", "new")
            self.eventually("the mirror is not told", lambda: self.rows()["users"]["mirror"] is not None)
            users = self.rows()["users"]
            self.assertEqual((users["state"], users["mirror"]["state"], users["mirror"]["role"]), ("full", "whole", "source"))
            client.call("BF.MADD", "users:next", *range(50))
            self.assertEqual(client.call("RENAME", "users:next", "users"), b"OK")
            self.assertEqual(client.call("BF.MEXISTS", "users", "new", *range(50)), [1] * 51)
            self.eventually("it is in trouble", lambda: self.ask("/api/filters")["troubled"] == 0)
            self.assertEqual(self.rows()["users"]["state"], "fine")
            told = self.eventually_metrics("it is not counted", lambda now: now['sepal_adds_refused_total{reason="mirrored"}'] == 1)
            self.assertEqual(told['sepal_adds_refused_total{reason="full"}'], 1)
            self.assertEqual(client.info("sepal")["adds_refused"], "2")

    def test_cuckoo_filters_of_both_kinds(self):
        daemon = self.serve()
        # A filter of RedisBloom: one layer of 64 buckets of 2 slots, of which a half is taken.
        header = struct.pack("<4Q3H", 64, 64, 5, 1, 2, 20, 1)
        with Client.of(daemon) as client:
            client.call("CF.RESERVE", "own", 1000, "ERROR", "0.001")
            client.call("CF.INSERT", "own", "ITEMS", *range(3000))
            client.call("CF.MDEL", "own", *range(500))
            client.call("CF.LOADCHUNK", "theirs", 1, header)
            client.call("CF.LOADCHUNK", "theirs", 129, b"\x07\x00" * 64)
            client.call("BF.ADD", "bloom", "a")
            self.eventually("they are not seen", lambda: len(self.rows()) == 3)
            self.eventually("they have no history", lambda: self.ask("/api/filter?database=0&key=own")["history"])
            own, theirs = (self.ask("/api/filter?database=0&key=" + key) for key in ("own", "theirs"))
            stats = client.call("CF.STATS", "own")
            stats = dict(zip(stats[::2], stats[1::2]))
            kinds = {"own": "cuckoo", "theirs": "redisbloom_cuckoo", "bloom": "bloom"}
            self.assertEqual({key: row["kind"] for key, row in self.rows().items()}, kinds)
            metrics = self.eventually_metrics("it is not measured", lambda now: now.get('sepal_filter_items{database="0",key="own"}') == 2500)
            for key, kind in kinds.items():
                self.assertEqual(metrics['sepal_filter_info{database="0",key="%s",kind="%s"}' % (key, kind)], 1)
            self.assertEqual(metrics['sepal_filter_items_removed{database="0",key="own"}'], 500)
            self.assertEqual((metrics["sepal_items_added_total"], metrics["sepal_items_removed_total"]), (3001, 500))
            self.assertEqual(client.info("sepal")["items_removed"], "500")
            self.assertEqual(self.ask("/api/server")["items_removed"], 500)
        self.assertEqual((own["items"], own["items_removed"], own["false_positive_rate_asked"], own["memory_bytes"]),
                         (stats[b"items"], stats[b"items_removed"], float(stats[b"error_rate"]), stats[b"memory_bytes"]))
        self.assertEqual(sum(layer["items"] for layer in own["layers"]), 2500)
        self.assertTrue(0 < own["false_positive_rate_now"] <= 0.001, own)
        self.assertTrue(2500 <= own["capacity"] <= 6000, own)
        self.assertEqual((theirs["items"], theirs["items_removed"], theirs["capacity"], theirs["fill"], theirs["false_positive_rate_asked"]), (64, 5, 128, 0.5, None))
        self.assertAlmostEqual(theirs["false_positive_rate_now"], 1 - (1 - 0.5 / 255) ** 4)
        self.assertEqual(theirs["layers"], [{"buckets": 64, "slots": 128, "fill": 0.5}])

    def test_filters_that_are_not_there_or_not_to_be_shown(self):
        daemon = self.serve("--http-metrics-pattern", "seen:*")
        with Client.of(daemon) as client:
            client.call("BF.ADD", "secret", "a")
            client.call("SET", "seen:string", "a")
            client.call("BF.ADD", "seen:filter", "a")
        self.eventually("the filter is not seen", lambda: set(self.rows()) == {"seen:filter"})
        self.assertEqual(self.ask("/api/filter?database=0&key=seen:filter")["items"], 1)
        for key in ("secret", "seen:string", "seen:nothing", "", "seen:" + "x" * 300):
            self.ask("/api/filter?database=0&key=" + key, 404)
        for query in ("", "?", "?database=0", "?key=a", "?database=16&key=a", "?database=-1&key=a", "?database=0&key=%zz", "?database=0x&key=a"):
            self.assertIn("error", self.ask("/api/filter" + query, 400))

    def test_the_planner_says_what_sepal_plan_says(self):
        self.serve()
        for query, flags in (("", []), ("capacity=1000000", ["--capacity", "1m"]), ("capacity=100&error=0.001&expansion=0", ["--error", "0.001", "--nonscaling"]),
                             ("capacity=1000000000&error=1e-6&expansion=4", ["--capacity", "1g", "--error", "1e-6", "--expansion", "4"])):
            told = self.ask("/api/plan?" + query)
            text = subprocess.run([os.environ["SEPAL"], "plan", *flags], check=True, capture_output=True, text=True).stdout
            growth = "a further layer holds %d times the last" % told["expansion"] if told["expansion"] else "does not scale"
            self.assertIn("error rate %g, %d items, %s" % (told["false_positive_rate_asked"], told["capacity"], growth), text)
            self.assertIn("bitmap            %d bytes" % told["sepal"]["bitmap_bytes"], text)
            self.assertIn("bits an item      %.3f (the textbook's optimum: %.3f)" % (told["sepal"]["bits_per_item"], told["textbook"]["bits_per_item"]), text)
            self.assertIn("bits set an item  %d" % told["sepal"]["probes"], text)
            self.assertIn("blocks            %d of %d bytes" % (told["blocks"], told["block_bytes"]), text)
        for window, flags in (("3600", ["--window", "1h", "--capacity", "72m"]), ("last", ["--last", "72m"]), ("0.5", ["--window", "500ms", "--capacity", "72m"])):
            for generations in (1, 3, None):
                told = self.ask("/api/plan?capacity=72000000&error=0.001&window=%s%s" % (window, "&generations=%d" % generations if generations else ""))
                text = subprocess.run([os.environ["SEPAL"], "plan", "--error", "0.001", *flags, *(["--generations", str(generations)] if generations else [])],
                                      check=True, capture_output=True, text=True).stdout
                generations = generations or 4
                self.assertEqual((told["capacity"], told["false_positive_rate_asked"], told["generations"]), (72_000_000, 0.001, generations))
                self.assertEqual((told["window_seconds"], told["window_items"]), (None, 72_000_000) if window == "last" else (float(window), None))
                self.assertEqual(told["expansion"], 0 if window == "last" else 2)
                self.assertIn("memory            %d bytes" % told["sepal"]["bitmap_bytes"], text)
                self.assertIn("bits an item      %.3f" % told["sepal"]["bits_per_item"], text)
                self.assertIn("bits set an item  %d, in %d lines of %d bytes" % (told["sepal"]["probes"], told["zones"], told["line_bytes"]), text)
                self.assertEqual(told["generation_capacity"], 72_000_000 // generations)
                self.assertEqual(told["generation_seconds"], None if window == "last" else float(window) / generations)
        for query in ("capacity=0", "error=0", "error=1", "error=nan", "expansion=32769", "capacity=0&window=1", "capacity=1&window=1&generations=17", "capacity=1&window=last",
                      "capacity=1&window=0.0001", "capacity=1&window=60&expansion=32769", "capacity=%d&error=1e-9&window=60" % 2**62, "capacity=%d&error=1e-9" % 2**62):
            self.assertEqual(list(self.ask("/api/plan?" + query)), ["error"])
        # What it is not asked for by its name is refused, and no default takes its place.
        for query in ("items=1", "rate=0.1", "capacity", "capacity=", "capacity=-1", "capacity=1e6", "capacity=%zz", "capacity=%d" % 2**64, "error=x", "error=1%25", "expansion=-1", "expansion=2x",
                      "generations=4", "window=60", "window=last", "capacity=100&window=last&expansion=2",
                      *("capacity=100&window=" + words for words in ("0", "-1", "nan", "1e300", "day", "", "60&generations=x"))):
            self.assertEqual(list(self.ask("/api/plan?" + query, 400)), ["error"], query)

    def test_the_line_of_a_window_makes_what_was_planned(self):
        daemon = self.serve()
        with Client.of(daemon) as client:
            for flags in (["--window", "1h", "--rate", "5/s"], ["--window", "0.4", "--capacity", "500", "--nonscaling"], ["--last", "1k", "--generations", "7"]):
                text = subprocess.run([os.environ["SEPAL"], "plan", *flags], check=True, capture_output=True, text=True).stdout
                (line,) = re.findall(r"^  to create it      (.*)$", text, re.M)
                self.assertEqual(client.call(*line.split()), b"OK")
                told = client.call("BF.WINDOW", "key")
                told = dict(zip(told[::2], told[1::2]))
                self.assertIn("memory            %d bytes" % told[b"planned_bytes"], text)
                client.call("DEL", "key")


class ReadinessTest(HttpTest):
    def test_a_server_that_loads_is_alive_and_not_ready(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            for number in range(BIG_FILTERS):
                client.call("BF.RESERVE", "big:%d" % number, "0.01", BIG_CAPACITY)
                client.call("BF.ADD", "big:%d" % number, "alice")
        self.assertEqual(daemon.stop(), 0)
        for _ in range(STARTS_MAX):
            daemon = self.serve(wait=False)
            daemon.wait_for_line("listening for HTTP")
            answers = [self.get("/readyz"), self.get("/healthz"), self.get("/metrics")]
            if answers[0][0] == 503:
                break
            daemon.kill()
        self.assertEqual(answers[0][0::2], (503, "the data is being loaded\n"))
        self.assertEqual(answers[1][0], 200)
        self.assertIn("sepal_loading ", answers[2][2])
        daemon.wait_for_line("ready: address=")
        self.assertEqual(self.get("/readyz")[0], 200)

    def test_a_server_that_stops_is_not_ready(self):
        daemon = self.serve("--save-bandwidth", "1mb")
        seen = []

        def watch(ended):
            while not ended.is_set():
                try:
                    seen.append(self.get("/readyz")[0::2])
                except OSError:
                    return
        with Client.of(daemon) as client:
            client.call("BF.RESERVE", "big", "0.01", BIG_CAPACITY)
        with beside(watch):
            self.eventually("nothing is seen", lambda: seen)
            status = daemon.stop()
        self.assertEqual(status, 0)
        self.assertEqual(set(seen) - {(200, "ready\n"), (503, "the server stops\n")}, set())


class HostileTest(HttpTest):
    """What a hostile client sends gets nothing, and stops neither the pages nor the clients of the server."""

    def setUp(self):
        super().setUp()
        self.daemon = self.serve()

    def assert_serves(self):
        self.assertEqual(self.get("/healthz")[0], 200)
        with Client.of(self.daemon) as client:
            self.assertEqual(client.call("PING"), b"PONG")

    def answer_to(self, request):
        """All that comes back until the server closes the connection."""
        answer = b""
        with self.connect() as connection:
            try:
                connection.sendall(request)
                while piece := connection.recv(65536):
                    answer += piece
            except ConnectionError:
                pass
        return answer

    def test_other_methods_hosts_and_paths_get_nothing(self):
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"):
            self.assertNotIn(b" 200 ", self.answer_to(b"%s /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % method.encode()))
        for host in (b"evil.example", b"localhost.evil.example", b"", b"127.0.0.1@evil.example", b"0x7f000001"):
            answer = self.answer_to(b"GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host)
            self.assertTrue(answer.startswith(b"HTTP/1.1 421 "), answer)
            self.assertNotIn(b"sepal_", answer)
        for path in (b"/../../../../etc/passwd", b"/metrics/../../etc/passwd", b"/..%2f..%2fetc/passwd", b"/metrics%00", b"//metrics"):
            answer = self.answer_to(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path)
            self.assertTrue(answer.startswith(b"HTTP/1.1 404 "), answer)
        self.assert_serves()

    def test_long_requests_and_bodies_get_nothing(self):
        for request in (b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 200_000 + b"\r\n",
                        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000,
                        b"\x00" * 1_000_000, os.urandom(100_000)):
            self.assertNotIn(b"sepal_", self.answer_to(request))
        self.assert_serves()

    def test_slow_clients_stop_no_other_client(self):
        slow = [self.connect() for _ in range(200)]
        for connection in slow:
            try:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHos")
            except OSError:
                pass
            if connection is slow[100]:
                self.assert_serves()
        self.assert_serves()
        # A slow request ends at its deadline although its bytes keep coming.
        dripping = self.connect()
        self.addCleanup(dripping.close)
        began = time.monotonic()
        with self.assertRaises(OSError):
            while time.monotonic() - began < SECONDS_MAX:
                dripping.sendall(b"X")
                time.sleep(0.1)
        for connection in slow:
            connection.close()
        self.assert_serves()

    def test_clients_that_do_not_read_stop_no_other_client(self):
        deaf = []
        for _ in range(64):
            connection = self.connect()
            deaf.append(connection)
            connection.settimeout(0.2)
            try:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
            except OSError:
                pass
        self.assert_serves()
        for connection in deaf:
            connection.close()
        self.assert_serves()

    def test_many_scrapes_at_a_time_are_all_answered(self):
        wrong = []

        def scrape():
            for _ in range(20):
                try:
                    status, _, text = self.get("/metrics")
                    if status != 200 or "sepal_keys" not in text:
                        wrong.append((status, text[:100]))
                except OSError as error:
                    wrong.append(error)
        threads = [threading.Thread(target=scrape) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assert_serves()
