"""The programs of the clients: how each is started, and what the machine must have for it.

Run as a program, it names the clients that this machine cannot test, with the reasons.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent
INSTALLED = FOLDER.parents[1] / "build" / "clients"


@dataclasses.dataclass(frozen=True)
class Program:
    command: tuple          # what starts `client.*` of the folder, without the program's own words
    source: str             # the program's name in its folder
    section: str            # its heading in docs/clients.md
    kind: str               # the kind of its block there
    suffix: str
    packages: tuple = ()    # of Debian
    probe: tuple = ()       # ends with status 0 if the packages are there
    protocols: tuple = (2,)
    npm: bool = False       # it needs what `install` brings
    compiled: str = ""      # the variable of the environment that has the compiled program
    tls: bool = False       # its tour is also run over TLS
    go: bool = False        # `go build` makes the program
    link: tuple = ()        # what its lines in docs/clients.md are linked with


PYTHON = ("/usr/bin/python3",)
# Where Debian puts the sources of packages for Go.
GO_PACKAGES = "/usr/share/gocode"
# Go builds with these packages only, and without a network.
GO_ENVIRONMENT = {"GO111MODULE": "off", "GOPATH": GO_PACKAGES, "GOFLAGS": "", "GOPROXY": "off", "GOCACHE": str(INSTALLED / "go-cache")}


def node(section, **more):
    return Program(("node",), "client.js", section, "js", ".mjs", ("nodejs", "npm"), ("node", "-e", "0"), npm=True, **more)


PROGRAMS = {
    "redis_py": Program(PYTHON, "client.py", "redis-py", "python", ".py", ("python3-redis",), (*PYTHON, "-c", "import redis")),
    "redis_py_asyncio": Program(PYTHON, "client.py", "redis-py with asyncio", "python", ".py", ("python3-redis",),
                                (*PYTHON, "-c", "import redis.asyncio")),
    "hiredis": Program((), "client.cpp", "hiredis", "c", ".c", ("libhiredis-dev",), ("true",), compiled="CLIENT_HIREDIS"),
    "hiredis_async": Program((), "client.cpp", "hiredis, asynchronous", "c", ".c", ("libhiredis-dev", "libevent-dev"),
                             ("test", "-e", "/usr/include/event2/event.h"), compiled="CLIENT_HIREDIS_ASYNC", link=("-levent",)),
    "ioredis": node("ioredis", tls=True),
    "iovalkey": node("iovalkey", tls=True),
    "node_redis_4": node("node-redis 4"),
    "node_redis_5": node("node-redis 5", protocols=(2, 3)),
    "valkey_glide": node("valkey-glide", protocols=(2, 3)),
    "lua_redis": Program(("lua5.1",), "client.lua", "lua-redis", "lua", ".lua", ("lua5.1", "lua-redis", "lua-socket"),
                         ("lua5.1", "-e", "require('redis') require('socket')")),
    "redigo": Program(("go", "run"), "client.go", "redigo", "go", ".go", ("golang-go", "golang-github-gomodule-redigo-dev"),
                      ("sh", "-c", "go version && test -d %s/src/github.com/gomodule/redigo/redis" % GO_PACKAGES), go=True),
    "phpredis": Program(("php",), "client.php", "phpredis", "php", ".php", ("php-cli", "php-redis"), ("php", "-r", "new Redis();")),
    "predis": Program(("php",), "client.php", "Predis", "php", ".php", ("php-cli", "php-predis"),
                      ("php", "-r", "require 'Predis/Autoloader.php';")),
    "redis_rb": Program(("ruby",), "client.rb", "redis-rb", "ruby", ".rb", ("ruby", "ruby-redis"), ("ruby", "-e", "require 'redis'")),
    "perl_redis": Program(("perl",), "client.pl", "Redis of Perl", "perl", ".pl", ("libredis-perl",), ("perl", "-e", "use Redis")),
}
# Clients with a test of their own in their folder: package, program. With a package-lock.json, they need what `install` brings.
TOOLS = {
    "redis_cli": ("redis-tools", "redis-cli"),
    "redis_benchmark": ("redis-tools", "redis-benchmark"),
    "prometheus": ("prometheus", "prometheus"),
    "prometheus_redis_exporter": ("prometheus-redis-exporter", "prometheus-redis-exporter"),
    "redis_commander": ("nodejs", "node"),
    "status_page": ("chromium", "chromium"),
}


def missing(name):
    """What the machine lacks for a client: a list of names."""
    if name in TOOLS:
        package, tool = TOOLS[name]
        lacks = [] if shutil.which(tool) else [package]
        npm = (FOLDER / name / "package-lock.json").exists()
    else:
        program = PROGRAMS[name]
        lacks = [] if succeeds(program.probe) else list(program.packages)
        npm = program.npm
    if npm and not is_installed(name):
        lacks.append("the packages of tests/clients/%s/package.json" % name)
    return lacks


def is_installed(name):
    """Whether `install` brought what the committed list asks for."""
    mark = INSTALLED / name / "installed-lock.json"
    return mark.exists() and mark.read_bytes() == (FOLDER / name / "package-lock.json").read_bytes()


def succeeds(words):
    try:
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, cwd="/").returncode == 0
    except FileNotFoundError:
        return False


def command_of(name):
    program = PROGRAMS[name]
    if program.compiled:
        return [os.environ[program.compiled]]
    return [*program.command, str(FOLDER / name / program.source)]


if __name__ == "__main__":
    for name in [*TOOLS, *PROGRAMS]:
        lacks = missing(name)
        if lacks:
            print("not tested: %s, for want of %s" % (name, ", ".join(lacks)))
