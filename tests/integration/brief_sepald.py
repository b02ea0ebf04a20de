"""Replaces sepald where a document shows how to start it: it starts the server, and ends it as soon as it is ready.

Another sepald may be running. So it uses a port that the system chooses, and its own data directory unless --dir is given.
"""

import signal
import subprocess
import sys
import tempfile

from daemon import SEPALD

with tempfile.TemporaryDirectory(prefix="sepal-document-") as directory:
    own = [] if "--dir" in sys.argv else ["--dir", directory]
    server = subprocess.Popen([SEPALD, *sys.argv[1:], "--port", "0", *own], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        sys.stderr.write(line)
        if "ready: address=" in line:
            server.send_signal(signal.SIGTERM)
    sys.exit(server.wait())
