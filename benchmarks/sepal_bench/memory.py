"""Rows of small things: resident bytes of a filter that an add created, and of an idle connection."""

import contextlib
import resource
import socket
import sys
import time

from .servers import redis_server, rload, sepald

FILTERS_ROW = "memory: filter of one item, key of 11 bytes"
CONNECTIONS_ROW = "memory: idle connection"
FILTERS = 1_000_000
CONNECTIONS = 5_000
DESCRIPTORS_RESERVED = 100
# The threads of a server touch memory of their own in its first seconds. Memory that was replaced while tables grew goes
# back after a second, that of a worker that rests after two more.
SETTLE_SECONDS = 4


def bytes_each(server, count, work):
    """The growth of the server's memory for each of the `count` things that `work` makes."""
    time.sleep(SETTLE_SECONDS)
    before = server.resident_bytes()
    work()
    time.sleep(SETTLE_SECONDS)
    return (server.resident_bytes() - before) / count


def filters(options, scale):
    count = int(FILTERS * scale)
    with sepald(options.threads) as server:
        # Numbers from 10^6 on have the same length: keys of 11 bytes.
        value = bytes_each(server, count, lambda: rload(server, "BF.ADD", "key:{s}", "item", pipeline=50, requests=count,
                                                        start=1_000_000))
        yield {"work": FILTERS_ROW, "server": server.name, "count": count, "bytes_each": value}


def descriptors():
    """How many descriptors this process may open from now on. The servers that it starts raise their limits, too."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def connections(options, scale):
    count = min(int(CONNECTIONS * scale), descriptors() - DESCRIPTORS_RESERVED)
    for started in filter(None, [sepald(options.threads), redis_server()]):
        with started as server, contextlib.ExitStack() as opened:
            def connect():
                for _ in range(count):
                    client = opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
                    client.sendall(b"PING\r\n")
                    client.recv(64)
            value = bytes_each(server, count, connect)
            yield {"work": CONNECTIONS_ROW, "server": server.name, "count": count, "bytes_each": value}


def run(options, scale, wanted):
    data = []
    for name, measured in ((FILTERS_ROW, filters), (CONNECTIONS_ROW, connections)):
        if wanted(name):
            data += measured(options, scale)
    return data


def lines(data):
    yield "%-48s %-8s %10s %12s" % ("work", "server", "count", "bytes each")
    for row in data:
        yield "%-48s %-8s %10d %12.1f" % (row["work"], row["server"], row["count"], row["bytes_each"])
