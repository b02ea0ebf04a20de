"""prometheus-redis-exporter, as Debian packages it: it scrapes a sepald, and counts no error."""

import pathlib
import re
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import client_test
import documents
from client_test import PASSWORD, TOOL_SECONDS_MAX, USER, USER_PASSWORD
from daemon import free_port
from programs import missing

KEYS = 20
SECTION = "prometheus-redis-exporter"
DOCUMENTED_ADDRESS = "127.0.0.1:9121"
# All that it can ask for, except the values of keys: it does not know filters, as it does not know those of the reference.
EVERYTHING = ("-export-client-list", "-include-config-metrics", "-include-system-metrics", "-ping-on-connect", "-count-keys", "db0=key:*")


class ExporterTest(client_test.ClientTest):
    def scrape(self):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.web, timeout=TOOL_SECONDS_MAX) as reply:
            text = reply.read().decode()
        return {name: float(value) for name, value in re.findall(r"^([^#\n].*) (\S+)$", text, re.M)}

    def export(self, *words):
        self.web = free_port()
        self.log = self.start_tool([SECTION, "-redis.addr", "redis://127.0.0.1:%d" % self.daemon.port,
                                    "-web.listen-address", "127.0.0.1:%d" % self.web, *words], self.web)

    def assert_no_errors(self, told):
        """In what it tells, in what it logged, and in what the server counted."""
        self.assertEqual(told["redis_up"], 1)
        self.assertEqual(told['redis_exporter_last_scrape_error{err=""}'], 0)
        counts = {name: value for name, value in told.items() if re.match(r"redis_\w*(error|fail|reject)", name)}
        self.assertIn("redis_target_scrape_request_errors_total", counts)
        self.assertEqual({name: value for name, value in counts.items() if value != 0}, {})
        self.log.seek(0)
        self.assertEqual([line for line in self.log if re.search(r"level=(warn|error|fatal)", line)], [])

    def test_a_scrape_counts_no_error(self):
        self.daemon = self.start_locked()
        client = self.connect(self.daemon)
        client.pipeline([("BF.ADD", "key:%d" % number, "a") for number in range(KEYS)])
        self.export("-redis.password", PASSWORD, *EVERYTHING)
        self.scrape()
        told = self.scrape()
        self.assert_no_errors(told)
        self.assertEqual(told["redis_exporter_scrapes_total"], 2)
        self.assertEqual(told['redis_db_keys{db="db0"}'], KEYS)
        self.assertEqual(told['redis_keys_count{db="db0",key="key:*"}'], KEYS)
        self.assertEqual(told['redis_commands_total{cmd="bf.add"}'], KEYS)
        self.assertEqual(told['redis_latency_percentiles_usec_count{cmd="bf.add"}'], KEYS)
        self.assertEqual(told['redis_config_value{key="maxclients"}'], 10_000)
        self.assertGreater(told["redis_memory_used_bytes"], 0)
        self.assertTrue(any('name="redis_exporter"' in name for name in told if name.startswith("redis_connected_clients_details")))
        self.assertEqual(client.call("INFO", "errorstats").split(), [b"#", b"Errorstats"])

    def test_it_logs_in_as_a_user(self):
        self.daemon = self.start_locked()
        self.connect(self.daemon).call("ACL", "SETUSER", USER, "on", ">" + USER_PASSWORD, "~*", "&*", "+@all")
        self.export("-redis.user", USER, "-redis.password", USER_PASSWORD)
        self.assert_no_errors(self.scrape())

    def test_a_wrong_password_is_an_error(self):
        self.daemon = self.start_locked()
        self.export("-redis.password", "wrong")
        told = self.scrape()
        self.assertEqual(told["redis_up"], 0)
        self.assertEqual([value for name, value in told.items() if name.startswith("redis_exporter_last_scrape_error")], [1])

    def test_it_goes_on_when_the_server_comes_back(self):
        self.daemon = self.start_locked(free_port())
        self.export("-redis.password", PASSWORD)
        self.assertEqual(self.scrape()["redis_up"], 1)
        port = self.daemon.port
        self.daemon.kill()
        self.assertEqual(self.scrape()["redis_up"], 0)
        self.daemon = self.start_locked(port)
        self.assertEqual(self.scrape()["redis_up"], 1)

    def test_the_line_of_the_document(self):
        self.daemon = self.start()
        self.web = free_port()
        line = client_test.sections("sh")[SECTION][0]
        line = line.replace(DOCUMENTED_ADDRESS, "127.0.0.1:%d" % self.web)
        line = line.replace(documents.DOCUMENTED_PORT, str(self.daemon.port))
        self.log = self.start_tool(["sh", "-ec", "exec " + line], self.web)
        self.assert_no_errors(self.scrape())


if __name__ == "__main__":
    client_test.main(missing("prometheus_redis_exporter"))
