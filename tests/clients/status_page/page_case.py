"""A server, its status page in Debian's chromium, and what the page says. follow.js reads it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
import client_test
from client import Client, Refused
from client_test import INSTALLED
from daemon import free_port

TIMEOUT = 300
SMALL = 100  # items of a filter


class Page:
    """A browser with the page of a server."""

    def __init__(self, test, daemon, web):
        environment = dict(os.environ, SEPAL_CHROMIUM=shutil.which("chromium"), SEPAL_MODULES=str(INSTALLED / "status_page" / "node_modules"), HOME=test.scratch)
        self.test = test
        self.process = subprocess.Popen(["node", str(FOLDER / "follow.js")], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=test.scratch)
        test.addCleanup(self.end)
        self.ask("open", "http://127.0.0.1:%d/" % web)

    def end(self):
        self.process.stdin.close()
        self.process.wait(TIMEOUT)
        self.process.stdout.close()

    def ask(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            self.test.fail("%r: %s" % (words, answer["error"]))
        return answer


class PageTest(client_test.ClientTest):
    def serve(self, *arguments, **options):
        self.web = free_port()
        self.daemon = self.start("--http-port", str(self.web), *arguments, **options)
        self.client = Client.of(self.daemon, self)
        self.page = Page(self, self.daemon, self.web)

    def send(self, lines, *place, may_answer="OK"):
        """By one redis-cli, as printed. All are taken, or answered with `may_answer`."""
        done = subprocess.run(["redis-cli", *(place or ("-p", str(self.daemon.port)))], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
        self.assertNotRegex(done.stdout.replace(may_answer, ""), r"(?m)^(ERR|[A-Z]+ERR|Invalid|OOM|MISCONF|WRONGTYPE)|error", lines)
        return done.stdout

    def try_adds(self, key, items, command="BF.ADD"):
        """Returns how many were refused. A full filter answers 0 to an item that it errs about."""
        return sum(isinstance(reply, Refused) for reply in self.client.pipeline([(command, key, item) for item in items]))

    def items(self, count, first=0):
        return ["item:%d" % i for i in range(first, first + count)]

    def full_bloom(self, key="plain", share=1.0):
        self.client.call("BF.RESERVE", key, "0.001", SMALL, "NONSCALING")
        return self.try_adds(key, self.items(int(share * SMALL) + (5 if share == 1.0 else 0)))
