"""Builds the tree in a root of Debian 13, and makes the package there: a package is for the release that it is made on."""

import os
import shlex
import shutil
import subprocess

import systems

RELEASE = "trixie"
# Small tests of what another compiler and other libraries may change.
PROGRAMS = ("unit_base", "unit_resp", "unit_value", "golden_formats")
# What scripts/install-dependencies --tests would install for these alone, and a cache of compiled sources.
TEST_PACKAGES = ("catch2", "librapidcheck-dev", "liblzf-dev", "python3", "ccache")
OUTPUT = systems.BUILD / "packages" / ("build-" + RELEASE)


def run(root, command, version=None):
    """Runs a line of the shell in the root, with the tree in /sepal. Its folder `build` is OUTPUT."""
    mounts = ["mount --rbind /proc %s/proc" % root, "mount --bind %s %s/sepal" % (systems.ROOT, root),
              "mount --bind %s %s/sepal/build" % (OUTPUT, root)]
    # Compilers of both releases may share a cache: it tells them apart.
    if shutil.which("ccache"):
        cache = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=True).stdout.strip()
        os.makedirs(cache, exist_ok=True)
        os.makedirs("%s/ccache" % root, exist_ok=True)
        mounts.append("mount --bind %s %s/ccache" % (cache, root))
    words = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "CCACHE_DIR=/ccache",
             *(["SEPAL_PACKAGE_VERSION=" + version] if version else []), "bash", "-ec", "cd /sepal; " + command]
    return systems.run("unshare", "--mount", "sh", "-ec", "; ".join([*mounts, "exec chroot %s %s" % (root, shlex.join(words))]), timeout=1800)


def make_builder(root):
    """The base, and what the build needs, as scripts/install-dependencies knows it."""
    unfinished = root.with_name(root.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    systems.unpack(unfinished, systems.base(RELEASE))
    (unfinished / "sepal").mkdir()
    run(unfinished, "scripts/install-dependencies --debian; apt-get -q install -y --no-install-recommends %s; apt-get clean" % " ".join(TEST_PACKAGES))
    unfinished.rename(root)


def builder():
    """A root with the programs built in OUTPUT, and tested. It stays in the build folder, and the next run compiles what changed."""
    if systems.release() == RELEASE:
        systems.skip("this machine has " + RELEASE)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    root = systems.kept("root-" + RELEASE, make_builder)
    run(root, "scripts/install-dependencies --debian")  # a root that is kept may be older than the list
    # With less optimisation: what this release's compiler and libraries accept is asked, not how fast it is.
    run(root, "cmake --preset release -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSEPAL_TESTS=ON -DSEPAL_BENCHMARKS=OFF '-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache'")
    run(root, "cmake --build build/release --parallel $(nproc) --target installed " + " ".join(PROGRAMS))
    for program in PROGRAMS:
        run(root, "build/release/" + program)
    return root


def package(root, version=None):
    """The package of what builder() has built, as scripts/package makes it there."""
    printed = run(root, "scripts/package --as-built build/package", version)
    return OUTPUT / "package" / printed.split()[-1].rsplit("/", 1)[-1]
