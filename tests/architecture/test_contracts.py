"""Import contracts of pyproject.toml: the code keeps them, and each one detects a violation."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")

# Lines that break only the contract with that id; the lazy ones are inside a function.
VIOLATIONS = {
    "stack": ("db/wrong.py", "from app.documents import scopes\n"),
    "public-package": ("documents/wrong.py", "def lazy() -> None:\n    from carrel.plugins import parsers\n"),
    "plugin-interfaces": ("../carrel/plugins/wrong.py", "def lazy() -> None:\n    from app.db import session\n"),
    "apis": ("api/health.py", "def lazy() -> None:\n    from app.api import v1\n"),
    "packages": ("documents/types.py", "from app.documents import service\n"),
    "http": ("lexical/wrong.py", "def lazy() -> None:\n    import starlette\n"),
    "sql": ("api/v1/wrong.py", "from sqlalchemy import text\n"),
    "sessions": ("api/v1/wrong.py", "def lazy() -> None:\n    from app.db import session\n"),
    "boto3": ("documents/wrong.py", "import boto3\n"),
    "models": ("retrieval/wrong.py", "from openai import AsyncOpenAI\n"),
    "parsers": ("ingestion/wrong.py", "def lazy() -> None:\n    import pymupdf\n"),
    "languages": ("retrieval/wrong.py", "def lazy() -> None:\n    import Stemmer\n"),
    "tokens": ("api/wrong.py", "def lazy() -> None:\n    import jwt\n"),
    "signatures": ("api/wrong.py", "def lazy() -> None:\n    import standardwebhooks\n"),
    "paths": ("retrieval/wrong.py", "def lazy() -> None:\n    import jmespath\n"),
    "mcp": ("api/v1/wrong.py", "def lazy() -> None:\n    import mcp\n"),
    "database": ("retrieval/wrong.py", "import asyncpg\n"),
    "tenant-boundary": ("ingestion/wrong.py", "from app.db.control_plane import ControlPlaneDatabase\n"),
    "owner": ("ingestion/wrong.py", "from app.db import index_ddl\n"),
    "no-cycles": ("principal.py", "from app import ids\n"),
}
# A second module completes the cycle.
OTHER_HALVES = {"no-cycles": ("ids.py", "from app import principal\n")}


def lint(root: Path) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr


def copy_packages(target: Path) -> None:
    for package in ("app", "carrel"):
        shutil.copytree(ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    shutil.copy(ROOT / "pyproject.toml", target)


def contracts() -> dict[str, str]:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in declared}


def test_import_contracts_hold() -> None:
    code, output = lint(ROOT)
    assert code == 0, output
    assert set(re.findall(r"^(.+) KEPT$", output, re.MULTILINE)) == set(contracts().values())


def test_import_contracts_each_detect_a_violation(tmp_path: Path) -> None:
    assert set(VIOLATIONS) == set(contracts()), "a contract without a violation that it refuses, or the reverse"
    copy_packages(tmp_path)
    for place, line in [*VIOLATIONS.values(), *OTHER_HALVES.values()]:
        with (tmp_path / "app" / place).open("a") as module:
            module.write(f"\n\n{line}")
    code, output = lint(tmp_path)
    assert code == 1, output
    assert set(re.findall(r"^(.+) BROKEN$", output, re.MULTILINE)) == set(contracts().values())


def test_import_contracts_require_a_place_for_new_packages(tmp_path: Path) -> None:
    copy_packages(tmp_path)
    for place in ("app/newcomer", "app/api/new_api"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "__init__.py").touch()
    code, output = lint(tmp_path)
    assert code == 1
    broken = re.findall(r"^(.+) BROKEN$", output, re.MULTILINE)
    assert set(broken) == {contracts()["stack"], contracts()["apis"]}
