"""Rows of clients that wait for each reply: one worker beside several, and few connections beside many."""

import contextlib
import resource
import statistics
import sys

from .servers import fill, redis_server, rload, sepald

REQUESTS = 400_000
WORKERS = 2
RATE = 50_000
MAX_CLIENTS = ("--maxclients", "15000")  # those of one row may not have gone when the next row begins
FILTER_ITEMS = 1_000_000
# (name, words, connections, workers of sepald or nothing for options.threads, requests a second or nothing for full speed)
ROWS = (
    ("clients: PING, one worker", ("PING",), 50, 1, None),
    ("clients: PING, two workers", ("PING",), 50, WORKERS, None),
    ("clients: BF.EXISTS, one worker", ("BF.EXISTS", "f", "item:{r}"), 50, 1, None),
    ("clients: BF.EXISTS, two workers", ("BF.EXISTS", "f", "item:{r}"), 50, WORKERS, None),
    ("clients: 200 connections", ("PING",), 200, None, None),
    ("clients: 10,000 connections", ("PING",), 10_000, None, None),
    ("clients: 200 connections, 50,000/s", ("PING",), 200, None, RATE),
    ("clients: 10,000 connections, 50,000/s", ("PING",), 10_000, None, RATE),
)


def measure(server, words, connections, rate, requests):
    options = {"rate": rate} if rate else {}
    # Each connection asks some times before, so that none is new to the server.
    rload(server, *words, conns=connections, requests=max(requests // 8, connections), prepare=16)
    return rload(server, *words, conns=connections, requests=max(requests, connections), prepare=16, **options)


def run(options, scale, wanted):
    rows = [row for row in ROWS if wanted(row[0])]
    if not rows:
        return []
    # Connections of the servers and of rload, which get this limit from here.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    results = {}
    with contextlib.ExitStack() as stack:
        sepalds = {count: stack.enter_context(sepald(count, *MAX_CLIENTS)) for count in {row[3] or options.threads for row in rows}}
        redis = redis_server(*MAX_CLIENTS)
        redis = stack.enter_context(redis) if redis else None
        for server in sepalds.values():
            fill(server, "f", FILTER_ITEMS, int(FILTER_ITEMS * scale))
        for _ in range(options.rounds):
            for name, words, connections, workers, rate in rows:
                for server in (sepalds[workers or options.threads], redis):
                    if server and not (server is redis and words[0] != "PING"):
                        result = measure(server, words, connections, rate, int(REQUESTS * scale))
                        results.setdefault((name, server.name), []).append(result)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    def median(name, server, figure):
        return statistics.median(figure(result) for result in results[name, server])

    return [{"work": name, "server": server, "cpu_us": median(name, server, lambda r: r["server_cpu_us_per_op"]),
             "ops_per_s": median(name, server, lambda r: r["ops_per_s"]),
             "p99_us": median(name, server, lambda r: r["batch_us"]["p99"])}
            for name, server in results]


def lines(data):
    yield "%-42s %-8s %10s %10s %10s" % ("work", "server", "CPU us/op", "ops/s", "p99 us")
    for row in data:
        yield "%-42s %-8s %10.2f %10.0f %10.0f" % (row["work"], row["server"], row["cpu_us"], row["ops_per_s"], row["p99_us"])
