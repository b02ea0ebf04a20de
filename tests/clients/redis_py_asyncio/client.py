"""redis-py's asyncio client, as Debian packages it."""

import pathlib
import sys

import redis.asyncio

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "shared"))
from redis_py import Tour

Tour(redis.asyncio).run()
