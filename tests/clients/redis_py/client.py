"""redis-py, as Debian packages it."""

import itertools
import pathlib
import sys
import time

import redis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "shared"))
from harness import (ADD_SCRIPT, BATCH, BINARY_ITEM, BINARY_KEY, NEW_MIN, PASSWORD, PIPELINE, PORT, SCRIPTS, USER, USER_PASSWORD,
                     expect, ok)


def connect(**more):
    return redis.Redis(host="127.0.0.1", port=PORT, **more)


def refusal(call, *words, **more):
    """The text of the error that the call must raise."""
    try:
        call(*words, **more)
    except redis.RedisError as error:
        return str(error)
    return sys.exit("no error: %r" % (words,))


def auth():
    expect("Authentication required." in refusal(connect().ping), True, "no password")
    expect("invalid username-password pair" in refusal(connect(username="default", password="wrong").ping), True, "wrong password")
    expect(connect(password=PASSWORD).ping(), True, "a password")
    expect(connect(username="default", password=PASSWORD).ping(), True, "a user and a password")
    ok("auth")
    if USER:
        expect(connect(username=USER, password=USER_PASSWORD).execute_command("ACL", "WHOAMI"), USER.encode(), "the user")
        ok("user")


def commands(client):
    bloom = client.bf()
    expect(bloom.create("users", 0.001, 1000, expansion=4), True, "create")
    expect(bloom.create("fixed", 0.01, 100, noScale=True), True, "create")
    expect(bloom.add("users", "alice"), 1, "add")
    expect(bloom.madd("users", "alice", "bob"), [0, 1], "madd")
    expect(bloom.insert("other", ["x", "y"], capacity=500, error=0.01, expansion=4), [1, 1], "insert")
    expect(bloom.insert("other", ["x", "z"], noCreate=True), [0, 1], "insert into a filter that is there")
    expect(bloom.insert("other:fixed", ["x"], noScale=True), [1], "insert without scaling")
    expect((bloom.exists("users", "alice"), bloom.exists("users", "carol")), (1, 0), "exists")
    expect(bloom.mexists("users", "alice", "carol"), [1, 0], "mexists")
    info = bloom.info("users")
    expect((info.capacity, info.insertedNum, info.filterNum, info.expansionRate), (1000, 2, 1, 4), "info")
    expect(info.size > 0, True, "info's size")
    expect(client.execute_command("BF.CARD", "users"), 2, "card")
    bloom.madd("source", "a", "b")
    iterator = 0
    while True:
        iterator, data = bloom.scandump("source", iterator)
        if iterator == 0:
            break
        expect(bloom.loadchunk("moved", iterator, data) in (True, b"OK"), True, "loadchunk")
    expect(bloom.mexists("moved", "a", "b", "c"), [1, 1, 0], "a filter that scandump and loadchunk moved")
    ok("commands")
    expect(refusal(bloom.create, "users", 0.001, 1000), "item exists", "a second reserve")
    expect(refusal(bloom.insert, "nothing", ["x"], noCreate=True), "not found", "insert without a filter")
    expect("unknown command" in refusal(client.execute_command, "NOSUCH"), True, "an unknown command")
    ok("errors")


def binary(client):
    bloom = client.bf()
    expect(bloom.madd(BINARY_KEY, BINARY_ITEM, b""), [1, 1], "binary items")
    expect(bloom.exists(BINARY_KEY, BINARY_ITEM), 1, "a binary item")
    expect(list(client.scan_iter(match=b"binary:*")), [BINARY_KEY], "a binary key")
    ok("binary")


def many(client):
    pipeline = client.pipeline(transaction=False)
    for i in range(PIPELINE):
        pipeline.execute_command("BF.ADD", "piped", "p:%d" % i)
    replies = pipeline.execute()
    expect(len(replies), PIPELINE, "replies of the pipeline")
    expect(sum(replies) > NEW_MIN * PIPELINE, True, "new items")
    ok("pipeline")
    transaction = client.pipeline(transaction=True)
    transaction.watch("counted")
    transaction.multi()
    transaction.execute_command("BF.ADD", "counted", "a")
    transaction.execute_command("BF.EXISTS", "counted", "a")
    expect(transaction.execute(), [1, 1], "a transaction")
    transaction.watch("counted")
    client.execute_command("BF.ADD", "counted", "b")
    transaction.multi()
    transaction.execute_command("BF.ADD", "counted", "c")
    expect(refusal(transaction.execute), "Watched variable changed.", "a watched key that changes")
    expect(client.bf().exists("counted", "c"), 0, "what was not done")
    ok("transaction")


def scripts(client):
    if not SCRIPTS:
        return
    expect(client.eval(ADD_SCRIPT, 1, "scripted", "a"), 1, "eval")
    script = client.register_script(ADD_SCRIPT.replace("ADD", "EXISTS"))
    expect(script(keys=["scripted"], args=["a"]), 1, "evalsha")
    ok("script")


def batch(client):
    expect(client.bf().create("batch", 0.001, BATCH), True, "create")
    replies = client.bf().madd("batch", *("b:%d" % i for i in range(BATCH)))
    expect(len(replies), BATCH, "replies of the batch")
    expect(sum(replies) > NEW_MIN * BATCH, True, "new items")
    ok("batch")


def tour():
    auth()
    client = connect(password=PASSWORD)
    commands(client)
    binary(client)
    many(client)
    scripts(client)
    batch(client)


def write():
    client = connect(password=PASSWORD)
    for number in itertools.count():
        while True:
            try:
                client.bf().add("written", "w:%d" % number)
                break
            except redis.ConnectionError:  # also: the server loads its data
                time.sleep(0.02)
        print(number, flush=True)


{"tour": tour, "write": write}[sys.argv[1]]()
