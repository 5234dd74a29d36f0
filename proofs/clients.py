"""``make prove NAME=clients``: test released clients, frameworks and spaCy, each in a separate environment.

The virtual environments are in ``.clients`` and are reused. A changed package requirement recreates its environment.
"""

import os
import shutil
import subprocess
import sys
import venv

from harness.processes import ROOT, exit_on_sigterm

FOLDER = ROOT / ".clients"
PACKAGES = {
    "langchain": "langchain-core>=1,<2",
    "llama-index": "llama-index-core>=0.14,<0.15",
    "openai-1": "openai==1.*",
    "openai-2": "openai==2.*",
    "spacy": "spacy>=3.8,<4",
}
TESTS = ("tests/clients/test_frameworks.py", "tests/api/openai/test_client.py", "tests/graph/extraction/test_spacy.py")


def create_environment(name: str, package: str) -> None:
    """Create a virtual environment with a package, unless it exists with the same requirement."""
    packages = ["httpx2", package]
    folder = FOLDER / name
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text() == " ".join(packages):
        return
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True, symlinks=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)
    stamp.write_text(" ".join(packages))


def main() -> int:
    for name, package in PACKAGES.items():
        create_environment(name, package)
    command = [sys.executable, "-m", "pytest", "-q", *TESTS, *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, "CLIENT_ENVIRONMENTS": str(FOLDER)}, check=False).returncode


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
