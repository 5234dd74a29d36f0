"""Zip bombs in formats that are zip archives, by ratio, number of members and nesting; and archives with false data."""

import struct
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO

from harness.hostile import HostileFile
from harness.hostile.zip_packages import (
    Members,
    build_book,
    build_cell,
    build_paragraph,
    build_presentation,
    build_text_box,
    build_word_document,
    build_workbook,
    pack_zip,
)
from harness.reproducible_files import create_zip_member

MEBIBYTE = 1 << 20
MEMBER_COUNT = 21_000
PACKAGE_BUILDERS: dict[str, Callable[[str], dict[str, str | bytes]]] = {
    "docx": lambda text: build_word_document(build_paragraph(text)),
    "xlsx": lambda text: build_workbook(f'<row r="1">{build_cell("A1", text)}</row>'),
    "pptx": lambda text: build_presentation(build_text_box(text)),
    "epub": lambda text: build_book(text),
}
_MAIN_MEMBERS = {"docx": "word/document.xml", "xlsx": "xl/worksheets/sheet1.xml", "pptx": "ppt/slides/slide1.xml",
         "epub": "c.xhtml"}  # fmt: skip


def generate_zip_bombs() -> Iterator[HostileFile]:
    """Generate each bomb and each false archive in each format."""
    inner = pack_zip({"b": bytes(10 * MEBIBYTE)})
    for kind, make in PACKAGE_BUILDERS.items():
        members = make("a text")
        bombs: dict[str, bytes] = {
            "ratio": pack_zip({**members, "media/zeros.bin": bytes(120 * MEBIBYTE)}),
            "long part": pack_zip(make("a" * (70 * MEBIBYTE))),
            "spaces": pack_zip(make(" " * (40 * MEBIBYTE) + "a")),
            "members": pack_zip({**members, **{f"m/{number}": b"" for number in range(MEMBER_COUNT)}}),
            "nested": pack_zip({**members, **{f"{number}.{kind}": inner for number in range(20)}}),
            "empty parts": pack_zip(dict.fromkeys(members, "")),
            "nulls": pack_zip({**members, _MAIN_MEMBERS[kind]: bytes(1000)}),
        }
        yield from (HostileFile("zip bomb", f"{kind} {label}", f"bomb.{kind}", data) for label, data in bombs.items())
        yield from _generate_false_archives(kind, members)


def _generate_false_archives(kind: str, members: Members) -> Iterator[HostileFile]:
    whole = pack_zip(members)
    start = whole.rfind(b"PK\x05\x06")
    counted = whole[: start + 8] + struct.pack("<HH", 60_000, 60_000) + whole[start + 12 :]
    moved = whole[: start + 16] + struct.pack("<I", 0xFFFFFFF0) + whole[start + 20 :]
    lies = {
        "members that are not there": counted,
        "a directory elsewhere": moved,
        "a size that is not so": _falsify_size(whole),
        "the same member thrice": _repeat_member(members, _MAIN_MEMBERS[kind]),
        "names that lead out": pack_zip({**members, "../../etc/passwd": "a", "/tmp/b": "b", "C:\\c": "c"}),
        "an unknown compression": _falsify_method(whole),
    }
    yield from (HostileFile("lying archive", f"{kind} {label}", f"lie.{kind}", data) for label, data in lies.items())


def _find_directory_entries(whole: bytes) -> Iterator[int]:
    at = whole.find(b"PK\x01\x02")
    while at >= 0:
        yield at
        at = whole.find(b"PK\x01\x02", at + 4)


def _falsify_size(whole: bytes) -> bytes:
    changed = bytearray(whole)
    for at in _find_directory_entries(whole):
        changed[at + 24 : at + 28] = struct.pack("<I", 3)
    return bytes(changed)


def _falsify_method(whole: bytes) -> bytes:
    changed = bytearray(whole)
    for at in _find_directory_entries(whole):
        changed[at + 10 : at + 12] = struct.pack("<H", 97)
    return bytes(changed)


def _repeat_member(members: Members, name: str) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for member, content in members.items():
            archive.writestr(create_zip_member(member, zipfile.ZIP_STORED), content)
    # zipfile warns of duplicate names, so the names are replaced afterwards.
    other = "z" * len(name)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(create_zip_member(other, zipfile.ZIP_STORED), "<a>")
        archive.writestr(create_zip_member(other[:-1] + "y", zipfile.ZIP_STORED), members[name])
    return file.getvalue().replace(other.encode(), name.encode()).replace((other[:-1] + "y").encode(), name.encode())
