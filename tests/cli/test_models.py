"""``carrel models``: what is on the machine, downloads, and the check of files and speed."""

import shutil
from pathlib import Path

import pytest

from app.inference.embedding.local_models import LOCAL_MODELS
from tests.cli.commands import run
from tests.inference.embedding.conftest import find
from tests.inference.embedding.test_model_directory import tiny_table, write_tiny_model

ENDPOINT = {
    "CARREL_EMBEDDING_BASE_URL": "http://127.0.0.1:9/v1",
    "CARREL_EMBEDDING_MODEL": "m",
    "CARREL_EMBEDDING_DIMENSIONS": "8",
}


@pytest.fixture
def weights_dir(tmp_path: Path) -> Path:
    """A directory with one model of three, of which a test may damage files."""
    directory = tmp_path / "models"
    shutil.copytree(find("all-MiniLM-L6-v2"), directory / "all-MiniLM-L6-v2")
    return directory


def test_models_list_shows_default_and_missing_weights(tmp_path: Path, weights_dir: Path) -> None:
    done = run(tmp_path, "models", "list", CARREL_EMBEDDING_WEIGHTS_DIR=str(weights_dir))
    assert done.returncode == 0, done.stderr
    lines = {name: next(line for line in done.stdout.splitlines() if name in line) for name in LOCAL_MODELS}
    assert lines["bge-small-en-v1.5"].startswith("* ")
    assert lines["bge-small-en-v1.5"].endswith("not on this machine")
    assert lines["all-MiniLM-L6-v2"].startswith("  ")
    assert lines["all-MiniLM-L6-v2"].endswith(str(weights_dir / "all-MiniLM-L6-v2"))
    assert "cores" in done.stdout.splitlines()[-1]


def test_models_list_names_another_default(tmp_path: Path) -> None:
    assert "not a local one" in run(tmp_path, "models", "list", **ENDPOINT).stdout
    shown = run(tmp_path, "models", "list", CARREL_EMBEDDING_LOCAL=str(tmp_path / "m")).stdout
    assert f"* {tmp_path / 'm'} (CARREL_EMBEDDING_LOCAL)" in shown
    chosen = run(tmp_path, "models", "list", CARREL_EMBEDDING_MODEL="all-MiniLM-L6-v2").stdout
    assert "* all-MiniLM-L6-v2" in chosen


def test_models_check_measures_each_precision(tmp_path: Path, weights_dir: Path) -> None:
    done = run(tmp_path, "models", "check", "all-MiniLM-L6-v2", CARREL_EMBEDDING_WEIGHTS_DIR=str(weights_dir))
    assert done.returncode == 0, done.stderr
    first, *measured = done.stdout.splitlines()
    assert first.endswith("all checksums are right.")
    assert [line.split(":")[0] for line in measured] == ["all-MiniLM-L6-v2 (int8)", "all-MiniLM-L6-v2 (fp32)"]
    assert all("tokens per CPU second" in line for line in measured)


def test_models_check_measures_model_of_directory(tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "tiny", tiny_table())
    done = run(tmp_path, "models", "check", CARREL_EMBEDDING_LOCAL=str(directory))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tiny@")


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["nothing"], {}, "No local model is named 'nothing'. Choose one of: bge-small-en-v1.5, "),
        ([], ENDPOINT, "`carrel doctor` checks it"),
        ([], {"CARREL_EMBEDDING_LOCAL": "none"}, "none is neither a directory nor an ONNX file."),
        ([], {"CARREL_EMBEDDING_WEIGHTS_DIR": "none"}, "`carrel models pull bge-small-en-v1.5 --target"),
    ],
)
def test_models_check_unusable_model_is_one_line(
    tmp_path: Path, arguments: list[str], settings: dict[str, str], message: str
) -> None:
    done = run(tmp_path, "models", "check", *arguments, **settings)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_models_check_damaged_file_is_named_and_replaced(tmp_path: Path, weights_dir: Path) -> None:
    settings = {"CARREL_EMBEDDING_WEIGHTS_DIR": str(weights_dir)}
    (weights_dir / "all-MiniLM-L6-v2" / "tokenizer.json").write_text("{}")
    done = run(tmp_path, "models", "check", "all-MiniLM-L6-v2", **settings)
    assert done.returncode == 1
    assert f"Run `carrel models pull all-MiniLM-L6-v2 --target {weights_dir}`." in done.stderr
    pulled = run(tmp_path, "models", "pull", "all-MiniLM-L6-v2", **settings)
    assert pulled.returncode == 0, pulled.stderr
    assert run(tmp_path, "models", "check", "all-MiniLM-L6-v2", **settings).returncode == 0
