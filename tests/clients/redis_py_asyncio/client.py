"""redis-py's asyncio client, as Debian packages it."""

import asyncio
import itertools
import pathlib
import sys

import redis
import redis.asyncio

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "shared"))
from harness import (ADD_SCRIPT, BATCH, BINARY_ITEM, BINARY_KEY, NEW_MIN, PASSWORD, PIPELINE, PORT, SCRIPTS, USER, USER_PASSWORD,
                     expect, ok)


def connect(**more):
    return redis.asyncio.Redis(host="127.0.0.1", port=PORT, **more)


async def refusal(coming):
    """The text of the error that the call must raise."""
    try:
        await coming
    except redis.RedisError as error:
        return str(error)
    return sys.exit("no error")


async def auth():
    expect("Authentication required." in await refusal(connect().ping()), True, "no password")
    expect("invalid username-password pair" in await refusal(connect(username="default", password="wrong").ping()), True,
           "wrong password")
    expect(await connect(password=PASSWORD).ping(), True, "a password")
    expect(await connect(username="default", password=PASSWORD).ping(), True, "a user and a password")
    ok("auth")
    if USER:
        client = connect(username=USER, password=USER_PASSWORD)
        expect(await client.execute_command("ACL", "WHOAMI"), USER.encode(), "the user")
        ok("user")


async def commands(client):
    ask = client.execute_command
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
    await ask("BF.MADD", "source", "a", "b")
    iterator = 0
    while True:
        iterator, data = await ask("BF.SCANDUMP", "source", iterator)
        if iterator == 0:
            break
        expect(await ask("BF.LOADCHUNK", "moved", iterator, data), b"OK", "BF.LOADCHUNK")
    expect(await ask("BF.MEXISTS", "moved", "a", "b", "c"), [1, 1, 0], "a filter that was moved")
    ok("commands")
    expect(await refusal(ask("BF.RESERVE", "users", 0.001, 1000)), "item exists", "a second BF.RESERVE")
    expect(await refusal(ask("BF.INSERT", "nothing", "NOCREATE", "ITEMS", "x")), "not found", "NOCREATE")
    expect("unknown command" in await refusal(ask("NOSUCH")), True, "an unknown command")
    ok("errors")


async def binary(client):
    expect(await client.execute_command("BF.MADD", BINARY_KEY, BINARY_ITEM, b""), [1, 1], "binary items")
    expect([key async for key in client.scan_iter(match=b"binary:*")], [BINARY_KEY], "a binary key")
    ok("binary")


async def many(client):
    pipeline = client.pipeline(transaction=False)
    for i in range(PIPELINE):
        pipeline.execute_command("BF.ADD", "piped", "p:%d" % i)
    replies = await pipeline.execute()
    expect(len(replies), PIPELINE, "replies of the pipeline")
    expect(sum(replies) > NEW_MIN * PIPELINE, True, "new items")
    ok("pipeline")
    async with client.pipeline(transaction=True) as transaction:
        await transaction.watch("counted")
        transaction.multi()
        transaction.execute_command("BF.ADD", "counted", "a")
        transaction.execute_command("BF.EXISTS", "counted", "a")
        expect(await transaction.execute(), [1, 1], "a transaction")
        await transaction.watch("counted")
        await client.execute_command("BF.ADD", "counted", "b")
        transaction.multi()
        transaction.execute_command("BF.ADD", "counted", "c")
        expect(await refusal(transaction.execute()), "Watched variable changed.", "a watched key that changes")
    expect(await client.execute_command("BF.EXISTS", "counted", "c"), 0, "what was not done")
    ok("transaction")


async def scripts(client):
    if not SCRIPTS:
        return
    expect(await client.eval(ADD_SCRIPT, 1, "scripted", "a"), 1, "eval")
    script = client.register_script(ADD_SCRIPT.replace("ADD", "EXISTS"))
    expect(await script(keys=["scripted"], args=["a"]), 1, "evalsha")
    ok("script")


async def batch(client):
    expect(await client.execute_command("BF.RESERVE", "batch", 0.001, BATCH), b"OK", "BF.RESERVE batch")
    replies = await client.execute_command("BF.MADD", "batch", *("b:%d" % i for i in range(BATCH)))
    expect(len(replies), BATCH, "replies of the batch")
    expect(sum(replies) > NEW_MIN * BATCH, True, "new items")
    ok("batch")


async def tour():
    await auth()
    client = connect(password=PASSWORD)
    await commands(client)
    await binary(client)
    await many(client)
    await scripts(client)
    await batch(client)
    await client.close()


async def write():
    client = connect(password=PASSWORD)
    for number in itertools.count():
        while True:
            try:
                await client.execute_command("BF.ADD", "written", "w:%d" % number)
                break
            except redis.ConnectionError:  # also: the server loads its data
                await asyncio.sleep(0.02)
        print(number, flush=True)


asyncio.run({"tour": tour, "write": write}[sys.argv[1]]())
