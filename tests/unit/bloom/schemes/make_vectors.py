#!/usr/bin/env python3
"""Writes vectors.txt: see README.md. Needs the packages of Debian that the two other programs name, and
python3-murmurhash."""

import os
import pathlib
import random
import subprocess

import murmurhash.mrmr

HERE = pathlib.Path(__file__).parent


def items():
    made = [b"", b"a", b"user:1", "größe-值".encode(), b"\0", b"\xff" * 7]
    bytes_of = random.Random(20).randbytes
    made += [bytes_of(length) for length in (2, 3, 4, 5, 8, 12, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 255, 256, 1000)]
    return ["x" + item.hex() for item in made]


def murmur3_32(item):
    data = bytes.fromhex(item[1:])
    for bits, count, seed in ((1, 1, 0), (1000003, 7, 0), (1 << 32, 20, 41), (30000001, 3, 0xfffffffe)):
        signed = [murmurhash.mrmr.hash(data, (seed + i) & 0xffffffff) for i in range(count)]
        yield "murmur3-32", bits, count, seed, item, *(number % (1 << 32) % bits for number in signed)
        yield "murmur3-32-signed", bits, count, seed, item, *(number % bits for number in signed)


def output_of(command, lines, **environment):
    return subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True, stdout=subprocess.PIPE,
                          env={**os.environ, **environment}).stdout


def main():
    lines = items()
    text = output_of(["go", "run", HERE / "make_vectors.go"], lines, GOPATH="/usr/share/gocode", GO111MODULE="off")
    text += output_of(["java", "-cp", "/usr/share/java/guava.jar", HERE / "GuavaVectors.java"], lines)
    text += "".join(" ".join(map(str, vector)) + "\n" for item in lines for vector in murmur3_32(item))
    (HERE / "vectors.txt").write_text(text)


if __name__ == "__main__":
    main()
