"""Folders that go with what they are for, and a disk that is full."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.documents.uploads import spool_text
from app.temporary import TemporaryFull, temporary_file, temporary_folder


def test_a_full_disk_is_worth_another_try() -> None:
    with temporary_folder("upload") as folder:
        (folder / "0").write_bytes(b"there is room")
    assert not folder.exists()
    with pytest.raises(TemporaryFull), temporary_folder("upload"):
        Path("/dev/full").write_bytes(b"there is none")


def test_what_else_is_wrong_with_a_file_stays_what_it_is() -> None:
    with pytest.raises(FileNotFoundError), temporary_folder("import") as folder:
        (folder / "nothing").read_bytes()


def modes(path: Path) -> tuple[int, int]:
    return path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777


async def test_temporary_files_are_closed_to_other_users() -> None:
    with temporary_folder("ingest") as folder:
        path = temporary_file(folder, "original")
        path.write_bytes(b"text")
        assert modes(path) == (0o600, 0o700)
    async with spool_text("text", filename="text", media_type="text/plain") as received:
        assert modes(received.path) == (0o600, 0o700)


# Of a disk without room for a byte: its directories can be made, its files not be written.
NO_ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from pathlib import Path
from app.documents.uploads import spool_text
from app.temporary import TemporaryFull, temporary_file, temporary_folder
with temporary_folder("upload") as folder:
    print(folder.parent)
try:
    with temporary_folder("upload"):
        Path("/dev/full").write_bytes(b"there is none")
except TemporaryFull as full:
    print(full)
"""


def test_the_directory_is_not_tried_with_a_file(tmp_path: Path) -> None:
    """As Python does when it is first asked for one: there is no room for that, and it says so in other words."""
    ended = subprocess.run(
        [sys.executable, "-c", NO_ROOM], env={"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines() == [
        str(tmp_path),
        "The disk for temporary files is full; try again when there is room.",
    ], ended.stderr


def test_what_is_no_directory_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.touch(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(program))
    monkeypatch.setenv("TEMP", str(tmp_path))
    with temporary_folder("upload") as folder:
        assert folder.parent == tmp_path
