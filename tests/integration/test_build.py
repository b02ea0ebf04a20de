"""`sepal build` and `sepal merge` in practice: pipes, compressed lists, errors, signals."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
import zipfile

import daemon

SEPAL = os.environ["SEPAL"]
SECONDS_MAX = 300
TRIES_MAX = 20


class BuildTest(daemon.DaemonTest):
    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def sepal(self, *arguments, status=0, **options):
        done = subprocess.run([SEPAL, *arguments], capture_output=True, timeout=SECONDS_MAX, **options)
        self.assertEqual(done.returncode, status, done)
        return done

    def build(self, *arguments, output="out.sepal", **options):
        """Returns what it prints. The file is `output`."""
        return self.sepal("build", *arguments, "-o", self.path(output), "--seed", "7", **options).stdout.decode()

    def refusal(self, *arguments, **options):
        """Returns the error. No file may be left."""
        before = sorted(os.listdir(self.directory))
        refused = self.sepal("build", *arguments, "-o", self.path("out.sepal"), status=1, **options)
        self.assertEqual(sorted(os.listdir(self.directory)), before)
        return refused.stderr.decode()


LINES = b"".join(b"item %d\n" % number for number in range(200000))


class InputTest(BuildTest):
    def test_every_form_of_an_input_makes_the_same_file(self):
        plain = self.write("lines.txt", LINES)
        said = self.build(plain)
        self.assertIn("200000 read", said)
        self.assertIn("seed    7", said)
        expected = self.read("out.sepal")
        self.assertEqual(expected[:8], b"SEPALFLT")

        cut = LINES.index(b"\n", 500000) + 1
        items = LINES.splitlines()
        prefixed = b"".join(len(item).to_bytes(4, "little") + item for item in items)
        zipped = self.write("lines.gz", gzip.compress(LINES[:1000000]) + gzip.compress(LINES[1000000:]))
        inputs = {
            "standard input": dict(input=LINES),
            "standard input, by its name": dict(arguments=["-"], input=LINES),
            "one thread": dict(arguments=[plain, "--threads", "1"]),
            "four threads": dict(arguments=[plain, "--threads", "4"]),
            "nul": dict(arguments=["--format", "nul"], input=LINES.replace(b"\n", b"\0")),
            "length": dict(arguments=["--format", "length"], input=prefixed),
            "gzip": dict(arguments=[zipped]),
            "gzip through a pipe": dict(input=self.read("lines.gz")),
            "no end of the last line": dict(input=LINES[:-1]),
            "two lists": dict(arguments=[self.write("begin.txt", LINES[:cut]), "-"], input=LINES[cut:]),
        }
        if shutil.which("zstd"):
            packed = subprocess.run(["zstd", "-q", "-c"], input=LINES, capture_output=True).stdout
            inputs["zstd"] = dict(arguments=[self.write("lines.zst", packed)])
            inputs["zstd through a pipe"] = dict(input=packed)
        for name, given in inputs.items():
            with self.subTest(name):
                given = dict(given)
                self.build(*given.pop("arguments", []), output="other.sepal", **given)
                self.assertEqual(self.read("other.sepal"), expected)

    def test_lines_that_end_in_crlf(self):
        self.build(input=b"a\nb\nc\n", output="plain.sepal")
        done = self.sepal("build", "-q", "-o", self.path("with.sepal"), "--seed", "7", input=b"a\r\nb\nc\r\n")
        self.assertIn(b"warning: 2 of 3 lines end with a carriage return", done.stderr)
        self.assertIn(b"--format crlf leaves it out", done.stderr)
        self.assertNotEqual(self.read("with.sepal"), self.read("plain.sepal"))
        done = self.sepal("build", "--format", "crlf", "-o", self.path("crlf.sepal"), "--seed", "7", input=b"a\r\nb\nc\r\n")
        self.assertEqual(done.stderr, b"")
        self.assertEqual(self.read("crlf.sepal"), self.read("plain.sepal"))

    def test_a_byte_order_mark_is_no_part_of_the_first_item(self):
        self.build(input=b"a\nb\n", output="plain.sepal")
        for given in dict(input=b"\xef\xbb\xbfa\nb\n"), dict(input=gzip.compress(b"\xef\xbb\xbfa\nb\n")):
            self.build(output="marked.sepal", **given)
            self.assertEqual(self.read("marked.sepal"), self.read("plain.sepal"))

    def test_a_file_on_standard_input_is_read_from_its_present_offset(self):
        self.build(input=LINES)
        expected = self.read("out.sepal")
        with open(self.write("with a head", b"head\n" + LINES), "rb", buffering=0) as file:
            file.read(5)
            self.build(stdin=file)
        self.assertEqual(self.read("out.sepal"), expected)

    def test_the_seed_can_be_that_of_a_running_server(self):
        data = self.path("data")
        self.start(directory=data)
        self.sepal("build", "-o", self.path("server.sepal"), "--seed-from", data, input=LINES)
        said = self.sepal("build", "-o", self.path("again.sepal"), "--seed-from", data, input=LINES).stdout.decode()
        self.assertEqual(self.read("server.sepal"), self.read("again.sepal"))
        seed = int(re.search(r"seed +(\d+)", said).group(1))
        with open(os.path.join(data, "SEED")) as file:
            self.assertEqual(int(file.read().split()[2], 16), seed)

    def test_without_a_seed_every_file_has_its_own(self):
        for name in "a.sepal", "b.sepal":
            self.sepal("build", "-o", self.path(name), input=b"a\n")
        self.assertNotEqual(self.read("a.sepal"), self.read("b.sepal"))


class ErrorTest(BuildTest):
    def test_errors_name_the_input_and_the_line(self):
        self.assertIn("absent.txt: cannot be opened: No such file", self.refusal("absent.txt"))
        self.assertIn("there are no items", self.refusal(input=b""))
        refused = self.refusal("--capacity", "3", "--nonscaling", "--seed", "7", input=b"a\nb\nc\nd\ne\n")
        self.assertIn("standard input:4: the filter is full", refused)
        damaged = bytearray(gzip.compress(LINES))
        damaged[len(damaged) // 2] ^= 255
        damaged = self.write("damaged.gz", damaged)
        self.assertRegex(self.refusal(damaged), re.escape(damaged) + r":\d+: the gzip data is damaged")
        refused = self.refusal("--format", "length", input=b"\1\0\0\0a\xff\xff\xff\xffb")
        self.assertIn("standard input: item 2: has a length of 4294967295 bytes", refused)

    def test_impossible_options_of_a_filter_are_refused(self):
        self.assertIn("no machine's memory", self.refusal("--capacity", "1" + 18 * "0", input=b"a"))
        self.assertIn("there is no", self.refusal("--seed-from", self.directory, input=b"a"))

    def test_what_is_no_list_is_refused_by_name(self):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            tar.addfile(tarfile.TarInfo("list.txt"))
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w") as file:
            file.writestr("list.txt", "a")
        for name, data in (("xz", lzma.compress(b"a\n")), ("bzip2", bz2.compress(b"a\n")), ("bzip2", bz2.compress(b"")),
                           ("zip", zipped.getvalue()), ("tar", archive.getvalue()), ("compressed twice", gzip.compress(gzip.compress(b"a"))),
                           ("UTF-16", "a\n".encode("utf-16")), ("UTF-32", "a\n".encode("utf-32")),
                           ("zero byte", "a\n".encode("utf-16-le")), ("zero byte", "\u5b57\n".encode("utf-16-be")),
                           ("zero byte", b"a\0b\0")):
            with self.subTest(name):
                path = self.write("list", data)
                refused = self.refusal(path)
                self.assertIn(name, refused)
                self.assertRegex(refused, "^sepal build: " + re.escape(path) + "[: ]")
                self.assertIn(name, self.refusal(input=data))
                self.assertIn(name, self.refusal("--capacity", "10", input=data))
        self.build(input=b"a\n", output="filter.sepal")
        self.assertIn("is a filter file of Sepal", self.refusal(self.path("filter.sepal")))

    def test_the_result_never_replaces_an_input(self):
        path = self.write("list.txt", LINES)
        os.link(path, self.path("hard"))
        os.symlink("list.txt", self.path("soft"))
        for output in "list.txt", "hard", "soft":
            refused = self.sepal("build", path, "-o", self.path(output), status=1).stderr.decode()
            self.assertIn(output + " is an input as well", refused)
        with open(path, "rb") as file:
            self.assertIn(b"is an input as well", self.sepal("build", "-o", path, status=1, stdin=file).stderr)
        self.assertEqual(self.read("list.txt"), LINES)
        self.build(input=b"a\n", output="a.sepal")
        before = self.read("a.sepal")
        for output in "a.sepal", "linked.sepal":
            if output != "a.sepal":
                os.symlink("a.sepal", self.path(output))
            refused = self.sepal("merge", self.path("a.sepal"), self.path("a.sepal"), "-o", self.path(output), status=1)
            self.assertIn(b"is an input as well", refused.stderr)
        self.assertEqual(self.read("a.sepal"), before)

    def test_a_device_is_no_place_for_the_result(self):
        for arguments in ["build"], ["merge", "absent.sepal"]:
            refused = self.sepal(*arguments, "-o", "/dev/full", status=1, input=b"a").stderr.decode()
            self.assertIn("/dev/full is there, and is not a file that can be replaced", refused)

    def test_a_failure_leaves_the_old_file(self):
        self.write("out.sepal", b"the old one")
        self.refusal("absent.txt")
        self.assertEqual(self.read("out.sepal"), b"the old one")


class SignalTest(BuildTest):
    def start_build(self, *arguments):
        process = subprocess.Popen([SEPAL, "build", "-o", self.path("out.sepal"), *arguments],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        return process

    def test_a_build_that_is_interrupted_while_it_reads_leaves_nothing(self):
        self.write("out.sepal", b"the old one")
        for arguments in [], ["--capacity", "1000000"]:
            process = self.start_build(*arguments)
            process.stdin.write(LINES)
            process.stdin.flush()
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(SECONDS_MAX), -signal.SIGINT)
            self.assertEqual(os.listdir(self.directory), ["out.sepal"])
        self.assertEqual(self.read("out.sepal"), b"the old one")

    def test_a_build_that_is_interrupted_while_it_writes_leaves_nothing(self):
        # On a busy machine a build may be at its end before the signal.
        for _ in range(TRIES_MAX):
            self.write("out.sepal", b"the old one")
            process = self.start_build("--capacity", "300000000")
            process.stdin.write(LINES)
            process.stdin.close()
            deadline = time.monotonic() + SECONDS_MAX
            while os.listdir(self.directory) == ["out.sepal"] and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.001)
            process.send_signal(signal.SIGTERM)
            status = process.wait(SECONDS_MAX)
            self.assertEqual(os.listdir(self.directory), ["out.sepal"])
            if status == -signal.SIGTERM:
                return self.assertEqual(self.read("out.sepal"), b"the old one")
            self.assertEqual(status, 0)
        self.fail("every build was at its end before the signal")

    def test_a_build_overwrites_no_file_but_its_own(self):
        self.write("out.sepal.tmp", b"of somebody else")
        self.build(input=LINES, output="out.sepal")
        self.assertEqual(sorted(os.listdir(self.directory)), ["out.sepal", "out.sepal.tmp"])
        self.assertEqual(self.read("out.sepal.tmp"), b"of somebody else")


class MergeTest(BuildTest):
    def test_parts_of_a_list_merge_to_what_the_list_builds(self):
        self.build(input=LINES, output="whole.sepal")
        cut = LINES.index(b"\n", 1000000) + 1
        for name, part in ("a.sepal", LINES[:cut]), ("b.sepal", LINES[cut:]):
            self.build("--capacity", "200000", "--key", "users", input=part, output=name)
        said = self.sepal("merge", self.path("a.sepal"), self.path("b.sepal"), "-o", self.path("both.sepal"),
                          "--key", "")
        self.assertIn(b"capacity 200000", said.stdout)
        # Everything except the count and its checksums.
        whole, both = self.read("whole.sepal"), self.read("both.sepal")
        self.assertEqual(len(whole), len(both))
        self.assertEqual(whole[1000:], both[1000:])

    def test_what_cannot_be_merged_is_refused(self):
        self.build(input=b"a\n", output="a.sepal")
        self.build("--error", "0.1", input=b"a\n", output="b.sepal")
        damaged = bytearray(self.read("a.sepal"))
        damaged[-9] ^= 1
        self.write("damaged.sepal", damaged)
        for other, message in ("b.sepal", b"error rate"), ("damaged.sepal", b"damaged at offset"), \
                ("absent.sepal", b"No such file"):
            refused = self.sepal("merge", self.path("a.sepal"), self.path(other), "-o", self.path("c.sepal"), status=1)
            self.assertIn(message, refused.stderr)
            self.assertIn(other.encode(), refused.stderr)
            self.assertFalse(os.path.exists(self.path("c.sepal")))


class ExamineTest(BuildTest):
    def test_a_built_file_is_verified_and_inspected(self):
        self.build("--key", "users", input=LINES)
        path = self.path("out.sepal")
        self.assertRegex(self.sepal("verify", path).stdout.decode(), r"fine +\S*out\.sepal has a filter with \d+ items")
        told = [json.loads(line) for line in self.sepal("inspect", "--json", path).stdout.splitlines()]
        self.assertEqual([fact["what"] for fact in told], ["keys", "filter", "layer"])
        self.assertEqual((told[1]["key"], told[1]["seed"], told[1]["capacity"]), ("users", "0x7", 200000))
        damaged = bytearray(self.read("out.sepal"))
        damaged[len(damaged) // 2] ^= 4
        self.write("out.sepal", damaged)
        found = self.sepal("verify", path, status=1).stdout.decode()
        self.assertRegex(found, r"DAMAGED +\S*out\.sepal is damaged at offset \d+: ")
        self.assertIn(b"is damaged at offset", self.sepal("inspect", path, status=1).stderr)


class ProgressTest(BuildTest):
    def test_on_a_terminal_there_is_a_bar(self):
        """Its rate and the time left come later than a fast build may take; unit_tools tests them."""
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        data = self.write("lines.txt", LINES * 60)
        process = subprocess.Popen([SEPAL, "build", "-o", self.path("out.sepal"), "--threads", "1", data],
                                   stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:  # The other end is closed.
            pass
        self.assertEqual(process.wait(SECONDS_MAX), 0)
        self.assertRegex(shown, rb"\radding    \[#*\.*\] +\d+%")

    def test_elsewhere_a_short_build_is_silent(self):
        self.assertEqual(self.sepal("build", "-o", self.path("out.sepal"), input=b"a\n").stderr, b"")
