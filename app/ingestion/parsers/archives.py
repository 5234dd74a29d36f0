"""Guards for the zip-based formats: what an archive claims about itself is checked before anything is unpacked."""

import zipfile
from pathlib import Path

from app.ingestion.types import Corrupt, Encrypted, TooMuchText

MAX_MEMBERS = 20_000
MAX_UNPACKED = 1 << 30
MAX_RATIO = 200
RATIO_MATTERS_FROM = 50 << 20
"""Below this many unpacked bytes a high ratio is harmless: empty slides compress a hundredfold."""

_ENCRYPTED_FLAG = 0x1


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
