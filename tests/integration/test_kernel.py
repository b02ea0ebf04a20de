"""The kernel of the filters: where it is named, and how the environment names another."""

import os
import subprocess
import urllib.request

from client import Client
from daemon import SEPALD, DaemonTest, free_port, sepal


def run_sepald(*words, kernel):
    return subprocess.run([SEPALD, *words], capture_output=True, text=True, timeout=60, env={**os.environ, "SEPAL_KERNEL": kernel})


class KernelTest(DaemonTest):
    def test_a_server_names_its_kernel(self):
        web = free_port()
        daemon = self.start("--http-port", str(web), environment={"SEPAL_KERNEL": "plain"})
        daemon.wait_for_line("starting: ")
        self.assertRegex(daemon.text(), r"starting: .*kernel=plain\b")
        self.assertEqual(Client.of(daemon, self).info()["filter_kernel"], "plain")
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % web, timeout=60) as reply:
            self.assertRegex(reply.read().decode(), r'sepal_build_info\{version="[^"]*",commit="[^"]*",kernel="plain"\} 1\n')

    def test_without_the_variable_the_fastest_is_in_use(self):
        daemon = self.start()
        names = sepal("plan", environment={"SEPAL_KERNEL": "none"}).stderr.strip().split(": ")[-1].split(", ")
        self.assertEqual(names[0], "plain")
        self.assertEqual(Client.of(daemon, self).info()["filter_kernel"], names[-1])

    def test_an_empty_variable_names_none(self):
        self.assertEqual(run_sepald("--version", kernel="").stdout, subprocess.run([SEPALD, "--version"], capture_output=True, text=True, timeout=60).stdout)

    def test_both_programs_name_it(self):
        self.assertTrue(run_sepald("--version", kernel="plain").stdout.endswith(", kernel plain\n"))
        self.assertTrue(sepal("--version", environment={"SEPAL_KERNEL": "plain"}).stdout.endswith(", kernel plain\n"))

    def test_a_kernel_that_the_processor_does_not_have_is_refused(self):
        said = "SEPAL_KERNEL is 'mmx', and this processor can run: plain"
        for program, done in (("sepald", run_sepald("--port", "0", "--dir", self.directory, kernel="mmx")),
                              ("sepald", run_sepald("--check-config", kernel="mmx")),
                              ("sepald", run_sepald("--version", kernel="mmx")),
                              ("sepal", sepal("plan", environment={"SEPAL_KERNEL": "mmx"}))):
            self.assertEqual(done.returncode, 2, program)
            self.assertTrue(done.stderr.startswith("%s: %s" % (program, said)), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
