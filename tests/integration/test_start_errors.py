"""Starts that cannot succeed: each ends with one line that says why, and with the documented exit status."""

import getpass
import glob
import os
import pathlib
import re
import resource
import socket
import subprocess

from certificates import Authority
from client import Client
from daemon import SANITIZED, SEPALD, DaemonTest, free_port
from permissions import obey_permissions

SECONDS_MAX = 300
FAILED = 1
WRONG_SETTINGS = 2
SETTINGS_FILE = pathlib.Path(__file__).parents[2] / "config" / "sepald.toml"

# Two values that each setting refuses. A path, a name or a password may be any text, and fails later, if at all.
TEXTS = {"unixsocket", "user", "requirepass_file", "dir", "import_dir", "log_file", "aclfile", "http_bind", "http_metrics_pattern",
         "tls_cert_file", "tls_key_file", "tls_ca_cert_file"}
WRONG_VALUES = {
    **dict.fromkeys("backlog login_timeout tcp_keepalive busy_reply_threshold save_interval journal_save_percent "
                    "journal_save_min journal_size_max journal_size_max_percent disk_reserve save_bandwidth "
                    "stop_seconds_max maxmemory_clients output_bytes_max".split(), ["-1", "x"]),
    **dict.fromkeys("upload_timeout keys_max layers_max item_bytes_max request_bytes_max request_arguments_max "
                    "line_bytes_max bf_capacity".split(), ["0", "x"]),
    **dict.fromkeys("port tls_port http_port".split(), ["65536", "x"]),
    **dict.fromkeys("tls_auth_clients protected_mode http_tls".split(), ["maybe", ""]),
    **dict.fromkeys("threads uploads_max".split(), ["1025", "-1"]),
    "storage_threads": ["65", "-1"],
    "bind": ["", " "], "unixsocket_mode": ["8", "rwx"], "tls_auth_clients_user": ["OU", ""], "tls_protocols": ["TLSv1.1", ""],
    "maxclients": ["0", "1000001"], "timeout": ["-1", "5 parsecs"], "requirepass": ["x" * 20_000],
    "acllog_max_len": ["-1", "10001"], "script_memory_max": ["15mb", "x"], "journal": ["sometimes", ""],
    "journal_segment": ["1kb", "x"], "maxmemory": ["-1", "64xb"], "bf_error_rate": ["0", "1"], "bf_expansion": ["32769", "x"],
    "cf_capacity": ["1", "1073741825", "3"], "cf_bucket_size": ["0", "256"], "cf_iterations": ["0", "65536"],
    "cf_expansion": ["32769", "x"], "cf_layers_max": ["0", "65537"],
    "seed": ["-1", "18446744073709551616"], "http_hosts": ["a/b", "1.2.3.256"], "http_metrics_filters": ["10001", "x"],
    "missing_filter": ["maybe", ""],
    "log_level": ["loud", ""], "log_format": ["xml", ""],
}

def limit(which, value):
    return lambda: resource.setrlimit(which, (value, value))


class StartErrorTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.directory, "data")

    def path(self, name):
        return os.path.join(self.directory, name)

    def file(self, name, text="", mode=0o644):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def folder(self, name, mode=0o755):
        os.mkdir(self.path(name))
        os.chmod(self.path(name), mode)
        self.addCleanup(os.chmod, self.path(name), 0o755)
        return self.path(name)

    def check(self, status, pattern, *arguments, prepare=None):
        """Checks that it ends with that status, and that its last line matches the pattern."""
        done = subprocess.run([SEPALD, "--port", "0", "--dir", self.data, *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS_MAX, preexec_fn=prepare)
        said = done.stderr.strip().split("\n")
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(said[-1], pattern)
        # The lines before are plain lines of the log, and the reason occurs only once.
        errors = [line for line in said if re.search("error|sepald: ", line)]
        self.assertEqual(len(errors), 1, done.stderr)

    def check_all(self, status, table):
        for pattern, arguments in table:
            with self.subTest(pattern):
                self.check(status, pattern, *arguments)

    def test_every_setting_has_wrong_values(self):
        known = re.findall(r"^([a-z_]+) = ", SETTINGS_FILE.read_text(), re.M)
        self.assertEqual(set(known), TEXTS | set(WRONG_VALUES))

    def test_a_wrong_value_of_a_flag_names_the_flag(self):
        for key, values in WRONG_VALUES.items():
            flag = "--" + key.replace("_", "-")
            for value in values:
                with self.subTest(flag + " " + value[:20]):
                    self.check(WRONG_SETTINGS, "^sepald: .*(%s|%s)" % (flag, key), flag + "=" + value)

    def test_a_wrong_value_in_a_file_names_the_line_and_the_setting(self):
        for key, values in WRONG_VALUES.items():
            for value in values:
                with self.subTest(key + " = " + value[:20]):
                    text = '["%s"]' % value if key == "bind" else '"%s"' % value
                    config = self.file("bad.toml", "\n%s = %s\n" % (key, text))
                    self.check(WRONG_SETTINGS, r"^sepald: .*bad\.toml:2: .*" + key, "--config", config)

    def test_wrong_flags_and_files_of_settings(self):
        self.check_all(WRONG_SETTINGS, [
            ("unknown flag '--prot'.*did you mean '--port'", ["--prot", "1"]),
            ("unexpected argument 'start'", ["start"]),
            ("--unixsocket .*: must be a text of 0 to 107 bytes", ["--unixsocket", self.path("s" * 200)]),
            ("--port needs a value", ["--port"]),
            ("nowhere.toml: cannot be opened: No such file", ["--config", self.path("nowhere.toml")]),
            ("cannot be (opened|read): Is a directory", ["--config", self.folder("folder.toml")]),
            ("empty.toml: is empty", ["--config", self.file("empty.toml")]),
            ("long.toml: is longer than", ["--config", self.file("long.toml", "#" * (2 << 20))]),
            (r"binary.toml:1: ", ["--config", self.file("binary.toml", "\x00\x01\x02")]),
            (r"cut.toml:2: ", ["--config", self.file("cut.toml", 'dir = "a"\nbind = ["127.0.0.1"')]),
        ])

    def test_folders_and_files_that_are_not_there_or_no_such_thing(self):
        plain = self.file("plain")
        self.check_all(FAILED, [
            ("cannot create the directory .*/plain: it is a file, no folder$", ["--dir", plain]),
            ("cannot create the directory .*/plain: it is a file, no folder$", ["--dir", plain + "/data"]),
            ("there is no folder .*/none", ["--import-dir", self.path("none")]),
            ("plain .*is no folder", ["--import-dir", plain]),
            ("import_dir must not be the data directory", ["--import-dir", self.data]),
            ("cannot open the log file .*/none/log: there is no folder .*/none", ["--log-file", self.path("none/log")]),
            ("cannot open the log file .*: Is a directory", ["--log-file", self.folder("logs")]),
            ("cannot listen on .*/none/socket: there is no folder .*/none$", ["--unixsocket", self.path("none/socket")]),
            ("cannot listen on .*/plain: a file that is no socket", ["--unixsocket", plain]),
        ])
        self.assertFalse(os.path.exists(self.path("none")))
        self.assertEqual(os.path.getsize(plain), 0)

    def test_the_check_of_a_configuration_says_what_a_start_says(self):
        plain, users = self.file("plain"), self.file("users.acl", "user default on\nuser bob +@nosuch\n")
        authority = Authority(self.directory)
        good, other = authority.sign("good"), authority.sign("other")
        tls = ("--tls-port", str(free_port()), "--tls-cert-file", good.certificate, "--tls-key-file")
        for pattern, arguments in [
                ('user: there is no user "nosuch"', ["--user", "nosuch"]),
                ("there is no folder .*/none", ["--import-dir", self.path("none")]),
                ("plain .*is no folder", ["--import-dir", plain]),
                ("none.acl: .*No such file or directory; create it .it may be empty.$", ["--aclfile", self.path("none.acl")]),
                ("users.acl:2: .*nosuch", ["--aclfile", users]),
                ("none.key", [*tls, self.path("none.key")]),
                ("other.key", [*tls, other.key]),
                ("import_dir must not be the data directory", ["--import-dir", self.data]),
                ("import_dir must not .* or contain it directly", ["--import-dir", self.directory]),
                ("http_bind is no address: localhost", ["--http-port", str(free_port()), "--http-bind", "localhost"]),
        ]:
            with self.subTest(pattern):
                self.check(FAILED, pattern, *arguments)
                self.check(FAILED, "^sepald: .*" + pattern, "--check-config", *arguments)
        os.remove(users)
        self.file("users.acl", "user bob on nopass ~* +@read\n")
        done = subprocess.run([SEPALD, "--check-config", *tls, good.key, "--aclfile", users, "--import-dir", self.folder("filters"),
                               "--user", getpass.getuser(), "--dir", self.path("nowhere")],
                              capture_output=True, text=True, timeout=SECONDS_MAX)
        self.assertEqual((done.returncode, done.stderr, done.stdout.split("\n")[0]), (0, "", "configuration ok"))
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_with_a_log_file_standard_error_says_why_too(self):
        log, plain, users = self.path("log"), self.file("plain"), self.file("users.acl", "user bob +@nosuch\n")
        starts = [("is a file, no folder", ["--dir", plain]),
                  ("users.acl:1: .*nosuch", ["--aclfile", users]),
                  ("no such address; correct --bind", ["--bind", "192.0.2.1"]),
                  ('there is no user "nosuch"', ["--user", "nosuch"])]
        for pattern, arguments in starts:
            with self.subTest(pattern):
                done = self.failed_start("--log-file", log, *arguments)
                self.assertRegex(done, "^sepald: .*%s.*\n$" % pattern)
                with open(log) as file:
                    self.assertRegex(file.read().splitlines()[-1], "error .*" + pattern)
        for name in ("/dev/stderr", "/proc/self/fd/2"):
            with self.subTest(name):
                done = self.failed_start("--log-file", name, "--dir", plain)
                self.assertEqual(done.count("is a file, no folder"), 1, done)

    def failed_start(self, *arguments):
        """What it says on standard error."""
        done = subprocess.run([SEPALD, "--port", str(free_port()), "--dir", self.data, *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, FAILED, done.stderr)
        return done.stderr

    def test_addresses_that_cannot_be_listened_on(self):
        with socket.socket() as taken, socket.socket(socket.AF_UNIX) as taken_path:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            taken_path.bind(self.path("taken.sock"))
            taken_path.listen()
            self.check_all(FAILED, [
                ("the port is taken by another program", ["--port", str(taken.getsockname()[1])]),
                ("the path is taken by another program", ["--unixsocket", self.path("taken.sock")]),
                ("for HTTP on .* the port is taken by another program; choose another with --http-port",
                 ["--http-port", str(taken.getsockname()[1])]),
                ("for HTTP on .* no such address; correct --http-bind", ["--http-port", str(free_port()), "--http-bind", "192.0.2.1"]),
                ("no such address; correct --bind", ["--bind", "192.0.2.1"]),
                ("cannot listen on nosuch.invalid", ["--bind", "nosuch.invalid"]),
                ("there is no address to listen on", ["--bind=-192.0.2.1", "--port", str(free_port())]),
            ])

    def test_files_that_may_not_be_read_or_written(self):
        data = self.folder("read-only", 0o500)
        locked = self.folder("locked")
        with open(os.path.join(locked, "LOCK"), "w") as lock:
            os.chmod(lock.name, 0o400)
        for status, pattern, arguments in [
                (FAILED, "cannot create the directory .*: Permission denied", ["--dir", data + "/data"]),
                (FAILED, "cannot .* .*/read-only/LOCK: Permission denied; sepald's user has to write there: .* name another one with --dir", ["--dir", data]),
                (FAILED, "cannot open the lock file .*/LOCK: Permission denied", ["--dir", locked]),
                (FAILED, "cannot open the log file .*: Permission denied; sepald's user has to write there: .* name another with --log-file",
                 ["--log-file", self.file("log", "", 0o400)]),
                (FAILED, "cannot listen on .*: Permission denied; sepald's user has to write to the folder .*/read-only: .* another path with --unixsocket",
                 ["--unixsocket", data + "/socket"]),
                (FAILED, "the password file cannot be opened: Permission denied", ["--requirepass-file", self.file("secret", "sesame", 0)]),
                (WRONG_SETTINGS, "cannot be opened: Permission denied", ["--config", self.file("secret.toml", "port = 1\n", 0)])]:
            with self.subTest(pattern):
                self.check(status, pattern, *arguments, prepare=obey_permissions)

    def test_data_that_may_not_be_read(self):
        daemon = self.start(directory=self.data)
        with Client.of(daemon) as client:
            client.call("BF.ADD", "key", "x")
        self.assertEqual(daemon.stop(), 0)
        [pack] = glob.glob(self.data + "/generation-*/pack-0")
        for path in (pack, *glob.glob(self.data + "/journal-*")):
            mode = os.stat(path).st_mode
            os.chmod(path, 0)
            self.check(FAILED, "cannot open %s: Permission denied; sepald's user has to write there: give it the directory \\(chown -R\\)" % path,
                       prepare=obey_permissions)
            os.chmod(path, mode)

    def test_a_data_directory_on_a_read_only_file_system(self):
        os.mkdir(self.data)
        mounts = [["--bind", self.data, self.data], ["-o", "remount,bind,ro", self.data]]
        for arguments in mounts:
            done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
            if done.returncode != 0:
                self.skipTest("mounting is not allowed here: " + done.stderr.strip())
            self.addCleanup(subprocess.run, ["umount", "--lazy", self.data], capture_output=True)
        self.check(FAILED, "cannot .*/LOCK: Read-only file system; .*mount it writable")

    def test_limits_of_the_process_that_are_too_low(self):
        limits = [("the limit of open files is 10, and the server needs at least", resource.RLIMIT_NOFILE, 10, []),
                  ("the limit of open files is 200, and the server needs at least", resource.RLIMIT_NOFILE, 200,
                   ["--threads", "100"]),
                  ("File too large", resource.RLIMIT_FSIZE, 0, [])]
        # Sanitizers need terabytes of addresses.
        if not SANITIZED:
            limits.append(("too little|Cannot allocate memory|not enough memory", resource.RLIMIT_AS, 96 << 20,
                           ["--threads", "64"]))
        for pattern, which, value, arguments in limits:
            with self.subTest(pattern):
                self.check(FAILED, pattern, *arguments, prepare=limit(which, value))
