"""Pipelines of any length: a client may send all of its requests before it reads the first reply. Replies that wait
are bounded for all clients together.

SEPAL_PIPELINE_REQUESTS sets the length of the pipeline.
"""

import os
import re
import threading
import time

from client import Client
from daemon import DaemonTest, encode, say

REQUESTS = int(os.environ.get("SEPAL_PIPELINE_REQUESTS", "3000000"))
CHUNK = 50_000
ITEM = b"item"


class PipelinesTest(DaemonTest):
    def receive_all(self, connection, byte_count):
        got = 0
        while got < byte_count:
            more = connection.recv(1 << 20)
            self.assertTrue(more, "closed after %d of %d bytes" % (got, byte_count))
            got += len(more)

    def test_a_client_that_sends_everything_before_it_reads_gets_every_reply(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("BF.ADD", "k", ITEM)
        connection = daemon.connect(self)
        connection.settimeout(300)
        chunk = encode("BF.EXISTS", "k", ITEM) * CHUNK
        started = time.monotonic()
        for _ in range(REQUESTS // CHUNK):
            connection.sendall(chunk)
        with Client.of(daemon) as client:
            self.eventually("the requests do not run",
                            lambda: re.search(rb"cmdstat_bf.exists:calls=%d," % REQUESTS, client.call("INFO", "commandstats")))
            waiting = int(client.info()["mem_clients_normal"])
            self.assertGreater(waiting, REQUESTS)
        self.receive_all(connection, REQUESTS * len(b":1\r\n"))
        say("%d requests before the first reply was read: %.1f s, %.1f MB waited"
            % (REQUESTS, time.monotonic() - started, waiting / 2**20))
        with Client.of(daemon) as client:
            self.eventually("replies still wait", lambda: client.info()["mem_clients_normal"] == "0")
        self.assertEqual(daemon.stop(), 0)

    def test_above_the_bound_the_client_with_most_waiting_replies_is_closed(self):
        daemon = self.start("--maxmemory-clients", "8mb", "--threads", "2")
        text = b"x" * 10_000
        small, large = daemon.connect(), daemon.connect()
        self.addCleanup(small.close)
        self.addCleanup(large.close)
        small.sendall(encode("ECHO", text) * 500)

        def flood():
            try:
                while True:
                    large.sendall(encode("ECHO", text) * 10)
            except OSError:
                pass

        thread = threading.Thread(target=flood)
        thread.start()
        line = daemon.wait_for_line("client closed")
        thread.join()
        self.assertIn("exceed maxmemory_clients", line)
        self.assertIn("%s:%d" % large.getsockname(), line)
        with Client.of(daemon) as client:
            self.assertEqual(client.info()["evicted_clients"], "1")
        self.receive_all(small, 500 * (len(text) + len(b"$10000\r\n\r\n")))
        self.assertEqual(daemon.text().count("client closed"), 1, daemon.text())
        self.assertEqual(daemon.stop(), 0)

    def test_a_stop_sends_what_waits(self):
        daemon = self.start()
        connection = daemon.connect(self)
        text = b"y" * 100_000
        # More than the buffers of the system hold, and not more than a busy machine receives in the 5 seconds that the stop waits.
        count = 150
        connection.sendall(encode("ECHO", text) * count)
        with Client.of(daemon) as client:
            self.eventually("the requests do not run",
                            lambda: re.search(rb"cmdstat_echo:calls=%d," % count, client.call("INFO", "commandstats")))
        stopper = threading.Thread(target=daemon.stop)
        stopper.start()
        self.receive_all(connection, count * (len(text) + len(b"$100000\r\n\r\n")))
        stopper.join()
