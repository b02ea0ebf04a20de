"""The command line of `sepal`. A wrong one gives one line that says what is wrong, and exit status 2. Nothing is done."""

import os
import subprocess
import tempfile
import unittest

SEPAL = os.environ["SEPAL"]
COMMANDS = ("plan", "build", "merge", "convert", "migrate", "verify", "inspect", "salvage")
COUNT_MAX = 2**64 - 1

COUNT = "must be a whole number between 1 and 18446744073709551615, as in 100000000, 100m or 1e8"
RATE = "must be a number above 0 and below 1"
EXPANSION = "must be a whole number between 0 and 32768"
THREADS = "must be a whole number between 1 and 256"
SEED = "must be a whole number between 0 and 18446744073709551615"
BUILD = ("build", "-o", "out.sepal")

# (the words after sepal, what it says after "sepal").
MISTAKES = [
    ((), ": a command is missing; there are plan, build, merge, convert, migrate, backup, restore, verify, inspect, salvage, help, version; --help tells more"),
    (("foo",), ": unknown command 'foo'; there are plan, build, merge, convert, migrate, backup, restore, verify, inspect, salvage, help, version; --help tells more"),
    (("pln",), ": unknown command 'pln'; did you mean 'plan'?"),
    (("Build", "-o", "x"), ": unknown command 'Build'; did you mean 'build'?"),
    (("--verson",), ": unknown flag '--verson'; did you mean '--version'?"),
    (("--quiet", "plan"), ": unknown flag '--quiet'; --help lists all flags"),
    (("convert", "x"), " convert: needs one of --data, --files and --dry-run; sepal convert --help tells more"),
    (("convert", "--data", "x"), " convert: INPUT is missing; sepal convert --help tells more"),
    (("migrate", "redis://a"), " migrate: TARGET is missing; sepal migrate --help tells more"),
    (("migrate", "a", "b"), " migrate: 'a' is no address: redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH is expected; sepal migrate --help tells more"),
    (("help", "pln"), " help: unknown command 'pln'; did you mean 'plan'?"),
    (("help", "plan", "build"), " help: unexpected argument 'build'; sepal help --help tells more"),
    (("version", "plan"), " version: unexpected argument 'plan'; sepal version --help tells more"),
    (("",), ": unknown command ''; there are plan, build, merge, convert, migrate, backup, restore, verify, inspect, salvage, help, version; --help tells more"),

    (("plan", "--capcity", "5"), " plan: unknown flag '--capcity'; did you mean '--capacity'?"),
    (("plan", "--capcity=5"), " plan: unknown flag '--capcity'; did you mean '--capacity'?"),
    (("plan", "--Error", "0.1"), " plan: unknown flag '--Error'; did you mean '--error'?"),
    (("plan", "--no-such-thing"), " plan: unknown flag '--no-such-thing'; sepal plan --help lists all flags"),
    (("plan", "-x"), " plan: unknown flag '-x'; sepal plan --help lists all flags"),
    (("plan", "7"), " plan: unexpected argument '7'; sepal plan --help tells more"),
    (("plan", "verify"), " plan: unexpected argument 'verify'; sepal plan --help tells more"),
    (("plan", "--capacity"), " plan: --capacity needs a value"),
    (("plan", "--nodes=5"), " plan: --nodes takes no value"),
    *[(("plan", *words), " plan: %s; sepal plan --help tells more" % why) for words, why in (
        (("--rate", "5/s"), "--rate needs --window"),
        (("--generations", "2"), "--generations needs --window or --last"),
        (("--window", "1h"), "--window needs --rate, as in 20000/s, or --capacity, the different items of a window"),
        (("--window", "1h", "--rate", "5/s", "--capacity", "5"), "--rate and --capacity exclude each other: both say how many items a window has"),
        (("--window", "1h", "--last", "5"), "--window and --last exclude each other"),
        (("--last", "5", "--capacity", "5"), "--last and --capacity exclude each other: the last items are all that it keeps"),
        (("--last", "5", "--rate", "5/s"), "--last and --rate exclude each other: the last items are all that it keeps"),
        (("--last", "5", "--nonscaling"), "--last and --nonscaling exclude each other: such a filter does not grow, and is never full"),
        (("--last", "5", "--expansion", "2"), "--last and --expansion exclude each other: such a filter does not grow, and is never full"),
        (("--last", "5", "--nodes"), "--nodes does not divide a filter that forgets"))],
    *[(("plan", "--window", text), " plan: --window %s: must be a time, as in 90s, 15m, 1h or 7d" % text)
      for text in ("0", "-1s", "1y", "x", "", "nan", "inf", "1 h")],
    *[(("plan", "--rate", text), " plan: --rate %s: must be a count and a time, as in 20000/s or 5m/d" % text)
      for text in ("5", "0/s", "5/", "5/x", "0.5/s", "/s", "")],
    *[(("plan", "--generations", text), " plan: --generations %s: must be a whole number between 1 and 16" % text) for text in ("0", "17", "x")],
    (BUILD + ("--quiet=5",), " build: --quiet takes no value"),
    (("plan", "--nonscaling", "--expansion", "2"), " plan: --expansion excludes --nonscaling"),
    *[(("plan", "--capacity", text), " plan: --capacity %s: %s" % (text, COUNT))
      for text in ("0", "-1", "-18446744073709551615", "+5", "x", "", " 5", "5 ", "1.5", "1e", "e8", "1e-1", "1e400", "1e+", "5q", "0x10",
                   "100mb", "0.0001k", "12345e-3", "1_000", "nan", "inf", "18446744073709551616", "99999999999999999999999",
                   "1.8446744073709551616e19", "18446744073709552k", "1e99999999999999999999", "--error", "1" + 100 * "0")],
    *[(("plan", "--error", text), " plan: --error %s: %s" % (text, RATE))
      for text in ("0", "1", "2", "-0.1", "nan", "inf", "-inf", "x", "", "0.1x", " 0.1", "1e-400", "1e400", "0,01")],
    *[(("plan", "--expansion", text), " plan: --expansion %s: %s" % (text, EXPANSION))
      for text in ("-1", "32769", "1e5", "2.5", "x", "4294967297", "18446744073709551617")],

    (BUILD + ("--format", "lnes"), " build: --format lnes: must be lines, crlf, nul or length; did you mean 'lines'?"),
    (BUILD + ("--format", "xml"), " build: --format xml: must be lines, crlf, nul or length"),
    *[(BUILD + ("--threads", text), " build: --threads %s: %s" % (text, THREADS)) for text in ("0", "257", "-1", "x", "1k", "2.5")],
    *[(BUILD + ("--seed", text), " build: --seed %s: %s" % (text, SEED))
      for text in ("-3", "x", "1.5", "18446744073709551616", "0x", "0x10000000000000000", "")],
    *[(BUILD + ("--capacity", text), " build: --capacity %s: %s" % (text, COUNT)) for text in ("0", "-1", "x")],
    *[(BUILD + ("--error", text), " build: --error %s: %s" % (text, RATE)) for text in ("0", "2", "nan")],
    (BUILD + ("--expansion", "40000"), " build: --expansion 40000: " + EXPANSION),
    (BUILD + ("--seed", "5", "--seed-from", "data"), " build: --seed excludes --seed-from"),
    (BUILD + ("--key", 65537 * "x"), " build: --key: must be at most 65536 bytes long"),
    (("build",), " build: --output is missing; sepal build --help tells more"),
    (("build", "--outptu", "x"), " build: unknown flag '--outptu'; did you mean '--output'?"),
    (("build", "-o"), " build: --output needs a value"),

    (("merge", "-o", "x"), " merge: FILE is missing; sepal merge --help tells more"),
    (("merge", "a"), " merge: --output is missing; sepal merge --help tells more"),
    (("merge", "a", "-o", "x", "--keys", "b"), " merge: unknown flag '--keys'; did you mean '--key'?"),
    (("merge", "a", "-o", "x", "--key", 65537 * "x"), " merge: --key: must be at most 65536 bytes long"),
    (("verify",), " verify: PATH is missing; sepal verify --help tells more"),
    (("verify", "a", "b"), " verify: unexpected argument 'b'; sepal verify --help tells more"),
    (("verify", "--quite"), " verify: unknown flag '--quite'; sepal verify --help lists all flags"),
    (("verify", "--"), " verify: PATH is missing; sepal verify --help tells more"),
    (("verify", "--", "a", "-x"), " verify: unexpected argument '-x'; sepal verify --help tells more"),
    (("verify", "--quite", "--", "a"), " verify: unknown flag '--quite'; sepal verify --help lists all flags"),
    (("--", "foo"), ": unknown command 'foo'; there are plan, build, merge, convert, migrate, backup, restore, verify, inspect, salvage, help, version; --help tells more"),
    (("inspect",), " inspect: FILE is missing; sepal inspect --help tells more"),
    (("inspect", "--jsn", "a"), " inspect: unknown flag '--jsn'; did you mean '--json'?"),
    (("salvage", "a"), " salvage: --into is missing; sepal salvage --help tells more"),
    (("salvage", "--into", "b"), " salvage: DIR is missing; sepal salvage --help tells more"),
    (("salvage", "a", "--onto", "b"), " salvage: unknown flag '--onto'; did you mean '--into'?"),
]


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sepal-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def sepal(self, *words, **options):
        return subprocess.run([SEPAL, *words], cwd=self.folder, capture_output=True, text=True, timeout=300,
                              **{"input": "", **options})

    def test_every_mistake_is_reported_in_one_line(self):
        for words, told in MISTAKES:
            with self.subTest(words=[word[:40] for word in words]):
                done = self.sepal(*words)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "sepal" + told + "\n"))
                self.assertEqual(os.listdir(self.folder), [])

    def test_every_command_has_help_that_names_all_flags_and_how_counts_are_written(self):
        self.assertEqual(set(COMMANDS) - set(self.sepal("--help").stdout.split()), set())
        for command in COMMANDS:
            done = self.sepal(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Usage: sepal %s " % command, done.stdout)
            self.assertEqual("COUNT" in done.stdout, "as in 100000000, 100m or 1e8" in done.stdout)
        self.assertIn("--capacity COUNT", self.sepal("build", "--help").stdout)

    def test_help_and_version_are_commands_as_well(self):
        for words, flags in ((("help",), ("--help",)), (("version",), ("--version",)),
                             *((("help", command), (command, "--help")) for command in (*COMMANDS, "backup", "help", "version"))):
            done, same = self.sepal(*words), self.sepal(*flags)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, same.stdout, ""), words)
            self.assertTrue(done.stdout)

    def capacity(self, text):
        """The capacity that `sepal plan` understands."""
        done = self.sepal("plan", "--error", "0.9", "--nonscaling", "--capacity", text)
        if done.returncode == 1:
            self.assertIn("fits into no machine's memory", done.stderr)
            return None
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout.split(" items")[0].split()[-1])

    def test_a_count_is_taken_exactly_however_it_is_written(self):
        for text, count in {"1": 1, "100000000": 10**8, "1e8": 10**8, "1E8": 10**8, "1e+8": 10**8, "1.5e3": 1500, "100m": 10**8,
                            "100M": 10**8, "7k": 7000, "2g": 2 * 10**9, "0.5k": 500, "1.25m": 1250000, "010": 10, "1e0": 1,
                            "1000e-3": 1, "5.0": 5, "0.1e1": 1, "00000000000000000000000001": 1, "1.k": 1000, ".5k": 500,
                            "281474976710657": 2**48 + 1, "281474.976710657g": 2**48 + 1, "1e-0": 1}.items():
            with self.subTest(text):
                self.assertEqual(self.capacity(text), count)
        for text in (str(COUNT_MAX), "1.8446744073709551615e19", "18446744073709551.615k", "1e19"):
            with self.subTest(text):
                self.assertIsNone(self.capacity(text))

    def test_the_last_of_a_repeated_flag_counts(self):
        done = self.sepal("plan", "--capacity", "7", "--capacity", "8")
        self.assertIn(", 8 items", done.stdout)

    def test_two_dashes_end_the_flags(self):
        self.assertEqual(self.sepal("build", "-o", "-x", "--seed", "7", "--", input="a\n").returncode, 0)
        for words in (("verify", "--", "-x"), ("--", "verify", "--", "-x"), ("inspect", "--json", "--", "-x"), ("merge", "-o", "--y", "--", "-x"),
                      ("verify", "--", "--y"), ("plan", "--")):
            done = self.sepal(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)

    def test_a_seed_is_decimal_or_hexadecimal(self):
        for text, seed in {"16": 16, "0x10": 16, "010": 10, "0": 0, "0xFFFFFFFFFFFFFFFF": COUNT_MAX, str(COUNT_MAX): COUNT_MAX}.items():
            done = self.sepal("build", "-o", "out.sepal", "--seed", text, input="a\n")
            self.assertIn("seed    %d\n" % seed, done.stdout, text)

    def test_quiet_prints_errors_and_nothing_else(self):
        for words in (("build", "-o", "a.sepal", "--quiet", "--seed", "7"), ("build", "-o", "b.sepal", "-q", "--seed", "7"),
                      ("merge", "a.sepal", "b.sepal", "-o", "c.sepal", "--quiet")):
            done = self.sepal(*words, input="a\nb\n")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), words)
        refused = self.sepal("build", "no-such-file", "-o", "a.sepal", "--quiet")
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("no-such-file", refused.stderr)

    def test_no_line_ends_with_blanks(self):
        for words in (("plan",), ("--help",), *((command, "--help") for command in COMMANDS)):
            self.assertNotRegex(self.sepal(*words).stdout, r" \n", words)
