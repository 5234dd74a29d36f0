"""Names of the members of office archives as libraries expect them: with slashes, and in the case of the parts."""

import io
import re
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

from app.documents.upload.file_signatures import normalize_member_name

_PART_NAME = re.compile(rb"PartName\s*=\s*[\"']/([^\"'<>&]{1,400})[\"']")
_CONTENT_TYPES = "[Content_Types].xml"
_LOCAL_HEADER_BYTES, _DIRECTORY_ENTRY_BYTES = 30, 46


def open_archive(path: Path) -> BinaryIO:
    """Open an office archive. Names that a program wrote in another case or with backslashes are corrected in a copy.

    Args:
        path: The archive, already checked by ``check_archive``.

    Returns:
        The file, or a copy in memory with corrected names. The size of the archive limits the memory.
    """
    with zipfile.ZipFile(path) as archive:
        corrected = _list_corrections(archive)
        if not corrected:
            return path.open("rb")
        data = bytearray(path.read_bytes())
        _correct_names(data, archive, corrected)
    return io.BytesIO(data)


def _list_corrections(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the corrected names by the stored names; only names that differ."""
    names = archive.namelist()
    parts = {_CONTENT_TYPES.lower(): _CONTENT_TYPES, "_rels/.rels": "_rels/.rels"}
    listing = next((name for name in names if normalize_member_name(name) == _CONTENT_TYPES.lower()), None)
    for match in _PART_NAME.finditer(archive.read(listing) if listing else b""):
        part = match[1].decode("utf-8", "replace")
        folder, _, name = part.rpartition("/")
        for expected in (part, f"{folder}/_rels/{name}.rels"):
            parts.setdefault(expected.lower(), expected)
    expected_names = {name: parts.get(normalize_member_name(name), name.replace("\\", "/")) for name in names}
    return {
        name: expected for name, expected in expected_names.items() if name != expected and len(name) == len(expected)
    }


def _correct_names(data: bytearray, archive: zipfile.ZipFile, corrected: dict[str, str]) -> None:
    """Replace names by names of the same length, in the headers of the members and in the directory."""
    position = archive.start_dir
    for member in archive.infolist():
        name_bytes, extra_bytes, comment_bytes = struct.unpack_from("<HHH", data, position + 28)
        expected = corrected.get(member.filename, "").encode()
        if len(expected) == name_bytes:
            start = position + _DIRECTORY_ENTRY_BYTES
            data[start : start + name_bytes] = expected
            start = member.header_offset + _LOCAL_HEADER_BYTES
            data[start : start + name_bytes] = expected
        position += _DIRECTORY_ENTRY_BYTES + name_bytes + extra_bytes + comment_bytes
