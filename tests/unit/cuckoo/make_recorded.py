#!/usr/bin/env python3
"""Writes recorded.txt from recorded exchanges with RedisBloom: see README.md.

    make_recorded.py CASES.jsonl... > recorded.txt
"""

import base64
import json
import sys

NUMBERS = {"CF.ADD": "add", "CF.ADDNX": "add_new", "CF.DEL": "remove", "CF.COUNT": "count", "CF.EXISTS": "exists"}
OPTIONS = ("BUCKETSIZE", "MAXITERATIONS", "EXPANSION")
DEFAULTS = {"BUCKETSIZE": "2", "MAXITERATIONS": "20", "EXPANSION": "1"}
INFO = ("Number of buckets", "Number of filters", "Number of items inserted", "Number of items deleted", "Bucket size",
        "Expansion rate", "Max iterations")


# A filter knows nothing of these.
IGNORED = ("EXISTS", "TYPE")
LOADED = {"OK": "ok", "Invalid header": "no_header", "Couldn't create filter!": "no_filter"}


class NotOfAFilter(Exception):
    """The case is about keys or words of requests."""


def as_bytes(argument):
    if isinstance(argument, str):
        return argument.encode("latin-1")
    if "b64" in argument:
        return base64.b64decode(argument["b64"])
    text, count = argument["rep"]
    return text.encode("latin-1") * count


def word(argument):
    """An item as one word: ASCII letters, and none of them a space."""
    text = as_bytes(argument).decode("latin-1")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise NotOfAFilter
    return text or '""'


def items_of(arguments):
    for argument in arguments:
        if isinstance(argument, dict) and "range" in argument:
            form, begin, end = argument["range"]
            yield from (form % i for i in range(begin, end))
        else:
            yield word(argument)


def replies_of(reply):
    elements = reply.get("v") or [element for count, element in reply["runs"] for _ in range(count)]
    return [element["v"] for element in elements]


def runs(items, replies):
    """Items of one prefix and rising numbers as: prefix, first number, replies as digits."""
    run = None
    for item, reply in zip(items, replies, strict=True):
        prefix, _, number = item.rpartition(":")
        if run and run[0] == prefix and number.isdecimal() and int(number) == run[1] + len(run[2]):
            run[2].append(reply)
            continue
        if run:
            yield run
        run = [prefix, int(number), [reply]]
    if run:
        yield run


def lines_of(step, makes):
    """`makes`: the step is the first one, so it makes the filter."""
    name, *rest = step.get("send", [""])
    name, rest = name.upper(), rest[1:]
    reply = step.get("reply", {"t": "-", "v": ""})
    if reply.get("t") == "-" and reply["v"] != "Filter is full" and name != "CF.LOADCHUNK":
        raise NotOfAFilter
    if name in IGNORED:
        return
    if name == "CF.RESERVE":
        given = dict(zip(rest[1::2], rest[2::2]))
        yield " ".join(["reserve", rest[0]] + [given.get(option, given.get(option.lower(), DEFAULTS[option])) for option in OPTIONS])
    elif name in NUMBERS:
        value = reply["v"] if reply["t"] == ":" else "full" if reply["v"] == "Filter is full" else None
        yield f"{NUMBERS[name]} {word(rest[0])} {value}"
    elif name in ("CF.INSERT", "CF.INSERTNX"):
        if makes and "CAPACITY" in rest:
            yield " ".join(["reserve", rest[rest.index("CAPACITY") + 1]] + [DEFAULTS[option] for option in OPTIONS])
        items = list(items_of(rest[rest.index("ITEMS") + 1:]))
        for item, value in zip(items, replies_of(reply), strict=True):
            yield f"{'add' if name == 'CF.INSERT' else 'add_new'} {item} {'full' if value == -1 else value}"
    elif name == "CF.MEXISTS":
        items = list(items_of(rest))
        if not all(":" in item for item in items):
            raise NotOfAFilter
        for prefix, first, replies in runs(items, replies_of(reply)):
            yield f"exist {prefix}: {first} {''.join(map(str, replies))}"
    elif name == "CF.LOADCHUNK":
        if reply["v"] not in LOADED:
            raise NotOfAFilter
        yield f"load {rest[0]} {as_bytes(rest[1]).hex()} {LOADED[reply['v']]}"
    elif name == "CF.SCANDUMP":
        iterator, piece = reply["v"]
        yield f"dump {rest[0]} {iterator['v']} {as_bytes(piece['v']).hex()}"
    elif name == "CF.COMPACT":
        yield "compact"
    elif name == "RESTORE":
        yield f"restore {as_bytes(rest[1]).hex()}"
    elif name == "CF.INFO":
        if reply.get("m") == "pairs":
            return
        pairs = dict(zip([element["v"] for element in reply["v"][::2]], reply["v"][1::2]))
        yield " ".join(["info"] + [str(pairs[field]["v"]) for field in INFO])
    else:
        raise NotOfAFilter


def main():
    seen = set()
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for line in file:
                case = json.loads(line)
                # The twin in RESP3 says the same.
                if case["name"].endswith("@3"):
                    continue
                try:
                    text = "\n".join(line for i, step in enumerate(case["steps"]) for line in lines_of(step, i == 0))
                except (NotOfAFilter, KeyError):
                    continue
                if not text or text in seen:
                    continue
                seen.add(text)
                print(f"case {case['name']}")
                print(text)


if __name__ == "__main__":
    main()
