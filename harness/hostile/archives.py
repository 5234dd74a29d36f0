"""Zip bombs in the formats that are archives: by ratio, by number of members, by nesting; and archives that lie."""

import struct
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO

from harness.hostile import HostileFile
from harness.hostile.zip_packages import Members, book, cell, packed, paragraph, shape, slides, word, workbook
from harness.reproducible_files import zip_member

MEBIBYTE = 1 << 20
MEMBERS = 21_000
KINDS: dict[str, Callable[[str], dict[str, str | bytes]]] = {
    "docx": lambda text: word(paragraph(text)),
    "xlsx": lambda text: workbook(f'<row r="1">{cell("A1", text)}</row>'),
    "pptx": lambda text: slides(shape(text)),
    "epub": lambda text: book(text),
}
_MAIN = {"docx": "word/document.xml", "xlsx": "xl/worksheets/sheet1.xml", "pptx": "ppt/slides/slide1.xml",
         "epub": "c.xhtml"}  # fmt: skip


def zip_bombs() -> Iterator[HostileFile]:
    """Every bomb in every kind."""
    inner = packed({"b": bytes(10 * MEBIBYTE)})
    for kind, make in KINDS.items():
        members = make("a text")
        bombs: dict[str, bytes] = {
            "ratio": packed({**members, "media/zeros.bin": bytes(120 * MEBIBYTE)}),
            "long part": packed(make("a" * (70 * MEBIBYTE))),
            "spaces": packed(make(" " * (40 * MEBIBYTE) + "a")),
            "members": packed({**members, **{f"m/{number}": b"" for number in range(MEMBERS)}}),
            "nested": packed({**members, **{f"{number}.{kind}": inner for number in range(20)}}),
            "empty parts": packed(dict.fromkeys(members, "")),
            "nulls": packed({**members, _MAIN[kind]: bytes(1000)}),
        }
        yield from (HostileFile("zip bomb", f"{kind} {label}", f"bomb.{kind}", data) for label, data in bombs.items())
        yield from _lying_archives(kind, members)


def _lying_archives(kind: str, members: Members) -> Iterator[HostileFile]:
    whole = packed(members)
    start = whole.rfind(b"PK\x05\x06")
    counted = whole[: start + 8] + struct.pack("<HH", 60_000, 60_000) + whole[start + 12 :]
    moved = whole[: start + 16] + struct.pack("<I", 0xFFFFFFF0) + whole[start + 20 :]
    lies = {
        "members that are not there": counted,
        "a directory elsewhere": moved,
        "a size that is not so": _other_size(whole),
        "the same member thrice": _repeated(members, _MAIN[kind]),
        "names that lead out": packed({**members, "../../etc/passwd": "a", "/tmp/b": "b", "C:\\c": "c"}),
        "an unknown compression": _other_method(whole),
    }
    yield from (HostileFile("lying archive", f"{kind} {label}", f"lie.{kind}", data) for label, data in lies.items())


def _directory_entries(whole: bytes) -> Iterator[int]:
    at = whole.find(b"PK\x01\x02")
    while at >= 0:
        yield at
        at = whole.find(b"PK\x01\x02", at + 4)


def _other_size(whole: bytes) -> bytes:
    changed = bytearray(whole)
    for at in _directory_entries(whole):
        changed[at + 24 : at + 28] = struct.pack("<I", 3)
    return bytes(changed)


def _other_method(whole: bytes) -> bytes:
    changed = bytearray(whole)
    for at in _directory_entries(whole):
        changed[at + 10 : at + 12] = struct.pack("<H", 97)
    return bytes(changed)


def _repeated(members: Members, name: str) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member, content in members.items():
            archive.writestr(zip_member(member, zipfile.ZIP_STORED), content)
    # zipfile warns of a name that comes twice, so the names are made equal afterwards.
    other = "z" * len(name)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(zip_member(other, zipfile.ZIP_STORED), "<a>")
        archive.writestr(zip_member(other[:-1] + "y", zipfile.ZIP_STORED), members[name])
    return file.getvalue().replace(other.encode(), name.encode()).replace((other[:-1] + "y").encode(), name.encode())
