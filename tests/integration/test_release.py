"""scripts/release refuses a version that its places do not agree on; docs/releases.md and debian/control say what the sources say."""

import datetime
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = ("CMakeLists.txt", "CHANGELOG.md", "docker/Dockerfile", "docs/releases.md", "scripts/release")
VERSION = "7.8.9"


def day(days):
    """The day so many days from today, as the changelog writes it."""
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days)).strftime("%Y-%m-%d")


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


class AgreementTest(unittest.TestCase):
    """A repository with a release of the version 7.8.9."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sepal-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for place in PLACES:
            (self.folder / place).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / place, self.folder / place)
        self.change("CMakeLists.txt", r"(?m)^project\(sepal VERSION [0-9.]+", "project(sepal VERSION " + VERSION)
        self.change("CHANGELOG.md", r"(?ms)^## \[Unreleased\].*?(?=^## )", "## [%s] - %s\n\n- A change.\n\n" % (VERSION, day(0)), missing="## [1.")
        self.change("docker/Dockerfile", r'image\.version="[0-9.]+"', 'image.version="%s"' % VERSION)
        self.change("docs/releases.md", r"<!-- /formats of versions -->", "| %s | |\n<!-- /formats of versions -->" % VERSION)
        self.git("init", "-q")
        # A key of its own, which the repository knows.
        key = self.folder / ".git" / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, stdin=subprocess.DEVNULL)
        self.known = self.folder / ".git" / "known"
        self.known.write_text("a@b " + key.with_suffix(".pub").read_text(encoding="utf-8"), encoding="utf-8")
        for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(key)), ("gpg.ssh.allowedSignersFile", str(self.known))):
            self.git("config", name, value)
        self.commit()

    def change(self, place, pattern, new, missing=None):
        path = self.folder / place
        old = path.read_text(encoding="utf-8")
        changed, count = re.subn(pattern, lambda _: new, old, count=1)
        if count == 0 and missing is not None:  # a tree of a release has nothing unreleased
            at = old.index(missing)
            changed, count = old[:at] + new + old[at:], 1
        self.assertEqual(count, 1, (place, pattern))
        path.write_text(changed, encoding="utf-8")

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "a release")
        self.tag("--sign", "-m", "a release")

    def tag(self, *words):
        self.git("tag", "--force", *words, "v" + VERSION)

    def check(self, *words, program=None, **options):
        return subprocess.run([program or self.folder / "scripts/release", *words], capture_output=True, text=True, check=False, **options)

    def test_all_agree(self):
        done = self.check("--check")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "all agree on %s\n" % VERSION, ""))

    def test_each_place_is_looked_at(self):
        wrong = (("CHANGELOG.md", r"## \[7\.8\.9\] - ", "## [7.8.8] - ", "CHANGELOG.md: the newest heading is 7.8.8"),
                 ("CHANGELOG.md", r"## \[7\.8\.9\] - ", "## [Unreleased]\n\n- Late.\n\n## [7.8.9] - ", "there is something under [Unreleased]"),
                 ("docker/Dockerfile", r"7\.8\.9", "7.8.8", "docker/Dockerfile: the image has version 7.8.8"),
                 ("docs/releases.md", r"\n\| 7\.8\.9 \|", "\n| 7.8.8 |", "docs/releases.md: the table of formats has no row for 7.8.9"),
                 ("CMakeLists.txt", r"VERSION 7\.8\.9", "VERSION 7.9.0", "git: HEAD has no tag v7.9.0"))
        for place, pattern, new, told in wrong:
            with self.subTest(told):
                before = (self.folder / place).read_text(encoding="utf-8")
                self.change(place, pattern, new)
                self.commit()
                done = self.check("--check")
                self.assertEqual(done.returncode, 1)
                self.assertIn(told, done.stdout)
                # Nothing is made of it either.
                made = self.check(str(self.folder / "made"))
                self.assertEqual((made.returncode, (self.folder / "made").exists()), (1, False))
                self.assertIn(told, made.stderr)
                (self.folder / place).write_text(before, encoding="utf-8")

    def test_a_tag_has_to_be_signed_with_a_known_key(self):
        def told():
            done = self.check("--check")
            self.assertEqual(done.returncode, 1)
            return done.stdout
        for words in (("--no-sign",), ("--no-sign", "--annotate", "-m", "a release")):
            with self.subTest(words):
                self.tag(*words)
                self.assertEqual(told(), "git: the tag v%s is not signed: git tag --sign makes one that is\n" % VERSION)
        self.tag("--sign", "-m", "a release")
        known = self.known.read_text(encoding="utf-8")
        self.known.write_text("", encoding="utf-8")
        self.assertRegex(told(), r"\Agit: the key that signed the tag v7\.8\.9 is not known here: .*\n\Z")
        self.known.write_text(known, encoding="utf-8")
        tag = subprocess.run(["git", "cat-file", "tag", "v" + VERSION], cwd=self.folder, check=True, capture_output=True).stdout
        changed = subprocess.run(["git", "hash-object", "-t", "tag", "-w", "--stdin"], cwd=self.folder, check=True, capture_output=True,
                                 input=tag.replace(b"a release", b"another one")).stdout.decode().strip()
        self.git("update-ref", "refs/tags/v" + VERSION, changed)
        self.assertRegex(told(), r"\Agit: the signature of the tag v7\.8\.9 is wrong: .*\n\Z")

    def test_the_day_of_the_changelog_is_that_of_the_release(self):
        for days, wrong in ((-6, False), (-9, True), (3, True)):
            with self.subTest(days):
                self.change("CHANGELOG.md", r"(?m)^## \[7\.8\.9\] - .*$", "## [7.8.9] - " + day(days))
                self.commit()
                done = self.check("--check")
                self.assertEqual((done.returncode, "CHANGELOG.md: %s is not in the week before the commit" % day(days) in done.stdout), (int(wrong), wrong))

    def test_a_change_that_is_not_committed_and_a_later_commit_are_refused(self):
        (self.folder / "late").touch()
        self.assertIn("git: there are changes that are not committed", self.check("--check").stdout)
        self.git("add", ".")
        self.git("commit", "-q", "-m", "late")
        self.assertEqual(self.check("--check").stdout, "git: HEAD has no tag v%s\n" % VERSION)

    def test_the_folder_is_one_of_the_caller(self):
        made = self.folder / "docs" / "made"
        made.mkdir()
        (made / "file").touch()
        done = self.check("--rehearse", "made", cwd=made.parent)
        self.assertEqual((done.returncode, done.stderr), (1, "scripts/release: %s is not empty\n" % made))

    def test_a_sign_off_that_is_called_by_a_relative_name_finds_itself(self):
        done = self.check("--rehearse", "--sign-off", "../made", program="./release", cwd=self.folder / "scripts", env=dict(os.environ, TMPDIR=str(self.folder)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED  made twice", done.stdout)
        # It has begun to make the files. There is no folder debian here.
        self.assertRegex(done.stderr, r"/one/sepal-[^/]*/debian/changelog: No such file")
        self.assertTrue((self.folder / "made").is_dir())


class DocumentTest(unittest.TestCase):
    def test_the_last_row_of_formats_has_the_numbers_of_the_sources(self):
        headers = "".join(text_of("include/sepal/storage/format/" + name) for name in ("snapshot_format.hpp", "journal_format.hpp", "journal_operations.hpp"))
        numbers = {name: int(value) for name, value in re.findall(r"inline constexpr std::uint32_t (\w*version\w*) = (\d+);", headers)}
        table = re.search(r"<!-- formats of versions -->\n(.*?)<!-- /", text_of("docs/releases.md"), re.S).group(1)
        cells = [cell.strip() for cell in table.splitlines()[-1].split("|")[1:-1]]
        writes = [int(cell.split(";")[0]) for cell in cells[1:5]]
        self.assertEqual(writes, [numbers["version"], numbers["manifest_version"], numbers["journal_version"], numbers["synced_version"]])
        reads = [[int(number) for number in re.findall(r"\d+", cell.split(";")[1])] for cell in cells[2:5]]
        self.assertEqual(reads, [[numbers["manifest_version_without_identity"], numbers["manifest_version"]],
                                 [numbers["journal_version_first"], numbers["journal_version"]],
                                 [numbers["synced_version_without_identity"], numbers["synced_version"]]])

    def test_the_source_package_needs_what_the_build_needs(self):
        script = text_of("scripts/install-dependencies")
        needed = set(re.search(r"^libraries=\((.*?)\)", script, re.M | re.S).group(1).split())
        needed |= set(re.search(r"^packages=\((.*?) \"", script, re.M | re.S).group(1).split())
        control = re.search(r"^Build-Depends: (.*?)\n\S", text_of("debian/control"), re.M | re.S).group(1)
        named = {re.split(r"[ :(|]", one.strip())[0] for one in control.split(",")}
        # Debian's tools ask for build-essential without its name here; g++ is in it.
        self.assertLessEqual(needed - {"g++"}, named)
        tools = set(re.search(r"^\[\[ \$debian == no \]\] \|\| packages\+=\((.*?)\)", script, re.M).group(1).split())
        # scripts/install-dependencies looks for Boost in its own way.
        self.assertEqual({name for name in named - needed if "boost" not in name}, {"debhelper-compat", "python3"})
        self.assertLessEqual({"build-essential", "debhelper", "dpkg-dev", "python3"}, tools)
        self.assertEqual({name for name in named if "boost" in name}, {"libboost1.81-dev", "libboost-context1.81-dev"})
