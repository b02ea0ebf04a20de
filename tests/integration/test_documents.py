"""Runs every command line that README.md, docs/, config/ and docker/ show, from the document's own text, and compares its
output with the lines that the document shows under it.

How to write a block. Each is fenced, and its first line names its kind:

    console     `$ COMMAND`, and under it exactly what the command prints. A line `...` stands for any lines. If the block
                shows nothing under a command, its output is ignored. Each command must succeed; show a failure as
                `$ COMMAND; echo $?`. One shell runs the block, so `cd` and variables hold.
    sh          a shell script without prompts, run as a whole. Each command must succeed.
    redis       the screen of redis-cli: `127.0.0.1:6379> COMMAND`, and under it exactly the reply. `$ redis-cli` may be
                the first line. redis-cli has no comments: put them into the text around the block.
    toml        a configuration that `sepald --check-config` accepts.
    python      a part of a program in examples/, or a program that can be run unchanged.
    bash, yaml, dockerfile, ini
                a part of a file in examples/, docker/, docker/ and config/.
    text        none of these: a drawing, a layout of bytes. It may not have a command line.
    c, go, js, lua, perl, php, ruby
                in docs/clients.md only: a program that its client's test in tests/clients/ runs, and the block of kind text
                behind it, what the program prints. A block of kind python is such a program there.

A block of another kind fails the test, and so does an indented block. In config/ and docker/ the command lines are the
comments `#   COMMAND  what it does`. The test follows a document from its top. All its blocks share one server on port 6379
(a free port replaces it), whose data is in ./data, and one folder that looks like the root of the tree. Commands in the
text, `like this`, are not run, but their flags must be in the program's --help, and the files that they name must exist.

Below, NOT_RUN lists command lines that a test cannot run, VARYING output that varies, and PREPARED what a document needs
before its first command.
"""

import getpass
import os
import pathlib
import re
import subprocess
import sys
import unittest

import documents
from certificates import Authority
from documents import CLIENT_KINDS, EXCERPTS, ROOT, Reader

sys.path.append(str(ROOT / "tests" / "clients"))
from programs import PROGRAMS

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"),
                    *(file for folder in ("benchmarks", "config", "docker", "examples", "scripts")
                      for file in (ROOT / folder).rglob("*.md"))])
# Files whose comments show command lines.
COMMENTED = sorted(file for folder in ("config", "docker") for file in (ROOT / folder).iterdir() if file.is_file())

# What the build with sanitizers lacks.
OF_MODULE = ("docs/server-module.md", "docs/guides/more-than-one-machine.md")

# The document whose programs tests/clients/ runs.
OF_CLIENTS = "docs/clients.md"

# Line of a document: the reason why it is not run.
NOT_RUN = {
    "./scripts/run": "installs packages, builds, and serves until it is ended",
    "./scripts/test": "builds everything and runs all tests, this one among them",
    "scripts/build --benchmarks release": "builds everything",
    "benchmarks/run --json docs/performance.json  # ten minutes, on a machine that does nothing else":
        "takes ten minutes and a quiet machine",
    "benchmarks/plot docs/performance.json docs/plots --document docs/performance.md":
        "writes into the tree; a test of the benchmarks runs it with --check",
    "prometheus-redis-exporter -redis.addr redis://127.0.0.1:6379 -web.listen-address 127.0.0.1:9121":
        "serves until it is ended; its test in tests/clients/ runs it",
    "redis-commander --address 127.0.0.1 --port 8081 --redis-host 127.0.0.1 --redis-port 6379 --nosave":
        "serves until it is ended; its test in tests/clients/ runs it",
    "docker build -f docker/Dockerfile -t sepal .": "needs Docker and a network",
    "docker run -p 127.0.0.1:6379:6379 -v sepal:/data --read-only sepal --maxmemory 1gb --requirepass secret":
        "needs Docker and a network",
    "docker compose -f docker/docker-compose.yml up": "needs Docker and a network",
    "docker compose -f docker/cluster-compose.yml up": "needs Docker; a test in tests/packages/ makes the same cluster of the image",
    "docker compose -f docker/cluster-compose.yml exec node-1 redis-cli -c BF.ADD users alice": "needs Docker",
    "docker build -f docker/Dockerfile --target redis -t sepal-redis .": "needs Docker and a network",
    "docker run -p 127.0.0.1:6379:6379 -v redis:/data --read-only sepal-redis --maxmemory 1gb --requirepass secret":
        "needs Docker and a network",
    "scripts/package": "builds everything; a test in tests/packages/ installs what it makes",
    "apt install ./build/package/sepal_*.deb": "installs a package; a test in tests/packages/ does so in a system of its own",
    "systemctl enable --now sepal-backup@sepald.timer": "needs systemd; test_install.py checks the units",
    "systemctl list-timers 'sepal-backup@*'": "needs systemd",
    "install -m 640 -g sepal /etc/sepal/sepald.toml /etc/sepal/sessions.toml": "needs the package",
    "editor /etc/sepal/sessions.toml": "waits for a person",
    "systemctl enable --now sepald@sessions": "needs systemd; test_install.py checks the units"
}

# Line of a document: the pattern of the output.
VARYING = {
    "moved to the cluster; 10500 items were added meanwhile": r"moved to the cluster; \d+ items were added meanwhile",
    "moved to sepald; 9000 items were added meanwhile": r"moved to sepald; \d+ items were added meanwhile",
    "20500 items were added, 0 are denied": r"\d+ items were added, 0 are denied",
    "100000 users in 64 parts on 3 masters: 0 denied, 98 of 100000 others called known":
        r"100000 users in 64 parts on 3 masters: 0 denied, \d+ of 100000 others called known",
    "with a filter: 20000 look-ups of missing names, 7 queries":
        r"with a filter: 20000 look-ups of missing names, \d+ queries",
    "5000 look-ups of freed numbers, 4 queries": r"5000 look-ups of freed numbers, \d+ queries",
    "375 deliveries of 300 messages, 30 consumers killed: nothing lost, nothing done twice":
        r"\d+ deliveries of 300 messages, 30 consumers killed: nothing lost, nothing done twice",
    "200 rebuilds while 1720 users were added: none denied": r"200 rebuilds while \d+ users were added: none denied",
    "a union that is too full was refused: the union would err at 0.0852, more than 0.01: it has about 18000 different items, and room for 10000":
        r"a union that is too full was refused: the union would err at 0\.\d+, more than 0\.01: it has about 1\d+ different "
        r"items, and room for 10000",
    # A new item may be a false positive.
    "300 new messages: 0 queries": r"300 new messages: \d queries",
    "of 2000 deleted users, 0 are still found": r"of 2000 deleted users, \d are still found",
    "users: 5002 items of 7000 in 1 layer(s), none denied": r"users: (499\d|500[0-2]) items of 7000 in 1 layer\(s\), none denied",
    "seen: 3000 items of 10000 in 1 layer(s), none denied": r"seen: (299\d|3000) items of 10000 in 1 layer\(s\), none denied",
}

# Document: a shell script that makes the files for its commands.
PREPARED = {
    "docs/guides/moving-from-redisbloom.md":
        "cp tests/golden/redis_files/rdb.rdb dump.rdb; cp -r tests/golden/redis_files/preamble appendonlydir; : > appendonlydir/appendonly.aof.2.incr.aof",
    "docs/operations/move.md": "seq 1000 > users.txt; seq 500 2000 | gzip > more-users.txt.gz",
}

# The folder of the settings where sepald is installed.
OF_INSTALLED = "/etc/sepal/"

# Programs whose flags are compared with their --help.
PROGRAM = re.compile(r"(?:\./)?((?:build/release/)?sepald|(?:build/release/)?sepal(?: [a-z]+)?|(?:scripts|benchmarks)/[a-z-]+)(?= |$)")
# Text like `docs/formats.md`, and `benchmarks/accuracy` for a program that is built from benchmarks/accuracy.cpp.
TREE_PATH = re.compile(r"(?:\./)?((?:benchmarks|docker|docs|examples|include|scripts|src|tests)/[^\s`*<>]*|config/\S+\.\w+)$")


def name_of(path):
    return str(path.relative_to(ROOT))


def read(path):
    return path.read_text(encoding="utf-8")


def squeezed(line):
    return re.sub(r"\s+#", "  #", line.strip())


def runnable(block):
    """The lines of a block that are not in NOT_RUN, if this test runs the block."""
    if block.document == OF_CLIENTS and block.kind in ("python", *CLIENT_KINDS):
        return []
    return [line for line in block.lines if squeezed(line) not in NOT_RUN]


class DocumentTest(unittest.TestCase):
    def follow(self, document, blocks):
        if document in OF_MODULE and "SEPAL_MODULE" not in os.environ:
            self.skipTest("there is no sepal.so")
        if all(block.kind == "text" or block.kind in EXCERPTS and self.is_excerpt(block) or not runnable(block)
               for block in blocks):
            return
        reader = Reader()
        self.addCleanup(reader.close)
        status, printed = reader.shell(PREPARED.get(document, ":"))
        self.assertEqual(status, 0, printed)
        for block in blocks:
            with self.subTest(block.place):
                getattr(self, "run_" + block.kind)(reader, block)

    def run_client(self, _, block):
        self.assertEqual(runnable(block), [], "%s: programs of this kind stand in %s" % (block.place, OF_CLIENTS))

    run_c = run_go = run_js = run_lua = run_perl = run_php = run_ruby = run_client

    def run_console(self, reader, block):
        steps = documents.split_steps(block, documents.shell_command)
        steps = [step for step in steps if squeezed(step[0]) not in NOT_RUN]
        done = reader.shell_steps([(command, bool(shown)) for command, shown in steps])
        for (command, shown), (status, printed) in zip(steps, done):
            self.assertEqual(status, 0, "\n".join(["%s: $ %s" % (block.place, command), *printed]))
            if shown:
                self.assert_shown(block, command, shown, printed)

    def run_sh(self, reader, block):
        status, printed = reader.shell("set -e\nexport REDIS_CLI_OPTIONS=-e\n" + "\n".join(runnable(block)))
        self.assertEqual(status, 0, "\n".join([block.place, *block.lines, *printed]))

    def run_redis(self, reader, block):
        if block.lines[:1] == ["$ redis-cli"]:
            block.lines = block.lines[1:]
        steps = documents.split_steps(block, documents.redis_command)
        done = reader.redis_steps([command for command, _ in steps])
        for (command, shown), printed in zip(steps, done):
            self.assert_shown(block, command, shown, printed)

    def run_toml(self, reader, block):
        path = pathlib.Path(reader.folder, "shown.toml")
        # The check looks for the user and reads the files, which this machine has elsewhere.
        text = block.text.replace('user = "sepal"', 'user = "%s"' % getpass.getuser())
        if OF_INSTALLED in text:
            text = text.replace(OF_INSTALLED, self.make_installed(reader.folder))
        path.write_text(text, encoding="utf-8")
        status, printed = reader.run(["sepald", "--config", str(path), "--check-config"])
        self.assertEqual(status, 0, "\n".join([block.place, *printed]))

    @staticmethod
    def make_installed(folder):
        """The files of OF_INSTALLED that documents name. Returns their folder, with a slash."""
        installed = pathlib.Path(folder, "installed")
        if not installed.exists():
            pathlib.Path(installed, "users").mkdir(parents=True)
            pathlib.Path(installed, "users", "users.acl").write_text("")
            Authority(str(installed)).sign("server")
        return str(installed) + "/"

    def run_python(self, reader, block):
        if runnable(block) and not self.is_excerpt(block):
            status, printed = reader.run(["python3", "-c", block.text])
            self.assertEqual(status, 0, "\n".join(["%s: no part of an example, and as a program:" % block.place, *printed]))

    def run_excerpt(self, _, block):
        self.assertTrue(self.is_excerpt(block), "%s: no part of a file in %s/:\n%s" % (block.place, EXCERPTS[block.kind], block.text))

    run_bash = run_yaml = run_dockerfile = run_ini = run_excerpt

    def run_text(self, reader, block):
        pass

    @staticmethod
    def is_excerpt(block):
        return any(block.text in read(file) for file in (ROOT / EXCERPTS[block.kind]).rglob("*") if file.is_file())

    def assert_shown(self, block, command, shown, printed):
        if not documents.matches(shown, printed, VARYING):
            self.assertEqual(shown, printed, "%s: %s" % (block.place, command))


def add_tests():
    """A test for each document, so that a failure names it."""
    for path in DOCUMENTS:
        def follow(self, path=path):
            blocks, problems = documents.read_blocks(name_of(path), read(path))
            self.assertEqual(problems, [], "the head of this test says how blocks are written")
            self.follow(name_of(path), blocks)
        setattr(DocumentTest, "test_" + re.sub(r"\W", "_", name_of(path)), follow)
    for path in COMMENTED:
        def follow_comments(self, path=path):
            self.follow(name_of(path), documents.read_comments(name_of(path), read(path)))
        setattr(DocumentTest, "test_" + re.sub(r"\W", "_", name_of(path)), follow_comments)


add_tests()


class TextTest(unittest.TestCase):
    """Checks the text between the blocks."""

    helps = {}

    def help_of(self, program):
        if program not in self.helps:
            words = program.removeprefix("build/release/").split()
            built = {"sepal": os.environ["SEPAL"], "sepald": os.environ["SEPALD"]}
            words[0] = built.get(words[0], str(ROOT / words[0]))
            done = subprocess.run([*words, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, "%s --help: %s" % (program, done.stderr))
            self.helps[program] = done.stdout
        return self.helps[program]

    @staticmethod
    def spans(path):
        """The `code` in the text of a document, and its command lines."""
        blocks, _ = documents.read_blocks(name_of(path), read(path))
        prose = re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S)
        commands = [line.removeprefix("$ ") for block in blocks if block.kind in ("console", "sh") for line in block.lines]
        return re.findall(r"`([^`\n]+)`", prose) + commands

    def test_the_flags_that_are_named_are_there(self):
        for path in DOCUMENTS:
            for span in self.spans(path):
                found = PROGRAM.match(span)
                if not found:
                    continue
                own, _, handed_on = span[found.end():].split(" | ")[0].split("  #")[0].partition(" -- ")
                for program, flags in ((found.group(1), own), ("sepald", handed_on)):
                    for flag in re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", flags):
                        with self.subTest(document=name_of(path), span=span):
                            self.assertRegex(self.help_of(program), r"(?<![\w-])%s(?![\w-])" % re.escape(flag))

    def test_the_files_that_are_named_are_there(self):
        for path in DOCUMENTS:
            for span in self.spans(path):
                found = TREE_PATH.match(span)
                if found:
                    with self.subTest(document=name_of(path), span=span):
                        self.assertTrue((ROOT / found.group(1)).exists() or (ROOT / (found.group(1) + ".cpp")).exists())

    def test_what_a_document_links_to_is_there(self):
        for path in DOCUMENTS:
            for target in re.findall(r"\]\(([^)\s]+)\)", read(path)):
                if re.match(r"[a-z]+:", target):
                    continue
                with self.subTest(document=name_of(path), target=target):
                    file, _, anchor = target.partition("#")
                    file = path.parent / file if file else path
                    self.assertTrue(file.exists(), target)
                    if anchor:
                        self.assertIn(anchor, anchors(read(file)))

    def test_every_page_is_in_the_index(self):
        index = read(ROOT / "docs" / "README.md")
        pages = sorted((ROOT / "docs").rglob("*.md"))
        missing = [name_of(page) for page in pages
                   if page.name != "README.md" and "(%s)" % page.relative_to(ROOT / "docs") not in index]
        self.assertEqual(missing, [])

    def test_every_program_of_a_client_is_run_by_the_test_of_that_client(self):
        shown = set()
        heading = None
        blocks = {block.line: block.kind for block in documents.read_blocks(OF_CLIENTS, read(ROOT / OF_CLIENTS))[0]}
        for number, line in enumerate(read(ROOT / OF_CLIENTS).splitlines(), 1):
            if line.startswith("## "):
                heading = line[3:]
            if blocks.get(number) in ("python", *CLIENT_KINDS):
                self.assertNotIn(heading, [section for section, _ in shown], "a section has one program")
                shown.add((heading, blocks[number]))
        self.assertEqual(shown, {(program.section, program.kind) for program in PROGRAMS.values()})

    def test_every_guide_is_in_the_readme_and_every_example_in_a_guide(self):
        readme = read(ROOT / "README.md")
        guides = sorted((ROOT / "docs" / "guides").glob("*.md"))
        for guide in guides:
            self.assertIn(name_of(guide), readme)
        told = "".join(map(read, guides))
        for example in sorted((ROOT / "examples").iterdir()):
            self.assertIn(name_of(example), told)


def anchors(text):
    """The names that headings get on a page."""
    headings = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


class ListsTest(unittest.TestCase):
    """Every line in the lists above occurs in a document."""

    def lines(self):
        lines = set()
        for path in DOCUMENTS:
            for block in documents.read_blocks(name_of(path), read(path))[0]:
                lines.update(squeezed(documents.shell_command(line) or line) for line in block.lines)
        for path in COMMENTED:
            for block in documents.read_comments(name_of(path), read(path)):
                lines.update(map(squeezed, block.lines))
        return lines

    def test_every_line_of_the_lists_occurs(self):
        lines = self.lines()
        self.assertEqual([line for line in [*NOT_RUN, *VARYING] if line not in lines], [])
        self.assertEqual([name for name in PREPARED if not (ROOT / name).exists()], [])


class FormTest(unittest.TestCase):
    """A block of a wrong form is noticed."""

    def problems(self, *lines):
        return documents.read_blocks("a.md", "\n".join(lines) + "\n")[1]

    def test_known_kinds_and_lists_are_fine(self):
        self.assertEqual(self.problems("Text", "", "```console", "$ ls", "```", "", "- one", "  goes on", "  - deeper"), [])

    def test_an_unknown_kind_is_reported(self):
        self.assertRegex(self.problems("```", "ls", "```")[0], "^a.md:1: a block of the unknown kind ''")
        self.assertRegex(self.problems("", "```shell", "ls", "```")[0], "^a.md:2: a block of the unknown kind 'shell'")

    def test_an_indented_block_is_reported(self):
        self.assertRegex(self.problems("Run:", "", "    $ ls")[0], "^a.md:3: an indented block")

    def test_a_block_without_an_end_is_reported(self):
        self.assertRegex(self.problems("```sh", "ls")[0], "^a.md:1: a block that does not end")

    def test_a_command_in_a_block_that_is_not_run_is_reported(self):
        for line in ("$ ls", "127.0.0.1:6379> PING", "./scripts/run", "sepal plan --error 1", "sudo apt install x",
                     "redis-cli PING", "A=1 sepald --port 0", "docker run sepal"):
            self.assertRegex(self.problems("```text", line, "```")[0], "^a.md:1: a command line in a block of kind text")
        for line in ("sepal: a tool", "state = 0", "    filter-7-0 ...", "SEPAL-SEED 1 9e37"):
            self.assertEqual(self.problems("```text", line, "```"), [])

    def test_a_transcript_is_compared_exactly_except_dots_and_varying_lines(self):
        self.assertTrue(documents.matches(["a.b", "OK"], ["a.b", "OK"], {}))
        self.assertFalse(documents.matches(["a.b"], ["axb"], {}))
        self.assertFalse(documents.matches(["OK"], ["OK", "more"], {}))
        self.assertFalse(documents.matches([], ["OK"], {}))
        self.assertTrue(documents.matches(["a", "...", "z"], ["a", "b", "c", "z"], {}))
        self.assertFalse(documents.matches(["a", "...", "z"], ["a", "b", "c"], {}))
        self.assertTrue(documents.matches(["7 queries"], ["9 queries"], {"7 queries": r"\d queries"}))


class ReaderTest(unittest.TestCase):
    """A wrong document is noticed."""

    def follow(self, *lines):
        """The failures of a document."""
        blocks, problems = documents.read_blocks("a.md", "\n".join(lines) + "\n")
        self.assertEqual(problems, [])
        result = unittest.TestResult()

        class Followed(DocumentTest):
            def runTest(self):
                self.follow("a.md", blocks)

        Followed().run(result)
        return [text for _, text in result.failures + result.errors]

    def test_a_number_that_has_the_digits_of_the_port_is_shown_as_it_is(self):
        reader = documents.Reader()
        self.addCleanup(reader.close)
        port = str(reader.daemon.port)
        printed = reader.run(["sh", "-c", "echo 1%s %s0 127.0.0.1:%s" % (port, port, port)])
        self.assertEqual(printed, (0, ["1%s %s0 127.0.0.1:6379" % (port, port)]))

    def test_a_right_document_passes(self):
        self.assertEqual(self.follow(
            "```redis", "$ redis-cli", "127.0.0.1:6379> BF.MADD seen a b", "1) (integer) 1", "2) (integer) 1",
            "127.0.0.1:6379> SELECT 1", "OK", "127.0.0.1:6379[1]> DBSIZE", "(integer) 0", "```",
            "```console", "$ redis-cli -p 6379 BF.EXISTS seen a     # in another shell", "(integer) 1", "$ cd data",
            "$ ls \\", "  LOCK", "LOCK", "$ seq 9", "1", "...", "9", "$ printf 'no line feed'", "no line feed", "$ false; echo $?", "1", "```",
            "```sh", "# sepald again", "sepald --port 6379", "build/release/sepal plan >/dev/null", "```",
            "```toml", "port = 6379", "```",
            "```python", "import redis", "assert redis.Redis(port=6379).ping()", "```"), [])

    def assert_fails(self, *lines):
        self.assertEqual(len(self.follow(*lines)), 1)

    def test_a_comment_for_redis_cli_is_noticed(self):
        self.assert_fails("```redis", "127.0.0.1:6379> BF.ADD users alice    # 1: new", "(integer) 1", "```")

    def test_a_wrong_reply_is_noticed(self):
        self.assert_fails("```redis", "127.0.0.1:6379> PING", "OK", "```")
        self.assert_fails("```console", "$ redis-cli PING", "OK", "```")

    def test_a_missing_reply_is_noticed(self):
        self.assert_fails("```redis", "127.0.0.1:6379> PING", "```")

    def test_a_command_that_fails_is_noticed(self):
        for line in ("false", "redis-cli BF.EXISTS", "sepald --no-such-flag", "sepal no-such-command", "false | true"):
            self.assert_fails("```console", "$ " + line, "$ true", "```")
            self.assert_fails("```sh", line, "true", "```")

    def test_a_wrong_configuration_and_a_wrong_program_are_noticed(self):
        self.assert_fails("```toml", "prot = 6379", "```")
        self.assert_fails("```python", "import redis", "redis.Redis(port=6379).no_such_method()", "```")
        self.assert_fails("```yaml", "no: part of a file", "```")
        self.assert_fails("```ruby", "puts 1", "```")
