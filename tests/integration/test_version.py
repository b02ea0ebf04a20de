"""All places have the same version, and the programs print the commit that they were built from."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

VERSION = os.environ["SEPAL_VERSION"]
SOURCES = pathlib.Path(__file__).resolve().parents[2]


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    run = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return run.stdout.strip()


def commit_written(source, output):
    """The commit of a folder, as the build's script finds it."""
    script = SOURCES / "cmake" / "SepalCommit.cmake"
    command = [os.environ["CMAKE"], "-DSOURCE=%s" % source, "-DOUTPUT=%s" % output, "-P", script]
    subprocess.run(command, check=True, capture_output=True)
    return re.search(r'return "(.*)";', output.read_text()).group(1)


class VersionTest(unittest.TestCase):
    def test_both_programs_say_the_version_and_the_commit(self):
        for name in ("sepald", "sepal"):
            said = subprocess.run([os.environ[name.upper()], "--version"], check=True, capture_output=True, text=True)
            found = re.fullmatch(r"%s %s(?: \(commit ([0-9a-f]{12})\))?, kernel [a-z0-9]+\n" % (name, re.escape(VERSION)), said.stdout)
            self.assertTrue(found, said.stdout)
            has_git = (SOURCES / ".git").exists()
            archived = "$Format" not in (SOURCES / "cmake" / "commit.txt").read_text(encoding="utf-8")
            self.assertEqual(found.group(1) is not None, has_git or archived)
            if has_git:
                self.assertEqual(git(SOURCES, "cat-file", "-t", found.group(1)), "commit")

    def test_the_changelog_has_the_version(self):
        self.assertIn("\n## [%s] - " % VERSION, (SOURCES / "CHANGELOG.md").read_text(encoding="utf-8"))


class CommitTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.source = pathlib.Path(self.folder.name) / "source"
        self.source.mkdir()
        self.output = pathlib.Path(self.folder.name) / "commit.cpp"

    def make_repository(self, folder):
        git(folder, "init", "-q")
        git(folder, "commit", "-q", "--allow-empty", "-m", "one")

    def test_a_work_tree_has_its_head(self):
        self.make_repository(self.source)
        self.assertEqual(commit_written(self.source, self.output), git(self.source, "rev-parse", "--short=12", "HEAD"))
        git(self.source, "commit", "-q", "--allow-empty", "-m", "two")
        self.assertEqual(commit_written(self.source, self.output), git(self.source, "rev-parse", "--short=12", "HEAD"))

    def test_the_file_is_written_again_only_for_another_commit(self):
        self.make_repository(self.source)
        commit_written(self.source, self.output)
        os.utime(self.output, (1, 1))
        commit_written(self.source, self.output)
        self.assertEqual(self.output.stat().st_mtime, 1)

    def test_a_folder_without_git_has_none(self):
        self.assertEqual(commit_written(self.source, self.output), "")

    def test_a_folder_inside_another_repository_has_none(self):
        self.make_repository(pathlib.Path(self.folder.name))
        self.assertEqual(commit_written(self.source, self.output), "")

    def test_an_archive_has_the_commit_that_it_was_made_of(self):
        original = pathlib.Path(self.folder.name) / "original"
        original.mkdir()
        self.make_repository(original)
        for name in (".gitattributes", "cmake/commit.txt"):
            (original / name).parent.mkdir(exist_ok=True)
            (original / name).write_bytes((SOURCES / name).read_bytes())
        git(original, "add", ".")
        git(original, "commit", "-q", "-m", "two")
        self.make_repository(pathlib.Path(self.folder.name))
        subprocess.run("git -C original archive HEAD | tar -x -C source", shell=True, check=True, cwd=self.folder.name)
        self.assertEqual(commit_written(self.source, self.output), git(original, "rev-parse", "--short=12", "HEAD"))
