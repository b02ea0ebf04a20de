"""`sepald --healthcheck`: finds the server that runs with the same settings, and says whether it is healthy."""

import contextlib
import os
import pathlib
import socket
import subprocess
import threading

from certificates import Authority
from client import Client
from daemon import SEPALD, DaemonTest, free_port
from permissions import obey_permissions

HEALTHY, NOT_HEALTHY, WRONG_SETTINGS = 0, 1, 2


def check(*arguments, environment=None, folder=None, prepare=None):
    """The exit status of a check, and the one line that it says."""
    done = subprocess.run([SEPALD, "--healthcheck", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, cwd=folder, env=dict(os.environ, **(environment or {})), preexec_fn=prepare)
    told, silent = (done.stdout, done.stderr) if done.returncode == 0 else (done.stderr, done.stdout)
    assert silent == "" and told.count("\n") == 1, done
    return done.returncode, told.rstrip("\n")


@contextlib.contextmanager
def stub(*answers):
    """A server that takes one client after the other, gives each the next of these lists of answers, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            for of_client in answers:
                client, _ = listener.accept()
                with client:
                    for answer in of_client:
                        client.recv(4096)
                        client.sendall(answer)
        thread = threading.Thread(target=serve)
        thread.start()
        yield str(listener.getsockname()[1])
        thread.join()


class HealthcheckTest(DaemonTest):
    def assert_healthy(self, meaning, *arguments, **options):
        status, told = check(*arguments, **options)
        self.assertEqual((status, told), (HEALTHY, told))
        self.assertIn(meaning, told)

    def assert_not_healthy(self, meaning, *arguments, **options):
        status, told = check(*arguments, **options)
        self.assertEqual((status, told), (NOT_HEALTHY, told))
        self.assertIn(meaning, told)

    def test_a_server_is_found_by_its_data_directory_whatever_its_flags(self):
        daemon = self.start("--bind", "0.0.0.0", "--protected-mode", "yes")
        self.assert_healthy("0.0.0.0:%d: it answers PONG" % daemon.port, "--dir", self.directory)
        self.assertEqual(daemon.stop(), 0)
        self.assert_not_healthy("no sepald uses the data directory " + self.directory, "--dir", self.directory)

    def test_a_server_that_speaks_only_tls_is_healthy_with_any_certificate(self):
        authority = Authority(self.folder("tls"))
        own = authority.sign("server")
        port = free_port()
        for clients in ("no", "yes"):
            with self.subTest(tls_auth_clients=clients):
                data = self.folder("data-" + clients)
                daemon = self.start("--port", "0", "--tls-port", str(port), "--tls-cert-file", own.certificate, "--tls-key-file", own.key,
                                    "--tls-ca-cert-file", authority.certificate, "--tls-auth-clients", clients, "--requirepass", "sesame",
                                    directory=data)
                if clients == "no":
                    self.assert_healthy("tls://127.0.0.1:%d: it answers PONG" % port, "--dir", data, "--requirepass", "sesame")
                else:
                    self.assert_healthy("it runs, and asks for a certificate", "--dir", data)
                self.assert_not_healthy("127.0.0.1:%d: it closed the connection without an answer (if it speaks TLS: --dir with its data directory, or --tls-port)" % port,
                                        "--port", str(port))
                self.assertEqual(daemon.stop(), 0)
                self.assert_not_healthy("no sepald uses the data directory " + data, "--dir", data)

    def folder(self, name):
        path = os.path.join(self.directory, name)
        os.mkdir(path)
        return path

    def test_a_server_is_found_by_its_port(self):
        daemon = self.start()
        self.assert_healthy("127.0.0.1:%d: it answers PONG" % daemon.port, "--port", str(daemon.port))
        # A flag counts, whatever server has the data directory.
        self.assert_not_healthy("refused", "--port", str(free_port()), "--dir", self.directory)
        file = pathlib.Path(self.directory, "sepald.toml")
        file.write_text("port = %d\ndir = '%s'\n" % (daemon.port, os.path.join(self.directory, "none")))
        self.assert_healthy("PONG", "--config", str(file))

    def test_a_directory_that_is_not_there_has_no_server(self):
        daemon = self.start()
        none = os.path.join(self.directory, "none")
        file = pathlib.Path(self.directory, "sepald.toml")
        file.write_text("port = %d\n" % daemon.port)
        self.assert_not_healthy("no sepald uses the data directory %s: it is not there; correct --dir" % none,
                                "--config", str(file), "--dir", none)
        # The operator's word about the address counts.
        self.assert_healthy("PONG", "--port", str(daemon.port), "--dir", none)

    def config(self, port, data=None):
        """A file that names a port at which another server listens: checks without its directory would ask there."""
        file = pathlib.Path(self.directory, "sepald.toml")
        file.write_text("port = %d\n" % port + ("dir = '%s'\n" % data if data else ""))
        return str(file)

    def assert_unused(self, data, *arguments):
        status, told = check(*arguments)
        self.assertEqual((status, told), (NOT_HEALTHY, "sepald: not healthy: no sepald uses the data directory " + data))

    def test_a_directory_that_no_server_has_used_has_no_server(self):
        other = self.start(directory=os.path.join(self.directory, "other"))
        empty = self.folder("empty")
        self.assert_unused(empty, "--config", self.config(other.port), "--dir", empty)
        self.assertEqual(os.listdir(empty), [])
        # The file of the server may serve a check that cannot see the data.
        self.assert_healthy("PONG", "--config", self.config(other.port, empty))

    def test_a_directory_whose_server_could_not_start_has_no_server(self):
        other = self.start(directory=os.path.join(self.directory, "other"))
        data = os.path.join(self.directory, "data")
        late = self.start("--port", str(other.port), directory=data, wait=False)
        self.assertEqual(late.wait(), 1)
        self.assertIn("the port is taken", late.text())
        self.assert_unused(data, "--config", self.config(other.port), "--dir", data)
        self.assert_unused(data, "--config", self.config(other.port, data))

    def test_a_directory_whose_server_was_killed_has_no_server_although_another_has_its_port(self):
        first, second = (os.path.join(self.directory, name) for name in ("first", "second"))
        port = free_port()
        killed = self.start("--port", str(port), directory=first)
        killed.kill()
        self.start("--port", str(port), directory=second)
        self.assert_unused(first, "--dir", first)
        self.assert_unused(first, "--config", self.config(port, first))
        self.assert_healthy("127.0.0.1:%d: it answers PONG" % port, "--dir", second)

    def test_a_directory_that_the_check_may_not_read_is_passed_over(self):
        other = self.start(directory=os.path.join(self.directory, "other"))
        data = os.path.join(self.directory, "data")
        self.assertEqual(self.start(directory=data).stop(), 0)
        for path in (os.path.join(data, "LOCK"), data):
            mode = os.stat(path).st_mode
            os.chmod(path, 0)
            reason = " (asked because %s/LOCK cannot be read: Permission denied; run the check as root or as the user of the server)" % data
            self.assert_healthy("127.0.0.1:%d: it answers PONG%s" % (other.port, reason), "--config", self.config(other.port), "--dir", data,
                                prepare=obey_permissions)
            port = free_port()
            self.assert_not_healthy("127.0.0.1:%d: Connection refused%s" % (port, reason), "--config", self.config(port), "--dir", data,
                                    prepare=obey_permissions)
            os.chmod(path, mode)

    def test_a_server_whose_lock_file_was_removed_is_found(self):
        daemon = self.start()
        os.remove(os.path.join(self.directory, "LOCK"))
        self.assert_healthy("PONG", "--config", self.config(daemon.port), "--dir", self.directory)

    def test_a_server_is_found_at_its_unix_socket_from_any_folder(self):
        self.start("--unixsocket", os.path.relpath(os.path.join(self.directory, "socket")))
        self.assert_healthy(self.directory + "/socket: it answers PONG", "--dir", self.directory, folder="/")
        self.assert_healthy("PONG", "--unixsocket", os.path.join(self.directory, "socket"), "--port", "0")

    def test_the_path_of_a_socket_is_noted_without_detours(self):
        detour = os.path.join(self.directory, "x" * 30)
        os.mkdir(detour)
        self.start("--unixsocket", os.path.join(detour, "..", "socket"))
        # A socket's path has at most 107 bytes.
        self.assert_healthy("healthy: " + self.directory + "/socket: it answers PONG", "--dir", self.directory, folder="/")

    def test_an_address_that_does_not_answer_is_passed_over(self):
        daemon = self.start()
        self.assert_healthy("127.0.0.1:", "--bind", "-::1 127.0.0.1", "--port", str(daemon.port))

    def test_it_logs_in_with_the_password_of_the_server(self):
        secret = pathlib.Path(self.directory, "secret")
        secret.write_text("sesame\n")
        data = os.path.join(self.directory, "data")
        self.start("--requirepass-file", str(secret), directory=data)
        self.assert_healthy("PONG", "--dir", data, "--requirepass-file", str(secret))
        self.assert_healthy("PONG", "--dir", data, environment={"SEPAL_REQUIREPASS": "sesame"})
        # A server that asks for another login runs: to end it would not help.
        self.assert_healthy("asks for another login", "--dir", data)
        status, told = check("--dir", data, "--requirepass", "mustard")
        self.assertEqual(status, HEALTHY)
        self.assertIn("asks for another login", told)
        self.assertNotIn("mustard", told)

    def test_a_password_that_the_server_does_not_ask_for_does_no_harm(self):
        daemon = self.start()
        self.assert_healthy("PONG", "--dir", self.directory, "--requirepass", "x")
        with Client.of(daemon) as client:
            self.assertEqual(client.info("stats")["acl_access_denied_auth"], "0")

    def test_the_addresses_are_noted_and_no_password(self):
        daemon = self.start("--requirepass", "sesame")
        text = pathlib.Path(self.directory, "LOCK").read_text()
        self.assertEqual(text, "%d\ntcp 127.0.0.1 %d\n" % (daemon.process.pid, daemon.port))

    def test_a_full_server_is_healthy(self):
        daemon = self.start("--maxclients", "1", "--maxmemory", "1mb")
        with Client.of(daemon) as client:
            self.assertEqual(client.call("PING"), b"PONG")
            for _ in range(20):  # the refusal may come before or after the request is sent
                self.assert_healthy("as many clients as it may", "--dir", self.directory, "--requirepass", "x")

    def test_a_server_whose_user_default_may_do_nothing_is_healthy(self):
        daemon = self.start()
        with Client.of(daemon) as client:
            client.call("ACL", "SETUSER", "default", "-@all", "+acl")
        self.assert_healthy("may not send PING", "--dir", self.directory)

    def test_a_server_with_a_long_script_is_healthy(self):
        daemon = self.start("--busy-reply-threshold", "1", "--threads", "2")
        with Client.of(daemon) as running:
            running.send(("EVAL", "while true do end", "0"))
            self.eventually("the script is never busy", lambda: "long script" in check("--dir", self.directory)[1])
            self.assert_healthy("long script", "--dir", self.directory)
            with Client.of(daemon) as other:
                other.call("SCRIPT", "KILL")

    def test_answers_of_a_server_that_serves_nothing_yet_or_is_no_sepald(self):
        login = b"-NOAUTH Authentication required.\r\n"
        with stub([b"-LOADING Redis is loading the dataset in memory\r\n"], [b"HTTP/1.1 400 Bad Request\r\n"], [b""], [b"+PO"],
                  [login, b"+OK\r\n-LOADING Redis is loading\r\n"], [login], [login, b"-WRONGPASS invalid\r\n"]) as port:
            self.assert_not_healthy("still loads", "--port", port)
            self.assert_not_healthy("no answer of sepald", "--port", port)
            self.assert_not_healthy("closed the connection without an answer", "--port", port)
            self.assert_not_healthy("no answer of sepald", "--port", port)
            self.assert_not_healthy("still loads", "--port", port, "--requirepass", "x")
            # The server has answered, and closes the connection at the login.
            self.assert_healthy("asks for another login", "--port", port, "--requirepass", "x")
            self.assert_healthy("asks for another login", "--port", port, "--requirepass", "x")

    def test_a_server_that_never_answers_is_not_waited_for(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.assert_not_healthy("no answer within 5 seconds", "--port", str(listener.getsockname()[1]))

    def test_a_check_neither_starts_a_server_nor_changes_the_directory(self):
        missing = os.path.join(self.directory, "none")
        self.assert_not_healthy("refused", "--dir", missing, "--port", str(free_port()))
        self.assertFalse(os.path.exists(missing))
        self.assert_not_healthy("port is 0", "--dir", missing, "--port", "0")

    def test_wrong_settings_are_told_as_at_a_start(self):
        status, told = check("--requirepass-file", os.path.join(self.directory, "none"))
        self.assertEqual((status, told), (NOT_HEALTHY, told))
        self.assertIn("none: the password file cannot be opened", told)
        status, told = check("--prot", "1")
        self.assertEqual((status, told), (WRONG_SETTINGS, "sepald: unknown flag '--prot'; did you mean '--port'?"))
