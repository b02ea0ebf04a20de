"""A network of its own for a test: loopback with one more address, which is no loopback address. A client that connects
from that address looks like one on another machine, and no packet leaves the test."""

import fcntl
import os
import socket
import struct
import subprocess
import sys

from daemon import encode

ELSEWHERE = "198.51.100.1"  # for documents (RFC 5737), so no real network has it
_INSIDE = "SEPAL_TEST_NETWORK"
_SIOCSIFADDR, _SIOCSIFFLAGS, _IFF_UP = 0x8916, 0x8914, 1


def _configure():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name, address in (("lo", "127.0.0.1"), ("lo:1", ELSEWHERE)):
            request = struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, _SIOCSIFADDR, request)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def enter():
    """Runs the calling program again in a network of its own. False if the system does not allow that."""
    if os.environ.get(_INSIDE):
        _configure()
        return True
    for options in (["--net"], ["--net", "--map-root-user"]):
        if subprocess.run(["unshare", *options, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            os.environ[_INSIDE] = "1"
            os.execvp("unshare", ["unshare", *options, *sys.orig_argv])
    return False


def ask(address, port, *requests):
    """A client at this address: the whole answer of a server that closes, else a line for each request."""
    with socket.create_connection((address, port), timeout=300, source_address=(address, 0)) as connection:
        answer = b""
        try:
            connection.sendall(b"".join(encode(*words) for words in requests))
            while answer.count(b"\r\n") < len(requests):
                piece = connection.recv(4096)
                if not piece:
                    break
                answer += piece
        except ConnectionError:
            pass  # refused before it could send
        return answer
