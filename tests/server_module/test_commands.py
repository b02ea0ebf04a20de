"""The commands of sepal.so."""

import pathlib
import re
import subprocess
import sys

from redis_case import MODULE, Refused, RedisTest, encode, field

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
CASES = ("bf_*", "cf_*", "copy*")


def names_in(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()}


def plain(value):
    """A map of BF.STATS as a dict."""
    if isinstance(value, list):
        value = dict(zip(value[::2], value[1::2]))
    if not isinstance(value, dict):
        return value
    return {name.decode(): [plain(layer) for layer in each] if name in (b"layers", b"by_generation") else number(each) for name, each in value.items()}


def number(value):
    """A double as a number: Redis 7.0 writes 1e-08 where 7.4 and sepald write 1e-8."""
    return float(value) if isinstance(value, bytes) and re.fullmatch(rb"[0-9.]+(e-[0-9]+)?", value) else value


def docs_of(reply):
    """The reply of COMMAND DOCS in RESP2, with maps as dicts, without what only one of both servers shows."""
    def argument(words):
        known = dict(zip((word.decode() for word in words[::2]), words[1::2]))
        known.pop("display_text", None)
        flags = known.get("flags", [])
        inner = [argument(each) for each in known.get("arguments", [])]
        return {**{name: value.decode() if isinstance(value, bytes) else value for name, value in known.items()},
                "flags": sorted(flags), "arguments": inner}

    docs = {}
    for name, words in zip(reply[::2], reply[1::2]):
        known = dict(zip((word.decode() for word in words[::2]), words[1::2]))
        docs[name.decode()] = {**known, "arguments": [argument(each) for each in known["arguments"]]}
    return docs


class ConformanceTest(RedisTest):
    """The recorded exchanges with RedisBloom. What sepald answers differently, the module may as well."""

    def replay(self, server, only):
        return subprocess.run(
            [sys.executable, str(GOLDEN / "conformance" / "replay.py"), "--port", str(server.port), "--commands",
             str(GOLDEN / "conformance" / "core-commands.txt"), *(word for name in only for word in ("--only", name)),
             *map(str, sorted((GOLDEN / "conformance" / "cases").glob("*.jsonl")))],
            capture_output=True, text=True, timeout=300).stdout

    def test_every_exchange_is_as_recorded_or_as_sepald_answers(self):
        server = self.start(module=("SEED", 1))
        said = self.replay(server, CASES)
        failed = set(re.findall(r"^FAIL ([^:]+):", said, re.MULTILINE))
        own = set() if self.version_of(server) >= (7, 4) else names_in(HERE / "deviations.txt")
        self.assertEqual(failed - names_in(GOLDEN / "deviations.txt") - own, set(), said)
        self.assertEqual(own - failed, set(), "these are no deviations any more")
        # A run without cases would pass as well.
        self.assertGreater(int(re.search(r"([0-9]+) passed", said).group(1)), 300)


class CommandTest(RedisTest):
    def test_a_filter_is_a_key_like_others(self):
        client = self.client_of(self.start())
        self.assertEqual(client.call("BF.RESERVE", "k", "0.001", "1000", "EX", "100"), b"OK")
        self.assertIn(client.call("TTL", "k"), range(1, 101))
        self.assertEqual(client.call("BF.INSERT", "i", "EX", "50", "ITEMS", "a"), [1])
        self.assertEqual(client.call("BF.INSERT", "i", "EX", "9", "ITEMS", "a", "b"), [0, 1])
        self.assertIn(client.call("TTL", "i"), range(1, 51))
        self.assertIn("invalid expire time in 'bf.insert'",
                      str(client.pipeline([("BF.INSERT", "j", "EX", 2**63 - 1, "ITEMS", "a")])[0]))
        self.assertEqual(client.call("UNLINK", "i", "j"), 1)
        self.assertEqual(client.call("TYPE", "k"), b"MBbloom--")
        self.assertEqual(client.call("SCAN", 0, "TYPE", "MBbloom--"), [b"0", [b"k"]])
        self.assertEqual(client.call("BF.MADD", "k", "a", "b", "a"), [1, 1, 0])
        self.assertEqual(client.call("COPY", "k", "copy"), 1)
        self.assertEqual(client.call("BF.ADD", "copy", "c"), 1)
        self.assertEqual(client.call("BF.MEXISTS", "k", "a", "b", "c"), [1, 1, 0])
        self.assertEqual(client.call("RENAME", "copy", "renamed"), b"OK")
        self.assertEqual(client.call("BF.MEXISTS", "renamed", "a", "b", "c"), [1, 1, 1])
        self.assertEqual(client.call("BF.CARD", "renamed"), 3)
        self.assertEqual(client.call("UNLINK", "k", "renamed"), 2)
        self.assertEqual(client.call("DBSIZE"), 0)

    def test_only_a_change_ends_what_a_client_watches(self):
        server = self.start()
        client, other = self.client_of(server), self.client_of(server)
        client.call("BF.ADD", "k", "a")
        for item, wanted in (("a", [b"PONG"]), ("b", None)):
            client.call("WATCH", "k")
            other.call("BF.ADD", "k", item)
            self.assertEqual(client.pipeline([("MULTI",), ("PING",), ("EXEC",)])[-1], wanted, item)

    def test_memory_is_the_servers(self):
        server = self.start("--maxmemory", "64mb")
        client = self.client_of(server)
        before = int(field(client.call("INFO", "memory"), "used_memory"))
        client.call("BF.RESERVE", "big", "0.01", 20_000_000)
        usage = client.call("MEMORY", "USAGE", "big")
        used = int(field(client.call("INFO", "memory"), "used_memory")) - before
        self.assertGreater(usage, 20_000_000)
        self.assertLess(abs(used - usage), 0.1 * usage)
        # What does not fit is refused before it is allocated.
        for request in (("BF.RESERVE", "bigger", "0.01", 50_000_000), ("BF.RESERVE", "biggest", "0.01", 10**15)):
            self.assertEqual(str(client.pipeline([request])[0]), "ERR Insufficient memory to create filter")
        client.call("BF.RESERVE", "grows", "0.01", "1000", "EXPANSION", "32768")
        outcomes = client.call("BF.MADD", "grows", *range(1100))
        self.assertIn("ERR problem inserting into filter: there is no memory for a further layer", {str(outcome) for outcome in outcomes if isinstance(outcome, Refused)})
        self.assertEqual(client.call("PING"), b"PONG")
        client.call("FLUSHALL", "ASYNC")
        self.eventually("the memory does not come back",
                        lambda: int(field(client.call("INFO", "memory"), "used_memory")) < before + 2_000_000)

    def test_a_filter_from_elsewhere_that_does_not_fit_is_refused(self):
        source = self.client_of(self.start(directory=self.make_directory()))
        source.call("BF.RESERVE", "k", "0.01", 100_000_000)
        _, header = source.call("BF.SCANDUMP", "k", 0)
        dump = source.call("DUMP", "k")
        # Without a limit, the machine's memory is one.
        self.assertIn("Insufficient memory", str(source.pipeline([("BF.RESERVE", "giant", "0.01", 10**14)])[0]))
        server = self.start("--maxmemory", "20mb")
        client = self.client_of(server)
        for request, text in ((("BF.LOADCHUNK", "k", 1, header), "ERR Insufficient memory to create filter"),
                              (("BF.SHAPE", "k", header[40:-8]), "ERR Insufficient memory to create filter"),
                              (("RESTORE", "k", 0, dump), "ERR Bad data format")):
            self.assertEqual(str(client.pipeline([request])[0]), text, request[0])
        self.assertIn("the filter would exceed the memory", server.text())
        self.assertEqual(client.call("SET", "x", 1), b"OK")

    def test_users_can_have_the_right_to_read_a_key_only(self):
        server = self.start()
        client, reader = self.client_of(server), self.client_of(server)
        client.call("BF.ADD", "k", "a")
        client.call("ACL", "SETUSER", "reader", "on", ">secret", "+bf.exists", "+bf.add", "+bf.mexists", "%R~*")
        reader.call("AUTH", "reader", "secret")
        self.assertEqual(reader.call("BF.EXISTS", "k", "a"), 1)
        self.assertEqual(reader.call("BF.MEXISTS", "k", "a", "b"), [1, 0])
        self.assertIn("NOPERM", str(reader.pipeline([("BF.ADD", "k", "b")])[0]))
        client.call("ACL", "SETUSER", "reader", "resetkeys", "%W~*")
        self.assertEqual(reader.call("BF.ADD", "k", "b"), 1)
        self.assertIn("NOPERM", str(reader.pipeline([("BF.EXISTS", "k", "b")])[0]))
        for name, arity in (("bf.add", 3), ("bf.mexists", -3), ("bf.info", -2)):
            self.assertEqual(client.call("COMMAND", "INFO", name)[0][1], arity)

    def test_what_both_hosts_say_of_a_command_is_the_same(self):
        """COMMAND DOCS and COMMAND INFO. sepald shows each argument's text, which Redis 7.0 has no place for."""
        client, sepald = self.client_of(self.start()), self.client_of(self.start_sepald())
        names = ["BF." + name for name in "ADD CARD CHECK DEBUG EXISTS FIND INFO INSERT LOADCHUNK MADD MEXISTS RESERVE SCANDUMP STATS WINDOW".split()]
        names += ["CF." + name for name in ("ADD ADDNX COMPACT COUNT DEBUG DEL EXISTS INFO INSERT INSERTNX LOADCHUNK MDEL MEXISTS "
                                            "RESERVE SCANDUMP STATS").split()]
        docs, of_sepald = docs_of(client.call("COMMAND", "DOCS", *names)), docs_of(sepald.call("COMMAND", "DOCS", *names))
        self.assertEqual(len(docs), len(names))
        for name, wanted in of_sepald.items():
            for each in ("summary", "since", "group", "complexity", "module", "arguments"):
                self.assertEqual(docs[name][each], wanted[each], (name, each))
        of_shape = docs_of(client.call("COMMAND", "DOCS", "BF.SHAPE", "BF.WINDOWADD", "BF.WINDOWSHAPE", "CF.SHAPE"))
        for name, words in (("bf.shape", ["key", "header"]), ("bf.windowadd", ["key", "entries"]), ("bf.windowshape", ["key", "record"]),
                            ("cf.shape", ["key", "plan"])):
            self.assertEqual([argument["name"] for argument in of_shape[name]["arguments"]], words)
        for ours, wanted in zip(client.call("COMMAND", "INFO", *names), sepald.call("COMMAND", "INFO", *names)):
            if ours[0] == b"bf.debug":
                wanted[1] = ours[1]  # sepald tells no arity, as RedisBloom
            self.assertEqual([ours[0], ours[1], *ours[3:6]], [wanted[0], wanted[1], *wanted[3:6]])  # name, arity, keys
            self.assertEqual(set(ours[2]), set(wanted[2]), ours[0])  # flags
            self.assertEqual(ours[7], wanted[7], ours[0])  # tips

    def test_the_commands_are_in_the_categories_bloom_and_cuckoo(self):
        """Of a server that has a place for categories of modules; before Redis 7.4 none has."""
        server = self.start()
        client, reader = self.client_of(server), self.client_of(server)
        if b"bloom" not in client.call("ACL", "CAT"):
            self.assertLess(self.version_of(server), (7, 4))
            return
        commands = client.call("ACL", "CAT", "bloom")
        self.assertEqual(len(commands), 18, commands)
        self.assertEqual(len(client.call("ACL", "CAT", "cuckoo")), 17)
        client.call("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@bloom", "-@write")
        reader.call("AUTH", "reader", "secret")
        self.assertEqual(reader.call("BF.EXISTS", "k", "a"), 0)
        self.assertIn("NOPERM", str(reader.pipeline([("BF.ADD", "k", "a")])[0]))

    def test_stats_are_those_of_sepald(self):
        server = self.start(module=("SEED", 7))
        client, sepald = self.client_of(server), self.client_of(self.start_sepald("--seed", "7"))
        answers = []
        for each in (client, sepald):
            each.call("BF.RESERVE", "k", "0.01", 1000)
            each.call("BF.MADD", "k", *range(1500))
            answers.append(plain(each.call("BF.STATS", "k")))
        self.assertEqual(answers[0].keys(), answers[1].keys())
        for name in ("lookups", "hits", "adds", "adds_per_second", "last_change", "last_save", "mirror"):
            self.assertIsNone(answers[0].pop(name), name)
            answers[1].pop(name)
        self.assertLess(abs(answers[0].pop("memory_bytes") - answers[1].pop("memory_bytes")), 512)
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(len(answers[0]["layers"]), 2)
        self.assertEqual(str(client.pipeline([("BF.STATS", "absent")])[0]), "ERR not found")
        client.call("SET", "string", "x")
        self.assertIn("WRONGTYPE", str(client.pipeline([("BF.STATS", "string")])[0]))
        with server.connect() as connection, connection.makefile("rb") as replies:
            connection.sendall(encode("HELLO", "3") + encode("BF.STATS", "k"))
            while not replies.readline().startswith(b"%21"):  # a map, in place of an array of 42
                pass
            self.assertEqual(replies.readline(), b"$8\r\n")

    def test_parameters_of_config_say_what_filters_get(self):
        path = pathlib.Path(self.directory) / "redis.conf"
        path.write_text("bf.expansion-factor 4\n", encoding="utf-8")
        server = self.start(module=("ERROR_RATE", "0.001"), configuration=path)
        client = self.client_of(server)
        read = client.call("CONFIG", "GET", "bf.*")
        self.assertEqual(dict(zip(read[::2], read[1::2])),
                         {b"bf.error-rate": b"0.001", b"bf.initial-size": b"100", b"bf.expansion-factor": b"4", b"bf.seed": b"", b"bf.missing-filter": b"absent"})
        self.assertEqual(client.call("CONFIG", "SET", "bf.initial-size", 777, "bf.seed", 9), b"OK")
        self.assertEqual(client.call("CONFIG", "GET", "bf.seed"), [b"bf.seed", b"9"])
        client.call("BF.ADD", "k", "a")
        info = client.call("BF.INFO", "k")
        self.assertEqual(dict(zip(info[::2], info[1::2]))[b"Capacity"], 777)
        self.assertEqual(dict(zip(info[::2], info[1::2]))[b"Expansion rate"], 4)
        for name, value, text in (("error-rate", "2", "error rate must be in the range"), ("initial-size", "0", "capacity must be in the range"),
                                  ("expansion-factor", "x", "bad expansion"), ("seed", "-1", "it must be a number from 0")):
            self.assertIn(text, str(client.pipeline([("CONFIG", "SET", "bf." + name, value)])[0]))
        self.assertEqual(client.call("CONFIG", "GET", "bf.error-rate"), [b"bf.error-rate", b"0.001"])
        self.assertEqual(client.call("CONFIG", "REWRITE"), b"OK")
        self.assertIn('bf.initial-size "777"\n', path.read_text(encoding="utf-8"))

    def test_arguments_say_what_filters_get(self):
        client = self.client_of(self.start(module=("error_rate", "0.001", "CAPACITY", "777", "EXPANSION", "5", "SEED", "9")))
        client.call("BF.ADD", "k", "a")
        info = client.call("BF.INFO", "k")
        self.assertEqual(dict(zip(info[::2], info[1::2]))[b"Capacity"], 777)
        self.assertEqual(dict(zip(info[::2], info[1::2]))[b"Expansion rate"], 5)

    def test_a_wrong_argument_is_named_in_the_log(self):
        for arguments, text in ((("RATE", "0.1"), "unknown argument RATE; known are ERROR_RATE"),
                                (("ERROR_RATE", "2"), "ERROR_RATE: error rate must be in the range"),
                                (("SEED", "x"), "SEED: it must be a number"),
                                (("CAPACITY",), "CAPACITY: its value is missing")):
            server = self.start(module=arguments, wait=False)
            self.assertNotEqual(server.process.wait(300), 0)
            self.assertIn("the module is not loaded: " + text, server.text())

    def test_a_second_module_of_the_name_is_refused(self):
        client = self.client_of(self.start("--enable-module-command", "yes"))
        self.assertIsInstance(client.pipeline([("MODULE", "LOAD", MODULE)])[0], Refused)
        self.assertEqual(client.call("BF.ADD", "k", "a"), 1)
