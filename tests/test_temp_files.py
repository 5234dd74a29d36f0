"""Temporary folders: deleted with their process, and a full disk."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.cleanup.sweeper import sweep_temp_files
from app.documents.upload.multipart import spool_text
from app.temp_files import TempDiskFull, count_abandoned, create_temp_directory, create_temp_file


def test_full_disk_raises_temp_disk_full() -> None:
    with create_temp_directory("upload") as folder:
        (folder / "0").write_bytes(b"there is room")
    assert not folder.exists()
    with pytest.raises(TempDiskFull), create_temp_directory("upload"):
        Path("/dev/full").write_bytes(b"there is none")


def test_other_file_errors_propagate() -> None:
    with pytest.raises(FileNotFoundError), create_temp_directory("import") as folder:
        (folder / "nothing").read_bytes()


def modes(path: Path) -> tuple[int, int]:
    return path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777


async def test_temporary_files_are_closed_to_other_users() -> None:
    with create_temp_directory("ingest") as folder:
        path = create_temp_file(folder, "original")
        path.write_bytes(b"text")
        assert modes(path) == (0o600, 0o700)
    async with spool_text("text", filename="text", media_type="text/plain") as received:
        assert modes(received.path) == (0o600, 0o700)


# A disk without space for a byte: directories can be created, files not be written.
NO_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from pathlib import Path
from app.documents.upload.multipart import spool_text
from app.temp_files import TempDiskFull, create_temp_file, create_temp_directory
with create_temp_directory("upload") as folder:
    print(folder.parent)
try:
    with create_temp_directory("upload"):
        Path("/dev/full").write_bytes(b"there is none")
except TempDiskFull as full:
    print(full)
"""


def test_temporary_directory_is_not_tested_with_a_file(tmp_path: Path) -> None:
    """Python tries a file at its first use of the directory: a full disk fails there with another error."""
    ended = subprocess.run(
        [sys.executable, "-c", NO_ROOM], env={"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines() == [
        str(tmp_path),
        "The disk for temporary files is full. Try again later, or free space.",
    ], ended.stderr


def test_temporary_directory_that_is_a_file_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.touch(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(program))
    monkeypatch.setenv("TEMP", str(tmp_path))
    with create_temp_directory("upload") as folder:
        assert folder.parent == tmp_path


ABANDON = """
import os, signal, sys
from app.temp_files import create_temp_directory
with create_temp_directory("ingest") as folder:
    (folder / "original").write_text("secret")
    print(folder, flush=True)
    if sys.argv[1] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def test_temporary_folder_is_deleted_after_its_process_ended(tmp_path: Path) -> None:
    """The folder of a running process remains; the folder of an ended one is deleted before a day has passed."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", ABANDON, "live"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
    ) as living:  # fmt: skip
        assert living.stdout is not None
        held = Path(living.stdout.readline().strip())
        died = subprocess.run(
            [sys.executable, "-c", ABANDON, "die"], capture_output=True, env=environment, text=True, check=False
        )
        left = Path(died.stdout.strip())
        assert (left / "original").exists()
        assert count_abandoned(tmp_path) == 1
        then = time.time() - 10
        for folder in (held, left):
            os.utime(folder, (then, then))
        assert sweep_temp_files(tmp_path) == 1
        assert (held / "original").exists()
        assert not left.exists()
        assert count_abandoned(tmp_path) == 0
        living.communicate("")
    assert not held.exists()
