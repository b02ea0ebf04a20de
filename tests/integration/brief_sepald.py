"""Replaces sepald where a document shows how to start it: it starts the server, and ends it as soon as it is ready.

Another sepald may be running. So it uses a port that the system chooses, and its own data directory unless --dir is given.
A health check starts no server and asks the one that the document has started.
"""

import signal
import subprocess
import sys
import tempfile

from daemon import SEPALD

if "--healthcheck" in sys.argv:
    sys.exit(subprocess.run([SEPALD, *sys.argv[1:]], check=False).returncode)
with tempfile.TemporaryDirectory(prefix="sepal-document-") as directory:
    own = [] if "--dir" in sys.argv else ["--dir", directory]
    server = subprocess.Popen([SEPALD, *sys.argv[1:], "--port", "0", *own], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        sys.stderr.write(line)
        if "ready: address=" in line:
            server.send_signal(signal.SIGTERM)
    sys.exit(server.wait())
