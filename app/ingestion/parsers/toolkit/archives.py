"""Checks of zip archives: the declared sizes are checked before a member is unpacked.

No parser opens an archive inside an archive.
"""

import lzma
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path, PurePosixPath

from app.documents.upload.file_signatures import normalize_member_name
from app.ingestion.types import CorruptFile, EncryptedFile, TextTooLong

MAX_MEMBERS = 20_000
MAX_UNPACKED_BYTES = 1 << 30
MAX_RATIO = 200
MIN_RATIO_CHECK_BYTES = 50 << 20
"""Number of unpacked bytes below which ``MAX_RATIO`` does not apply: empty slides compress a hundredfold."""

MAX_MEMBER_BYTES = 64 << 20
"""Maximum size of a member that is read as a whole. Real chapters and lists of parts have less than a megabyte."""

_ENCRYPTED_FLAG = 0x1
_DAMAGED_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
)


def check_archive(path: Path) -> None:
    """Check a zip archive before any member is unpacked.

    ``zipfile`` cuts off a member that unpacks to more bytes than its directory entry declares.

    Args:
        path: The archive.

    Raises:
        CorruptFile: The file is not a readable zip archive.
        EncryptedFile: A member is encrypted.
        TextTooLong: The archive has too many members, or unpacks to too many bytes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as exc:
        raise CorruptFile from exc
    if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
        raise EncryptedFile
    unpacked = sum(member.file_size for member in members)
    ratio = unpacked / max(1, sum(member.compress_size for member in members))
    if (
        len(members) > MAX_MEMBERS
        or unpacked > MAX_UNPACKED_BYTES
        or (unpacked > MIN_RATIO_CHECK_BYTES and ratio > MAX_RATIO)
    ):
        raise TextTooLong("The file unpacks to more than the limit allows; split it.")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read one member of a zip archive.

    Args:
        archive: The archive, already checked by ``check_archive``.
        name: Name of the member.

    Returns:
        The unpacked bytes.

    Raises:
        CorruptFile: The member is missing or damaged, or its name leads out of the archive.
        TextTooLong: The member is larger than 64 MiB.
    """
    if name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts:
        raise CorruptFile("The file refers to a path outside of itself.")
    member = archive.NameToInfo.get(name) or _find_member(archive, name)
    if member is None:
        raise CorruptFile("A part of the file is missing; upload an intact copy.")
    if member.file_size > MAX_MEMBER_BYTES:
        raise TextTooLong("The file unpacks to more than the limit allows; split it.")
    try:
        return archive.read(member)
    except _DAMAGED_ERRORS as exc:
        raise CorruptFile("A part of the file is damaged; upload an intact copy.") from exc


def _find_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo | None:
    """Return a member whose name is the same regardless of case and of the direction of slashes."""
    return _list_normalized_members(archive).get(normalize_member_name(name))


@lru_cache(maxsize=1)
def _list_normalized_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {normalize_member_name(member.filename): member for member in archive.infolist()}
