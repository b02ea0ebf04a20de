"""The seed of the hash of new filters: no client is told it, but by a dump (docs/security.md)."""

import urllib.request

from client import Client, Refused
from daemon import DaemonTest, free_port

SEED = 0x9E3779B97F4A7C15
OTHER = 0xBF58476D1CE4E5B9
# As numbers are written in replies.
WRITTEN = [form for seed in (SEED, OTHER) for form in (str(seed), str(seed - (1 << 64)), "%x" % seed)]


def texts_in(reply):
    if isinstance(reply, (list, tuple)):
        for each in reply:
            yield from texts_in(each)
    elif isinstance(reply, dict):
        yield from texts_in(list(reply.items()))
    else:
        yield reply.decode("latin-1") if isinstance(reply, bytes) else str(reply)


class SecretSeedTest(DaemonTest):
    def fill(self, client, key):
        client.call("BF.RESERVE", key, "0.01", 100)
        client.call("BF.RESERVE", key + ":window", "0.01", 100, "WINDOW", 60)
        client.call("CF.RESERVE", key + ":cuckoo", 100)
        return [key, key + ":window", key + ":cuckoo"]

    def test_no_reply_but_a_dump_has_it(self):
        # Filters of another seed come as dumps of another server.
        other = self.start("--seed", str(OTHER))
        with Client.of(other) as client:
            dumps = [(key, client.call("DUMP", key)) for key in self.fill(client, "other")]
        other.stop()
        web = free_port()
        daemon = self.start("--seed", str(SEED), "--http-port", str(web), directory=self.directory + "/second")
        with Client.of(daemon) as client:
            keys = self.fill(client, "own")
            for key, payload in dumps:
                client.call("RESTORE", key, 0, payload)
                keys.append(key)
            questions = [(name, key) for key in keys for name in
                         ("BF.INFO", "BF.DEBUG", "BF.STATS", "BF.WINDOW", "BF.CARD", "BF.MIRROR", "CF.INFO", "CF.DEBUG", "CF.STATS", "TYPE")]
            questions += [("BF.MERGE", "new", 2, "own" + tail, "other" + tail) for tail in ("", ":window")]
            questions += [("INFO", "everything"), ("CONFIG", "GET", "*"), ("COMMAND", "DOCS"), ("CLIENT", "LIST"), ("SLOWLOG", "GET")]
            told = []
            for words in questions:
                try:
                    told.append((words, client.call(*words)))
                except Refused as refusal:
                    told.append((words, str(refusal)))
            for path in ("/metrics", "/api/server", "/api/filters", *("/api/filter?database=0&key=" + key for key in keys)):
                with urllib.request.urlopen("http://127.0.0.1:%d%s" % (web, path), timeout=60) as answer:
                    told.append((path, answer.read()))
            dumped = client.call("DUMP", "own")
        for question, reply in told:
            for text in texts_in(reply):
                for written in WRITTEN:
                    self.assertNotIn(written, text.lower(), question)
        self.assertIn(("BF.MERGE", "new", 2, "own", "other"), [question for question, reply in told if "different seeds" in str(reply)])
        # The test looks for the right number.
        self.assertIn(SEED.to_bytes(8, "little"), dumped)

