"""Guards for the zip-based formats: what an archive claims about itself is checked before anything is unpacked.

An archive inside an archive is never opened: no parser asks for such a member.
"""

import lzma
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from app.ingestion.types import Corrupt, Encrypted, TooMuchText

MAX_MEMBERS = 20_000
MAX_UNPACKED = 1 << 30
MAX_RATIO = 200
RATIO_MATTERS_FROM = 50 << 20
"""Below this many unpacked bytes a high ratio is harmless: empty slides compress a hundredfold."""

MAX_MEMBER = 64 << 20
"""The largest member that is read as a whole; real chapters and part lists are below a megabyte."""

_ENCRYPTED_FLAG = 0x1
_DAMAGED = (
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
    """Raises Corrupt for no readable zip, Encrypted for locked members, TooMuchText for a bomb.

    A member that unpacks to more than its directory entry says is cut off there by ``zipfile`` itself.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as exc:
        raise Corrupt from exc
    if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
        raise Encrypted
    unpacked = sum(member.file_size for member in members)
    ratio = unpacked / max(1, sum(member.compress_size for member in members))
    if len(members) > MAX_MEMBERS or unpacked > MAX_UNPACKED or (unpacked > RATIO_MATTERS_FROM and ratio > MAX_RATIO):
        raise TooMuchText("The file unpacks to more than the limit allows.")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of one member. Raises Corrupt where there is none, where it is damaged, and for a name that leaves
    the archive; TooMuchText above MAX_MEMBER.
    """
    if name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts:
        raise Corrupt("The file refers to something outside of itself.")
    try:
        member = archive.getinfo(name)
    except KeyError as exc:
        raise Corrupt("A part of the file is missing.") from exc
    if member.file_size > MAX_MEMBER:
        raise TooMuchText("The file unpacks to more than the limit allows.")
    try:
        return archive.read(member)
    except _DAMAGED as exc:
        raise Corrupt("A part of the file is damaged.") from exc
