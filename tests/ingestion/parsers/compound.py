"""Compound files with streams and storages, and Outlook messages, for the tests of the parser."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Union

Tree = Mapping[str, Union[bytes, "Tree"]]
_END, _FREE, _TABLE, _NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF
_SECTOR, _MINI, _LIMIT = 512, 64, 4096


class _Writer:
    def __init__(self) -> None:
        self.entries: list[list[object]] = []
        self.mini = b""
        self.mini_table: list[int] = []
        self.sectors: list[bytes] = []
        self.table: list[int] = []

    def add(self, name: str, kind: int) -> int:
        self.entries.append([name, kind, _NONE, _NONE, _NONE, _END if kind == 2 else 0, 0])
        return len(self.entries) - 1

    def add_tree(self, parent: int, tree: Tree) -> None:
        previous = None
        for name, value in tree.items():
            number = self.add(name, 2 if isinstance(value, bytes) else 1)
            if previous is None:
                self.entries[parent][4] = number
            else:
                self.entries[previous][3] = number
            previous = number
            if isinstance(value, bytes):
                self.entries[number][5:] = [self.store(value), len(value)]
            else:
                self.add_tree(number, value)

    def store(self, data: bytes) -> int:
        if len(data) >= _LIMIT:
            return self.add_chain(data)
        if not data:
            return _END
        first, count = len(self.mini_table), -(-len(data) // _MINI)
        self.mini += data.ljust(count * _MINI, b"\0")
        self.mini_table += [*range(first + 1, first + count), _END]
        return first

    def add_chain(self, data: bytes) -> int:
        if not data:
            return _END
        first, count = len(self.sectors), -(-len(data) // _SECTOR)
        self.sectors += [data[start : start + _SECTOR].ljust(_SECTOR, b"\0") for start in range(0, len(data), _SECTOR)]
        self.table += [*range(first + 1, first + count), _END]
        return first


def compound(tree: Tree) -> bytes:
    """Return a compound file. A value of the tree is the content of a stream, or the tree of a storage."""
    writer = _Writer()
    root = writer.add("Root Entry", 5)
    writer.add_tree(root, tree)
    writer.entries[root][5:] = [writer.add_chain(writer.mini), len(writer.mini)]
    mini_table = writer.add_chain(struct.pack(f"<{len(writer.mini_table)}I", *writer.mini_table))
    directory = writer.add_chain(b"".join(_entry(*entry) for entry in writer.entries))  # type: ignore[arg-type]
    count = 1
    while count * (_SECTOR // 4) < len(writer.sectors) + count:
        count += 1
    first = len(writer.sectors)
    numbers = [*writer.table, *[_TABLE] * count]
    numbers += [_FREE] * (count * (_SECTOR // 4) - len(numbers))
    table = struct.pack(f"<{len(numbers)}I", *numbers)
    header = bytearray(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(_SECTOR, b"\0"))
    struct.pack_into("<5H", header, 24, 0x3E, 3, 0xFFFE, 9, 6)
    struct.pack_into("<9I", header, 40, 0, count, directory, 0, _LIMIT, mini_table, 1, _END, 0)
    listed = [*range(first, first + count)]
    struct.pack_into("<109I", header, 76, *listed, *[_FREE] * (109 - count))
    return bytes(header) + b"".join(writer.sectors) + table


def _entry(name: str, kind: int, left: int, right: int, child: int, start: int, size: int) -> bytes:
    raw = name.encode("utf-16-le")
    head = raw.ljust(64, b"\0") + struct.pack("<H2B3I", len(raw) + 2, kind, 1, left, right, child)
    return head.ljust(116, b"\0") + struct.pack("<IQ", start, size)


def text(identifier: int, value: str) -> dict[str, bytes]:
    return {f"__substg1.0_{identifier:04X}001F": value.encode("utf-16-le")}


def text8(identifier: int, value: bytes) -> dict[str, bytes]:
    return {f"__substg1.0_{identifier:04X}001E": value}


def binary(identifier: int, value: bytes) -> dict[str, bytes]:
    return {f"__substg1.0_{identifier:04X}0102": value}


def fixed(numbers: Mapping[int, int], header: int, *, times: Mapping[int, int] | None = None) -> dict[str, bytes]:
    """Return the stream of properties with numbers and times; ``header`` is the length of its header."""
    data = bytes(header)
    for identifier, value in numbers.items():
        data += struct.pack("<IIQ", identifier << 16 | 3, 6, value)
    for identifier, value in (times or {}).items():
        data += struct.pack("<IIQ", identifier << 16 | 0x40, 6, value)
    return {"__properties_version1.0": data}


def message(*parts: Tree, numbers: Mapping[int, int] | None = None, header: int = 32, time: int = 0) -> Tree:
    tree: dict[str, bytes | Tree] = dict(fixed(numbers or {}, header, times={0x39: time} if time else None))
    for part in parts:
        tree |= part
    return tree


def write(path: Path, tree: Tree) -> Path:
    path.write_bytes(compound(tree))
    return path
