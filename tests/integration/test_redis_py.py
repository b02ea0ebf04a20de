"""redis-py, as Debian packages it, with its Bloom filter commands."""

import shutil
import unittest

import redis

from daemon import DaemonTest


class RedisPyTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.daemon = self.start()
        self.client = redis.Redis(host="127.0.0.1", port=self.daemon.port)
        self.addCleanup(self.client.close)

    def test_every_bloom_command_of_the_client(self):
        bloom = self.client.bf()
        self.assertTrue(bloom.create("users", 0.001, 1000))
        self.assertEqual(bloom.add("users", "alice"), 1)
        self.assertEqual(bloom.madd("users", "alice", "bob"), [0, 1])
        self.assertEqual(bloom.insert("other", ["x", "y"], capacity=500, error=0.01, expansion=4), [1, 1])
        self.assertEqual(bloom.exists("users", "alice"), 1)
        self.assertEqual(bloom.mexists("users", "alice", "carol"), [1, 0])
        info = bloom.info("users")
        self.assertEqual((info.capacity, info.insertedNum, info.filterNum), (1000, 2, 1))
        with self.assertRaisesRegex(redis.ResponseError, "item exists"):
            bloom.create("users", 0.001, 1000)

    def test_binary_items_and_keys(self):
        key, item = bytes(range(256)), bytes(reversed(range(256)))
        self.assertEqual(self.client.execute_command("BF.ADD", key, item), 1)
        self.assertEqual(self.client.execute_command("BF.EXISTS", key, item), 1)
        self.assertEqual(self.client.keys(), [key])

    def test_a_pipeline_answers_in_order(self):
        pipeline = self.client.pipeline(transaction=False)
        for i in range(10_000):
            pipeline.execute_command("BF.ADD", "stream", i % 5_000)
        replies = pipeline.execute()
        self.assertEqual(replies[5_000:], [0] * 5_000)
        # One item in a hundred may be a false positive. No item may be answered "new" twice.
        self.assertGreater(sum(replies[:5_000]), 4_900)

    def test_scan_names_every_key_once(self):
        names = {b"key:%d" % i for i in range(2_000)}
        for name in names:
            self.client.execute_command("BF.ADD", name, "a")
        seen = list(self.client.scan_iter(count=100))
        self.assertEqual(len(seen), len(names))
        self.assertEqual(set(seen), names)

    def test_tools_can_read_the_fields_and_the_parameters(self):
        info = self.client.info("everything")
        self.assertEqual(info["listener0"]["port"], self.daemon.port)
        self.assertGreaterEqual(info["used_cpu_user_main_thread"], 0)
        self.assertGreater(info["allocator_resident"], 0)
        parameters = self.client.config_get("*")
        self.assertGreater(len(parameters), 200)
        self.assertEqual(parameters["cluster-enabled"], "no")
        self.assertTrue(self.client.config_set("save", "3600 1 300 100"))
        self.assertEqual(self.client.config_get("save"), {"save": "3600 1 300 100"})
        self.assertTrue(self.client.config_set("protected-mode", "no"))
        with self.assertRaisesRegex(redis.ResponseError, "Sepal has no replicas: only '60' can be set"):
            self.client.config_set("repl-timeout", 5)

    def test_the_background_and_the_buffers_are_counted(self):
        with self.daemon.connect() as waiting:
            waiting.sendall(b"*1\r\n$100000\r\n" + b"x" * 50_000)
            self.eventually("no unparsed bytes were seen",
                            lambda: self.client.info("clients")["client_recent_max_input_buffer"] >= 50_000)
        self.client.execute_command("BF.ADD", "k", "a")
        self.client.delete("k")
        self.eventually("no freed filter was counted", lambda: self.client.info("memory")["lazyfreed_objects"] == 1)
        self.assertEqual(self.client.info("memory")["lazyfree_pending_objects"], 0)

    def test_a_dump_has_the_shape_of_the_filter_that_was_dumped(self):
        self.client.bf().create("k", 0.01, 100)
        self.client.bf().madd("k", *range(1000))
        before = self.client.execute_command("BF.DEBUG", "k")
        self.assertGreater(len(before), 2)
        position, piece = self.client.bf().scandump("k", 0)
        pieces = []
        while position != 0:
            pieces.append((position, piece))
            position, piece = self.client.bf().scandump("k", position)
        self.client.delete("k")
        for position, piece in pieces:
            self.client.bf().loadchunk("k", position, piece)
        self.assertEqual(self.client.execute_command("BF.DEBUG", "k"), before)

    def test_a_password_is_asked_for(self):
        directory = self.directory + "-locked"
        self.addCleanup(shutil.rmtree, directory)
        daemon = self.start("--requirepass", "sesame", directory=directory)
        with self.assertRaises(redis.AuthenticationError):
            redis.Redis(host="127.0.0.1", port=daemon.port).ping()
        self.assertTrue(redis.Redis(host="127.0.0.1", port=daemon.port, password="sesame").ping())


if __name__ == "__main__":
    unittest.main()
