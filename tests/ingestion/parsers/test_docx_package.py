"""Word: titles, dialects, and packages with false, external or damaged parts."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.documents.types import ReceivedFile
from app.documents.upload.media_type import detect_media_type
from app.ingestion.parsers import PARSERS, ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from app.ingestion.types import BlockKind, CorruptFile, EncryptedFile, NoTextFound, TextTooLong
from app.warnings import ServiceWarning
from tests.ingestion.parsers.word import LINKS, STRICT_WORD, WORD, cell, links, p, run, style, table, text_of, write

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.docx"


@pytest.mark.parametrize(
    ("core", "title"),
    [
        ("<dc:title>Fleet guide</dc:title>", "Fleet guide"),
        ("<dc:title>Word Document</dc:title>", "Chapter"),
        ("<dc:title>Dokument1</dc:title>", "Chapter"),
        ("<dc:title>Microsoft Word - a.doc</dc:title>", "Chapter"),
        ("<dc:title/>", "Chapter"),
        ("", "Chapter"),
    ],
)
def test_docx_title_is_read(core: str, title: str, path: Path, options: ParseOptions) -> None:
    root = f'<x xmlns:dc="http://purl.org/dc/elements/1.1/">{core}</x>'
    body = p("Part", style("Heading2")) + p("Chapter", style("Heading1"))
    assert docx_parser.parse(write(path, body, {"docProps/core.xml": root}), options).title == title


@pytest.mark.parametrize("extension", ["docx", "docm", "dotx", "dotm"])
def test_docx_template_and_macro_file_are_detected_and_read(
    extension: str, tmp_path: Path, options: ParseOptions
) -> None:
    content_type = f"application/vnd.ms-word.{extension}.main+xml"
    types = f'<Types><Override PartName="/word/document.xml" ContentType="{content_type}"/></Types>'
    path = write(tmp_path / f"test.{extension}", p("Nine to five"))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("[Content_Types].xml", types)
    media_type = detect_media_type(ReceivedFile(path, path.name, None, path.stat().st_size, b""), PARSERS)
    assert extension in PARSERS[media_type].extensions
    assert text_of(docx_parser.parse(path, options)) == ["Nine to five"]


def test_docx_strict_dialect_is_read(path: Path, options: ParseOptions) -> None:
    write(path, p("Strict", style("Heading1")) + table([cell(p("a")), cell(p("b"))], [cell(p("c")), cell(p("d"))]))
    other = path.with_name("strict.docx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            strict = old.read(name).replace(WORD.encode(), STRICT_WORD.encode())
            new.writestr(
                name, strict.replace(LINKS.encode(), b"http://purl.oclc.org/ooxml/officeDocument/relationships")
            )
    assert [block.kind for block in docx_parser.parse(other, options).blocks] == [BlockKind.HEADING, BlockKind.TABLE]


def test_docx_external_parts_are_not_fetched(path: Path, options: ParseOptions) -> None:
    outside = "".join(
        f'<Relationship Id="{name}" Type="{LINKS}/{kind}" Target="http://127.0.0.1:9/x.xml" TargetMode="External"/>'
        for name, kind in (("s", "styles"), ("h", "header"), ("i", "image"), ("c", "chart"), ("t", "attachedTemplate"))
    )
    up = f'<Relationship Id="u" Type="{LINKS}/footer" Target="../../../etc/passwd"/>'
    missing = f'<Relationship Id="n" Type="{LINKS}/image" Target="NULL"/>'
    body = p("text") + f"<w:p>{run('<c:chart r:id=' + chr(34) + 'c' + chr(34) + '/>')}</w:p>"
    body += '<w:sectPr><w:headerReference r:id="h"/><w:footerReference r:id="u"/></w:sectPr>'
    document = docx_parser.parse(write(path, body, extra_links=outside + up + missing), options)
    assert (text_of(document), document.warnings) == (
        ["text"],
        [ServiceWarning("images_not_read", "1 image was not read.", 1)],
    )


def test_docx_damaged_parts_are_left_out(path: Path, options: ParseOptions) -> None:
    document = docx_parser.parse(write(path, p("text"), {"styles": "<w:styles", "numbering": ""}), options)
    assert (text_of(document), document.warnings) == (
        ["text"],
        [ServiceWarning("damaged_parts_not_read", "2 damaged parts were not read.", 2)],
    )


def test_docx_entities_are_not_expanded(path: Path, options: ParseOptions) -> None:
    write(path, p("&big;"))
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY big "&a;&a;"><!ENTITY out SYSTEM "file:///etc/passwd">]>'
    other = path.with_name("entity.docx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, bomb.encode() + data.replace(b"&big;", b"a&big;b&out;") if b"body" in data else data)
    assert text_of(docx_parser.parse(other, options)) == ["a"]


def test_docx_deep_nesting_is_read_to_xml_limit(path: Path, options: ParseOptions) -> None:
    deep = p("bottom")
    for _ in range(50):
        deep = table([cell(deep)])
    assert text_of(docx_parser.parse(write(path, deep), options)) == ["bottom"]
    with pytest.raises(CorruptFile):
        docx_parser.parse(write(path, "<w:ins>" * 5000 + "</w:ins>" * 5000), options)


def test_docx_too_much_text_is_refused(path: Path, options: ParseOptions) -> None:
    limited = ParseOptions(None, max_pages=1, max_characters=1000)
    with pytest.raises(TextTooLong):
        docx_parser.parse(write(path, p("word " * 10) * 30), limited)


def test_docx_table_padded_above_limit_is_refused(path: Path, options: ParseOptions) -> None:
    ragged = table([cell(p("x"))] * 500, *[[cell(p("y"))]] * 500)
    with pytest.raises(TextTooLong):
        docx_parser.parse(write(path, ragged), options)


async def test_docx_is_parsed_in_process(path: Path, pool: ParserPool) -> None:
    media_type = next(spec.media_type for spec in PARSERS.values() if "docx" in spec.extensions)
    document = await pool.parse(write(path, p("text", style("Heading1"))), media_type)
    assert (document.title, text_of(document)) == ("text", ["text"])
    with pytest.raises(NoTextFound):
        await pool.parse(write(path, p("")), media_type)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"[Content_Types].xml": b"<Types/>"},
        {"_rels/.rels": b"<Relation"},
        {"_rels/.rels": links([("d", "officeDocument", "word/document.xml")]).encode()},
        {
            "_rels/.rels": links([("d", "officeDocument", "word/document.xml")]).encode(),
            "word/document.xml": f'<w:document xmlns:w="{WORD}"/>'.encode(),
        },
        {
            "_rels/.rels": links([("d", "officeDocument", "word/document.xml")]).encode(),
            "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>'.encode(),
        },
    ],
)
def test_docx_other_zip_is_corrupt(members: dict[str, bytes], path: Path, options: ParseOptions) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(CorruptFile):
        docx_parser.parse(path, options)


def test_docx_truncated_or_flipped_file_is_corrupt(path: Path, options: ParseOptions) -> None:
    data = write(path, p("word " * 2000)).read_bytes()
    for damaged in (b"", data[: len(data) // 2], data[:40] + b"\0" * 60 + data[100:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFile):
            docx_parser.parse(path, options)


def test_docx_encrypted_members_are_encrypted_file(path: Path, options: ParseOptions) -> None:
    data = bytearray(write(path, p("text")).read_bytes())
    start = data.index(b"PK\x01\x02")
    data[start + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(EncryptedFile):
        docx_parser.parse(path, options)
