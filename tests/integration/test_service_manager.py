"""What sepald tells a service manager. The test is the manager: it has the socket of NOTIFY_SOCKET."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import threading
import urllib.request

from certificates import Authority
from client import Client
from daemon import DaemonTest, free_port

SECONDS_MAX = 300


class Manager:
    """Keeps every message, as a dict of its lines."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.messages = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            data = self.socket.recv(65536)
            if data == b"END":
                return
            with self._changed:
                self.messages.append(dict(line.split("=", 1) for line in data.decode().split("\n")))
                self._changed.notify_all()

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"END", self.socket.getsockname())
        self._thread.join()
        self.socket.close()

    def wait_for(self, name, behind=0):
        """The place of the first message with this name, from `behind` on."""
        def found():
            return next((at for at in range(behind, len(self.messages)) if name in self.messages[at]), None)
        with self._changed:
            if not self._changed.wait_for(lambda: found() is not None, SECONDS_MAX):
                raise AssertionError("no %s in %r" % (name, self.messages[behind:]))
            return found()


class ServiceManagerTest(DaemonTest):
    def manager(self, name=None):
        manager = Manager(name or os.path.join(self.directory, "notify"))
        self.addCleanup(manager.close)
        return manager

    def begin(self, *arguments, name=None, environment=None):
        manager = self.manager(name)
        address = name.replace("\0", "@") if name else os.path.join(self.directory, "notify")
        # A log in a file is not read here: the manager hears that the daemon is ready.
        daemon = self.start(*arguments, directory=os.path.join(self.directory, "data"), wait="--log-file" not in arguments,
                            environment={"NOTIFY_SOCKET": address, **(environment or {})})
        return manager, daemon

    def test_it_hears_of_the_load_of_the_end_of_the_start_and_of_the_stop(self):
        manager, daemon = self.begin()
        self.assertEqual(manager.wait_for("STATUS"), 0)
        loading = manager.messages[0]
        self.assertRegex(loading["STATUS"], r"^Loading: \d+ % \(\d+ of \d+ bytes\)$")
        self.assertGreater(int(loading["EXTEND_TIMEOUT_USEC"]), 0)
        ready = manager.wait_for("READY")
        self.assertEqual(manager.messages[ready]["READY"], "1")
        self.assertEqual(manager.messages[ready]["STATUS"],
                         "Serves 0 keys at its start, on 127.0.0.1:%d" % daemon.port)
        with Client.of(daemon) as client:
            client.call("BF.ADD", "a", "1")
        self.assertEqual(daemon.stop(), 0)
        stopping = manager.wait_for("STOPPING")
        self.assertGreater(stopping, ready)
        self.assertGreater(manager.wait_for("EXTEND_TIMEOUT_USEC", stopping), stopping)
        self.assertFalse([message for message in manager.messages if "WATCHDOG" in message])

    def test_ready_comes_when_the_data_is_loaded(self):
        data = os.path.join(self.directory, "data")
        daemon = self.start(directory=data)
        with Client.of(daemon) as client:
            client.pipeline([("BF.ADD", "small:%d" % number, "bob") for number in range(300)])
        self.assertEqual(daemon.stop(), 0)
        manager, daemon = self.begin()
        ready = manager.messages[manager.wait_for("READY")]
        self.assertIn("Serves 300 keys", ready["STATUS"])

    def test_an_abstract_name_is_reached(self):
        manager, daemon = self.begin(name="\0sepal-test-%d" % os.getpid())
        manager.wait_for("READY")
        self.assertEqual(daemon.stop(), 0)
        manager.wait_for("STOPPING")

    def test_a_hang_up_signal_is_a_reload_with_an_end(self):
        password = os.path.join(self.directory, "password")
        for arguments in ((), ("--requirepass-file", password)):
            with self.subTest(arguments):
                with open(password, "w", encoding="ascii") as file:
                    file.write("first\n")
                name = "\0sepal-test-%d-%d" % (os.getpid(), len(arguments))
                manager, daemon = self.begin(*arguments, name=name)
                ready = manager.wait_for("READY")
                daemon.send_signal(signal.SIGHUP)
                reloading = manager.wait_for("RELOADING", ready + 1)
                self.assertGreater(int(manager.messages[reloading]["MONOTONIC_USEC"]), 0)
                self.assertGreater(manager.wait_for("READY", reloading), reloading)
                self.assertEqual(daemon.stop(), 0)

    def test_a_reload_that_failed_is_told_until_one_succeeds(self):
        authority, users, port = Authority(self.directory), os.path.join(self.directory, "users.acl"), free_port()
        server, other = authority.sign("server"), authority.sign("other")
        password = os.path.join(self.directory, "password")
        self.write(users, "user default on nopass ~* +@all\n")
        self.write(password, "sesame\n")
        folder = os.path.join(self.directory, "log")
        os.mkdir(folder)
        manager, daemon = self.begin("--log-file", os.path.join(folder, "log"), "--aclfile", users, "--requirepass-file", password, "--http-port", str(port), "--tls-port", str(free_port()),
                                     "--tls-cert-file", server.certificate, "--tls-key-file", server.key)
        ready = manager.wait_for("READY")
        fine = ({"ok": True, "error": ""}, 1)
        self.assertEqual(self.told(port), fine)
        self.write(users, "user bob +@nosuch\n")
        os.rename(password, password + ".away")
        key = pathlib.Path(server.key).read_bytes()
        shutil.copy(other.key, server.key)
        os.rename(folder, folder + ".away")
        daemon.send_signal(signal.SIGHUP)
        failed = manager.wait_for("READY", ready + 1)
        status = manager.messages[failed]["STATUS"]
        self.assertRegex(status, "^The last reload failed: log not opened anew: .*there is no folder .*; certificates .*server.key.*; password .*No such file.*; users .*users.acl:1: .*nosuch")
        wrong = ({"ok": False, "error": status.removeprefix("The last reload failed: ")}, 0)
        # The texts are made five times a second at most.
        self.eventually("the failed reload is told", lambda: self.told(port) == wrong)
        self.write(users, "user default on nopass ~* +@all\n")
        os.rename(password + ".away", password)
        pathlib.Path(server.key).write_bytes(key)
        os.rename(folder + ".away", folder)
        daemon.send_signal(signal.SIGHUP)
        again = manager.wait_for("READY", failed + 1)
        self.assertEqual(manager.messages[again]["STATUS"], manager.messages[ready]["STATUS"])
        self.eventually("the reload is told", lambda: self.told(port) == fine)
        self.assertEqual(daemon.stop(), 0)

    def test_a_log_that_cannot_be_opened_anew_is_told_without_other_files(self):
        folder, port = os.path.join(self.directory, "log"), free_port()
        os.mkdir(folder)
        manager, daemon = self.begin("--log-file", os.path.join(folder, "log"), "--http-port", str(port))
        ready = manager.wait_for("READY")
        os.rename(folder, folder + ".away")
        daemon.send_signal(signal.SIGHUP)
        failed = manager.wait_for("READY", ready + 1)
        self.assertIn("The last reload failed: log not opened anew: ", manager.messages[failed]["STATUS"])
        self.eventually("the failed reload is told", lambda: self.told(port)[1] == 0)
        os.rename(folder + ".away", folder)
        daemon.send_signal(signal.SIGHUP)
        again = manager.wait_for("READY", failed + 1)
        self.assertEqual(manager.messages[again]["STATUS"], manager.messages[ready]["STATUS"])
        self.eventually("the reload is told", lambda: self.told(port) == ({"ok": True, "error": ""}, 1))
        self.assertEqual(daemon.stop(), 0)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def told(self, port):
        """What the API and the metric say of the last reload."""
        def ask(path):
            with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=300) as answer:
                return answer.read().decode()
        return json.loads(ask("/api/server"))["reload"], int(re.search(r"^sepal_reload_ok (\d)$", ask("/metrics"), re.M).group(1))

    def test_the_watchdog_is_fed_again_and_again(self):
        manager, daemon = self.begin(environment={"WATCHDOG_USEC": "200000"})
        at = manager.wait_for("READY")
        for _ in range(5):
            at = manager.wait_for("WATCHDOG", at + 1)
        self.assertEqual(daemon.stop(), 0)
        stopping = manager.wait_for("STOPPING")
        self.assertFalse([message for message in manager.messages[stopping:] if "WATCHDOG" in message])

    def test_the_watchdog_of_another_process_is_not_fed(self):
        manager, daemon = self.begin(environment={"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
        manager.wait_for("READY")
        self.assertEqual(daemon.stop(), 0)
        manager.wait_for("STOPPING")
        self.assertFalse([message for message in manager.messages if "WATCHDOG" in message])

    def test_a_socket_without_a_reader_is_one_warning(self):
        daemon = self.start("--dir", os.path.join(self.directory, "data"),
                            environment={"NOTIFY_SOCKET": os.path.join(self.directory, "none")})
        daemon.wait_for_line("ready")
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(daemon.text().count("service manager not told"), 1)
