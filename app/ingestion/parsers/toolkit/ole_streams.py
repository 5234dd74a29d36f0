"""Streams of OLE containers ([MS-CFB]), such as the workbook in an XLS file. Every value of the file is checked."""

import struct

from app.documents.upload.ole import SIGNATURE

MAX_DIRECTORY_ENTRIES = 4096
_HEADER_BYTES, _ENTRY_BYTES, _TABLES_IN_HEADER = 512, 128, 109
_LAST_SECTOR = 0xFFFFFFFA
_NO_ENTRY = 0xFFFFFFFF
_MIN_BYTES = 4096
"""Size from which a stream has its own sectors. Smaller streams share the sectors of the container."""


class OleContainer:
    """A container in memory."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER_BYTES or not data.startswith(SIGNATURE):
            raise ValueError("The data is no OLE container.")
        self._data = data
        self._size = 1 << min(struct.unpack_from("<H", data, 30)[0], 16)
        self._table = self._read_table()
        self._directory = self._join_chain(struct.unpack_from("<I", data, 48)[0])

    def read_stream(self, *names: str) -> bytes:
        """Return the first stream with one of these names in the root storage; no bytes if it is missing or small.

        Args:
            names: Names in lower case.
        """
        for start in self._list_root_entries():
            entry = self._directory[start : start + _ENTRY_BYTES]
            length = min(struct.unpack_from("<H", entry, 64)[0], 64)
            name = entry[: max(0, length - 2)].decode("utf-16-le", "replace").lower()
            first, size = struct.unpack_from("<II", entry, 116)
            if name in names and size >= _MIN_BYTES:
                return self._join_chain(first)[:size]
        return b""

    def _list_root_entries(self) -> list[int]:
        """Return the offsets of the entries of the root storage, which form a tree."""
        if len(self._directory) < _ENTRY_BYTES:
            return []
        waiting = [struct.unpack_from("<I", self._directory, 76)[0]]
        visited: set[int] = set()
        offsets = []
        while waiting and len(visited) < MAX_DIRECTORY_ENTRIES:
            number = waiting.pop()
            start = number * _ENTRY_BYTES
            if number == _NO_ENTRY or number in visited or start + _ENTRY_BYTES > len(self._directory):
                continue
            visited.add(number)
            offsets.append(start)
            waiting.extend(struct.unpack_from("<II", self._directory, start + 68))
        return offsets

    def _read_sector(self, number: int) -> bytes:
        return self._data[(number + 1) * self._size : (number + 2) * self._size]

    def _read_table(self) -> list[int]:
        """Return the allocation table: the next sector of each sector."""
        numbers = list(struct.unpack_from(f"<{_TABLES_IN_HEADER}I", self._data, 76))
        more = struct.unpack_from("<I", self._data, 68)[0]
        places = self._size // 4
        for _ in range(len(self._data) // self._size):
            sector = self._read_sector(more) if more < _LAST_SECTOR else b""
            if len(sector) < self._size:
                break
            *listed, more = struct.unpack(f"<{places}I", sector)
            numbers += listed
        table: list[int] = []
        for number in numbers:
            sector = self._read_sector(number) if number < _LAST_SECTOR else b""
            if len(sector) == self._size and len(table) * self._size <= len(self._data):
                table += struct.unpack(f"<{places}I", sector)
        return table

    def _join_chain(self, sector: int) -> bytes:
        parts = []
        for _ in range(len(self._table)):
            if sector >= len(self._table):
                break
            parts.append(self._read_sector(sector))
            sector = self._table[sector]
        return b"".join(parts)
