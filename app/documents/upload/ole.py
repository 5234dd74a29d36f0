"""Names of the streams in OLE containers: old Office files, Outlook messages, encrypted Office files.

The format is defined in [MS-CFB], section 2. Only a bounded number of directory sectors is read. Every value from the
file is checked before use.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
MAX_ENTRIES = 4096
_HEADER_BYTES = 512
_ENTRY_BYTES = 128
_TABLES_IN_HEADER = 109


def read_entry_names(path: Path) -> set[str]:
    """Return the names of the first MAX_ENTRIES streams and storages, or no names if the directory cannot be read.

    The function reads the file and blocks.
    """
    try:
        with path.open("rb") as file:
            return set(_iter_entry_names(file))
    except (struct.error, OverflowError, OSError):
        return set()


def _iter_entry_names(file: IO[bytes]) -> Iterator[str]:
    header = file.read(_HEADER_BYTES)
    (shift,) = struct.unpack_from("<H", header, 30)
    if not header.startswith(SIGNATURE) or shift not in (9, 12):
        return
    size = 1 << shift
    sectors = file.seek(0, os.SEEK_END) // size
    (sector,) = struct.unpack_from("<I", header, 48)
    for _ in range(MAX_ENTRIES * _ENTRY_BYTES // size):
        if sector >= sectors:  # the end of the chain, or a sector outside the file
            return
        content = _read_sector(file, sector, size)
        for start in range(0, len(content) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
            (length,) = struct.unpack_from("<H", content, start + 64)
            if 2 <= length <= 64:
                yield content[start : start + length - 2].decode("utf-16-le", "replace")
        sector = _find_next_sector(file, header, sector, size)


def _read_sector(file: IO[bytes], number: int, size: int) -> bytes:
    file.seek((number + 1) * size)
    return file.read(size)


def _find_next_sector(file: IO[bytes], header: bytes, sector: int, size: int) -> int:
    """Return the next sector of a chain, from the allocation table. The header lists the table's first 109 sectors."""
    numbers_per_sector = size // 4
    index, offset = divmod(sector, numbers_per_sector)
    if index < _TABLES_IN_HEADER:
        (table,) = struct.unpack_from("<I", header, 76 + 4 * index)
    else:
        # Further table sectors are listed in a chain of sectors. The last number of each sector is the next sector of
        # this chain.
        hops, index = divmod(index - _TABLES_IN_HEADER, numbers_per_sector - 1)
        (table,) = struct.unpack_from("<I", header, 68)
        for _ in range(hops):
            (table,) = struct.unpack_from("<I", _read_sector(file, table, size), size - 4)
        (table,) = struct.unpack_from("<I", _read_sector(file, table, size), 4 * index)
    (next_sector,) = struct.unpack_from("<I", _read_sector(file, table, size), 4 * offset)
    return int(next_sector)
