"""The filter that SystemCallFilter= of a unit makes of system calls, without systemd: a call that it denies ends the process with
SIGSYS, as it does in the service."""

import ctypes
import os
import platform
import re
import struct
import subprocess

# The only machine whose header has each number in one line.
MACHINE, AUDIT_ARCH = "x86_64", 0xC000003E
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
# Where a filter finds them in what the kernel hands to it.
NUMBER_AT, ARCHITECTURE_AT = 0, 4


def numbers():
    """{name: number} of all system calls that this machine's headers know, or None."""
    header = next((path for path in HEADERS if os.path.exists(path)), None)
    if platform.machine() != MACHINE or header is None:
        return None
    with open(header, encoding="ascii") as text:
        return {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", text.read(), re.M)}


def calls_of(name, analyze):
    """The calls that a word of SystemCallFilter= stands for. `analyze`: the program systemd-analyze."""
    if not name.startswith("@"):
        return {name}
    done = subprocess.run([analyze, "syscall-filter", "--no-pager", name], capture_output=True, text=True, check=True)
    words = [line.strip() for line in done.stdout.splitlines()[1:]]
    return set().union(*(calls_of(word, analyze) for word in words if word and not word.startswith("#")))


def allowed_calls(unit, analyze):
    """What the lines of the text of a unit allow. The first one makes it a list of what is allowed."""
    lines = re.findall(r"^SystemCallFilter=(~?)(.*)$", unit, re.M)
    if not lines or lines[0][0]:
        raise AssertionError("the first SystemCallFilter= does not say what is allowed: %r" % lines)
    allowed = calls_of("@default", analyze)
    for sign, words in lines:
        calls = set().union(*(calls_of(word, analyze) for word in words.split()))
        allowed = allowed - calls if sign else allowed | calls
    return allowed


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


class Filter:
    """enter() puts the calling process under it, with all that it starts."""

    def __init__(self, allowed):
        known = numbers()
        steps = [(LOAD_WORD, 0, 0, ARCHITECTURE_AT), (JUMP_IF_EQUAL, 1, 0, AUDIT_ARCH), (RETURN, 0, 0, KILL_PROCESS), (LOAD_WORD, 0, 0, NUMBER_AT)]
        for number in sorted(known[name] for name in allowed & set(known)):
            steps += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
        steps.append((RETURN, 0, 0, KILL_PROCESS))
        self._bytes = b"".join(struct.pack("=HBBI", *step) for step in steps)
        self._program = _Program(len(steps), self._bytes)
        self._library = ctypes.CDLL(None, use_errno=True)

    def enter(self):
        for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(self._program), 0, 0)):
            if self._library.prctl(*words) != 0:
                raise OSError(ctypes.get_errno(), "prctl(%d)" % words[0])
