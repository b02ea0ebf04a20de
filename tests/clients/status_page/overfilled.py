"""A Bloom filter that has had two times the items that it has room for."""

import math
import random
import struct


def load_overfilled(client, key, capacity):
    """As RedisBloom dumps it (include/sepal/bloom/foreign/redisbloom.hpp), with three quarters of its bits set."""
    bits_per_item = -math.log(0.01) / math.log(2) ** 2
    size = (int(capacity * bits_per_item) // 64 + 1) * 8
    no_rounding, wide_hashes, no_scaling = 1, 4, 8
    items = 9 * capacity // 10  # the others were taken for known ones
    header = struct.pack("<QIII" + "QQQddIQB", items, 1, no_rounding | wide_hashes | no_scaling, 2,
                         size, 8 * size, items, 0.01, bits_per_item, 7, capacity, 0)
    chance = random.Random(7)
    bits = bytes(one | other for one, other in zip(chance.randbytes(size), chance.randbytes(size)))
    client.call("BF.LOADCHUNK", key, 1, header)
    client.call("BF.LOADCHUNK", key, 1 + size, bits)
