"""What `cmake --install` puts where: programs, configuration, service, manual pages and the completions of the shells."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEPALD, SEPAL = os.environ["SEPALD"], os.environ["SEPAL"]
BUILD = pathlib.Path(SEPALD).parent
COMMANDS = re.findall(r"^  ([a-z]+) {3,}", subprocess.run([SEPAL, "--help"], capture_output=True, text=True, check=True).stdout, re.M)
UNITS = ("sepald.service", "sepald@.service", "sepal-backup@.service", "sepal-backup@.timer")
# systemd rates a service without any protection as 9.6. The option takes ten times the rating.
EXPOSURE_MAX = "20"


def program(name):
    """The path of a program of the system. Without it the test is skipped, except in a run that tests everything."""
    path = shutil.which(name)
    if path is None and os.environ.get("SEPAL_CLIENTS") != "all":
        raise unittest.SkipTest("there is no %s" % name)
    if path is None:
        raise AssertionError("there is no %s; scripts/install-dependencies --packages installs it" % name)
    return path


def run(*words, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False, **options)


class InstallTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sepal-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def install(self, prefix, below=""):
        """Installs below `below`. Returns the lines that cmake prints."""
        done = run(os.environ["CMAKE"], "--install", str(BUILD), "--prefix", prefix, env=dict(os.environ, DESTDIR=below))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def documents(self):
        """README.md links to them. The manual pages are elsewhere."""
        below = [path.relative_to(ROOT) for name in ("docs", "examples", "docker") for path in (ROOT / name).rglob("*") if path.is_file()]
        return {str(path) for path in below if path.parts[:2] != ("docs", "man")} | {
            "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}

    @staticmethod
    def plugin():
        """It is not built with sanitizers."""
        return () if os.environ.get("SEPAL_SANITIZE") else ("usr/lib/sepal/sepal.so",)

    def files(self):
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}

    def test_every_file_has_its_place(self):
        self.install("/usr", str(self.folder))
        self.assertEqual(self.files(), {
            "etc/sepal/sepald.toml", "etc/logrotate.d/sepal", "usr/bin/sepald", "usr/bin/sepal", *self.plugin(),
            *("usr/lib/systemd/system/" + unit for unit in UNITS), "usr/lib/sysusers.d/sepal.conf", "usr/share/man/man1/sepal.1", "usr/share/man/man5/sepald.toml.5",
            "usr/share/man/man8/sepald.8",
            *("usr/share/doc/sepal/" + path for path in self.documents()),
            *("usr/share/" + path for name in ("sepald", "sepal") for path in (
                "bash-completion/completions/" + name, "zsh/site-functions/_" + name, "fish/vendor_completions.d/%s.fish" % name))})
        for unit in set(UNITS) - {"sepald@.service"}:
            self.assertEqual((self.folder / "usr/lib/systemd/system" / unit).read_text(), (ROOT / "config" / unit).read_text())
        for name in ("sepald", "sepal"):
            done = run(str(self.folder / "usr/bin" / name), "--version")
            self.assertEqual((done.returncode, done.stdout.split()[:2]), (0, [name, os.environ["SEPAL_VERSION"]]))

    def test_the_scripts_build_what_is_installed(self):
        """`cmake --install` builds nothing itself."""
        built = run(program("ninja"), "-C", str(BUILD), "-t", "query", "installed").stdout.split()
        self.assertLessEqual({"sepald", "sepal", *(pathlib.Path(path).name for path in self.plugin())}, set(built))
        self.assertIn("targets=(installed)", (ROOT / "scripts" / "build").read_text())
        package = (ROOT / "scripts" / "package").read_text()
        self.assertIn("\npreset=release\n", package)
        self.assertIn('/scripts/build" "$preset" installed\n', package)
        self.assertIn("dh_auto_build -- installed\n", (ROOT / "debian" / "rules").read_text())

    def test_a_server_may_load_the_module(self):
        """Redis and Valkey load none that cannot be executed."""
        self.install("/usr", str(self.folder))
        for path in self.plugin():
            self.assertEqual((self.folder / path).stat().st_mode & 0o777, 0o755)

    def test_the_service_and_the_configuration_follow_the_prefix(self):
        self.install(str(self.folder / "opt"))
        service = (self.folder / "opt/lib/systemd/system/sepald.service").read_text()
        config = self.folder / "opt/etc/sepal/sepald.toml"
        self.assertIn("ExecStart=%s/opt/bin/sepald --config %s\n" % (self.folder, config), service)
        self.assertEqual(service.count("/etc/"), service.count(str(config.parent)))
        for unit in UNITS:
            text = (self.folder / "opt/lib/systemd/system" / unit).read_text()
            self.assertEqual((text.count("/usr/"), text.count("/etc/")), (0, text.count(str(config.parent))), unit)
        self.assertFalse((self.folder / "opt/etc/logrotate.d").exists(), "logrotate reads no such folder")

    def test_the_installed_configuration_differs_from_the_defaults_in_the_directory(self):
        self.install(str(self.folder))
        done = run(SEPALD, "--config", str(self.folder / "etc/sepal/sepald.toml"), "--check-config")
        self.assertEqual(done.stdout, 'configuration ok\ndir = "/var/lib/sepal" (default "data")\n')

    def test_a_configuration_that_is_there_is_kept(self):
        config = self.folder / "etc/sepal/sepald.toml"
        config.parent.mkdir(parents=True)
        config.write_text("port = 7000\n")
        self.assertIn("Kept: %s" % config, self.install(str(self.folder)))
        self.assertEqual(config.read_text(), "port = 7000\n")


class ServiceTest(unittest.TestCase):
    SERVICE = ROOT / "config" / "sepald.service"

    def installed(self):
        """The units in a root of their own, as a system would have them with an instance of each template."""
        root = pathlib.Path(tempfile.mkdtemp(prefix="sepal-test-"))
        self.addCleanup(shutil.rmtree, root)
        done = run(os.environ["CMAKE"], "--install", str(BUILD), "--prefix", "/usr", env=dict(os.environ, DESTDIR=str(root)))
        self.assertEqual(done.returncode, 0, done.stderr)
        return root / "usr/lib/systemd/system"

    def test_systemd_rates_the_protection_of_the_services(self):
        units = self.installed()
        for unit in ("sepald.service", "sepald@.service", "sepal-backup@.service"):
            with self.subTest(unit):
                done = run(program("systemd-analyze"), "security", "--offline=true", "--no-pager", "--threshold=" + EXPOSURE_MAX, str(units / unit))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("Overall exposure level for " + unit.replace("@.", "@i."), done.stdout)

    def test_systemd_understands_the_units(self):
        units = self.installed()
        for unit in UNITS:
            # The programs must be there: those of the build stand in for the installed ones.
            text = (units / unit).read_text()
            for name, path in (("sepald", SEPALD), ("sepal", SEPAL)):
                text = text.replace("/usr/bin/%s " % name, path + " ")
            (units / unit).write_text(text)
        instances = [str(units / unit).replace("@.", "@cache.") for unit in UNITS]
        done = run(program("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", *instances)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_an_instance_shares_no_folder_with_another_one(self):
        def folders(unit):
            text = (units / unit).read_text()
            return {line for line in text.splitlines() if line.startswith(("ExecStart=", "StateDirectory=", "RuntimeDirectory=", "WorkingDirectory="))}
        units = self.installed()
        self.assertEqual(folders("sepald.service"), {"ExecStart=/usr/bin/sepald --config /etc/sepal/sepald.toml", "StateDirectory=sepal",
                                                     "RuntimeDirectory=sepal", "WorkingDirectory=/var/lib/sepal"})
        self.assertEqual(folders("sepald@.service"), {"ExecStart=/usr/bin/sepald --config /etc/sepal/%i.toml --dir /var/lib/sepald-%i",
                                                      "StateDirectory=sepald-%i", "RuntimeDirectory=sepald-%i", "WorkingDirectory=/var/lib/sepald-%i"})

    def test_a_backup_takes_no_other_server_than_its_own(self):
        """The usual address is that of sepald. Another server needs a file with its own."""
        unit = (ROOT / "config/sepal-backup@.service").read_text()
        line = re.search(r"^ExecStartPre=\+(.*)$", unit, re.M).group(1)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="sepal-test-"))
        self.addCleanup(shutil.rmtree, folder)

        def check(name):
            words = [word.replace("$$", "$").replace("/etc/sepal/", "%s/" % folder).replace("%i", name) for word in shlex.split(line)]
            done = run(*words)
            return done.returncode, done.stdout + done.stderr
        refusal = (1, "the backup of second needs the file %s/second.backup with a line such as SEPAL_SERVER=redis://127.0.0.1:6380\n" % folder)
        self.assertEqual(check("sepald"), (0, ""))
        self.assertEqual(check("second"), refusal)
        (folder / "second.backup").write_text("SEPAL_KEEP=3\n#SEPAL_SERVER=redis://127.0.0.1:6380\n")
        self.assertEqual(check("second"), refusal)
        (folder / "second.backup").write_text("SEPAL_KEEP=3\nSEPAL_SERVER=redis://127.0.0.1:6380\n")
        self.assertEqual(check("second"), (0, ""))

    def test_a_stop_has_the_time_that_sepald_takes(self):
        seconds = int(re.search(r"^TimeoutStopSec=(\d+)$", self.SERVICE.read_text(), re.M).group(1))
        usual = re.search(r'^stop_seconds_max = "1m" ', (ROOT / "config/sepald.toml").read_text(), re.M)
        self.assertTrue(usual)
        self.assertGreater(seconds, 60)


class ManualTest(unittest.TestCase):
    PAGES = ("sepald.8", "sepald.toml.5", "sepal.1")

    def test_the_pages_and_the_completions_say_what_the_help_says(self):
        done = run(str(ROOT / "scripts" / "write-manuals"), "--check")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_no_flag_is_missing(self):
        for name, page, words in (("sepald", "sepald.8", [SEPALD]), *(("sepal", "sepal.1", [SEPAL, command]) for command in COMMANDS)):
            flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", run(*words, "--help").stdout))
            self.assertIn("--help", flags)
            manual = (ROOT / "docs/man" / page).read_text().replace("\\-", "-")
            texts = {kind: (ROOT / "config/completions" / (name + kind)).read_text() for kind in (".bash", ".zsh", ".fish")}
            for flag in flags:
                with self.subTest(words=words[1:], flag=flag):
                    self.assertRegex(manual, r"Fl (-\w , Fl )?%s\b" % flag[1:])
                    self.assertRegex(texts[".bash"], r"[ \"]%s[ \"|)]" % flag)
                    self.assertRegex(texts[".zsh"], r"'(\([^)]*\))?%s=?\[" % flag)
                    self.assertRegex(texts[".fish"], r" -l %s " % flag[2:])

    def test_mandoc_finds_nothing(self):
        for page in self.PAGES:
            done = run(program("mandoc"), "-Tlint", "-Wstyle", str(ROOT / "docs/man" / page))
            # Whether the other pages are installed says nothing about this one.
            lines = [line for line in done.stdout.splitlines() if "referenced manual not found" not in line]
            self.assertEqual(lines, [])

    def test_man_shows_the_pages_without_a_warning(self):
        for page in self.PAGES:
            done = run(program("man"), "--warnings", "--local-file", str(ROOT / "docs/man" / page), env=dict(os.environ, LC_ALL="C.UTF-8"))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn({"sepald.8": "--healthcheck", "sepald.toml.5": 'journal = "everysec"'}.get(page, "--capacity"), done.stdout)

    def test_the_page_of_the_configuration_has_every_setting_with_its_range(self):
        page = (ROOT / "docs/man/sepald.toml.5").read_text().replace("\\-", "-").replace("\\(dq", '"')
        page = " ".join(page.split())
        for line in (ROOT / "config/sepald.toml").read_text().splitlines():
            setting = re.match(r"([a-z_]+) = (.*)  # (.*)$", line)
            if setting:
                self.assertIn("Ic %s = %s" % setting.groups()[:2], page)
                self.assertIn(setting[3], page)


class CompletionTest(unittest.TestCase):
    FOLDER = ROOT / "config" / "completions"

    def bash(self, line):
        """What bash offers for the last word of a line, which it splits at blanks and equal signs."""
        words = re.findall(r"=|[^\s=]+", line) + ([""] if line.endswith((" ", "=")) else [])
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _$1; printf "%s\\n" "${COMPREPLY[@]}"'
        done = run("bash", "-c", script, "bash", str(self.FOLDER / (words[0] + ".bash")), *words, cwd=ROOT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def fish(self, line):
        name = line.split()[0]
        done = run(program("fish"), "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(self.FOLDER / (name + ".fish")), line, cwd=ROOT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [offer.split("\t")[0] for offer in done.stdout.splitlines()]

    def zsh(self, line):
        """What zsh's own functions are asked for: the arguments of _arguments, with the values that a file may have."""
        name = line.split()[0]
        script = ("_arguments() { print -rl -- $@ }; _describe() { print -rl -- ${(P)2} }; words=(${(s: :)1}); CURRENT=$2; "
                  'source "$3"')
        words = line.split(" ")
        done = run(program("zsh"), "--no-rcs", "-c", script, "zsh", line, str(len(words)), str(self.FOLDER / (name + ".zsh")))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_bash(self):
        self.assertEqual(self.bash("sepald --healt"), ["--healthcheck"])
        self.assertEqual(sorted(self.bash("sepald --journal ")), ["always", "everysec", "off"])
        self.assertEqual(self.bash("sepald --journal=a"), ["always"])
        self.assertEqual(self.bash("sepald --port 70"), [])
        self.assertEqual(self.bash("sepald --config CMakeL"), ["CMakeLists.txt"])
        self.assertEqual(self.bash("sepal insp"), ["inspect"])
        self.assertEqual(set(COMMANDS) - set(self.bash("sepal ")), set())
        self.assertEqual(self.bash("sepal inspect CMakeL"), ["CMakeLists.txt"])
        self.assertEqual(self.bash("sepal build --format n"), ["nul"])
        self.assertEqual(self.bash("sepal plan --capac"), ["--capacity"])
        self.assertEqual(self.bash("sepal help insp"), ["inspect"])
        for line in ("sepal migrate ", "sepal migrate --match ", "sepal build --key ", "sepal plan ", "sepal version ",
                     "sepald --requirepass ", "sepald --user ", "sepald --http-bind "):
            self.assertFalse({"CMakeLists.txt", "docs"} & set(self.bash(line)), line)
        for line in ("sepal backup ", "sepal restore ", "sepal restore --dir ", "sepal salvage ", "sepald --dir "):
            self.assertIn("docs", self.bash(line), line)
            self.assertNotIn("CMakeLists.txt", self.bash(line), line)
        self.assertEqual(self.bash("sepald --tls-key-file CMakeL"), ["CMakeLists.txt"])

    def test_fish(self):
        self.assertEqual(self.fish("sepald --healt"), ["--healthcheck"])
        self.assertEqual(sorted(self.fish("sepald --journal ")), ["always", "everysec", "off"])
        self.assertEqual(self.fish("sepald CMakeL"), [])
        self.assertEqual(self.fish("sepald --config CMakeL"), ["CMakeLists.txt"])
        self.assertEqual(set(self.fish("sepal ")), set(COMMANDS))
        self.assertEqual(self.fish("sepal inspect CMakeL"), ["CMakeLists.txt"])
        self.assertEqual(self.fish("sepal plan --capac"), ["--capacity"])
        self.assertEqual(self.fish("sepal help insp"), ["inspect"])
        for line in ("sepal migrate CMakeL", "sepal backup CMakeL", "sepal build --key CMakeL", "sepald --user CMakeL", "sepald --dir CMakeL"):
            self.assertEqual(self.fish(line), [], line)
        self.assertEqual(self.fish("sepal backup docs"), ["docs/"])

    def test_zsh(self):
        self.assertIn("--port=[TCP port; 0 lets the system pick one, or with a UNIX socket or a TLS port means none (default 6379)]:number:", self.zsh("sepald "))
        self.assertEqual({line.split(":")[0] for line in self.zsh("sepal ")} & set(COMMANDS), set(COMMANDS))
        self.assertIn("*:file:_files", self.zsh("sepal build "))
        self.assertIn("*:dest:_files -/", self.zsh("sepal backup "))
        self.assertIn("*:source:", self.zsh("sepal migrate "))
