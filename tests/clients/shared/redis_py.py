"""The tour and the writer of redis-py, for its plain and its asyncio client: `library` is redis or redis.asyncio."""

import asyncio
import inspect
import itertools
import sys

from redis import ConnectionError as Disconnected
from redis import RedisError

from harness import (ADD_SCRIPT, BATCH, BINARY_ITEM, BINARY_KEY, NEW_MIN, PASSWORD, PIPELINE, PORT, SCRIPTS, USER, USER_PASSWORD,
                     expect, ok)


class Tour:
    def __init__(self, library):
        self.library = library

    def connect(self, **more):
        return self.library.Redis(host="127.0.0.1", port=PORT, **more)

    async def auth(self):
        expect("Authentication required." in await refusal(self.connect().ping), True, "no password")
        expect("invalid username-password pair" in await refusal(self.connect(username="default", password="wrong").ping), True,
               "wrong password")
        expect(await now(self.connect(password=PASSWORD).ping()), True, "a password")
        expect(await now(self.connect(username="default", password=PASSWORD).ping()), True, "a user and a password")
        ok("auth")
        if USER:
            client = self.connect(username=USER, password=USER_PASSWORD)
            expect(await now(client.execute_command("ACL", "WHOAMI")), USER.encode(), "the user")
            ok("user")

    async def commands(self, client):
        async def ask(*words):
            return await now(client.execute_command(*words))

        expect(await ask("BF.RESERVE", "users", 0.001, 1000, "EXPANSION", 4), b"OK", "BF.RESERVE")
        expect(await ask("BF.RESERVE", "fixed", 0.01, 100, "NONSCALING"), b"OK", "BF.RESERVE NONSCALING")
        expect(await ask("BF.ADD", "users", "alice"), 1, "BF.ADD")
        expect(await ask("BF.MADD", "users", "alice", "bob"), [0, 1], "BF.MADD")
        expect(await ask("BF.INSERT", "other", "CAPACITY", 500, "ERROR", 0.01, "EXPANSION", 4, "ITEMS", "x", "y"), [1, 1], "BF.INSERT")
        expect(await asyncio.gather(ask("BF.EXISTS", "users", "alice"), ask("BF.EXISTS", "users", "carol")), [1, 0], "BF.EXISTS")
        expect(await ask("BF.MEXISTS", "users", "alice", "carol"), [1, 0], "BF.MEXISTS")
        info = await ask("BF.INFO", "users")
        expect(info[:2] + info[6:], [b"Capacity", 1000, b"Number of items inserted", 2, b"Expansion rate", 4], "BF.INFO")
        expect(await ask("BF.INFO", "users", "ITEMS"), [2], "BF.INFO ITEMS")
        expect(await ask("BF.CARD", "users"), 2, "BF.CARD")
        expect(await ask("BF.CHECK", "users", "alice", "carol"), [1, 0], "BF.CHECK")
        expect(await ask("BF.FIND", 3, "nothing", "other", "users", "ITEMS", "alice", "x", "carol"), [3, 2, 0], "BF.FIND")
        expect(await ask("BF.FIND", 2, "nothing", "users", "ALL", "ITEMS", "alice", "carol"), [[None, 1], [None, 0]], "BF.FIND ALL")
        expect(await ask("BF.MERGE", "union", 1, "users"), b"OK", "BF.MERGE")
        expect(await ask("BF.MEXISTS", "union", "alice", "carol"), [1, 0], "BF.MEXISTS of a union")
        await ask("DEL", "union")
        await ask("BF.MADD", "source", "a", "b")
        iterator = 0
        while True:
            iterator, data = await ask("BF.SCANDUMP", "source", iterator)
            if iterator == 0:
                break
            expect(await ask("BF.LOADCHUNK", "moved", iterator, data), b"OK", "BF.LOADCHUNK")
        expect(await ask("BF.MEXISTS", "moved", "a", "b", "c"), [1, 1, 0], "a filter that was moved")
        ok("commands")
        expect(await refusal(ask, "BF.RESERVE", "users", 0.001, 1000), "item exists", "a second BF.RESERVE")
        expect(await refusal(ask, "BF.INSERT", "nothing", "NOCREATE", "ITEMS", "x"), "not found", "NOCREATE")
        expect(await refusal(ask, "BF.CHECK", "nothing", "x"), "not found", "BF.CHECK without a filter")
        expect("unknown command" in await refusal(ask, "NOSUCH"), True, "an unknown command")
        ok("errors")

    async def binary(self, client):
        expect(await now(client.execute_command("BF.MADD", BINARY_KEY, BINARY_ITEM, b"")), [1, 1], "binary items")
        expect(await now(client.execute_command("BF.EXISTS", BINARY_KEY, BINARY_ITEM)), 1, "a binary item")
        keys = client.scan_iter(match=b"binary:*")
        expect([key async for key in keys] if inspect.isasyncgen(keys) else list(keys), [BINARY_KEY], "a binary key")
        ok("binary")

    async def many(self, client):
        pipeline = client.pipeline(transaction=False)
        for i in range(PIPELINE):
            pipeline.execute_command("BF.ADD", "piped", "p:%d" % i)
        replies = await now(pipeline.execute())
        expect(len(replies), PIPELINE, "replies of the pipeline")
        expect(sum(replies) > NEW_MIN * PIPELINE, True, "new items")
        ok("pipeline")
        transaction = client.pipeline(transaction=True)
        await now(transaction.watch("counted"))
        transaction.multi()
        transaction.execute_command("BF.ADD", "counted", "a")
        transaction.execute_command("BF.EXISTS", "counted", "a")
        expect(await now(transaction.execute()), [1, 1], "a transaction")
        await now(transaction.watch("counted"))
        await now(client.execute_command("BF.ADD", "counted", "b"))
        transaction.multi()
        transaction.execute_command("BF.ADD", "counted", "c")
        expect(await refusal(transaction.execute), "Watched variable changed.", "a watched key that changes")
        expect(await now(client.execute_command("BF.EXISTS", "counted", "c")), 0, "what was not done")
        ok("transaction")

    async def scripts(self, client):
        if not SCRIPTS:
            return
        expect(await now(client.eval(ADD_SCRIPT, 1, "scripted", "a")), 1, "eval")
        script = client.register_script(ADD_SCRIPT.replace("ADD", "EXISTS"))
        expect(await now(script(keys=["scripted"], args=["a"])), 1, "evalsha")
        ok("script")

    async def batch(self, client):
        expect(await now(client.execute_command("BF.RESERVE", "batch", 0.001, BATCH)), b"OK", "BF.RESERVE batch")
        replies = await now(client.execute_command("BF.MADD", "batch", *("b:%d" % i for i in range(BATCH))))
        expect(len(replies), BATCH, "replies of the batch")
        expect(sum(replies) > NEW_MIN * BATCH, True, "new items")
        ok("batch")

    async def tour(self):
        await self.auth()
        client = self.connect(password=PASSWORD)
        for part in (self.commands, self.binary, self.many, self.scripts, self.batch):
            await part(client)
        await now(client.close())

    async def write(self):
        client = self.connect(password=PASSWORD)
        for number in itertools.count():
            while True:
                try:
                    await now(client.execute_command("BF.ADD", "written", "w:%d" % number))
                    break
                except Disconnected:  # also: the server loads its data
                    await asyncio.sleep(0.02)
            print(number, flush=True)

    def run(self):
        asyncio.run({"tour": self.tour, "write": self.write}[sys.argv[1]]())


async def now(answer):
    """What the plain client answers, and the asyncio client promises."""
    return await answer if inspect.isawaitable(answer) else answer


async def refusal(call, *words):
    """The text of the error that the call must raise."""
    try:
        await now(call(*words))
    except RedisError as error:
        return str(error)
    return sys.exit("no error: %r" % (words,))
