"""Filters move between sepald and a Redis server with sepal.so, both ways, by DUMP and RESTORE, MIGRATE, and in pieces."""

from moves import Moves
from redis_case import RedisTest


class MovingTest(Moves, RedisTest):
    lasting = "one"

    def fill(self, client):
        """Filters of one layer, of many, of many pieces. Returns their items: key: count."""
        counts = {"one": 50, "grown": 4000, "large": 20_000}
        client.call("BF.RESERVE", "grown", "0.001", "10")
        client.call("BF.RESERVE", "large", "0.0001", "2000000")
        for key, count in counts.items():
            client.call("BF.MADD", key, *("%s/%d" % (key, i) for i in range(count)))
        return counts

    def facts(self, client, key, count):
        """What must be the same on both sides: all answers, and the counts."""
        return (client.call("BF.INFO", key), client.call("BF.DEBUG", key),
                client.call("BF.MEXISTS", key, *("%s/%d" % (key, i) for i in range(count)), *range(20_000)))

    def without_size(self, facts):
        """The servers count the memory of a large filter a little differently."""
        info = [value for at, value in enumerate(facts[0]) if at not in (2, 3)]
        return info, *facts[1:]

    def check_same(self, source, target, counts):
        for key, count in counts.items():
            self.assertEqual(self.without_size(self.facts(target, key, count)), self.without_size(self.facts(source, key, count)), key)
            # It grows there as it would have here.
            target.call("BF.MADD", key, *("more/%d" % i for i in range(3000)))
            self.assertEqual(set(target.call("BF.MEXISTS", key, *("more/%d" % i for i in range(3000)),
                                             *("%s/%d" % (key, i) for i in range(count)))), {1})

    def test_in_pieces(self):
        def move(source, target, key):
            for piece in self.pieces_of(source, key):
                self.assertEqual(target.call("BF.LOADCHUNK", key, *piece), b"OK")

        self.both_ways(move)

    def test_pieces_that_come_beside_adds(self):
        """What clients add to the target while pieces come, and pieces that come twice, lose nothing."""
        for key, count in (("one", 50), ("large", 20_000)):
            self.fill(self.theirs)
            header, *pieces = self.pieces_of(self.theirs, key)
            self.theirs.call("BF.LOADCHUNK", "target", *header)
            items = ["%s/%d" % (key, i) for i in range(count)]
            added = []
            for piece in pieces + pieces[::-1]:
                added += [len(added), len(added) + 1]
                self.theirs.call("BF.MADD", "target", *added[-2:])
                self.assertEqual(self.theirs.call("BF.LOADCHUNK", "target", *piece), b"OK")
            self.assertEqual(set(self.theirs.call("BF.MEXISTS", "target", *items, *added)), {1})
            self.theirs.call("FLUSHALL")

    @staticmethod
    def pieces_of(client, key):
        pieces, iterator = [], 0
        while True:
            iterator, data = client.call("BF.SCANDUMP", key, iterator)
            if iterator == 0:
                return pieces
            pieces.append((iterator, data))
