"""Certificates for a test, made by the program openssl. Their keys are of elliptic curves, which are made at once."""

import os
import subprocess
import time


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

    def sign(self, name, common_name="localhost", days=30, addresses="DNS:localhost,IP:127.0.0.1", passphrase=None, begins=None):
        """`days` below 0: it is not valid any more. With `begins`, it is valid from so many days on, for `days` days."""
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
        if begins is not None:
            self._sign_for_later(request, extensions, signed, begins, days)
            return signed
        # The two dates of a certificate that has expired are the same.
        run("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-set_serial", "0x" + signed.serial,
            "-days", str(days), "-extfile", extensions, "-out", signed.certificate)
        return signed

    def _sign_for_later(self, request, extensions, signed, begins, days):
        """openssl x509 knows no begin, but openssl ca does, with files of its own."""
        path = os.path.join(self.folder, "ca-of-later")
        for name, text in (("index", ""), ("serial", signed.serial + "\n"), ("config", "[ca]\ndefault_ca = it\n[it]\ndatabase = %s.index\nserial = %s.serial\n"
                           "new_certs_dir = %s\ndefault_md = sha256\nunique_subject = no\npolicy = any\n[any]\ncommonName = optional\n" % (path, path, self.folder))):
            with open(path + "." + name, "w") as file:
                file.write(text)
        first, last = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + day * 86400)) for day in (begins, begins + days))
        run("ca", "-batch", "-notext", "-config", path + ".config", "-cert", self.certificate, "-keyfile", self.key, "-in", request,
            "-extfile", extensions, "-startdate", first, "-enddate", last, "-out", signed.certificate)
