"""Parts of a tour, for the programs in Python."""

import os
import sys

PORT = int(os.environ["SEPAL_PORT"])
PASSWORD = os.environ["SEPAL_PASSWORD"]
USER, USER_PASSWORD = os.environ.get("SEPAL_USER"), os.environ.get("SEPAL_USER_PASSWORD")
SCRIPTS = bool(os.environ["SEPAL_SCRIPTS"])
PIPELINE, BATCH = 10_000, 100_000
BINARY_KEY, BINARY_ITEM = b"binary:" + bytes(range(256)), bytes(reversed(range(256)))
ADD_SCRIPT = "return redis.call('BF.ADD', KEYS[1], ARGV[1])"
# Of 10,000 new items, a filter of 1% may call so many known.
NEW_MIN = 0.97


def ok(part):
    print("ok " + part, flush=True)


def expect(got, wanted, what):
    if got != wanted:
        sys.exit("%s: %r, expected %r" % (what, got, wanted))
