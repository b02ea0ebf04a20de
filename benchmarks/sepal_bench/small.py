"""Rows of small keys: many keys of one item each are created, get deadlines and are deleted, beside short strings in Redis."""

import contextlib
import statistics
import sys

from .servers import redis_server, rload, sepald

KEYS = 1_000_000
PIPELINE = 50
FIRST = 1_000_000  # numbers from here on have the same length: keys of 11 bytes
CREATE = {"sepal": ("BF.ADD", "key:{s}", "item"), "redis": ("SET", "key:{s}", "item")}
# In this order each row finds what the rows before it have left. A row without a name is not measured.
STEPS = (
    ("small: create", None),
    ("small: DEL", ("DEL", "key:{s}")),
    (None, None),
    ("small: EXPIRE, first", ("EXPIRE", "key:{s}", "10000")),
    ("small: EXPIRE, again", ("EXPIRE", "key:{s}", "20000")),
    ("small: DEL with a deadline", ("DEL", "key:{s}")),
)


def run(options, scale, wanted):
    if not any(name and wanted(name) for name, _ in STEPS):
        return []
    count = int(KEYS * scale)
    cpu = {}  # by row and server: microseconds an operation, one for each round
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(server) for server in (sepald(options.threads), redis_server()) if server]
        for _ in range(options.rounds):
            for name, words in STEPS:
                for server in servers:
                    result = rload(server, *(words or CREATE[server.name]), pipeline=PIPELINE, requests=count, start=FIRST)
                    if name:
                        cpu.setdefault((name, server.name), []).append(result["server_cpu_us_per_op"])
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [{"work": name, "server": server.name, "cpu_us": statistics.median(cpu[name, server.name]),
             "redis_ratio": statistics.median(a / b for a, b in zip(cpu[name, server.name],
                                                                    cpu.get((name, "redis"), cpu[name, server.name])))}
            for name, _ in STEPS if name and wanted(name) for server in servers]


def lines(data):
    yield "%-42s %-8s %10s %10s" % ("work", "server", "CPU us/op", "x redis")
    for row in data:
        yield "%-42s %-8s %10.3f %10.2f" % (row["work"], row["server"], row["cpu_us"], row["redis_ratio"])
