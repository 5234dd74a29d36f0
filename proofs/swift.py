"""``make prove NAME=swift``: run the tests of the object store against OpenStack Swift, if it is installed."""

import os
import subprocess
import sys

COMMAND = [sys.executable, "-m", "pytest", "-q", "tests/object_store"]

if __name__ == "__main__":
    done = subprocess.run([*COMMAND, *sys.argv[1:]], env={**os.environ, "S3_SERVER": "swift"}, check=False)
    sys.exit(done.returncode)
