"""Each advice of the status page about the server is followed, as test_advice.py follows those about filters."""

import itertools
import os
import pathlib
import re
import shutil
import signal
import threading

from page_case import SMALL, PageTest  # first: it adds the folder of the other modules
import client_test
from certificates import Authority
from client import Client, Refused
from daemon import beside, free_port
from disk_case import fill, mount_small
from programs import missing


class ServerAdviceTest(PageTest):
    def save(self, trouble):
        """Does what the page says about a fault that a save ends. The server may have begun one itself."""
        self.assertRegex(trouble["text"], "If SAVE is refused because a background save is in progress, wait for that one")
        self.assertEqual(trouble["lines"][-1], "SAVE")
        self.send(trouble["lines"], may_answer="ERR Background save already in progress")

    def test_keys(self):
        self.serve("--keys-max", "20")
        for i in range(19):
            self.client.call("SET", "key:%d" % i, "x")
        [trouble] = self.page.ask("trouble", "19 keys of at most 20")
        self.assertRegex(trouble["text"], "raise keys_max in sepald.toml and start sepald again")
        self.daemon.stop()
        self.serve("--keys-max", "40")
        self.assertEqual(self.client.call("DBSIZE"), 19)
        self.page.ask("well", "")

    def test_clients(self):
        self.serve("--maxclients", "40")
        with_clients = [self.daemon.connect(self) for _ in range(36)]
        [trouble] = self.page.ask("trouble", "connections of at most 40")
        self.assertEqual(trouble["lines"], ["CLIENT LIST", "CONFIG SET maxclients 80"])
        self.send(trouble["lines"])
        self.page.ask("well", "")
        self.assertEqual(self.client.call("CONFIG", "GET", "maxclients"), [b"maxclients", b"80"])
        self.assertEqual(len(with_clients), 36)

    def test_all_connections_are_taken(self):
        socket = os.path.join(self.scratch, "socket")
        self.serve("--maxclients", "40", "--port", str(free_port()), "--unixsocket", socket)
        programs = [self.daemon.connect(self) for _ in range(39)]
        turned_away = self.daemon.connect(self)
        self.assertRegex(turned_away.recv(100), b"max number of clients reached")
        [trouble] = self.page.ask("trouble", "There are 40 connections of at most 40. 1 was turned away")
        self.assertRegex(trouble["text"], r"All are taken\. For the operator four more may come by the UNIX socket \(redis-cli -s, .* end one of the programs first")
        self.send(trouble["lines"], "-s", socket)
        self.page.ask("over", "connections of at most")
        with Client.of(self.daemon) as another:
            self.assertEqual(another.call("PING"), b"PONG")
        self.assertEqual(len(programs), 39)

    def on_small_disk(self, *arguments):
        place = os.path.join(self.scratch, "disk")
        os.mkdir(place)
        mount_small(self, place, 64)
        self.ballast = os.path.join(place, "ballast")
        self.serve("--journal-segment", "2mb", "--disk-reserve", "1mb", *arguments, directory=os.path.join(place, "data"))

    def test_a_full_disk(self):
        self.on_small_disk()
        self.client.call("BF.RESERVE", "plain", "0.01", 1000)
        fill(self.ballast)

        filling = threading.Lock()
        self.filled = True

        def write(ended):
            """A client that goes on, and something else that takes what becomes free."""
            with Client.of(self.daemon) as client:
                for number in itertools.count():
                    if ended.is_set():
                        return
                    with filling:
                        if self.filled:
                            fill(self.ballast)
                    try:
                        client.call("BF.MADD", "plain", *("item:%d:%d" % (number, i) for i in range(1000)))
                    except Refused as refusal:
                        self.assertTrue(str(refusal).startswith("MISCONF"), refusal)
        with beside(write):
            troubles = self.page.ask("trouble", "Changes are refused")
            self.assertRegex(troubles[0]["text"], "Look-ups go on, and no change that was accepted is lost.*First free room on that disk.*Only then")
            self.assertRegex(self.page.ask("text", "#cards"), "Journalrefusesrefuses changes")
            with filling:
                self.filled = False
                os.remove(self.ballast)
            self.save(troubles[0])
            self.page.ask("over", "Changes are refused")
        self.client.call("BF.ADD", "plain", "again")
        [trouble] = self.page.ask("trouble", "could not be recorded in the journal")
        self.assertRegex(trouble["text"], r"^[\d,]+ adds were refused in the last [^:]*: they could not be recorded in the journal\.Now changes are accepted\. .*Add the refused items again\.$")

    def test_a_disk_without_room_for_a_filter_that_comes_whole(self):
        self.on_small_disk()
        self.client.call("BF.RESERVE", "big", "0.01", "2000000")
        fill(self.ballast)
        with self.assertRaisesRegex(Refused, "^MISCONF"):
            self.client.call("COPY", "big", "copied")
        [trouble] = self.page.ask("trouble", "The last filter or string that came whole was refused")
        data = os.path.join(os.path.dirname(self.ballast), "data")
        self.assertRegex(trouble["text"], r"cannot write into %s: No space left on device\..*small changes go on.*First free room on that disk.*Only then.*send the refused commands again" % data)
        self.assertEqual(trouble["lines"], ["CONFIG GET dir", "SAVE"])
        self.client.call("BF.ADD", "big", "alice")
        os.remove(self.ballast)
        self.save(trouble)
        self.assertEqual(self.client.call("COPY", "big", "copied"), 1)
        self.page.ask("over", "The last filter or string that came whole was refused")

    def test_a_data_directory_that_is_gone(self):
        data = pathlib.Path(self.scratch, "data")
        self.serve(directory=str(data))

        def told():
            [trouble] = self.page.ask("trouble", "Changes are refused")
            self.assertRegex(trouble["text"], "Files were removed there, or the directory was moved.*Do not stop sepald before a save has succeeded.*First put the directory back at its path.*make an empty one there.*Then a save writes all of the data")
            self.assertNotIn("free room", trouble["text"])
            return trouble

        def refuse(number):
            def is_refused():
                try:
                    self.client.call("BF.ADD", "plain", number())
                except Refused as refusal:
                    return "MISCONF" in str(refusal)
            self.eventually("changes are not refused", is_refused)
        numbers = itertools.count()
        def put_back():
            shutil.rmtree(data, ignore_errors=True)
            data.with_name("away").rename(data)
        for another, mend in ((False, put_back), (True, put_back), (False, data.mkdir)):
            self.client.call("BF.ADD", "plain", "before")
            # Made beside it: an empty one at the path would be taken.
            other = data.with_name("other")
            if another:
                other.mkdir()
                other.joinpath("SEED").write_text("of another server")
            data.rename(data.with_name("away"))
            if another:
                other.rename(data)
            refuse(lambda: next(numbers))
            trouble = told()
            self.assertRegex(trouble["text"], "^Changes are refused: .*data is not %s.*This names the data directory:" % ("the directory that this process has locked" if another else "there: it was moved or removed"))
            mend()
            self.save(trouble)
            self.page.ask("over", "Changes are refused")
            self.client.call("BF.ADD", "plain", "after")
            shutil.rmtree(data.with_name("away"), ignore_errors=True)
        self.assertEqual(self.daemon.stop(), 0)
        self.serve(directory=str(data))
        self.assertEqual(self.client.call("BF.MEXISTS", "plain", "before", "after"), [1, 1])

    def test_a_save_that_failed(self):
        self.on_small_disk("--journal", "off")
        self.client.call("BF.RESERVE", "plain", "0.01", 20_000_000)
        self.client.call("BF.ADD", "plain", "x")
        fill(self.ballast)
        with self.assertRaises(Refused):
            self.client.call("SAVE")
        [trouble] = self.page.ask("trouble", "The last save failed: ")
        self.assertRegex(trouble["text"], "There is no journal: if sepald ends, all changes since the last good save are lost.*First free room on that disk")
        os.remove(self.ballast)
        self.save(trouble)
        self.page.ask("well", "")
        # The directory is moved away.
        data = pathlib.Path(self.ballast).with_name("data")
        data.rename(data.with_name("away"))
        with self.assertRaises(Refused):
            self.client.call("SAVE")
        [trouble] = self.page.ask("trouble", "The last save failed: ")
        self.assertRegex(trouble["text"], "Files were removed there, or the directory was moved.*First put the directory back at its path")
        data.with_name("away").rename(data)
        self.save(trouble)
        self.page.ask("well", "")

    def test_changes_that_nothing_will_save(self):
        """Without a journal and a timer: that is a choice, so it is no trouble, but the card is marked."""
        self.serve("--journal", "off", "--save-interval", "0")
        card = "Savelook herenone since the start.*A crash loses the changes; SAVE keeps them"
        self.assertNotRegex(self.page.ask("text", "#cards"), card)
        self.client.call("BF.ADD", "plain", "x")
        self.eventually("the changes are not told", lambda: re.search(card, self.page.ask("text", "#cards")))
        self.page.ask("well", "the only filter is fine")
        self.client.call("SAVE")
        self.eventually("the save is not told", lambda: not re.search(card, self.page.ask("text", "#cards")))

    def test_a_certificate_that_ends(self):
        authority = Authority(self.scratch)
        signed = authority.sign("server", days=5)
        self.serve("--tls-port", str(free_port()), "--tls-cert-file", signed.certificate, "--tls-key-file", signed.key)
        [trouble] = self.page.ask("trouble", "The TLS certificate ends in")
        self.assertRegex(trouble["text"], r"on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\..*Replace its files, then send SIGHUP")
        self.assertEqual(trouble["lines"], ["systemctl reload sepald"])
        authority.sign("server", days=300)
        self.daemon.send_signal(signal.SIGHUP)
        self.page.ask("well", "")

    def test_a_reload_that_failed(self):
        users = os.path.join(self.scratch, "users.acl")
        for text in ("user default on nopass ~* +@all\n", "user bob +@nosuch\n"):
            with open(users, "w", encoding="ascii") as file:
                file.write(text)
            if "bob" not in text:
                self.serve("--aclfile", users)
        self.daemon.send_signal(signal.SIGHUP)
        [trouble] = self.page.ask("trouble", "The last reload failed: users not read anew")
        self.assertRegex(trouble["text"], r"users\.acl:1: .*nosuch.*Mend the file, then reload again")
        self.assertEqual(trouble["lines"], ["systemctl reload sepald"])
        with open(users, "w", encoding="ascii") as file:
            file.write("user default on nopass ~* +@all\n")
        self.daemon.send_signal(signal.SIGHUP)
        self.page.ask("well", "")

    def test_a_script_that_holds_up_clients(self):
        self.serve("--busy-reply-threshold", "20")
        with Client.of(self.daemon) as runner:
            runner.send(("EVAL", "while true do end", 0))
            [trouble] = self.page.ask("trouble", "A script has run for")
            self.assertRegex(trouble["text"], "all other requests are answered BUSY\\..*This ends it:")
            self.assertEqual(trouble["lines"], ["SCRIPT KILL"])
            self.send(trouble["lines"])
            self.page.ask("well", "")
            self.assertIn("Script killed by user", str(runner.receive()))
            self.client.call("BF.ADD", "before", "x")
            runner.send(("EVAL", "redis.call('BF.ADD', 'plain', 'x') while true do end", 0))
            [trouble] = self.page.ask("trouble", "It has changed something")
        self.assertEqual(trouble["lines"], ["SHUTDOWN NOSAVE"])
        self.client.send(("SHUTDOWN", "NOSAVE"))
        self.assertEqual(self.daemon.wait(), 0)
        self.serve()
        self.page.ask("well", "")
        self.assertEqual([self.client.call("BF.EXISTS", key, "x") for key in ("before", "plain")], [1, 1])

    def test_a_pause_of_clients(self):
        self.serve()
        self.client.call("BF.RESERVE", "plain", "0.01", SMALL)
        self.client.call("CLIENT", "PAUSE", 3_600_000, "WRITE")
        with Client.of(self.daemon) as writer:
            writer.send(("BF.ADD", "plain", "x"))
            [trouble] = self.page.ask("trouble", "Clients are paused for another")
            self.assertRegex(trouble["text"], r"^Clients are paused for another (1 hour|60 minutes|59 minutes), until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, by CLIENT PAUSE: requests that may change something wait, and look-ups go on\.")
            self.assertEqual(self.client.call("BF.EXISTS", "plain", "x"), 0)
            self.send(trouble["lines"])
            self.page.ask("well", "")
            self.assertEqual(writer.receive(), 1)

    def test_a_pause_that_no_command_can_end(self):
        self.serve()
        self.client.call("BF.ADD", "plain", "x")
        self.client.call("CLIENT", "PAUSE", 3_600_000)
        with Client.of(self.daemon) as client:
            client.send(("CLIENT", "UNPAUSE"))
            [trouble] = self.page.ask("trouble", "Clients are paused for another")
        self.assertRegex(trouble["text"], r"by CLIENT PAUSE: no request is answered\.No command can end it, because each would wait too\.")
        self.assertEqual(trouble["lines"], ["systemctl restart sepald"])
        # What systemctl does.
        self.assertEqual(self.daemon.stop(), 0)
        self.serve()
        self.page.ask("well", "")
        self.assertEqual(self.client.call("BF.EXISTS", "plain", "x"), 1)

    def test_a_client_without_a_password(self):
        self.serve("--requirepass", "sesame")
        for _ in range(110):
            with self.assertRaises(Refused):
                self.client.call("BF.ADD", "plain", "x")
        [trouble] = self.page.ask("trouble", "110 replies to 110 requests were errors")
        self.assertRegex(trouble["text"], "NOAUTH \\(110\\).*a client has sent no password. While it is connected, this has its address")
        self.assertEqual(trouble["lines"], ["CLIENT LIST", "INFO commandstats"])
        self.assertEqual(self.client.call("AUTH", "sesame"), b"OK")
        self.assertIn(b"addr=127.0.0.1:%d " % self.client.connection.getsockname()[1], self.client.call("CLIENT", "LIST"))

    def test_many_errors(self):
        self.serve()
        self.client.call("SET", "text", "x")
        with Client.of(self.daemon) as client:
            for number in range(130):
                with self.assertRaises(Refused):
                    client.call("BF.ADD" if number >= 10 else "BF.NONE", "text", "x")
        [trouble] = self.page.ask("trouble", "130 replies to ")
        self.assertRegex(trouble["text"], r"^130 replies to \d+ requests were errors in the last [^:]*: WRONGTYPE \(120\), ERR \(10\)\. Each item of a request can have one\.See which commands fail \(failed_calls\)")
        self.assertIn("cmdstat_bf.add:calls=120,", self.send(trouble["lines"]))
        # What another line tells is left out, and so are few errors among many requests.
        self.client.call("CONFIG", "RESETSTAT")
        self.page.ask("well", "")
        refused = self.full_bloom() + self.try_adds("plain", self.items(200, SMALL))
        self.assertEqual(len(self.page.ask("trouble", "%d adds were refused" % refused)), 1)
        self.client.call("FLUSHALL")
        self.client.call("CONFIG", "RESETSTAT")
        self.page.ask("well", "")
        # A full cuckoo filter answers "Filter is full", without ERR.
        self.client.call("CF.RESERVE", "cuckoo", SMALL, "EXPANSION", 0)
        refused = self.try_adds("cuckoo", self.items(4 * SMALL), "CF.ADD")
        self.assertGreater(refused, 2 * SMALL)
        self.assertEqual(len(self.page.ask("trouble", "%d adds were refused" % refused)), 1)
        self.client.call("FLUSHALL")
        self.client.call("CONFIG", "RESETSTAT")
        self.page.ask("well", "")
        self.client.call("SET", "text", "x")
        self.try_adds("text", self.items(100))
        self.page.ask("trouble", "100 replies to ")
        for _ in range(1000):
            self.client.call("PING")
        self.page.ask("well", "")


if __name__ == "__main__":
    client_test.main(missing("status_page"))
