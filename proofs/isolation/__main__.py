"""``make prove NAME=isolation``: try to reach data of other tenants with every operation and in every table.

The tests of ``tests/isolation`` run first. ``--share 1`` sends all combinations of ``proofs.isolation.grid``.
"""

import subprocess
import sys

from harness.processes import exit_on_sigterm
from proofs.isolation.run import main

if __name__ == "__main__":
    exit_on_sigterm()
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/isolation"], check=False)
    sys.exit(tests.returncode or main())
