"""Moves of filters between sepald and a Redis server with sepal.so."""


class Moves:
    """Stands before a RedisTest that has fill(client) and check_same(source, target, filled)."""

    lasting = ""  # a key of fill() that gets a deadline

    def setUp(self):
        super().setUp()
        self.daemon = self.start_sepald("--maxmemory", "1gb")
        self.theirs, self.ours = self.client_of(self.start()), self.client_of(self.daemon)

    def both_ways(self, move):
        """move(source, target, key) for each filter, from sepald to Redis, and back."""
        for source, target in ((self.ours, self.theirs), (self.theirs, self.ours)):
            filled = self.fill(source)
            for key in filled:
                move(source, target, key)
            self.check_same(source, target, filled)
            for client in (source, target):
                client.call("FLUSHALL")

    def test_by_dump_and_restore(self):
        def move(source, target, key):
            self.assertEqual(target.call("RESTORE", key, 0, source.call("DUMP", key), "REPLACE"), b"OK", key)

        self.both_ways(move)

    def test_migrate_from_redis(self):
        filled = self.fill(self.theirs)
        self.theirs.call("EXPIRE", self.lasting, 1000)
        self.assertEqual(self.theirs.call("MIGRATE", "127.0.0.1", self.daemon.port, "", 0, 30_000, "COPY", "KEYS", *filled), b"OK")
        self.assertGreater(self.ours.call("TTL", self.lasting), 900)
        self.check_same(self.theirs, self.ours, filled)
