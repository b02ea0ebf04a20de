"""`sepal migrate` with a wrong database, and in the wrong direction."""

import os
import unittest

import redis_server
from client import Client
from migrate_case import MigrateCase, address
from recorded_redisbloom import RedisBloom


class DatabaseTest(MigrateCase):
    def setUp(self):
        super().setUp()
        with Client.of(self.source) as client:
            client.call("BF.ADD", "a", "x")

    def test_a_database_that_the_source_lacks_is_an_error(self):
        for mode in ((), ("--dry-run",)):
            for place, flags in (("/99", ()), ("", ("--db", "99"))):
                told = self.migrate(1, address(self.source, place), address(self.target), *flags, *mode)
                self.assertEqual(told, "sepal migrate: the source refuses database 99: ERR DB index is out of range\n")

    def test_a_database_without_keys_is_told(self):
        for mode in ((), ("--dry-run",), ("--quiet",)):
            told = self.migrate(0, address(self.source, "/5"), address(self.target), *mode)
            self.assertIn("sepal migrate: database 5 of the source has no key\n", told)
            told = self.migrate(0, address(self.source), address(self.target), "--db", "5", "--match", "a*", *mode)
            self.assertIn("sepal migrate: --match 'a*': database 5 of the source has no such key\n", told)
        self.assertNotIn("no key", self.migrate(0, address(self.source, "/0"), address(self.target)))


class DirectionTest(MigrateCase):
    def refused(self, target, *flags):
        told = self.migrate(1, address(self.source), target, *flags)
        self.assertRegex(told, "^sepal migrate: the target .* is no sepald, and cannot take the filters of the source; "
                               "are source and target in the right order\\?\n$")

    def test_a_source_without_keys_may_be_the_target(self):
        self.assertIn("sepal migrate: the source has no key; are source and target in the right order?\n",
                      self.migrate(0, address(self.source), address(self.target)))

    def redis(self, name, *arguments):
        server = redis_server.Redis(os.path.join(self.directory, name), *arguments)
        self.addCleanup(server.stop)
        return server

    @unittest.skipUnless(redis_server.IS_THERE, redis_server.WHY_NOT)
    def test_a_redis_takes_strings_only(self):
        redis = self.redis("plain")
        with Client.of(self.source) as client, redis.client() as theirs:
            client.call("SET", "text", "x")
            self.migrate(0, address(self.source), redis.address())
            self.assertEqual(theirs.call("GET", "text"), b"x")
            theirs.call("FLUSHALL")
            for add in ("BF.ADD", "CF.ADD"):
                client.call(add, "filter", "x")
                self.refused(redis.address())
                self.refused(redis.address(), "--dry-run")
                client.call("DEL", "filter")
            self.assertEqual(theirs.call("DBSIZE"), 0)

    def test_a_redisbloom_takes_no_filter_of_sepal(self):
        with Client.of(self.source) as client, RedisBloom() as target:
            client.call("BF.ADD", "filter", "x")
            self.refused("redis://127.0.0.1:%d" % target.port)
            target.shutdown()

    def test_a_user_of_the_target_that_may_not_ask_is_no_obstacle(self):
        with Client.of(self.source) as client, Client.of(self.target) as target:
            client.call("BF.ADD", "filter", "x")
            target.call("ACL", "SETUSER", "default", "-bf.window")
            self.migrate(0, address(self.source), address(self.target))
            self.assertEqual(target.call("BF.EXISTS", "filter", "x"), 1)

    def test_a_user_without_the_rights(self):
        with Client.of(self.source) as client:
            client.call("ACL", "SETUSER", "default", "-scan")
            client.call("BF.ADD", "filter", "x")
        self.assertRegex(self.migrate(1, address(self.source), address(self.target)),
                         "SCAN was answered: NOPERM .*; docs/guides/moving-from-redisbloom.md has the rights that its user needs\n$")

    @unittest.skipUnless(redis_server.IS_THERE, redis_server.WHY_NOT)
    @unittest.skipUnless("SEPAL_MODULE" in os.environ, "sanitizers build no sepal.so")
    def test_a_redis_with_the_module_takes_filters(self):
        redis = self.redis("module", "--loadmodule", os.environ["SEPAL_MODULE"])
        with Client.of(self.source) as client, redis.client() as theirs:
            client.call("BF.ADD", "filter", "x")
            self.migrate(0, address(self.source), redis.address())
            self.assertEqual(theirs.call("BF.EXISTS", "filter", "x"), 1)
