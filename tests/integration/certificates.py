"""Certificates for a test, made by the program openssl. Their keys are of elliptic curves, which are made at once."""

import os
import subprocess


def run(*arguments):
    done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError("openssl %s: %s" % (" ".join(arguments), done.stderr))


class Signed:
    """A certificate and its key: two paths."""

    def __init__(self, folder, name):
        self.certificate = os.path.join(folder, name + ".crt")
        self.key = os.path.join(folder, name + ".key")


class Authority(Signed):
    """A CA. Certificates that it signs have the names localhost and 127.0.0.1."""

    def __init__(self, folder, name="ca"):
        super().__init__(folder, name)
        self.folder = folder
        self._serial = 0
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-subj", "/CN=Test CA " + name, "-keyout", self.key, "-out", self.certificate)

    def sign(self, name, common_name="localhost", days=30, addresses="DNS:localhost,IP:127.0.0.1", passphrase=None):
        """`days` below 0: it is not valid any more."""
        signed = Signed(self.folder, name)
        request, extensions = signed.certificate + ".req", signed.certificate + ".ext"
        with open(extensions, "w") as file:
            file.write("subjectAltName = %s\n" % addresses)
        secret = ("-aes256", "-pass", "pass:" + passphrase) if passphrase else ()
        run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", *secret, "-out", signed.key)
        unlock = ("-passin", "pass:" + passphrase) if passphrase else ()
        run("req", "-new", "-key", signed.key, *unlock, "-subj", "/CN=" + common_name if common_name else "/O=nobody",
            "-out", request)
        self._serial += 1
        signed.serial = "%04X" % (0x1000 + self._serial)
        # The two dates of a certificate that has expired are the same.
        run("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-set_serial", "0x" + signed.serial,
            "-days", str(days), "-extfile", extensions, "-out", signed.certificate)
        return signed
