"""Folders that go with what they are for, and a disk that is full."""

from pathlib import Path

import pytest

from app.temporary import TemporaryFull, temporary_folder


def test_a_full_disk_is_worth_another_try() -> None:
    with temporary_folder("upload") as folder:
        (folder / "0").write_bytes(b"there is room")
    assert not folder.exists()
    with pytest.raises(TemporaryFull), temporary_folder("upload"):
        Path("/dev/full").write_bytes(b"there is none")


def test_what_else_is_wrong_with_a_file_stays_what_it_is() -> None:
    with pytest.raises(FileNotFoundError), temporary_folder("import") as folder:
        (folder / "nothing").read_bytes()
