"""A disk of 64 MB, with default settings: sepald says what it made of it, and refuses what does not fit."""

import os

from client import Client, Refused
from disk_case import DiskCase

DISK_MB = 64
FILTER_ITEMS = 1_000_000  # 1.2 MB
FILTERS_MAX = 200


class SmallDiskTest(DiskCase):
    def setUp(self):
        super().setUp()
        self.on_disk_of(DISK_MB)

    def test_a_rewritten_configuration_has_none_of_the_shares(self):
        config = os.path.join(self.directory, "sepald.toml")
        with open(config, "w") as file:
            file.write("port = 0\n")
        daemon = self.start("--config", config)
        with Client.of(daemon) as client:
            client.call("CONFIG", "SET", "timeout", "77")
            client.call("CONFIG", "REWRITE")
            self.assertEqual(client.call("CONFIG", "GET", "journal-segment"), [b"journal-segment", b"4194304"])
        with open(config) as file:
            text = file.read()
        self.assertIn("timeout = ", text)
        self.assertNotIn("journal_segment", text)
        self.assertNotIn("disk_reserve", text)

    def test_a_start_an_overflow_and_a_start(self):
        daemon = self.start()
        self.assertIn("journal_segment=4194304 disk_reserve=16777216", daemon.wait_for_line("the disk is small"))
        self.assertNotIn(" error ", daemon.text())
        client = Client.of(daemon, self)
        filters, refusal = 0, ""
        while not refusal and filters < FILTERS_MAX:
            key = "filter:%d" % filters
            try:
                client.call("BF.RESERVE", key, "0.01", str(FILTER_ITEMS))
                client.call("BF.MADD", key, *("item:%d" % number for number in range(5000)))
                client.save()
                filters += 1
            except Refused as refused:
                refusal = str(refused)
        self.assertIn("No space left on device", refusal)
        self.assertGreater(filters, 5)
        # The way out: what was answered is there, deletes are taken, and then there is room again.
        for number in range(filters):
            self.assertEqual(client.call("BF.MEXISTS", "filter:%d" % number, "item:0", "item:4999"), [1, 1])
        for number in range(1, filters):
            self.assertEqual(client.call("DEL", "filter:%d" % number), 1)
        client.call("DEL", "filter:%d" % filters)
        client.save()
        self.assertEqual(client.call("BF.ADD", "filter:0", "another"), 1)
        daemon.kill()
        again = Client.of(self.start(), self)
        self.assertEqual(again.call("BF.MEXISTS", "filter:0", "item:0", "another", "absent"), [1, 1, 0])
