"""Rows of the worst batch: the waits of other clients while one client creates, fills, replaces and deletes giant filters.

A steady load beside the change alternates with the same load alone, for the same time. If the machine lacks a core for each
of sepald, both generators and the thread that gives memory back, it adds waits to both loads. So their difference counts.
"""

import contextlib
import signal
import statistics
import sys
import time

from .servers import fill, finish_rload, rload, sepald, start_rload

ITEMS = 1_170_000_000  # 1.4 GB at 1%
LOADS = {"structural change, 50 000 requests/s": {"rate": 50_000}, "structural change, full speed": {}}
LEAD_IN_SECONDS = 0.5
# A virtual machine gives freed memory back to its host, and is busy with that for seconds. Right after the change, the
# worst batch of the load alone was five times as long as ten seconds later.
SETTLE_SECONDS = 10
LOAD_MEGABYTES = 10  # enough for a filter that fits in the caches, and prepared within the lead-in


@contextlib.contextmanager
def load_on(server, rate, results):
    """The steady load while the body runs. Appends rload's output to `results`."""
    load = start_rload(server, "BF.EXISTS", "million", "item:{r}", "--then", "BF.ADD", "million", "item:{r}",
                       conns=20, pipeline=16, requests=10 ** 12, prepare=LOAD_MEGABYTES, **rate)
    time.sleep(LEAD_IN_SECONDS)
    yield
    load.send_signal(signal.SIGINT)
    results.append(finish_rload(load))


def create_and_fill(server, key, items, amount):
    server.must("BF.RESERVE", key, "0.01", items, "NONSCALING")
    rload(server, "BF.MADD", key, "item:{r*100}", conns=1, range=items, **amount)


def change(server, items, amount):
    create_and_fill(server, "big", items, amount)
    create_and_fill(server, "big:next", items, amount)
    server.must("RENAME", "big:next", "big")
    # Memory is given back after the answer.
    time.sleep(LEAD_IN_SECONDS)
    server.must("DEL", "big")
    time.sleep(LEAD_IN_SECONDS)


def row(name, alone, changed):
    def values(runs, percentile):
        return [run["batch_us"][percentile] / 1000 for run in runs]

    data = {"work": name, "requests_per_s": statistics.median(run["ops_per_s"] for run in alone)}
    for percentile in ("p50", "p999", "max"):
        before, after = values(alone, percentile), values(changed, percentile)
        data.update({"alone_%s_ms" % percentile: before, "changed_%s_ms" % percentile: after,
                     "added_%s_ms" % percentile: statistics.median(after) - statistics.median(before)})
    return data


def run(options, scale, wanted):
    names = [name for name in LOADS if wanted(name)]
    if not names:
        return []
    quick = scale < 1
    amount = {"requests": 2_000} if quick else {"requests": 10 ** 12, "seconds": 3}
    settle_seconds = 0 if quick else SETTLE_SECONDS
    runs = {name: ([], []) for name in names}
    with sepald(options.threads) as server:
        fill(server, "million", 1_200_000, 500_000)
        for _ in range(options.rounds):
            for name, (alone, changed) in runs.items():
                started = time.monotonic()
                with load_on(server, LOADS[name], changed):
                    change(server, int(ITEMS * scale), amount)
                changed_seconds = time.monotonic() - started
                time.sleep(settle_seconds)
                with load_on(server, LOADS[name], alone):
                    time.sleep(changed_seconds - LEAD_IN_SECONDS)
                print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [row(name, *of_rounds) for name, of_rounds in runs.items()]


def lines(data):
    yield "%-42s %-8s %14s %14s %10s   %s" % (
        "work", "batch", "alone, ms", "change, ms", "added, ms", "rounds: alone | change")
    for each in data:
        for percentile in ("p50", "p999", "max"):
            alone, changed = each["alone_%s_ms" % percentile], each["changed_%s_ms" % percentile]
            yield "%-42s %-8s %14.2f %14.2f %10.2f   %s | %s" % (
                each["work"], percentile, statistics.median(alone), statistics.median(changed),
                each["added_%s_ms" % percentile],
                " ".join("%.2f" % value for value in alone), " ".join("%.2f" % value for value in changed))
