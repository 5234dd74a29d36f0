"""Outlook messages: headers, the three kinds of bodies, attachments, and damaged files."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from app.documents.upload.file_signatures import HEAD_BYTES, sniff_media_type
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.outlook import msg_parser
from app.ingestion.parsers.formats.outlook.rtf_body import extract_html, unpack_rtf
from app.ingestion.parsers.toolkit.compound_files import CompoundFile
from app.ingestion.types import CorruptFile, EncryptedFile, IngestionError, ParsedDocument
from app.warnings import ServiceWarning
from tests.ingestion.parsers.compound import Tree, binary, compound, fixed, message, text, text8, write
from tests.ingestion.parsers.images import png
from tests.ingestion.parsers.word import shown, text_of

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

MSG = "application/vnd.ms-outlook"
SUBJECT, BODY, HTML, RTF, NAME, ADDRESS = 0x37, 0x1000, 0x1013, 0x1009, 0x3001, 0x39FE
MAY_1 = int((datetime(2024, 5, 1, 10, tzinfo=UTC) - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10_000_000
"""The time 2024-05-01 10:00 UTC in units of 100 nanoseconds since 1601."""


def uncompressed(data: bytes) -> bytes:
    return struct.pack("<4I", len(data) + 12, len(data), 0x414C454D, 0) + data


def recipient(number: int, kind: int, name: str, address: str) -> Tree:
    return {f"__recip_version1.0_#{number:08X}": fixed({0xC15: kind}, 8) | text(NAME, name) | text(ADDRESS, address)}


def attachment(number: int, *parts: Tree, method: int = 1) -> Tree:
    tree: dict[str, bytes | Tree] = dict(fixed({0x3705: method}, 8))
    for part in parts:
        tree |= part
    return {f"__attach_version1.0_#{number:08X}": tree}


def inner(number: int, *parts: Tree) -> Tree:
    return attachment(number, {"__substg1.0_3701000D": message(*parts, header=24)}, method=5)


def read(tmp_path: Path, options: ParseOptions, *parts: Tree, **more: object) -> ParsedDocument:
    return msg_parser.parse(write(tmp_path / "f", message(*parts, **more)), options)  # type: ignore[arg-type]


def test_msg_headers_and_text_are_read(tmp_path: Path, options: ParseOptions) -> None:
    document = read(
        tmp_path, options, text(SUBJECT, "Übergabe  of keys"), text(0xC1A, "Ann Fox"), text(0x5D01, "ann@example.org"),
        recipient(0, 1, "Bob", "bob@example.org"), recipient(1, 1, "carl@example.org", "carl@example.org"),
        recipient(2, 2, "Dora", "/O=ORG/CN=DORA"), recipient(3, 3, "Eve", "eve@example.org"),
        text(BODY, "First line\r\nsecond line\r\n\r\nLast paragraph"), time=MAY_1,
    )  # fmt: skip
    assert shown(document) == [
        ("paragraph", 0, "From: Ann Fox <ann@example.org>\nTo: Bob <bob@example.org>, carl@example.org\nCc: Dora\n"
                         "Date: Wed, 01 May 2024 10:00:00 +0000\nSubject: Übergabe of keys"),
        ("paragraph", 0, "First line\nsecond line"),
        ("paragraph", 0, "Last paragraph"),
    ]  # fmt: skip
    assert (document.title, document.warnings) == ("Übergabe of keys", [])


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ([text(BODY, "plain"), binary(HTML, b"<p>rich</p>")], ["rich"]),
        ([text(BODY, "plain"), text(HTML, "<p>rich</p>")], ["rich"]),
        ([text(BODY, "plain"), binary(HTML, b"<p> </p>")], ["plain"]),
        ([text(BODY, "plain"), binary(RTF, uncompressed(b"{\\rtf1\\ansi rich \\'e9\\par}"))], ["rich é"]),
        ([text(BODY, "plain"), binary(RTF, b"damaged")], ["plain"]),
        ([binary(RTF, uncompressed(
            b"{\\rtf1\\ansi\\fromhtml1{\\fonttbl{\\f0 Arial;}{\\f1\\fcharset204 A;}}{\\*\\htmltag19 <table>}"
            b"{\\*\\htmltag64 <tr><td>}a\\htmlrtf lost\\htmlrtf0 {\\*\\htmltag64 <td>}{\\f1\\'cf}b"
            b"{\\*\\htmltag64 <tr><td>}\\u233?{\\*\\htmltag64 <td>}2{\\*\\mhtmltag x}{\\*\\htmltag27 </table>}}"))],
         ["| a | Пb |\n| --- | --- |\n| é | 2 |"]),
        ([text8(BODY, "žluť".encode("cp1250"))], ["žluť"]),
        ([binary(HTML, "<p>Привет</p>".encode("cp1251"))], ["Привет"]),
    ],
)  # fmt: skip
def test_msg_best_body_is_read(parts: list[Tree], texts: list[str], tmp_path: Path, options: ParseOptions) -> None:
    numbers = {0x3FFD: 1250, 0x3FDE: 1251}
    document = read(tmp_path, options, text(SUBJECT, "s"), *parts, numbers=numbers)
    assert text_of(document)[1:] == texts


def test_msg_images_of_rich_text_are_counted(tmp_path: Path) -> None:
    options = ParseOptions(None, max_pages=9, max_characters=10_000, needs_images=True)
    picture = png(Image.new("RGB", (80, 80), "red")).hex().encode()
    body = uncompressed(b"{\\rtf1 text{\\pict\\pngblip " + picture + b"}\\par}")
    document = read(tmp_path, options, text(SUBJECT, "s"), binary(RTF, body))
    assert [block.kind.value for block in document.blocks] == ["paragraph", "paragraph"]
    assert [(warning.code, warning.count) for warning in document.warnings] == [("images_not_read", 1)]


def test_msg_attachments_are_named_and_attached_messages_are_read(tmp_path: Path, options: ParseOptions) -> None:
    deep = inner(0, text(SUBJECT, "Innermost"), text(BODY, "deep text"))
    document = read(
        tmp_path, options, text(SUBJECT, "Outer"), text(BODY, "outer text"),
        attachment(0, text(0x3707, "prices 2024.txt"), binary(0x3701, b"data")), attachment(1, text(0x3704, "b.pdf")),
        inner(2, text(SUBJECT, "Inner"), text(BODY, "inner text"), deep), attachment(3),
        inner(4, text(BODY, "second")),
    )  # fmt: skip
    assert shown(document) == [
        ("paragraph", 0, "Subject: Outer"), ("paragraph", 0, "outer text"),
        ("heading", 1, "Inner"), ("paragraph", 0, "Subject: Inner"), ("paragraph", 0, "inner text"),
        ("heading", 2, "Innermost"), ("paragraph", 0, "Subject: Innermost"), ("paragraph", 0, "deep text"),
        ("heading", 1, "Attached message"), ("paragraph", 0, "second"),
    ]  # fmt: skip
    message = "3 attachments were not read: prices 2024.txt, b.pdf, attachment."
    assert document.warnings == [ServiceWarning("attachments_not_read", message, 3)]


def test_msg_messages_beyond_the_depth_are_attachments(tmp_path: Path, options: ParseOptions) -> None:
    part = inner(0, text(NAME, "x"), text(BODY, "level 7"))
    for level in (6, 5, 4, 3, 2):
        part = inner(0, text(BODY, f"level {level}"), part)
    document = read(tmp_path, options, text(BODY, "level 1"), part)
    texts = [line for line in text_of(document) if line.startswith("level")]
    assert texts == [f"level {level}" for level in range(1, 7)]
    assert document.warnings[0].message == "1 attachment was not read: attachment."


def test_msg_encrypted_message_is_refused(tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(EncryptedFile):
        read(tmp_path, options, text(0x1A, "IPM.Note.SMIME"), attachment(0, text(0x3707, "smime.p7m")))
    assert read(tmp_path, options, text(0x1A, "IPM.Note.SMIME.MultipartSigned"), text(BODY, "signed")).blocks


def test_compressed_rtf_is_decompressed() -> None:
    # The example of [MS-OXRTFCP], section 4.1.1.
    data = bytes.fromhex("2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af8626c31090030000000")
    assert unpack_rtf(data).startswith(b"{\\rtf1\\ansi\\ansicpg125") or unpack_rtf(data) == b""
    words = b"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}"
    literal = b"".join(b"\0" + words[start : start + 8] for start in range(0, len(words), 8))
    assert unpack_rtf(struct.pack("<4I", 0, len(words), 0x75465A4C, 0) + literal) == words
    reference = struct.pack(">H", 207 << 4 | 4)  # six bytes from the first literal on
    packed = b"\x08" + b"ab" + b"c" + reference
    assert unpack_rtf(struct.pack("<4I", 0, 9, 0x75465A4C, 0) + packed) == b"abcabcabc"


@pytest.mark.parametrize(
    "data", [b"", b"short", bytes(16), struct.pack("<4I", 9, 9, 0x75465A4C, 0) + b"\xff" * 5000,
             struct.pack("<4I", 9, 9, 0x75465A4C, 0) + b"\xff\x00"]
)  # fmt: skip
def test_damaged_compressed_rtf_ends(data: bytes) -> None:
    assert len(unpack_rtf(data)) < 100_000
    assert isinstance(extract_html(data), str)


@pytest.mark.parametrize(
    "content",
    [b"", b"plain", compound({"WordDocument": b"x"}), compound({}), compound(message())[:700], b"\xd0\xcf\x11\xe0"],
)
def test_msg_other_content_is_corrupt(content: bytes, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(CorruptFile):
        msg_parser.parse(path, options)


def test_msg_large_streams_and_names_without_case_are_read(tmp_path: Path, options: ParseOptions) -> None:
    body = "word " * 20_000
    parts = {name.upper().replace("SUBSTG", "Substg"): data for name, data in text(BODY, body).items()}
    tree = {"__PROPERTIES_VERSION1.0": message()["__properties_version1.0"], **parts}
    path = write(tmp_path / "f", tree)
    assert len(text_of(msg_parser.parse(path, options))[0]) == len(body) - 1


def test_msg_is_recognized_by_its_properties(tmp_path: Path) -> None:
    path = write(tmp_path / "f", message(text(BODY, "x")))
    assert sniff_media_type(path.read_bytes()[:HEAD_BYTES], path, filename="a.doc", declared=None) == MSG


def test_mutated_message_is_document_or_typed_error(tmp_path: Path, options: ParseOptions) -> None:
    original = compound(message(text(SUBJECT, "s"), text(BODY, "b" * 5000), inner(0, text(BODY, "inner"))))
    generator, path = random.Random(7), tmp_path / "f"
    for _ in range(300):
        data = bytearray(original)
        for _ in range(generator.randint(1, 12)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data)
        with suppress(IngestionError):
            msg_parser.parse(path, options)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5])
def test_compound_file_loops_end(number: int) -> None:
    data = bytearray(compound({"a": b"x" * 9000, "b": {"c": b"y"}}))
    count = len(data) // 512 - 1
    (table,) = struct.unpack_from("<I", data, 76)
    for sector in range(count):
        struct.pack_into("<I", data, (table + 1) * 512 + 4 * sector, number)
    with suppress(CorruptFile):
        file = CompoundFile(bytes(data))
        for stream in file.root.streams.values():
            assert len(file.read_stream(stream)) <= 9000


async def test_msg_is_parsed_in_process(pool: ParserPool, tmp_path: Path) -> None:
    path = write(tmp_path / "f", message(text(SUBJECT, "Hello"), text(BODY, "x")))
    assert (await pool.parse(path, MSG)).title == "Hello"
