"""``carrel models``: the directories that the commands write to and name."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.inference.embedding.local_models import LOCAL_MODELS
from tests.inference.embedding.conftest import find

NAME = "all-MiniLM-L6-v2"


@pytest.fixture
def weights_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configured directory with complete weights of one model."""
    monkeypatch.setenv("CARREL_EMBEDDING_WEIGHTS_DIR", str(tmp_path))
    (tmp_path / NAME).mkdir()
    for file in LOCAL_MODELS[NAME].checksums:
        (tmp_path / NAME / file).symlink_to(find(NAME) / file)
    return tmp_path


def test_pull_without_target_writes_to_the_configured_directory(weights_dir: Path) -> None:
    shown = CliRunner().invoke(app, ["models", "pull", NAME])
    assert shown.exit_code == 0, shown.output
    assert shown.output == f"The weights of {NAME} are in {weights_dir / NAME}.\n"


def test_check_damaged_weights_name_the_directory_for_the_pull(weights_dir: Path) -> None:
    (weights_dir / NAME / "tokenizer.json").unlink()
    (weights_dir / NAME / "tokenizer.json").write_text("damaged")
    shown = CliRunner().invoke(app, ["models", "check", NAME])
    assert shown.exit_code != 0
    assert f"`carrel models pull {NAME} --target {weights_dir}`" in f"{shown.output}{shown.exception}"
