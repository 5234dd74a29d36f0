"""``make prove NAME=sdk``: generate clients from the OpenAPI document with public generators, and compile them.

``openapi-python-client`` generates a Python client. The proof imports all of its modules. ``openapi-typescript``
generates types, which the TypeScript compiler checks. The environments are in ``.clients`` and are reused. Without
``node`` and ``npm``, only the Python client is generated.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from harness.processes import ROOT, exit_on_sigterm
from harness.unopened_app import build_openapi_document

FOLDER = ROOT / ".clients"
PYTHON_PACKAGE = "openapi-python-client==0.29.1"
NODE_PACKAGES = ("openapi-typescript@7.13.0", "typescript@5.9.3")
# Media types of bytes that the generator does not know.
UNKNOWN_MEDIA_TYPES = ("*/*", "application/x-tar", "image/png", "image/jpeg")
CONFIG = {"content_type_overrides": dict.fromkeys(UNKNOWN_MEDIA_TYPES, "application/octet-stream")}
MIN_MODULES = 250
# What the generator reports if it leaves something out.
OMISSIONS = re.compile(r"^(WARNING|ERROR|Cannot parse|Unable to parse).*", re.MULTILINE)
IMPORT_ALL = """
import importlib, pkgutil, carrel_client
names = [module.name for module in pkgutil.walk_packages(carrel_client.__path__, "carrel_client.")]
print(len([importlib.import_module(name) for name in names]))
"""


def create_python_environment() -> Path:
    """Create the environment of the Python generator, unless it exists. Return its folder of programs."""
    folder = FOLDER / "sdk-python"
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.read_text() != PYTHON_PACKAGE:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True, symlinks=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, PYTHON_PACKAGE], check=True)
        stamp.write_text(PYTHON_PACKAGE)
    return folder / "bin"


def create_node_environment() -> Path:
    """Install the TypeScript packages, unless they exist. Return the folder of their programs."""
    folder = FOLDER / "sdk-typescript"
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.read_text() != " ".join(NODE_PACKAGES):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}')
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([*npm, *NODE_PACKAGES], cwd=folder, check=True)
        stamp.write_text(" ".join(NODE_PACKAGES))
    return folder / "node_modules/.bin"


def check_python_client(document: Path, target: Path) -> list[str]:
    """Generate the Python client and import all of its modules. Return the faults."""
    programs = create_python_environment()
    config = target / "config.json"
    config.write_text(json.dumps(CONFIG))
    command = [str(programs / "openapi-python-client"), "generate", "--meta", "none", "--overwrite"]
    arguments = ["--path", str(document), "--output-path", str(target / "carrel_client"), "--config", str(config)]
    generated = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if generated.returncode:
        return [generated.stdout + generated.stderr]
    faults = [match[0] for match in OMISSIONS.finditer(generated.stdout + generated.stderr)]
    for module in (target / "carrel_client/api").rglob("*.py"):
        add_missing_import(module)
    command = [str(programs / "python"), "-W", "error::SyntaxWarning", "-c", IMPORT_ALL]
    imported = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    if imported.returncode:
        return [*faults, imported.stderr]
    print(f"Python: {imported.stdout.strip()} modules imported")
    return faults + [f"only {imported.stdout.strip()} modules"] * (int(imported.stdout) < MIN_MODULES)


def add_missing_import(module: Path) -> None:
    """Add the import of ``Unset`` that version 0.29.1 omits for some operations with several media types."""
    source = module.read_text()
    if re.search(r"\bUnset\b", source) and not re.search(r"import .*\bUnset\b", source):
        module.write_text(re.sub(r"(import .*\bUNSET\b)", r"\1, Unset", source, count=1))


def check_typescript(document: Path, target: Path) -> list[str]:
    """Generate the TypeScript types and compile them. Return the faults."""
    programs = create_node_environment()
    types = target / "carrel.ts"
    for command in (
        [str(programs / "openapi-typescript"), str(document), "--output", str(types)],
        [str(programs / "tsc"), "--noEmit", "--strict", str(types)],
    ):
        done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
        if done.returncode:
            return [done.stdout + done.stderr]
    print(f"TypeScript: {len(types.read_text().splitlines())} lines compiled")
    return []


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        document = target / "openapi.json"
        document.write_text(json.dumps(build_openapi_document()))
        faults = check_python_client(document, target)
        if shutil.which("node") and shutil.which("npm"):
            faults += check_typescript(document, target)
        else:
            print("no node: no TypeScript types were generated")
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
