"""Reads the code blocks of a document, and runs their commands as a reader would type them."""

import contextlib
import errno
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

from daemon import Daemon

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTED_PORT = "6379"
SECONDS_MAX = 300
# Kinds of blocks with programs of clients. They stand in docs/clients.md, and tests/clients/ runs them.
CLIENT_KINDS = ("c", "go", "js", "lua", "perl", "php", "ruby")
KINDS = ("console", "sh", "redis", "toml", "python", "bash", "yaml", "dockerfile", "ini", "text", *CLIENT_KINDS)
# Kinds of blocks that show a part of a file of the tree, and the folders of these files.
EXCERPTS = {"python": "examples", "bash": "examples", "yaml": "docker", "dockerfile": "docker", "ini": "config"}

PROMPT = re.compile(r"127\.0\.0\.1:%s(?:\[\d+\])?> (.*)" % DOCUMENTED_PORT)
# A line that begins like this is a command line, and must not hide in a block that is not run.
COMMAND = re.compile(r"\s*(?:#   )?(?:\$ |127\.0\.0\.1:\d+|(?:sudo |[A-Z_]+=\S* )*(?:(?:\./)?(?:scripts|benchmarks|examples|build)/|"
                     r"(?:sepald?|redis-cli|redis-server|docker|podman|apt|apt-get|systemctl|git|curl|pip|ctest|cmake|seq)\b[^.,:;]))")
FENCE = re.compile(r"^ {0,3}(```+|~~~+)(.*)$")


class Block:
    """A block of a document: its kind, its lines, and its place."""

    def __init__(self, document, line, kind, lines):
        self.document, self.line, self.kind, self.lines = document, line, kind, lines

    @property
    def place(self):
        return "%s:%d" % (self.document, self.line)

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)


def read_blocks(document, text):
    """The blocks, and what is wrong with the document's form: one sentence each."""
    blocks, problems = [], []
    fence, block, before = None, None, ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if block is not None:
            if mark and mark.group(1).startswith(fence) and not mark.group(2).strip():
                blocks.append(block)
                block = None
            else:
                block.lines.append(line)
        elif mark:
            fence = mark.group(1)
            block = Block(document, number, mark.group(2).strip(), [])
            if block.kind not in KINDS:
                problems.append("%s: a block of the unknown kind %r; known are %s" % (block.place, block.kind, ", ".join(KINDS)))
        elif re.match(r"(    |\t)\s*\S", line) and not before.strip():
            problems.append("%s:%d: an indented block; put it between ```KIND and ```" % (document, number))
        before = line
    if block is not None:
        problems.append("%s: a block that does not end" % block.place)
    problems += ["%s: a command line in a block of kind text, which is not run: %s" % (block.place, line)
                 for block in blocks if block.kind == "text" for line in block.lines if COMMAND.match(line)]
    return blocks, problems


def read_comments(document, text):
    """The command lines in comments. They are indented by three blanks; after two blanks comes an explanation."""
    blocks = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#   ") and COMMAND.match(line):
            blocks.append(Block(document, number, "sh", [re.split(r"\s{2,}", line[4:])[0]]))
    return blocks


def split_steps(block, is_command):
    """(command, lines shown under it) of a transcript. `is_command` gives the command of a line, or None."""
    steps = []
    for line in block.lines:
        command = is_command(line)
        if command is not None:
            steps.append((command, []))
        elif steps and not steps[-1][1] and steps[-1][0].endswith("\\"):
            steps[-1] = (steps[-1][0] + "\n" + line, [])
        elif steps:
            steps[-1][1].append(line)
        else:
            raise AssertionError("%s: the block begins with no command: %s" % (block.place, line))
    return [(command, shown[:-1] if shown and not shown[-1].strip() else shown) for command, shown in steps]


def shell_command(line):
    return line[2:] if line.startswith("$ ") else None


def redis_command(line):
    found = PROMPT.fullmatch(line)
    return found.group(1) if found else None


def matches(shown, printed, varying):
    """Whether `printed` is what a document shows. A line of three dots stands for any lines. `varying` has the patterns
    of lines that differ from run to run."""
    def pattern(line):
        if line == "...":
            return r"(?:.*\n)*?"
        return (varying[line] if line in varying else re.escape(line)) + r"\n"
    lines = "".join(line.rstrip() + "\n" for line in printed)
    return re.fullmatch("".join(pattern(line.rstrip()) for line in shown), lines) is not None


class Reader:
    """Follows one document from its top. It has a scratch folder that looks like the tree, and a sepald whose data is in
    `data` there. A free port replaces the document's port 6379."""

    def __init__(self, arguments=()):
        self.folder = tempfile.mkdtemp(prefix="sepal-document-")
        for name in ("benchmarks", "config", "docker", "docs", "examples", "scripts", "tests"):
            os.symlink(ROOT / name, os.path.join(self.folder, name))
        self.bin = os.path.join(self.folder, "build", "release")
        os.makedirs(self.bin)
        if "SEPAL_MODULE" in os.environ:
            os.symlink(os.environ["SEPAL_MODULE"], os.path.join(self.bin, "sepal.so"))
        self.daemon = Daemon(os.path.join(self.folder, "data"), *arguments)
        port = self.daemon.port
        self.environment = dict(os.environ, HOME=self.folder, SEPAL_HOST="127.0.0.1", SEPAL_PORT=str(port),
                                PATH=self.bin + os.pathsep + os.environ["PATH"], TERM="dumb")
        self.write("sepal", 'exec "%s" "$@"' % os.environ["SEPAL"])
        self.write("sepald", 'exec "%s" "%s" "$@"' % (sys.executable, pathlib.Path(__file__).with_name("brief_sepald.py")))
        self.write("python3", 'exec "%s" "$@"' % sys.executable)
        self.write("redis-cli", 'exec "%s" -p %d $REDIS_CLI_OPTIONS "$@"' % (shutil.which("redis-cli"), port))

    def close(self):
        self.daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, line):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + line + "\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run(self, words, typed=""):
        """The exit status and the lines that a terminal would show."""
        port = str(self.daemon.port)
        status, text = run_on_terminal([word.replace(DOCUMENTED_PORT, port) for word in words],
                                       typed.replace(DOCUMENTED_PORT, port), cwd=self.folder, env=self.environment)
        # The same digits may be a part of another number.
        return status, re.sub(r"(?<!\d)%s(?!\d)" % port, DOCUMENTED_PORT, text).splitlines()

    def shell(self, script):
        return self.run(["bash", "-o", "pipefail", "-c", script])

    def shell_steps(self, commands):
        """[(exit status, lines)] of commands that one shell runs. A command that `shows` nothing must get no error reply."""
        mark = "end-of-step"
        script = "".join("export REDIS_CLI_OPTIONS=%s\n%s\nprintf '\\n%s %%d\\n' $?\n" % ("" if shows else "-e", command, mark)
                         for command, shows in commands)
        _, lines = self.shell(script)
        steps, printed = [], []
        for line in lines:
            if line.startswith(mark + " "):
                # The mark adds a line feed of its own.
                steps.append((int(line.split()[1]), printed[:-1] if printed and printed[-1] == "" else printed))
                printed = []
            else:
                printed.append(line)
        return steps + [("no exit status", printed)] * (len(commands) - len(steps))

    def redis_steps(self, commands):
        """The lines that redis-cli, started once, shows for each command."""
        marks = ["end-of-step-%d" % number for number in range(len(commands))]
        typed = "".join("%s\nECHO %s\n" % step for step in zip(commands, marks))
        _, lines = self.run([os.path.join(self.bin, "redis-cli")], typed)
        # redis-cli prints how long it waited if that was long.
        lines = [line for line in lines if not re.fullmatch(r"\(\d+\.\d+s\)", line)]
        steps = []
        for mark in marks:
            end = lines.index('"%s"' % mark) if '"%s"' % mark in lines else len(lines)
            steps.append(lines[:end])
            lines = lines[end + 1:]
        return steps


def run_on_terminal(words, typed, **options):
    """The exit status and what the program writes to a terminal, until it ends. It reads `typed` from a file."""
    master, slave = pty.openpty()
    with tempfile.TemporaryFile() as keyboard, os.fdopen(master, "rb", buffering=0) as terminal:
        keyboard.write(typed.encode())
        keyboard.seek(0)
        process = subprocess.Popen(words, stdin=keyboard, stdout=slave, stderr=slave, start_new_session=True, **options)
        os.close(slave)
        try:
            data = read_until_end(process, terminal)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = data.decode(errors="replace").replace("\r\n", "\n").split("\n")
    # After a carriage return the line begins again.
    return process.returncode, "\n".join(line.rpartition("\r")[2] for line in lines)


def read_until_end(process, terminal):
    """The output of `process`. A background process that outlives it is not waited for."""
    data = b""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        if not select.select([terminal], [], [], 0 if ended else 0.1)[0]:
            if ended:
                return data
            continue
        try:
            piece = terminal.read(65536)
        except OSError as error:
            # This is the end of a terminal on Linux.
            if error.errno != errno.EIO:
                raise
            process.wait(SECONDS_MAX)
            return data
        data += piece
    raise AssertionError("no end within %d s; so far: %s" % (SECONDS_MAX, data.decode(errors="replace")))
