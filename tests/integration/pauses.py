"""Random pauses. They find tests that pass only on a quick machine, and faults that need a slow thread.

With SEPAL_PAUSES=1, clients wait before some of their requests. For each daemon, a second process stops one thread at a
time, for a while, and the other threads go on. It uses ptrace(2): where that is not allowed, only the clients pause. With
AddressSanitizer it does not work, because the search for leaks uses ptrace(2) too."""

import ctypes
import os
import random
import subprocess
import sys
import time

WANTED = bool(os.environ.get("SEPAL_PAUSES"))
SHARE_OF_REQUESTS = 0.1
CLIENT_PAUSES_MAX = 25
PAUSE_SECONDS_MAX = 2.5

PTRACE_DETACH = 17
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
ALL_THREADS = 0x40000000  # __WALL

_client_pauses = 0


def pause_seconds():
    """Most pauses are short."""
    return min(random.expovariate(5), PAUSE_SECONDS_MAX)


def before_request():
    global _client_pauses
    if WANTED and _client_pauses < CLIENT_PAUSES_MAX and random.random() < SHARE_OF_REQUESTS:
        _client_pauses += 1
        time.sleep(random.uniform(0, PAUSE_SECONDS_MAX))


def begin(process):
    """Pauses the threads of the process until it ends."""
    if WANTED:
        subprocess.Popen([sys.executable, os.path.abspath(__file__), str(process)], stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, start_new_session=True)


def ptrace(request, thread, data=0):
    return _libc.ptrace(ctypes.c_long(request), ctypes.c_long(thread), ctypes.c_void_p(0), ctypes.c_void_p(data)) == 0


def stop_for(thread, seconds):
    """Stops one thread. Returns early if the thread ends, or if another program traces it."""
    if not ptrace(PTRACE_SEIZE, thread):
        return
    ptrace(PTRACE_INTERRUPT, thread)
    _, status = os.waitpid(thread, ALL_THREADS)
    if not os.WIFSTOPPED(status):
        return
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.02)
        if os.waitpid(thread, ALL_THREADS | os.WNOHANG)[0] != 0:
            return
    # A signal that came in place of the stop is passed on.
    if not ptrace(PTRACE_DETACH, thread, os.WSTOPSIG(status) if status >> 16 == 0 else 0):
        os.waitpid(thread, ALL_THREADS)  # killed just now: until then its parent does not learn of it


def pause_threads(process):
    while True:
        time.sleep(random.uniform(0, 0.3))
        try:
            thread = int(random.choice(os.listdir("/proc/%d/task" % process)))
            stop_for(thread, pause_seconds())
        except (FileNotFoundError, ChildProcessError):
            if not os.path.exists("/proc/%d/task" % process):
                return


if __name__ == "__main__":
    _libc = ctypes.CDLL(None, use_errno=True)
    pause_threads(int(sys.argv[1]))
