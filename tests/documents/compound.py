"""Writer of OLE containers: a header, allocation tables, and a directory that names empty streams."""

import struct

from app.documents.upload.ole import SIGNATURE

SECTOR = 512
_END, _FREE, _TABLE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD


def entry(name: str) -> bytes:
    raw = name.encode("utf-16-le")
    return raw.ljust(64, b"\0") + struct.pack("<H", len(raw) + 2) + bytes(62)


def container(*names: str, first: int = 1) -> bytes:
    """Return a container.

    The directory begins at sector ``first`` and continues in the next sectors; the first table is sector 0.
    """
    entries = [entry(name) for name in ("Root Entry", *names)]
    directory = [b"".join(entries[start : start + 4]).ljust(SECTOR, b"\0") for start in range(0, len(entries), 4)]
    last = first + len(directory) - 1
    table = {number: number + 1 for number in range(first, last)} | {last: _END, 0: _TABLE}
    sectors: dict[int, bytes] = {first + index: content for index, content in enumerate(directory)}
    tables = last // 128 + 1
    places = [0, *range(last + 1, last + tables)]
    listed = [*places[:109], *[_FREE] * (109 - len(places))]
    more = places[109:]
    for index, place in enumerate(places):
        numbers = [table.get(128 * index + offset, _FREE) for offset in range(128)]
        sectors[place] = struct.pack("<128I", *numbers)
    chain = [last + tables + index for index in range(-(-len(more) // 127))]
    for index, place in enumerate(chain):
        numbers = [*more[127 * index : 127 * index + 127]]
        numbers += [_FREE] * (127 - len(numbers)) + [chain[index + 1] if index + 1 < len(chain) else _END]
        sectors[place] = struct.pack("<128I", *numbers)
    header = bytearray(SIGNATURE.ljust(SECTOR, b"\0"))
    struct.pack_into("<H", header, 30, 9)
    struct.pack_into("<I", header, 48, first)
    struct.pack_into("<I", header, 68, chain[0] if chain else _END)
    struct.pack_into("<109I", header, 76, *listed)
    empty = bytes(SECTOR)
    return bytes(header) + b"".join(sectors.get(number, empty) for number in range(max(sectors) + 1))
