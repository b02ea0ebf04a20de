#!/usr/bin/env python3
"""Unites filters of several regions while a client goes on adding, and gives memory back.

docs/guides/merging-filters.md explains it. Needs sepald and Debian's python3-redis.
"""

import os
import sys
import threading

import redis

HOST = os.environ.get("SEPAL_HOST", "127.0.0.1")
PORT = int(os.environ.get("SEPAL_PORT", "6379"))
REGIONS = ["region:europe", "region:asia", "region:america"]
CAPACITY = 300_000
EACH = 50_000


def connect():
    return redis.Redis(host=HOST, port=PORT)


def fill(client, key, items):
    for first in range(0, len(items), 1000):
        for reply in client.execute_command("BF.MADD", key, *items[first : first + 1000]):
            # A filter that is full refuses an item inside the list.
            if isinstance(reply, Exception):
                raise reply


def missing(client, key, items):
    """The items that the filter denies. There must be none."""
    denied = []
    for first in range(0, len(items), 1000):
        some = items[first : first + 1000]
        found = client.execute_command("BF.MEXISTS", key, *some)
        denied += [item for item, answer in zip(some, found) if not answer]
    return denied


def write_on(stop, added):
    """A client of one region that adds all the time, and notes what was answered."""
    client = connect()
    number = 0
    while not stop.is_set():
        item = f"late-{number}"
        client.execute_command("BF.ADD", REGIONS[0], item)
        added.append(item)
        number += 1


def merge_regions(client):
    items = {region: [f"{region}-{number}" for number in range(EACH)] for region in REGIONS}
    for region in REGIONS:
        client.execute_command("BF.RESERVE", region, 0.01, CAPACITY)
        fill(client, region, items[region])
    client.execute_command("BF.RESERVE", "regions", 0.01, CAPACITY)
    # New items of the first region go to both from here on; the merge brings the old ones.
    client.execute_command("BF.MIRROR", REGIONS[0], "regions")
    stop, added = threading.Event(), []
    writer = threading.Thread(target=write_on, args=(stop, added))
    writer.start()
    try:
        client.execute_command("BF.MERGE", "regions", len(REGIONS), *REGIONS)
    finally:
        stop.set()
        writer.join()
    client.execute_command("BF.MIRROR", REGIONS[0], "OFF")
    lost = missing(client, "regions", added + [item for region in REGIONS for item in items[region]])
    if lost:
        sys.exit(f"{len(lost)} items are missing: {lost[:3]}")
    print(f"{len(REGIONS)} regions, one of them written to during the merge: no item is missing")


def refuse_too_full(client):
    for key in "day:1", "day:2":
        client.execute_command("BF.RESERVE", key, 0.01, 10_000, "NONSCALING")
        fill(client, key, [f"{key}-{number}" for number in range(9000)])
    try:
        client.execute_command("BF.MERGE", "days", 2, "day:1", "day:2")
    except redis.ResponseError as error:
        print(f"a union that is too full was refused: {error}")
    else:
        sys.exit("a union that is too full was taken")


def give_memory_back(client):
    items = [f"session-{number}" for number in range(10_000)]
    client.execute_command("BF.RESERVE", "sessions", 0.01, 6_000_000)
    fill(client, "sessions", items)
    before = client.execute_command("BF.INFO", "sessions", "SIZE")[0]
    client.execute_command("BF.SHRINK", "sessions", 1_000_000)
    after = client.execute_command("BF.INFO", "sessions", "SIZE")[0]
    lost = missing(client, "sessions", items)
    if lost:
        sys.exit(f"{len(lost)} items are missing: {lost[:3]}")
    print(f"shrunk from {before} to {after} bytes, and no item is missing")


def require_clean(filters, *keys):
    """Ends the program if it cannot reach the server, or if keys that it makes are there already."""
    place = "%(host)s:%(port)s" % filters.connection_pool.connection_kwargs
    try:
        there = [key for key in keys if filters.exists(key)]
    except redis.RedisError as error:
        sys.exit("cannot reach %s: %s" % (place, error))
    if there:
        sys.exit("%s has keys of an earlier run, or yours; delete them first: %s" % (place, there[:3]))


def main():
    client = connect()
    keys = (*REGIONS, "regions", "day:1", "day:2", "days", "sessions")
    require_clean(client, *keys)
    try:
        merge_regions(client)
        refuse_too_full(client)
        give_memory_back(client)
    finally:
        client.delete(*keys)


if __name__ == "__main__":
    main()
