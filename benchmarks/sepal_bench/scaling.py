"""Rows of one filter that threads share, as benchmarks/scaling prints them."""

import json
import subprocess

from .servers import BUILD

PREFIX = "two threads: "
CAPACITY = 100_000_000
# The names of the rows, so that the command line can name a row before the program has run.
WORKS = ["add, batches of 100", "add, one by one", "look-up, batches of 100", "look-up, one by one"]


def run(options, scale, wanted):
    if not any(wanted(PREFIX + work) for work in WORKS):
        return []
    printed = subprocess.run([str(BUILD / "scaling"), "--json", "--capacity", str(int(CAPACITY * scale)),
                              "--rounds", str(options.rounds)], stdout=subprocess.PIPE, check=True).stdout
    rows = [{**row, "work": PREFIX + row["work"]} for row in json.loads(printed)]
    return [row for row in rows if wanted(row["work"])]


def lines(data):
    yield "%-42s %14s %14s %7s %11s %10s %10s %10s %9s" % (
        "work", "1 thread, 1/s", "2 threads, 1/s", "ratio", "of rounds", "1: CPU ns", "2: CPU ns", "CPU ratio", "waits/10^6")
    for row in data:
        yield "%-42s %14.0f %14.0f %7.2f %5.2f..%4.2f %10.1f %10.1f %10.2f %9.2f" % (
            row["work"], row["one_thread_per_s"], row["two_threads_per_s"], row["ratio"], row["ratio_min"],
            row["ratio_max"], row["one_thread_cpu_ns"], row["two_threads_cpu_ns"], row["cpu_ratio"], row["waits_per_million"])
