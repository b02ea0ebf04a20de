"""The results of benchmarks/run, as charts and as tables for a document."""

import statistics

from .svg import PAIRS_DARK, PAIRS_LIGHT, Panel, bar_chart


def by_work(rows):
    """{work: {server: row}}, in the order of the rows."""
    works = {}
    for row in rows:
        works.setdefault(row["work"], {})[row["server"]] = row
    return works


def short(work):
    """A row's name without its pipeline depth, which the panel's title has."""
    return work.split(", pipeline")[0]


def cpu_chart(rows):
    servers = list(dict.fromkeys(row["server"] for row in rows))

    def bar(row):
        if row is None:
            return None
        label = "%.3g us" % row["cpu_us"] if row["cpu_us"] < 1 else "%.2f us" % row["cpu_us"]
        return row["cpu_us"], label + (" = %.0f ns an item" % row["item_ns"] if row["items"] > 1 else "")

    panels = []
    for depth in sorted({row["pipeline"] for row in rows}):
        works = by_work(row for row in rows if row["pipeline"] == depth)
        groups = [(short(work), [bar(cells.get(server)) for server in servers]) for work, cells in works.items()]
        panels.append(Panel("no pipeline" if depth == 1 else "pipeline of %d" % depth, groups))
    return bar_chart("Server CPU for one request", servers, panels)


def scaling_chart(rows):
    def bar(row, threads, ratio):
        per_second = row[threads + "_per_s"]
        return per_second, "%.1f M/s" % (per_second / 1e6) + ("   x %.2f" % row["ratio"] if ratio else "")

    groups = [(row["work"].split(": ")[1], [bar(row, "one_thread", False), bar(row, "two_threads", True)]) for row in rows]
    return bar_chart("One filter, items a second", ["1 thread", "2 threads"], [Panel("higher is better", groups)])


def structural_chart(rows):
    def bar(row, when, percentile):
        value = statistics.median(row["%s_%s_ms" % (when, percentile)])
        return value, "%.2f ms" % value

    panels = [Panel(row["work"], [({"p999": "99.9% of batches", "max": "the worst batch"}[percentile],
                                   [bar(row, when, percentile) for when in ("alone", "changed")])
                                  for percentile in ("p999", "max")]) for row in rows]
    return bar_chart("Latency of other clients' batches", ["alone", "beside structural change"], panels)


def comparison_chart(theme):
    def chart(data):
        servers = data["charted"]
        panels = []
        for kind in dict.fromkeys(row["kind"] for row in data["comparison"]):
            groups = [(row["work"], [(row["millions_per_s"][at], str(row["millions_per_s"][at])) for at in servers.values()])
                      for row in data["comparison"] if row["kind"] == kind and row["work"] != "PING"]
            panels.append(Panel(kind, groups))
        return bar_chart("Millions of requests or items a second on one filter; longer is better", list(servers), panels, theme)
    return chart


# For each file: the kind of rows that it shows, and the function that draws it.
CHARTS = {"cpu.svg": ("requests", lambda data: cpu_chart(data["requests"])),
          "scaling.svg": ("scaling", lambda data: scaling_chart(data["scaling"])),
          "structural.svg": ("structural", lambda data: structural_chart(data["structural"])),
          "comparison-light.svg": ("comparison", comparison_chart(PAIRS_LIGHT)),
          "comparison-dark.svg": ("comparison", comparison_chart(PAIRS_DARK))}


def table(header, rows, text_columns=1):
    """A Markdown table. The columns after the first `text_columns` are figures."""
    lines = [header, ["---"] * text_columns + ["---:"] * (len(header) - text_columns), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def requests_table(data):
    rows = []
    for work, cells in by_work(data["requests"]).items():
        for server, row in cells.items():
            item = "%.1f" % row["item_ns"] if row["items"] > 1 else ""
            rows.append([work, server, "%.3f" % row["cpu_us"], "%.3f" % row["system_us"], item,
                         "%.2f" % row["ping_ratio"], "%.0f" % row["ops_per_s"],
                         "%.0f" % row["p50_us"], "%.0f" % row["p99_us"], "%.0f" % row["p999_us"]])
    return table(["work", "server", "CPU, us", "in the kernel", "an item, ns", "x PING", "requests/s", "batch p50, us", "p99",
                  "p99.9"], rows, text_columns=2)


def scaling_table(data):
    return table(["work", "1 thread, items/s", "2 threads, items/s", "ratio", "in rounds", "CPU ratio", "waits"],
                 [[row["work"], "%.3g M" % (row["one_thread_per_s"] / 1e6), "%.3g M" % (row["two_threads_per_s"] / 1e6),
                   "%.2f" % row["ratio"], "%.2f to %.2f" % (row["ratio_min"], row["ratio_max"]), "%.2f" % row["cpu_ratio"],
                   "%.1f" % row["waits_per_million"]] for row in data["scaling"]])


def structural_table(data):
    def cell(values):
        return "%.2f" % statistics.median(values)

    rows = []
    for row in data["structural"]:
        for percentile, label in (("p50", "half"), ("p999", "99.9%"), ("max", "all")):
            alone, changed = row["alone_%s_ms" % percentile], row["changed_%s_ms" % percentile]
            rows.append([row["work"], label, cell(alone), cell(changed), "%+.2f" % row["added_%s_ms" % percentile],
                         "%.2f / %.2f" % (max(alone), max(changed))])
    return table(["load", "batches within", "alone, ms", "beside change, ms", "added, ms", "worst round of each"], rows,
                 text_columns=2)


def memory_table(data):
    return table(["what", "server", "count", "bytes each"],
                 [[row["work"], row["server"], str(row["count"]), "%.0f" % row["bytes_each"]] for row in data["memory"]],
                 text_columns=2)


def circumstances(data):
    def counted(count, noun):
        return "%d %s%s" % (count, noun, "" if count == 1 else "s")

    return ("%s, commit %s: %s, %s, Linux %s; sepald with %s; medians of %s%s. Load average before the run: %.2f." % (
        data["date"], data["commit"] or "unknown", data["cpu"], counted(data["cores"], "core"), data["kernel"],
        counted(data["threads"], "worker"), counted(data["rounds"], "round"),
        " of a twentieth of the work" if data["quick"] else "", data["load_average_before"]))


def comparison_table(data):
    return table(["millions a second", "", *data["servers"]],
                 [[row["work"], row["kind"], *map(str, row["millions_per_s"])]
                  for row in data["comparison"]], text_columns=2)


def comparison_circumstances(data):
    return "%s, commit %s, %s: %s. %s." % (data["date"], data["commit"], data["machine"], data["setup"], data["versions"])


def beside_redis_table(kind):
    """Of rows that have little but the CPU of a request: sepald and redis-server side by side."""
    def made(data):
        rows = []
        for work, cells in by_work(data[kind]).items():
            cpu = [cells[server]["cpu_us"] if server in cells else None for server in ("sepal", "redis")]
            rows.append([work.removeprefix(kind + ": ")] + ["" if each is None else "%.2f" % each for each in cpu]
                        + ["" if None in cpu else "%.2f" % (cpu[0] / cpu[1])])
        return table(["request", "sepald, CPU, us", "redis, CPU, us", "ratio"], rows)
    return made


TABLES = {"circumstances": circumstances, "requests": requests_table, "scaling": scaling_table,
          "structural": structural_table, "memory": memory_table,
          "small": beside_redis_table("small"), "clients": beside_redis_table("clients"),
          "comparison": comparison_table, "comparison_circumstances": comparison_circumstances}
