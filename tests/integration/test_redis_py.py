"""redis-py, as Debian packages it, with its Bloom filter commands."""

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

    def test_a_password_is_asked_for(self):
        daemon = self.start("--requirepass", "sesame", directory=self.directory + "-locked")
        with self.assertRaises(redis.AuthenticationError):
            redis.Redis(host="127.0.0.1", port=daemon.port).ping()
        self.assertTrue(redis.Redis(host="127.0.0.1", port=daemon.port, password="sesame").ping())


if __name__ == "__main__":
    unittest.main()
