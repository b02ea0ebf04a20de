"""redis-py, as Debian packages it: the tour, and its own names for the commands of filters."""

import pathlib
import sys

import redis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "shared"))
from harness import PASSWORD, expect
from redis_py import Tour, refusal


class PlainTour(Tour):
    async def commands(self, client):
        named = self.connect(password=PASSWORD)  # from bf() on, a client reads the answers as the names say
        bloom = named.bf()
        expect(bloom.create("named", 0.001, 1000, expansion=4), True, "create")
        expect(bloom.create("named:fixed", 0.01, 100, noScale=True), True, "create")
        expect(bloom.add("named", "alice"), 1, "add")
        expect(bloom.madd("named", "alice", "bob"), [0, 1], "madd")
        expect(bloom.insert("inserted", ["x", "y"], capacity=500, error=0.01, expansion=4), [1, 1], "insert")
        expect(bloom.insert("inserted", ["x", "z"], noCreate=True), [0, 1], "insert into a filter that is there")
        expect(bloom.insert("inserted:fixed", ["x"], noScale=True), [1], "insert without scaling")
        expect((bloom.exists("named", "alice"), bloom.exists("named", "carol")), (1, 0), "exists")
        expect(bloom.mexists("named", "alice", "carol"), [1, 0], "mexists")
        info = bloom.info("named")
        expect((info.capacity, info.insertedNum, info.filterNum, info.expansionRate), (1000, 2, 1, 4), "info")
        expect(info.size > 0, True, "info's size")
        iterator = 0
        while True:
            iterator, data = bloom.scandump("named", iterator)
            if iterator == 0:
                break
            expect(bloom.loadchunk("named:moved", iterator, data) in (True, b"OK"), True, "loadchunk")
        expect(bloom.mexists("named:moved", "alice", "carol"), [1, 0], "a filter that scandump and loadchunk moved")
        expect(await refusal(bloom.create, "named", 0.001, 1000), "item exists", "a second reserve")
        named.delete("named", "named:fixed", "named:moved", "inserted", "inserted:fixed")
        await self.cuckoo(named)
        await super().commands(client)

    async def cuckoo(self, named):
        cuckoo = named.cf()
        expect(cuckoo.create("given", 1000, expansion=2, bucket_size=4, max_iterations=50), True, "create")
        expect((cuckoo.add("given", "alice"), cuckoo.addnx("given", "alice"), cuckoo.addnx("given", "bob")), (1, 0, 1), "add and addnx")
        expect(cuckoo.insert("given", ["bob", "carol"], nocreate=True), [1, 1], "insert")
        expect(cuckoo.insertnx("taken", ["x", "y"], capacity=500), [1, 1], "insertnx")
        expect((cuckoo.exists("given", "carol"), cuckoo.exists("given", "dave")), (1, 0), "exists")
        expect((cuckoo.count("given", "bob"), cuckoo.delete("given", "bob"), cuckoo.count("given", "bob")), (2, 1, 1), "count and delete")
        expect(cuckoo.delete("given", "dave"), 0, "a removal of what is not there")
        info = cuckoo.info("given")
        expect((info.insertedNum, info.deletedNum, info.bucketSize, info.expansionRate, info.maxIteration), (3, 1, 4, 2, 50), "info")
        expect(await refusal(cuckoo.create, "given", 1000), "item exists", "a second reserve")
        named.delete("given", "taken")


PlainTour(redis).run()
