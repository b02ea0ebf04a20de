"""Servers under load: starts them, talks to them, and puts load on them with rload."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("SEPAL_BUILD", ROOT / "build" / "release"))
CONNECTIONS = 50


class Server:
    """A running RESP server: its name, its port, and its process if it was started here."""

    def __init__(self, name, port, process=None):
        self.name, self.port, self.process = name, port, process

    def call(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=600) as connection:
            parts = [str(word).encode() for word in words]
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            return connection.recv(65536)

    def must(self, *words):
        """Like call(), but an error ends the run."""
        reply = self.call(*words)
        if reply.startswith(b"-"):
            raise SystemExit("%s answered %r to %s" % (self.name, reply, " ".join(map(str, words))))
        return reply

    def has_bloom(self):
        return not self.call("BF.EXISTS", "probe", "x").startswith(b"-")

    def resident_bytes(self):
        """The resident memory without mapped files: the pages of a journal do not depend on the number of filters."""
        status = pathlib.Path("/proc/%d/status" % self.process.pid).read_text()
        return 1024 * int(re.search(r"RssAnon:\s*(\d+)", status).group(1))


@contextlib.contextmanager
def running(arguments, name, ready):
    """A server that is started for this run. `ready` finds its port in its output."""
    directory = tempfile.mkdtemp(prefix="sepal-bench-")
    process = subprocess.Popen([word.replace("{dir}", directory) for word in arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        port = None
        for line in process.stdout:
            found = ready(line)
            if found:
                port = found
                break
        if port is None:
            raise SystemExit("%s did not start" % name)
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Server(name, port, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def sepald(threads, *more):
    def ready(line):
        found = re.search(r"ready: address=[^ ]*:(\d+)", line)
        return found and int(found.group(1))
    return running([str(BUILD / "sepald"), "--port", "0", "--dir", "{dir}", "--threads", str(threads),
                    "--save-interval", "0", *more], "sepal", ready)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def redis_server(*more):
    """None if there is no redis-server."""
    if not shutil.which("redis-server"):
        return None
    port = free_port()
    return running(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", "{dir}", *more],
                   "redis", lambda line: port if "Ready to accept connections" in line else None)


def start_rload(server, *words, conns=CONNECTIONS, pipeline=1, requests=100_000, **options):
    """Starts rload; finish_rload() waits for its result."""
    flags = {"port": server.port, "conns": conns, "pipeline": pipeline, "requests": requests, **options}
    arguments = [text for name, value in flags.items() for text in ("--" + name, str(value))]
    return subprocess.Popen([str(BUILD / "rload"), *arguments, *words], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish_rload(process):
    out, errors = process.communicate()
    result = json.loads(out) if process.returncode == 0 else None
    if result is None or result["errors"]:
        raise SystemExit("rload failed, or was answered errors: %s" % errors)
    return result


def rload(server, *words, **options):
    return finish_rload(start_rload(server, *words, **options))


def fill(server, key, capacity, items, expansion="NONSCALING", item="item:{s*100}"):
    """Makes a filter and puts `items` items into it."""
    arguments = ["NONSCALING"] if expansion == "NONSCALING" else ["EXPANSION", expansion]
    server.must("BF.RESERVE", key, "0.01", capacity, *arguments)
    rload(server, "BF.MADD", key, item, pipeline=16, requests=max(1, items // 100))
