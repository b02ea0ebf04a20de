"""The JSON of the status page has the fields that docs/operations/api.md says, and no others: all kinds of filters, with mirrors, windows, a history, TLS."""

import json
import pathlib
import re
import ssl
import struct
import urllib.parse
import urllib.request

from certificates import Authority
from client import Client, Refused
from daemon import DaemonTest, free_port

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operations" / "api.md"
TYPES = {str: "text", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}
# How a name says the unit. Two fields are named as BF.WINDOW and BF.STATS name them.
UNITS = {"bytes": r"(^|_)bytes$", "seconds": r"(^|_)seconds$|^begin$|^seconds_until_full$", "ratio": r"_ratio$|^fill$|^load$|^false_positive_rate"}
# Null only in the first moments of a server.
SOON_KNOWN = ("latency.p50_seconds", "latency.p99_seconds", "filters.judged_age_seconds")
# What metrics say under the same names, where nothing changes it between two questions.
OF_METRICS = ("workers", "loading", "requests", "items_looked_up", "items_added", "items_removed", "connections", "connections_max", "keys_max", "journal.accepting", "journal.waits_for_save",
              "journal.max_bytes", "journal.syncs_failed", "save.ok", "save.running", "save.saves", "save.saves_failed", "save.interval_seconds", "save.progress_ratio")
ODD, OTHER = b"odd\xff", b"other\xff"
REDIS_CUCKOO = struct.pack("<4Q3H", 64, 64, 5, 1, 2, 20, 1)  # one layer of 64 buckets of 2 slots


class Field:
    def __init__(self, kind, unit, null):
        self.kind, self.unit, self.null = kind, unit, null


def documented():
    """The tables of the document by their names: each has fields by path."""
    tables = {}
    for name, table in re.findall(r"^<!-- fields: ([a-z_ ]+) -->\n(.*?)^<!-- /fields -->$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S):
        tables[name] = {}
        for row in table.splitlines()[2:]:
            paths, kind, unit, null, _ = (cell.strip() for cell in row.strip("|").split("|"))
            for path in re.findall(r"`([^`]+)`", paths):
                assert path not in tables[name], path
                tables[name][path] = Field(kind, unit, null)
    return tables


def values_of(value, paths, path=""):
    """Path and value of all that is in an answer. An object whose members are `*` in the document has these as one path."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, member in value.items():
            inner = path + "." + name if path else name
            yield from values_of(member, paths, path + ".*" if path + ".*" in paths else inner)
    elif isinstance(value, list):
        for element in value:
            yield from values_of(element, paths, path + "[]")


def decoded(answer):
    """A map of RESP2 as JSON would have it."""
    if not isinstance(answer, bytes):
        return answer
    return float(answer) if re.fullmatch(rb"-?[\d.]+(e[-+]?\d+)?", answer) else answer.decode()


def mapped(answer):
    return {name.decode(): decoded(value) for name, value in zip(answer[::2], answer[1::2])}


class ApiTest(DaemonTest):
    """`seen` has the values of each path, for each table of the document."""

    def setUp(self):
        super().setUp()
        self.tables = documented()
        self.seen = {name: {} for name in self.tables}

    def serve(self, *arguments, scheme="http"):
        self.web = "%s://127.0.0.1:%d" % (scheme, free_port())
        return self.start("--http-port", self.web.rpartition(":")[2], *arguments)

    def get(self, path):
        context = ssl.create_default_context(cafile=self.authority.certificate) if self.web.startswith("https") else None
        with urllib.request.urlopen(self.web + path, timeout=300, context=context) as answer:
            return answer.read().decode()

    def ask(self, path):
        return json.loads(self.get(path))

    def note(self, answer, *names):
        """Compares an answer with the tables of these names, and adds it to `seen`."""
        told = {path: field for name in names for path, field in self.tables[name].items()}
        for path, value in values_of(answer, told):
            if path not in told:
                # What is never null and has documented members needs no row of its own.
                self.assertTrue(isinstance(value, (dict, list)) and any(one.startswith((path + ".", path + "[")) for one in told), "%s of %s is not in %s" % (path, names, DOCUMENT.name))
                continue
            if value is None:
                self.assertTrue(told[path].null, "%s of %s is null" % (path, names))
            else:
                self.assertEqual(TYPES[type(value)], told[path].kind, "%s of %s: %r" % (path, names, value))
            for name in names:
                if path in self.tables[name]:
                    self.seen[name].setdefault(path, []).append(value)

    def key_of(self, key):
        return "/api/filter?database=0&key=" + urllib.parse.quote(key)

    def note_filter(self, key):
        detail = self.ask(self.key_of(key))
        layers = detail["layers"]
        detail["layers"] = []
        self.note(detail, "row", "filter")
        self.assertGreater(len(layers), 0)
        for layer in layers:
            self.note(layer, "layer of " + detail["kind"])
        return {**detail, "layers": layers}

    def make_filters(self, client):
        client.call("BF.RESERVE", "plain", "0.01", 100)
        client.call("BF.MADD", "plain", *range(300))
        client.call("BF.EXISTS", "plain", 1)
        client.call("EXPIRE", "plain", 10_000)
        client.call("BF.RESERVE", "full", "0.01", 10, "NONSCALING")
        client.call("BF.RESERVE", ODD, "0.01", 100)
        client.call("BF.MIRROR", ODD, "full")
        client.call("BF.MADD", ODD, *range(50))
        client.call("BF.ADD", OTHER, 1)
        client.call("BF.MIRROR", "plain", OTHER)
        client.call("CF.RESERVE", "own", 1000, "ERROR", "0.001")
        client.call("CF.INSERT", "own", "ITEMS", *range(3000))
        client.call("CF.DEL", "own", 1)
        client.call("CF.LOADCHUNK", "theirs", 1, REDIS_CUCKOO)
        client.call("CF.LOADCHUNK", "theirs", 129, b"\x07\x00" * 64)
        client.call("BF.RESERVE", "lately", "0.01", 100, "WINDOW", 90.5, "GENERATIONS", 3, "REFRESH")
        client.call("BF.MADD", "lately", *range(100))
        client.call("BF.RESERVE", "last", "0.01", 100, "LAST")
        client.call("BF.ADD", "last", 1)
        try:
            client.call("BF.INFO", "missing")
        except Refused:
            pass

    def note_filters(self):
        answer = self.ask("/api/filters")
        rows = [dict(zip(answer["columns"], row)) for row in answer["rows"]]
        answer["rows"] = [[] for _ in rows]
        self.note(answer, "filters")
        for row in rows:
            self.note(row, "row")
        return {row["key"]: row for row in rows}

    def assert_all_seen(self):
        for name, fields in self.tables.items():
            seen = self.seen[name]
            self.assertEqual([path for path in fields if all(value is None for value in seen.get(path, [None]))], [], "documented, and in no answer: " + name)
            self.assertEqual([path for path, field in fields.items() if field.null and path not in SOON_KNOWN and None not in seen[path]], [], "never null: " + name)

    def test_the_answers_have_the_fields_of_the_document(self):
        self.authority = Authority(self.directory)
        signed = self.authority.sign("server")
        daemon = self.serve("--tls-cert-file", signed.certificate, "--tls-key-file", signed.key, "--http-tls", "yes", scheme="https")
        with Client.of(daemon) as client:
            self.make_filters(client)
            client.save()
            self.eventually("not all filters are seen", lambda: self.ask("/api/filters")["shown"] == 8)
            self.eventually("there is no history", lambda: self.ask(self.key_of("last"))["history"])
            rows = self.note_filters()
            details = {key: self.note_filter(key) for key in ("plain", ODD, "full", "own", "theirs", "lately", "last")}
            self.assertEqual({row["kind"] for row in rows.values()}, {"bloom", "cuckoo", "redisbloom_cuckoo", "window"})
            server = self.ask("/api/server")
            self.note(server, "server")
            self.assert_named_as_metrics(server)
            self.note(self.ask("/api/plan"), "plan")
            self.note(self.ask("/api/plan?capacity=100&window=60"), "plan of window")
            self.note(self.ask("/api/plan?capacity=100&window=last"), "plan of window")
            self.compare_with_commands(client, details)
        self.assertEqual(daemon.stop(), 0)
        self.note_what_is_hidden()
        self.assert_all_seen()

    def test_a_plan_that_cannot_be_made_is_no_wrong_question(self):
        self.serve()
        outside = ("error=0", "error=1", "capacity=0", "expansion=40000", "capacity=18446744073709551615",
                   "capacity=100&window=60&generations=17", "capacity=100&window=60&generations=0", "capacity=0&window=last")
        for query in outside:
            with self.subTest(query):
                told = self.ask("/api/plan?" + query)
                self.assertEqual(list(told), ["error"])
                self.assertNotEqual(told["error"], "")
        wrong = ("error=x", "capacity=-1", "expansion=1.5", "generations=4", "window=60", "window=0&capacity=1", "window=x&capacity=1",
                 "window=last&capacity=100&expansion=2", "nosuch=1")
        for query in wrong:
            with self.subTest(query), self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask("/api/plan?" + query)
            self.assertEqual((refused.exception.code, list(json.load(refused.exception))), (400, ["error"]))

    def note_what_is_hidden(self):
        """By the pattern of the operator. And there is no TLS, a filter without blocks, a pause, and a script that holds up clients."""
        daemon = self.serve("--http-metrics-pattern", "shown*", "--busy-reply-threshold", "20")
        with Client.of(daemon) as client, Client.of(daemon) as runner:
            for source, target in (("shown:source", "hidden:target"), ("hidden:source", "shown:target")):
                client.call("BF.ADD", source, "a")
                client.call("BF.ADD", target, "a")
                client.call("BF.MIRROR", source, target)
            client.call("SETBIT", "bits", 9999, 1)
            client.call("BF.IMPORTBITMAP", "shown:bits", "bits", "SCHEME", "go-zero", "BITS", 10_000, "CAPACITY", 500)
            self.eventually("not all filters are seen", lambda: self.ask("/api/filters")["shown"] == 3)
            self.note_filters()
            self.note_filter("shown:bits")
            runner.send(("EVAL", "while true do end", "0"))
            self.eventually("no script is told", lambda: self.ask("/api/server")["busy_script"])
            self.note(self.ask("/api/server"), "server")
            client.call("SCRIPT", "KILL")
            runner.receive()
            client.call("CLIENT", "PAUSE", 3_600_000, "WRITE")
            self.eventually("no pause is told", lambda: self.ask("/api/server")["pause"])
            self.note(self.ask("/api/server"), "server")

    def assert_named_as_metrics(self, server):
        """The members that `*` stands for are labels of metrics, and watch.md has them."""
        metrics, document = self.get("/metrics"), (DOCUMENT.parent / "watch.md").read_text(encoding="utf-8")
        for told, metric in ((server["rejections"], "sepal_rejections_total"), (server["tls_handshakes_failed"], "sepal_tls_handshakes_failed_total"), (server["adds_refused"], "sepal_adds_refused_total"),
                             (server["filters"]["states"], "sepal_filters")):
            self.assertEqual(set(told), set(re.findall(r'^%s\{[a-z]+="([a-z_]+)"\}' % metric, metrics, re.M)), metric)
            for name in told:
                self.assertIn("`%s`" % name, document)
        for path in OF_METRICS:
            told = server
            for name in path.split("."):
                told = told[name]
            values = re.findall(r"^sepal_(?:%s|%s)(?:_total)? (\S+)$" % (path.replace(".", "_"), path.split(".")[-1]), metrics, re.M)
            self.assertEqual([float(value) for value in values], [float(told)], path)
        for name in ("rejections", "tls_handshakes_failed", "adds_refused"):
            self.assertEqual(set(server["recent"][name]), set(server[name]))

    def compare_with_commands(self, client, details):
        """BF.STATS, BF.WINDOW and CF.STATS say the same under the same names."""
        for key in ("plain", "full", ODD):
            stats = mapped(client.call("BF.STATS", key))
            told = {**details[key], "layers": None}
            common = set(stats) & set(told)
            self.assertLessEqual({"capacity", "items", "items_estimated", "fill", "false_positive_rate_now", "false_positive_rate_asked", "expansion", "memory_bytes", "seconds_until_full", "mirror", "layers"}, common)
            for name in common - {"layers", "mirror"}:
                self.assertAlmostEqual(told[name] or 0, stats[name] or 0, delta=0.5 if name == "items_estimated" else 1e-9, msg=name)
        self.assertEqual(details["plain"]["mirror"]["items_mirrored"], 0)
        for key in ("lately", "last"):
            stats = mapped(client.call("BF.WINDOW", key))
            told = details[key]
            self.assertEqual(told["layers"], [mapped(layer) for layer in stats["layers"]])
            self.assertEqual(told["window"]["by_generation"], [mapped(generation) for generation in stats["by_generation"]])
            for name in set(told["window"]) - {"by_generation"}:
                self.assertEqual(told["window"][name], stats[name], name)
        self.assertEqual((details["lately"]["window"]["window_seconds"], details["lately"]["window"]["refresh"]), (90.5, True))

    def test_names_say_their_units(self):
        for name, fields in self.tables.items():
            for path, field in fields.items():
                last = re.split(r"[.]", path)[-1]
                for unit, pattern in UNITS.items():
                    self.assertEqual(field.unit == unit, re.search(pattern, last) is not None, "%s of %s" % (path, name))

