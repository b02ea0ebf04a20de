"""Runs a program in the system that a folder holds: inside.py [--read-only] [--data FOLDER] ROOT USER PROGRAM [ARGUMENT...]

The program has the mounts of a container: /proc, and with --data a folder of the machine as /data. With --read-only it can
write nowhere else. USER is a name or a number in that system. The process becomes the program, so signals reach it.
"""

import argparse
import os
import subprocess
import sys


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--data")
    parser.add_argument("--private", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("root")
    parser.add_argument("user")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.private:
        # The mounts are this process's own, and are gone with it.
        os.execvp("unshare", ["unshare", "--mount", sys.executable, __file__, "--private", *sys.argv[1:]])
    mount("--bind", arguments.root, arguments.root)
    if arguments.read_only:
        mount("-o", "remount,bind,ro", arguments.root)
    mount("--rbind", "/proc", arguments.root + "/proc")
    if arguments.data:
        mount("--bind", arguments.data, arguments.root + "/data")
    # The path as it is in the new system, and no variable of this one but the password.
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    if "SEPAL_REQUIREPASS" in os.environ:
        environment["SEPAL_REQUIREPASS"] = os.environ["SEPAL_REQUIREPASS"]
    os.execvpe("chroot", ["chroot", "--userspec=" + arguments.user, arguments.root, *arguments.words], environment)


if __name__ == "__main__":
    main()
