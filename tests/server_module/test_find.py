"""BF.CHECK, BF.FIND and missing filters in sepal.so."""

from redis_case import RedisTest, encode, free_port

WINDOW = 1000


class FindTest(RedisTest):
    def test_each_answer_is_that_of_sepald(self):
        client, sepald = self.client_of(self.start(module=("SEED", 7))), self.client_of(self.start_sepald("--seed", "7"))
        items = ["item:%d" % number for number in range(200)]
        requests = [
            ("BF.CHECK", "none", "a"), ("BF.MADD", "k", "a", "b"), ("BF.CHECK", "k", "a", "x"), ("BF.CHECK", "k"),
            ("SET", "s", "text"), ("BF.CHECK", "s", "a"), ("CF.ADD", "c", "a"), ("BF.CHECK", "c", "a"),
            ("BF.RESERVE", "w", "0.01", 100, "WINDOW", WINDOW), ("BF.ADD", "w", "c"), ("BF.CHECK", "w", "a", "c"),
            ("BF.FIND", 3, "none", "w", "k", "ITEMS", "a", "b", "c", "d"), ("BF.FIND", 3, "none", "w", "k", "ALL", "ITEMS", "a", "b", "c", "d"),
            ("BF.FIND", 2, "k", "k", "items", "a"), ("BF.FIND", 2, "k", "s", "ITEMS", "a"), ("BF.FIND", 2, "c", "k", "ITEMS", "a"),
            ("BF.FIND", 0, "k", "ITEMS", "a"), ("BF.FIND", -1, "k", "ITEMS", "a"), ("BF.FIND", "x", "k", "ITEMS", "a"),
            ("BF.FIND", 4, "k", "ITEMS", "a"), ("BF.FIND", 3, "k", "ITEMS", "a"), ("BF.FIND", 2, "k", "ITEMS", "a"),
            ("BF.FIND", 2**63, "k", "ITEMS", "a"), ("BF.FIND", 1, "k", "ITEM", "a"), ("BF.FIND", 1, "k", "ALL", "ITEMS"), ("BF.FIND", 1, "k"),
            ("BF.FIND", 4097, *["k"] * 4097, "ITEMS", "a"), ("BF.FIND", 4096, *["k"] * 4096, "ITEMS", *["a"] * 4097),
            ("BF.FIND", 2, "ITEMS", "ALL", "ITEMS", "ITEMS"), ("BF.ADD", "ITEMS", "ALL"), ("BF.FIND", 2, "ITEMS", "ALL", "ALL", "ITEMS", "ALL"),
            # Filters that grew, many of them, and more items than are asked together.
            *(("BF.INSERT", "f%d" % key, "CAPACITY", 2, "ITEMS", *items[key::40]) for key in range(40)),
            ("BF.FIND", 40, *("f%d" % key for key in range(40)), "ITEMS", *items, "x"),
            ("BF.FIND", 41, "w", *("f%d" % key for key in range(40)), "ALL", "ITEMS", *items[::7])]
        for request in requests:
            ours, theirs = ([repr(reply) for reply in each.pipeline([request])] for each in (client, sepald))
            self.assertEqual(ours, theirs, request)

    def test_the_answers_of_resp3_are_those_of_sepald(self):
        for server in (self.start(), self.start_sepald()):
            with server.connect() as connection, connection.makefile("rb") as replies:
                connection.sendall(encode("BF.MADD", "k", "a", "b") + encode("HELLO", "3") + encode("PING"))
                while replies.readline() != b"+PONG\r\n":
                    pass
                connection.sendall(encode("BF.FIND", 2, "none", "k", "ALL", "ITEMS", "a", "x") + encode("BF.FIND", 2, "none", "k", "ITEMS", "a", "x")
                                   + encode("BF.CHECK", "k", "a", "x") + encode("PING"))
                lines = list(iter(lambda replies=replies: replies.readline().decode().strip(), "+PONG"))
            self.assertEqual(" ".join(lines), "*2 *2 _ #t *2 _ #f *2 :2 :0 *2 #t #f")

    def test_the_setting_says_what_look_ups_of_a_missing_filter_answer(self):
        asked = [("BF.EXISTS", "none", "a"), ("BF.MEXISTS", "none", "a", "b"), ("CF.EXISTS", "none", "a"), ("CF.MEXISTS", "none", "a", "b"),
                 ("CF.COUNT", "none", "a"), ("BF.EXISTS", "s", "a"), ("CF.MEXISTS", "s", "a", "b"), ("CF.COUNT", "s", "a"), ("BF.CHECK", "none", "a"),
                 ("BF.FIND", 2, "none", "k", "ITEMS", "a", "b"), ("BF.FIND", 2, "k", "none", "ALL", "ITEMS", "a", "b"), ("BF.EXISTS", "k", "b")]
        client, sepald = self.client_of(self.start(module=("MISSING_FILTER", "error"))), self.client_of(self.start_sepald("--missing-filter", "error"))
        for each in (client, sepald):
            each.call("BF.ADD", "k", "a")
            each.call("SET", "s", "text")
        for setting in ("error", "present", "absent"):
            if setting != "error":
                self.assertEqual(client.call("CONFIG", "SET", "bf.missing-filter", setting), b"OK")
                self.assertEqual(sepald.call("CONFIG", "SET", "missing-filter", setting), b"OK")
            self.assertEqual(client.call("CONFIG", "GET", "bf.missing-filter"), [b"bf.missing-filter", setting.encode()])
            self.assertEqual(*([repr(reply) for reply in each.pipeline(asked)] for each in (client, sepald)), setting)
        self.assertIn("it must be absent, error or present", str(client.pipeline([("CONFIG", "SET", "bf.missing-filter", "maybe")])[0]))

    def test_the_server_knows_which_words_are_keys(self):
        server = self.start()
        client, alice = self.client_of(server), self.client_of(server)
        self.assertEqual(client.call("COMMAND", "GETKEYS", "BF.FIND", 2, "a", "b", "ITEMS", "c", "d"), [b"a", b"b"])
        self.assertEqual(client.call("COMMAND", "GETKEYS", "BF.FIND", 1, "ITEMS", "ALL", "ITEMS", "c"), [b"ITEMS"])
        # Here the server asks the module, which finds none.
        for count in (0, -1, 9, "x"):
            self.assertIn("ERR", str(client.pipeline([("COMMAND", "GETKEYS", "BF.FIND", count, "a", "ITEMS", "c", "d")])[0]))
        client.call("ACL", "SETUSER", "alice", "on", "nopass", "+bf.find", "+bf.check", "~ok:*", "%R~read:*", "%W~write:*")
        alice.call("AUTH", "alice", "x")
        self.assertEqual(alice.call("BF.FIND", 3, "ok:1", "read:1", "ok:2", "ITEMS", "no"), [0])
        for keys in (("ok:1", "no", "ok:2"), ("no", "ok:1", "ok:2"), ("ok:1", "ok:2", "no"), ("ok:1", "write:1", "ok:2")):
            self.assertIn("NOPERM", str(alice.pipeline([("BF.FIND", 3, *keys, "ITEMS", "a")])[0]), keys)
        self.assertIn("numkeys should be greater than 0", str(alice.pipeline([("BF.FIND", 0, "no", "ITEMS", "a")])[0]))
        self.assertIn("ERR not found", str(alice.pipeline([("BF.CHECK", "ok:1", "a")])[0]))
        self.assertIn("NOPERM", str(alice.pipeline([("BF.CHECK", "no", "a")])[0]))

    def test_in_a_cluster_all_keys_are_of_one_slot(self):
        client = self.client_of(self.start("--cluster-enabled", "yes", "--cluster-port", free_port()))
        client.call("CLUSTER", "ADDSLOTS", *range(16384))
        self.eventually("the cluster does not get ready", lambda: b"cluster_state:ok" in client.call("CLUSTER", "INFO"))
        client.call("BF.ADD", "{day}:1", "a")
        self.assertEqual(client.call("BF.FIND", 2, "{day}:0", "{day}:1", "ITEMS", "a", "b"), [2, 0])
        self.assertIn("CROSSSLOT", str(client.pipeline([("BF.FIND", 2, "{day}:1", "{night}:1", "ITEMS", "a")])[0]))

    def test_a_key_that_is_named_twice_and_expires(self):
        client = self.client_of(self.start())
        client.call("BF.RESERVE", "k", "0.01", 100)
        client.call("BF.ADD", "k", "a")
        client.call("PEXPIRE", "k", 50)
        self.eventually("it never expires", lambda: client.call("BF.FIND", 2, "k", "k", "ITEMS", "a") == [0])
        self.assertEqual(client.call("BF.FIND", 2, "k", "k", "ALL", "ITEMS", "a"), [[None, None]])
