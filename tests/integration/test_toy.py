"""A whole server with a kind of value that it does not know: the toy of tests/toy, a set that can forget."""

import http.client
import json
import os
import shutil
import subprocess
import tempfile

from client import Client, Refused
from daemon import DaemonTest, free_port

SEPAL = os.environ["SEPAL"]


def sepal(*arguments):
    done = subprocess.run([SEPAL, *arguments], capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


class ToyTest(DaemonTest):
    def serve(self, *arguments, directory=None):
        self.web = free_port()
        daemon = self.start("--journal", "always", "--http-port", str(self.web), *arguments, directory=directory)
        return daemon, Client.of(daemon)

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.web, timeout=300)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        self.assertEqual(answer.status, 200, text)
        return text

    def assert_refused(self, client, *words, text):
        with self.assertRaises(Refused) as refused:
            client.call(*words)
        self.assertIn(text, str(refused.exception))

    def test_commands_of_its_own_make_change_and_delete_it(self):
        _, client = self.serve()
        self.assertEqual(client.pipeline([("TOY.ADD", "t", word) for word in ("one", "two", "one")]), [1, 1, 0])
        self.assertEqual(client.call("TOY.MEMBERS", "t"), [b"one", b"two"])
        self.assertEqual(client.call("TOY.DEL", "t", "one"), 1)
        self.assertEqual(client.call("TOY.DEL", "t", "one"), 0)
        self.assertEqual(client.call("TOY.DEL", "t", "two"), 1)
        self.assertEqual(client.pipeline([("EXISTS", "t"), ("TOY.DEL", "none", "one"), ("EXISTS", "none")]), [0, 0, 0])
        client.call("TOY.ADD", "t", "one")
        for words in (("BF.ADD", "t", "x"), ("GET", "t"), ("SETBIT", "t", 1, 1), ("BF.INFO", "t")):
            self.assert_refused(client, *words, text="WRONGTYPE")
        client.call("SET", "s", "x")
        self.assert_refused(client, "TOY.ADD", "s", "x", text="WRONGTYPE")
        self.assert_refused(client, "TOY.ADD", "k" * 65537, "x", text="key")
        self.assertEqual(client.call("SET", "t", "now a string"), b"OK")

    def test_commands_of_all_kinds_take_it(self):
        _, client = self.serve()
        client.pipeline([("TOY.ADD", "t", "one"), ("TOY.ADD", "t", "two"), ("SET", "s", "x")])
        self.assertEqual(client.call("TYPE", "t"), b"toy")
        self.assertEqual(client.call("SCAN", 0, "TYPE", "toy"), [b"0", [b"t"]])
        self.assertEqual(client.call("OBJECT", "ENCODING", "t"), b"raw")
        self.assertGreater(client.call("MEMORY", "USAGE", "t"), 0)
        self.assertEqual(client.call("COPY", "t", "copy"), 1)
        self.assertEqual(client.call("COPY", "t", "copy", "DB", 3), 1)
        client.call("TOY.DEL", "t", "one")
        self.assertEqual(client.call("RENAME", "copy", "renamed"), b"OK")
        self.assertEqual(client.call("MOVE", "renamed", 4), 1)
        payload = client.call("DUMP", "t")
        self.assertEqual(client.call("RESTORE", "restored", 0, payload), b"OK")
        self.assertEqual(client.call("TOY.MEMBERS", "restored"), [b"two"])
        for at in range(len(payload)):
            changed = payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1:]
            self.assert_refused(client, "RESTORE", "changed", 0, changed, text="ERR")
        client.call("SELECT", 4)
        self.assertEqual(client.call("TOY.MEMBERS", "renamed"), [b"one", b"two"])
        self.assert_refused(client, "BF.MIRROR", "renamed", "other", text="WRONGTYPE")

    def test_it_expires(self):
        _, client = self.serve()
        client.pipeline([("TOY.ADD", "t", "one"), ("TOY.ADD", "late", "one"), ("PEXPIRE", "late", 100_000_000)])
        self.assertGreater(client.call("PTTL", "late"), 0)
        client.call("PEXPIRE", "t", 1)
        self.eventually("the toy stays", lambda: client.call("EXISTS", "t") == 0)
        self.assertEqual(client.pipeline([("TOY.ADD", "t", "two"), ("TOY.MEMBERS", "t"), ("TTL", "t")]), [1, [b"two"], -1])

    def test_a_watch_sees_its_change(self):
        daemon, client = self.serve()
        other = Client.of(daemon, self)
        client.call("TOY.ADD", "t", "one")
        for words in (("TOY.ADD", "t", "two"), ("TOY.DEL", "t", "two"), ("TOY.DEL", "t", "one"), ("TOY.ADD", "t", "one")):
            client.pipeline([("WATCH", "t"), ("MULTI",), ("TOY.ADD", "t", "late")])
            other.call(*words)
            self.assertIsNone(client.call("EXEC"), words)
        client.pipeline([("WATCH", "t"), ("MULTI",), ("TOY.ADD", "t", "late"), ("TOY.DEL", "t", "one"), ("TOY.MEMBERS", "t")])
        other.call("TOY.ADD", "t", "one")  # changes nothing
        self.assertEqual(client.call("EXEC"), [1, 1, [b"late"]])

    def test_a_script_changes_it(self):
        _, client = self.serve()
        script = "redis.call('TOY.ADD', KEYS[1], ARGV[1]) redis.call('TOY.DEL', KEYS[1], 'one') return redis.call('TOY.MEMBERS', KEYS[1])"
        client.call("TOY.ADD", "t", "one")
        self.assertEqual(client.call("EVAL", script, 1, "t", "two"), [b"two"])

    def test_it_survives_kill_9(self):
        daemon, client = self.serve()
        expected = {}
        for number in range(40):
            key = b"t:%d" % number
            client.pipeline([("TOY.ADD", key, "one"), ("TOY.ADD", key, "two"), ("TOY.DEL", key, "one")])
            expected[key] = [b"two"]
            if number == 20:
                client.save()
            if number % 10 == 9:
                client.pipeline([("MULTI",), ("TOY.DEL", b"t:%d" % (number - 9), "two"), ("TOY.ADD", key, "three"), ("EXEC",)])
                del expected[b"t:%d" % (number - 9)]
                expected[key] = [b"three", b"two"]
                daemon.kill()
                daemon, client = self.serve()
            found = client.call("KEYS", "*")
            self.assertEqual({key: client.call("TOY.MEMBERS", key) for key in found}, expected)

    def test_a_change_begins_a_save(self):
        daemon, client = self.serve()
        client.call("TOY.ADD", "t", "one")
        client.save()
        self.assertEqual(client.info("persistence")["rdb_changes_since_last_save"], "0")
        client.pipeline([("TOY.ADD", "t", "two"), ("TOY.DEL", "t", "two")])
        self.assertEqual(client.info("persistence")["rdb_changes_since_last_save"], "2")
        self.assertEqual(daemon.stop(), 0)
        _, client = self.serve("--journal", "off")
        self.assertEqual(client.call("TOY.MEMBERS", "t"), [b"one"])

    def test_a_delete_alone_begins_a_save_by_the_interval(self):
        _, client = self.serve("--journal", "off", "--save-interval", "1s")
        client.pipeline([("TOY.ADD", "t", "one"), ("TOY.ADD", "t", "two")])
        self.eventually("no save", lambda: client.info("persistence")["rdb_changes_since_last_save"] == "0")
        saves = int(client.info("persistence")["rdb_saves"])
        client.call("TOY.DEL", "t", "two")
        self.eventually("no save", lambda: int(client.info("persistence")["rdb_saves"]) > saves)
        self.assertEqual(client.info("persistence")["rdb_changes_since_last_save"], "0")

    def test_all_sums_count_it(self):
        _, client = self.serve()
        client.pipeline([("TOY.ADD", "t", "one"), ("TOY.ADD", "u", "one")])
        info = client.info()
        self.assertTrue(info["db0"].startswith("keys=2,"), info["db0"])
        self.assertIn("cmdstat_toy.add", client.info("commandstats"))
        self.assertRegex(self.get("/metrics"), r'sepal_keys\{[^}]*\} 2|sepal_keys 2')
        self.assertEqual(json.loads(self.get("/api/server"))["keys"], 2)
        self.assertIn(b"toy.add", client.call("COMMAND", "LIST"))
        client.call("ACL", "SETUSER", "bob", "on", "nopass", "~*", "-@all", "+toy.members")
        self.assertEqual(client.call("ACL", "DRYRUN", "bob", "TOY.MEMBERS", "t"), b"OK")

    def test_the_tools_know_it(self):
        daemon, client = self.serve()
        client.pipeline([("TOY.ADD", "t", "one"), ("TOY.ADD", "t", "two"), ("TOY.ADD", "u", "one")])
        client.save()
        client.pipeline([("TOY.DEL", "t", "one"), ("BF.ADD", "f", "x")])
        folder = tempfile.mkdtemp(prefix="sepal-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        backup, data = (os.path.join(folder, name) for name in ("backup", "data"))
        status, text = sepal("backup", "--from", "redis://127.0.0.1:%d" % daemon.port, backup)
        self.assertEqual(status, 0, text)
        self.assertEqual(sepal("restore", backup, "--dir", data)[0], 0)
        restored, other = self.serve(directory=data)
        self.assertEqual(other.pipeline([("TOY.MEMBERS", "t"), ("TOY.MEMBERS", "u")]), [[b"two"], [b"one"]])
        self.assertEqual(restored.stop(), 0)
        self.assertEqual(daemon.stop(), 0)
        status, text = sepal("verify", data)
        self.assertEqual(status, 0, text)
        self.assertIn("2 toys", text)
        generation = max(name for name in os.listdir(data) if name.startswith("generation-"))
        told = "".join(sepal("inspect", os.path.join(data, generation, name))[1] for name in os.listdir(os.path.join(data, generation)))
        self.assertIn("toy ", told)
        salvaged = os.path.join(self.directory, "salvaged")
        status, text = sepal("salvage", data, "--into", salvaged)
        self.assertEqual(status, 0, text)
        self.assertIn("2 toys", text)
        _, other = self.serve(directory=salvaged)
        self.assertEqual(other.call("TOY.MEMBERS", "t"), [b"two"])
