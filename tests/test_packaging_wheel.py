"""The wheel: it contains the migrations, and its installation migrates a database."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.databases import DatabaseFactory

ROOT = Path(__file__).parents[1]
MIGRATE = """
import asyncio, sys
from app.db import migrate, sql_files
assert migrate.__file__.startswith(sys.argv[1]), migrate.__file__
assert str(sql_files.find_migrations_directory()).startswith(sys.argv[1])
asyncio.run(migrate.migrate_database(sys.argv[2], sys.argv[3]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, cwd=out, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.glob("*.whl")
    return made


def test_wheel_contains_only_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"app", "carrel", "carrel_client"}
    sources = {
        path.relative_to(ROOT).as_posix() for package in ("app", "carrel") for path in (ROOT / package).rglob("*.py")
    }
    assert sources | {"app/py.typed", "carrel/py.typed"} <= names
    revisions = {f"app/_migrations/versions/{path.name}" for path in (ROOT / "migrations/versions").glob("*.py")}
    assert revisions
    sql = {path.relative_to(ROOT).as_posix() for path in (ROOT / "app/db/sql").rglob("*.sql")}
    beside = {f"app/_{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "migrations").rglob("*.sql")}
    assert sql
    assert beside
    assert sql | beside | revisions | {"app/_migrations/env.py"} <= names
    assert [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".safetensors", ".env"))] == []
    assert any(name.endswith(".onnx") for name in names)
    for folder in ("api_docs", "console"):
        files = (path for path in (ROOT / "app/api" / folder / "static").rglob("*") if path.is_file())
        static = {path.relative_to(ROOT).as_posix() for path in files}
        assert static
        assert static <= names
    manifest = json.loads((ROOT / "app/api/console/static/manifest.json").read_text())
    assert {f"app/api/console/static/{name}" for name in manifest["files"]} <= names


def test_wheel_installation_migrates_a_database(
    wheel: Path, make_empty_database: DatabaseFactory, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    urls = make_empty_database()
    done = subprocess.run(
        [sys.executable, "-c", MIGRATE, str(tmp_path), urls.owner, urls.app],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
