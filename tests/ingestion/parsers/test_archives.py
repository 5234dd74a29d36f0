"""Members of archives: names, sizes and damage."""

import zipfile
from pathlib import Path

import pytest

from app.ingestion.parsers.toolkit.archives import read_member
from app.ingestion.types import CorruptFile


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "a\\..\\..\\up", "\\root", "not there", ""])
def test_read_member_invalid_name_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for member in ("/etc/passwd", "../up", "a/../../up", "fine..txt"):
            archive.writestr(member, b"content")
    with zipfile.ZipFile(path) as archive:
        assert read_member(archive, "fine..txt") == b"content"
        with pytest.raises(CorruptFile):
            read_member(archive, name)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_read_member_damaged_member_is_refused(method: int, tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("a", bytes(range(256)) * 8)
    content = bytearray(path.read_bytes())
    content[40:60] = bytes(20)
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive, pytest.raises(CorruptFile):
        read_member(archive, "a")
