"""Prometheus, as Debian packages it: it scrapes a sepald, promtool finds nothing wrong, and each query of the dashboard has data."""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import client_test
import certificates
from client import Client
from client_test import ROOT
from daemon import DaemonTest, free_port
from programs import missing

SECONDS_MAX = 300
RULES = ROOT / "docs" / "prometheus-alerts.yml"
RULES_TEST = pathlib.Path(__file__).with_name("rules_test.yml")
DASHBOARD = ROOT / "docs" / "grafana.json"
CONFIGURATION = ROOT / "docs" / "prometheus.yml"
OPERATIONS = ROOT / "docs" / "operations"
DOCUMENTED_WEB = "127.0.0.1:9122"
SCRAPE_SECONDS = 1
METRICS = ROOT / "docs" / "operations" / "watch.md"
# Labels whose values the document lists.
LISTED = ("kind", "mode", "purpose", "reason", "state")
# Fields of INFO that the documents name, and that look like metrics.
INFO_FIELDS = {"sepal_version"}


def documented_metrics():
    """Of each metric in the table of the document: the names of its labels, for each time that it stands there."""
    table = re.search(r"<!-- metrics -->\n(.*?)<!-- /metrics -->", METRICS.read_text(encoding="utf-8"), re.S).group(1)
    found = {}
    for row in table.splitlines()[2:]:
        for name, labels in re.findall(r"`(\w+)(?:\{([^}]*)\})?`", row.split(" | ")[0]):
            found.setdefault(name, []).append(tuple(labels.split(", ")) if labels else ())
    return found


def told_metrics(text):
    """Of each metric that has a sample: the names of its labels, each order of them once; and the values of each label."""
    histograms = re.findall(r"^# TYPE (\w+) histogram$", text, re.M)
    found, values = {}, {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)
        if family in histograms:
            name, pairs = family, [pair for pair in pairs if pair[0] != "le"]
        found.setdefault(name, set()).add(tuple(label for label, _ in pairs))
        for label, value in pairs:
            values.setdefault(label, set()).add(value)
    return {name: sorted(labels) for name, labels in found.items()}, values


class PrometheusTest(DaemonTest):
    def start_with_web(self, *arguments):
        self.web = free_port()
        # With a certificate, because there are metrics of it.
        folder = os.path.join(self.directory, "tls")
        os.mkdir(folder)
        signed = certificates.Authority(folder).sign("server")
        return self.start("--http-port", str(self.web), "--port", str(free_port()), "--tls-port", str(free_port()),
                          "--tls-cert-file", signed.certificate, "--tls-key-file", signed.key, "--tls-auth-clients", "no",
                          "--dir", os.path.join(self.directory, "data"), *arguments)

    def scrape(self, accept):
        request = urllib.request.Request("http://127.0.0.1:%d/metrics" % self.web, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as reply:
            return reply.read()

    def fill(self, client):
        """Filters of every kind: names in many alphabets, one that is full, one with counters, one that has grown."""
        client.call("BF.RESERVE", "full", "0.01", 100, "NONSCALING")
        client.call("BF.RESERVE", "big", "0.01", 1_000_000, "NONSCALING")
        client.call("BF.RESERVE", b"bytes \xff\"\\\n", "0.01", 100)
        client.call("BF.RESERVE", "gr\u00fc\u00dfe \U0001f33c", "0.01", 100)
        for number in range(120):
            try:
                client.call("BF.ADD", "full", number)
            except Exception as error:
                self.assertIn("full", str(error))
        for number in range(1000):
            client.call("BF.ADD", "grown", number)

    def use(self, daemon, ended):
        """Traffic, while Prometheus looks."""
        with Client.of(daemon) as client:
            number = 0
            while not ended.is_set():
                client.call("BF.MADD", "big", *range(number, number + 10))
                client.call("BF.MEXISTS", "big", *range(number, number + 20))
                try:
                    client.call("BF.INFO", "missing")
                except Exception as error:
                    self.assertIn("not found", str(error))
                number += 10
                time.sleep(0.01)

    def ask(self, path, **words):
        url = "http://127.0.0.1:%d%s?%s" % (self.prometheus, path, urllib.parse.urlencode(words))
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as reply:
            return json.load(reply)["data"]

    def answered(self, path, **words):
        try:
            return self.ask(path, **words)
        except (OSError, ValueError):
            return None

    def begin_prometheus(self, configuration):
        path = os.path.join(self.directory, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(configuration)
        subprocess.run(["promtool", "check", "config", path], check=True, stdout=subprocess.DEVNULL)
        self.prometheus = free_port()
        log = open(os.path.join(self.directory, "prometheus.log"), "w+", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(["prometheus", "--config.file", path, "--storage.tsdb.path", os.path.join(self.directory, "tsdb"),
                                    "--web.listen-address", "127.0.0.1:%d" % self.prometheus],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.eventually("prometheus does not answer", lambda: self.answered("/api/v1/query", query="1") is not None)

    def test_promtool_finds_nothing_wrong_with_the_metrics(self):
        daemon = self.start_with_web()
        with Client.of(daemon) as client:
            self.fill(client)
        self.eventually("no filter is told", lambda: b'key="grown"' in self.scrape("*/*"))
        checked = subprocess.run(["promtool", "check", "metrics"], input=self.scrape("*/*"), capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, b""))

    def test_promtool_finds_nothing_wrong_with_the_rules(self):
        checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_each_rule_fires_when_it_should_and_not_before(self):
        tested = subprocess.run(["promtool", "test", "rules", RULES_TEST.name], cwd=RULES_TEST.parent, capture_output=True, text=True)
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)
        alerts = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
        self.assertGreater(len(alerts), 15)
        cases = re.findall(r"alertname: (\w+)\s+exp_alerts:", RULES_TEST.read_text(encoding="utf-8"))
        self.assertEqual(set(alerts), set(cases), "a rule without a test, or a test without a rule")

    def test_each_metric_that_a_rule_or_the_document_names_is_there(self):
        daemon = self.start_with_web()
        with Client.of(daemon) as client:
            self.fill(client)
            client.call("BF.MADD", "big", *range(1000))
        self.eventually("no filter is told", lambda: b'sepal_filter_full_in_seconds{database="0",key="big"}' in self.scrape("*/*"))
        told = set(re.findall(r"^(?:# TYPE )?(sepal_\w+)", self.scrape("*/*").decode(), re.M))
        for paths in ([RULES], [DASHBOARD], OPERATIONS.glob("*.md")):
            text = "".join(path.read_text(encoding="utf-8") for path in paths)
            named = set(re.findall(r"\bsepal_\w+", text)) - INFO_FIELDS
            self.assertGreater(len(named), 5)
            self.assertEqual(named - told, set())

    def test_the_document_has_every_metric_with_its_labels_and_no_other(self):
        daemon = self.start_with_web()
        theirs = struct.pack("<4Q3H", 64, 64, 5, 1, 2, 20, 1)  # the head of a cuckoo filter of RedisBloom: 64 buckets of 2 slots
        with Client.of(daemon) as client:
            self.fill(client)
            client.call("CF.INSERT", "cuckoo", "ITEMS", *range(100))
            client.call("CF.DEL", "cuckoo", 1)
            client.call("CF.LOADCHUNK", "theirs", 1, theirs)
            client.call("CF.LOADCHUNK", "theirs", 64 * 2 + 1, b"\x07\x00" * 64)
            client.call("BF.RESERVE", "window", "0.01", 1000, "WINDOW", 3600)
            client.call("BF.RESERVE", "target", "0.01", 1_000_000)
            client.call("BF.MIRROR", "big", "target")
            client.call("SET", "string", "value", "EX", 1000)
            client.call("BF.MADD", "big", *range(1000))
        big = b'sepal_filter_full_in_seconds{database="0",key="big"}'
        self.eventually("no filter is told", lambda: big in self.scrape("*/*") and b'kind="redisbloom_cuckoo"' in self.scrape("*/*"))
        told, values = told_metrics(self.scrape("*/*").decode())
        self.assertGreater(len(told), 80)
        documented = documented_metrics()
        wrong = {name: (documented.get(name), told.get(name)) for name in documented | told if documented.get(name) != told.get(name)}
        self.assertEqual(wrong, {}, "the document, and what is told")
        self.assertEqual(values["kind"], {"bloom", "cuckoo", "redisbloom_cuckoo", "window"})
        text = METRICS.read_text(encoding="utf-8")
        for label in LISTED:
            self.assertEqual({value for value in values[label] if "`%s`" % value not in text}, set(), label)

    def test_prometheus_has_data_for_each_query_of_the_dashboard(self):
        daemon = self.start_with_web("--maxmemory", "1gb")
        with Client.of(daemon) as client:
            self.fill(client)
        ended = threading.Event()
        traffic = threading.Thread(target=self.use, args=(daemon, ended))
        traffic.start()
        self.addCleanup(traffic.join)
        self.addCleanup(ended.set)
        self.begin_prometheus("global: {scrape_interval: %ds, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n"
                              "  - job_name: sepal\n    static_configs: [{targets: ['127.0.0.1:%d']}]\n"
                              % (SCRAPE_SECONDS, json.dumps(str(RULES)), self.web))
        self.eventually("prometheus has not scraped enough",
                        lambda: (self.ask("/api/v1/query", query="min_over_time(up[15s])")["result"] or [{"value": [0, "0"]}])[0]["value"][1] == "1"
                        and self.ask("/api/v1/query", query="rate(sepal_filter_lookups_total[10s]) > 0")["result"])
        target = self.ask("/api/v1/targets")["activeTargets"][0]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))
        board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        self.assertEqual(len({panel["title"] for panel in board["panels"]}), len(board["panels"]))
        queries = [query["expr"] for panel in board["panels"] for query in panel.get("targets", ())]
        self.assertGreater(len(queries), 20)
        for query in queries:
            filled = query.replace("$__rate_interval", "10s").replace("$instance", ".*")
            self.assertNotIn("$", filled)
            with self.subTest(query=query):
                self.eventually("no data", lambda filled=filled: self.ask("/api/v1/query", query=filled)["result"])
        instances = self.ask("/api/v1/label/instance/values", **{"match[]": "sepal_build_info"})
        self.assertEqual(instances, ["127.0.0.1:%d" % self.web])
        self.eventually("the full filter is no alert", lambda: any(
            alert["labels"]["alertname"] == "SepalFilterFull" and alert["value"] == "1e+00" and alert["state"] == "firing"
            for alert in self.ask("/api/v1/alerts")["alerts"]))

    def test_the_configuration_in_the_documents(self):
        text = CONFIGURATION.read_text(encoding="utf-8")
        self.start_with_web()
        for documented, here in ((DOCUMENTED_WEB, "127.0.0.1:%d" % self.web), ("- prometheus-alerts.yml", "- %s" % RULES), ("15s", "1s")):
            self.assertIn(documented, text)
            text = text.replace(documented, here)
        self.begin_prometheus(text)
        self.eventually("it is not up", lambda: any(each["value"][1] == "1" for each in self.ask("/api/v1/query", query="up")["result"]))


if __name__ == "__main__":
    client_test.main(missing("prometheus"))
