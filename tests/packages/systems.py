"""A plain Debian in a folder, for the tests of the package and of the image. Both begin with the same archive of files,
which is made once for a build folder.

A test is skipped (exit status 77, with a line that says why) where the machine cannot do this: it needs root, some programs,
and the package mirror of the machine.
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["SEPALD"]).parent
SKIPPED = 77
SECONDS_MAX = 600
# A server in an image or a root has its own /proc. Tests that start one do so through this program.
INSIDE = pathlib.Path(__file__).with_name("inside.py")


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIPPED)


def require_root_and(*programs):
    if os.geteuid() != 0:
        skip("it needs root, for a root folder of its own")
    for program in programs:
        if not shutil.which(program):
            skip("there is no %s; scripts/install-dependencies --packages installs it" % program)
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        skip("this machine allows no mounts")


def run(*words, **options):
    """Runs a program that must succeed. Returns what it prints."""
    done = subprocess.run([str(word) for word in words], stdin=options.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=options.pop("timeout", SECONDS_MAX), check=False, **options)
    if done.returncode:
        raise AssertionError("%s: exit status %d\n%s" % (" ".join(map(str, words)), done.returncode, done.stdout[-4000:]))
    return done.stdout


def release():
    """The name of the release that the programs are built on, such as bookworm."""
    lines = pathlib.Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line).get("VERSION_CODENAME", "").strip('"')


def base(named=None):
    """The archive of a minimal system, of this release or of another one of Debian, from the mirror that this machine uses.
    Another test that needs it waits."""
    named = named or release()
    return kept("base-%s.tar" % named, lambda archive: make_base(archive, named))


def kept(name, make):
    """A file of the build folder that make(path) makes once."""
    folder = BUILD / "packages"
    folder.mkdir(exist_ok=True)
    path = folder / name
    with open(path.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            make(path)
    return path


def make_base(archive, named):
    targets = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    lines = ["deb " + line.split(" ", 1)[1] for line in sorted(set(targets.splitlines()))
             if line.startswith(("Debian ", "Ubuntu ")) and line.split()[2].startswith(release())]
    if named != release():
        lines = sorted({"deb %s %s %s" % (line.split()[1], named, line.split()[3]) for line in lines if line.split()[2] == release()})
    if not lines:
        skip("this machine has no lists of packages; apt-get update reads them")
    unfinished = archive.with_suffix(".unfinished.tar")
    started = time.monotonic()
    done = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", named, unfinished, "-"], input="\n".join(lines), text=True,
                          capture_output=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        print(done.stderr[-2000:])
        skip("no system could be made from the mirror; the lines above say why")
    unfinished.rename(archive)
    print("a base system was made in %.0f s" % (time.monotonic() - started))


def unpack(folder, archive=None):
    """A system of its own in a new folder. Its apt knows what the mirror has now."""
    archive = archive or base()
    folder.mkdir()
    run("tar", "--extract", "--file", archive, "--directory", folder)
    # By it programs there find the address of the mirror.
    shutil.copy("/etc/resolv.conf", folder / "etc" / "resolv.conf")
    done = subprocess.run(["chroot", folder, "apt-get", "-q", "update"], capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        print(done.stderr[-2000:])
        skip("the package mirror of this machine does not answer")
    return folder


def package(folder, version=None):
    """The package of the programs that are built, as scripts/package makes it."""
    environment = dict(os.environ, **({"SEPAL_PACKAGE_VERSION": version} if version else {}))
    printed = run(ROOT / "scripts" / "package", "--as-built", folder, env=environment)
    return pathlib.Path(printed.split()[-1])


def server_script(path, root, user, *options):
    """Writes a program that runs sepald of the system in `root`, for Daemon. The options are those of inside.py."""
    words = [sys.executable, str(INSIDE), *options, str(root), user, "sepald"]
    path.write_text("#!/bin/sh\nexec %s \"$@\"\n" % " ".join(words), encoding="utf-8")
    path.chmod(0o755)
    return str(path)
