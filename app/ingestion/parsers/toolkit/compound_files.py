"""Reading of compound files: storages and streams of Outlook messages and old Office files ([MS-CFB]).

Every number from the file is checked before use, chains of sectors end at a loop, and the time is linear in the size.
"""

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.documents.upload.ole import SIGNATURE
from app.ingestion.types import CorruptFile

_HEADER_BYTES, _ENTRY_BYTES = 512, 128
_TABLES_IN_HEADER = 109
_MINI_SECTOR_BYTES, _MINI_STREAM_LIMIT = 64, 4096
_MAX_REGULAR_SECTOR = 0xFFFFFFFA
_NO_ENTRY = 0xFFFFFFFF
_STORAGE, _STREAM, _ROOT = 1, 2, 5
MAX_ENTRIES = 100_000


@dataclass(slots=True)
class Storage:
    """Storage of a compound file. Names are in lower case, because the format compares them without case.

    Attributes:
        storages: Storages inside of it by name.
        streams: Numbers of its streams by name.
    """

    storages: dict[str, "Storage"] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    kind: int
    left: int
    right: int
    child: int
    start: int
    size: int


class CompoundFile:
    """Compound file.

    Args:
        data: Bytes of the file.

    Attributes:
        root: The outermost storage.

    Raises:
        CorruptFile: The file is no compound file, or its directory is damaged.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        if len(data) < _HEADER_BYTES or not data.startswith(SIGNATURE):
            raise CorruptFile
        (shift,) = struct.unpack_from("<H", data, 30)
        if shift not in (9, 12):
            raise CorruptFile
        self._sector_bytes = 1 << shift
        self._sector_count = max(0, (len(data) - 1) // self._sector_bytes)
        self._table = self._read_table()
        (directory,) = struct.unpack_from("<I", data, 48)
        content = self._read_chain(directory, MAX_ENTRIES * _ENTRY_BYTES)
        self._entries = [
            _read_entry(content, start) for start in range(0, len(content) - _ENTRY_BYTES + 1, _ENTRY_BYTES)
        ]
        if not self._entries or self._entries[0].kind != _ROOT:
            raise CorruptFile
        (mini_table,) = struct.unpack_from("<I", data, 60)
        self._mini_table = _read_numbers(self._read_chain(mini_table, len(data)))
        self._mini_stream = self._read_chain(self._entries[0].start, self._entries[0].size)
        self.root = self._build_tree()

    def read_stream(self, number: int) -> bytes:
        """Return the bytes of a stream; a damaged stream is shorter than its size."""
        entry = self._entries[number]
        if entry.size >= _MINI_STREAM_LIMIT:
            return self._read_chain(entry.start, entry.size)
        parts: list[bytes] = []
        sector, needed = entry.start, -(-entry.size // _MINI_SECTOR_BYTES)
        while len(parts) < needed and sector < len(self._mini_table):
            start = sector * _MINI_SECTOR_BYTES
            parts.append(self._mini_stream[start : start + _MINI_SECTOR_BYTES])
            sector = self._mini_table[sector]
        return b"".join(parts)[: entry.size]

    def _read_sector(self, sector: int) -> bytes:
        start = (sector + 1) * self._sector_bytes
        return self._data[start : start + self._sector_bytes]

    def _read_table(self) -> "array[int]":
        """Return the allocation table: the next sector of each sector."""
        sectors = list(struct.unpack_from(f"<{_TABLES_IN_HEADER}I", self._data, 76))
        (sector,) = struct.unpack_from("<I", self._data, 68)
        hops = 0
        while sector < self._sector_count and hops <= self._sector_count:
            *numbers, sector = _read_numbers(self._read_sector(sector))
            sectors += numbers
            hops += 1
        table = array("I")
        for number in sectors:
            if number >= self._sector_count or len(table) > self._sector_count:
                break
            table.extend(_read_numbers(self._read_sector(number)))
        return table

    def _read_chain(self, sector: int, size: int) -> bytes:
        """Return at most ``size`` bytes of a chain of sectors. A loop ends at the number of sectors of the file."""
        parts: list[bytes] = []
        needed = min(-(-size // self._sector_bytes), self._sector_count)
        while len(parts) < needed and sector < self._sector_count:
            parts.append(self._read_sector(sector))
            sector = self._table[sector] if sector < len(self._table) else _MAX_REGULAR_SECTOR
        return b"".join(parts)[:size]

    def _build_tree(self) -> Storage:
        """Return the storages. Each entry is read once, so that a loop of entries ends."""
        root, visited = Storage(), {0}
        waiting = [(root, self._entries[0].child)]
        while waiting:
            storage, child = waiting.pop()
            for number in self._iter_siblings(child, visited):
                entry = self._entries[number]
                if entry.kind == _STREAM:
                    storage.streams.setdefault(entry.name, number)
                elif entry.kind == _STORAGE:
                    inner = storage.storages.setdefault(entry.name, Storage())
                    waiting.append((inner, entry.child))
        return root

    def _iter_siblings(self, number: int, visited: set[int]) -> Iterator[int]:
        """Yield the entries of a storage, which are a binary tree."""
        waiting = [number]
        while waiting:
            number = waiting.pop()
            if number >= len(self._entries) or number in visited:
                continue
            visited.add(number)
            entry = self._entries[number]
            yield number
            waiting += [entry.right, entry.left]


def _read_numbers(data: bytes) -> "array[int]":
    count = len(data) // 4
    return array("I", struct.unpack(f"<{count}I", data[: 4 * count]))


def _read_entry(content: bytes, start: int) -> _Entry:
    (length,) = struct.unpack_from("<H", content, start + 64)
    kind = content[start + 66]
    left, right, child = struct.unpack_from("<3I", content, start + 68)
    first, size = struct.unpack_from("<II", content, start + 116)
    raw = content[start : start + min(max(0, length - 2), 62)]
    return _Entry(raw.decode("utf-16-le", "replace").lower(), kind, left, right, child, first, size)
