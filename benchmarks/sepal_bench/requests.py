"""Rows of requests: the server's CPU for an operation and the latency of a batch, beside PING at the same depth."""

import contextlib
import statistics
import subprocess
import sys
import time

from .servers import CONNECTIONS, Server, fill, redis_server, rload, sepald


class Work:
    """One row: requests of one kind at one pipeline depth. `key` names the filter that it needs, see FILTERS."""

    def __init__(self, name, words, pipeline, requests, key=None, items=1, **options):
        self.name, self.words, self.pipeline, self.requests = name, words, pipeline, requests
        self.key, self.items, self.options = key, items, options
        self.ping = words == ["PING"]


GIANT = 100_000_000

# How each filter is made, for a given scale of the giant one. The filters are half full: adds find known and new items,
# and there is room for all items of a round.
FILTERS = {
    "giant": lambda server, scale: fill(server, "giant", int(1.2 * GIANT * scale), int(GIANT * scale) // 2),
    "million": lambda server, scale: fill(server, "million", 1_200_000, 500_000),
    "grown": lambda server, scale: fill(server, "grown", 100, int(10_000_000 * scale), expansion="2"),
}


def works(scale):
    """The rows. `scale` shrinks the number of requests and the giant filter."""
    giant = {"key": "giant", "range": int(GIANT * scale)}
    million = {"key": "million", "range": 1_000_000}

    def count(requests):
        return max(CONNECTIONS, int(requests * scale))

    rows = [Work("PING", ["PING"], 1, count(300_000)),
            Work("PING, pipeline 100", ["PING"], 100, count(10_000_000)),
            Work("PING, pipeline 16", ["PING"], 16, count(2_000_000)),
            Work("PING, pipeline 50", ["PING"], 50, count(5_000_000))]
    for command in ("BF.ADD", "BF.EXISTS"):
        rows += [Work(command + ", giant", [command, "giant", "item:{r}"], 1, count(300_000), **giant),
                 Work(command + ", 10^6, pipeline 100", [command, "million", "item:{r}"], 100, count(8_000_000), **million),
                 Work(command + ", giant, pipeline 100", [command, "giant", "item:{r}"], 100, count(8_000_000), **giant)]
    for command in ("BF.MADD", "BF.MEXISTS"):
        rows.append(Work(command + " of 100, giant, pipeline 16", [command, "giant", "item:{r*100}"], 16, count(200_000),
                         items=100, **giant))
    rows.append(Work("BF.MEXISTS of 100 absent, grown", ["BF.MEXISTS", "grown", "absent:{r*100}"], 16, count(100_000),
                     key="grown", items=100))
    rows.append(Work("BF.ADD creates filters, pipeline 50", ["BF.ADD", "f:{s}", "item"], 50, count(1_000_000)))
    return rows


def select(scale, wanted):
    """The wanted rows, and the PING rows beside them."""
    rows = works(scale)
    depths = {work.pipeline for work in rows if wanted(work.name)}
    return [work for work in rows if wanted(work.name) or (work.ping and work.pipeline in depths)]


def clear_created(server, work):
    """The row that creates keys starts without keys."""
    if not any("{s}" in word for word in work.words):
        return
    subprocess.run("redis-cli -p %d --scan --pattern 'f:*' | xargs -r -n 1000 redis-cli -p %d UNLINK > /dev/null"
                   % (server.port, server.port), shell=True, check=True)


def measure(servers, rows, rounds):
    """results[row name][server name]: a list of rload's outputs, one for each round."""
    results = {work.name: {server.name: [] for server in servers} for work in rows}
    for number in range(rounds):
        for work in rows:
            for server in servers:
                if not work.ping and not server.bloom:
                    continue
                clear_created(server, work)
                result = rload(server, *work.words, pipeline=work.pipeline, requests=work.requests, seed=number + 1,
                               **work.options)
                results[work.name][server.name].append(result)
                print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def median(runs, *path):
    def value(run):
        for name in path:
            run = run[name]
        return run
    return statistics.median(value(run) for run in runs)


def summary(work, server, runs, pings):
    """One row of one server; `pings` are the runs of PING in the same rounds."""
    cpu = median(runs, "server_cpu_us_per_op")
    ratio = statistics.median(a["server_cpu_us_per_op"] / b["server_cpu_us_per_op"] for a, b in zip(runs, pings))
    return {"work": work.name, "server": server.name, "pipeline": work.pipeline, "items": work.items,
            "ops_per_s": median(runs, "ops_per_s"), "cpu_us": cpu, "user_us": median(runs, "user"),
            "system_us": median(runs, "sys"), "ping_ratio": ratio, "item_ns": 1000 * cpu / work.items,
            "p50_us": median(runs, "batch_us", "p50"), "p99_us": median(runs, "batch_us", "p99"),
            "p999_us": median(runs, "batch_us", "p999"), "max_us": median(runs, "batch_us", "max"),
            "rss_mb": median(runs, "server_rss_mb")}


def summaries(servers, rows, results):
    pings = {work.pipeline: work.name for work in rows if work.ping}
    return [summary(work, server, results[work.name][server.name], results[pings[work.pipeline]][server.name])
            for work in rows for server in servers if results[work.name][server.name]]


def lines(data):
    yield "%-42s %-8s %11s %9s %8s %8s %7s %8s %8s %8s %9s %9s" % (
        "work", "server", "ops/s", "CPU us/op", "user", "system", "x PING", "p50 us", "p99", "p99.9", "max", "RSS MB")
    for row in data:
        text = "%-42s %-8s %11.0f %9.4f %8.4f %8.4f %7.2f %8.0f %8.0f %8.0f %9.0f %9.1f" % (
            row["work"], row["server"], row["ops_per_s"], row["cpu_us"], row["user_us"], row["system_us"],
            row["ping_ratio"], row["p50_us"], row["p99_us"], row["p999_us"], row["max_us"], row["rss_mb"])
        yield text + ("   %.1f ns an item" % row["item_ns"] if row["items"] > 1 else "")


def prepare(servers, rows, scale):
    for server in servers:
        server.bloom = server.has_bloom()
        started = time.monotonic()
        for key in {work.key for work in rows if work.key} if server.bloom else ():
            FILTERS[key](server, scale)
        print("filled %s in %.1f s" % (server.name, time.monotonic() - started), file=sys.stderr)


def run(options, scale, wanted):
    """The data of all wanted rows."""
    rows = select(scale, wanted)
    if not rows:
        return []
    with contextlib.ExitStack() as stack:
        started = [sepald(options.threads), redis_server()]
        servers = [stack.enter_context(server) for server in started if server]
        servers += [Server("port %d" % port, port) for port in options.versus]
        prepare(servers, rows, scale)
        return summaries(servers, rows, measure(servers, rows, options.rounds))
