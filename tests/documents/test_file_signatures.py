"""File types by content: signatures, kinds of zip files and text types; the declared type counts little."""

import io
import zipfile
from pathlib import Path

import pytest

from app.documents.upload.file_signatures import HEAD_BYTES, sniff_media_type
from tests.documents.compound import container

ROOT = Path(__file__).resolve().parents[2]
OFFICE = "application/vnd.openxmlformats-officedocument"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def zipped(*names: str, mimetype: str | None = None, types: str = "") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        if mimetype is not None:
            archive.writestr("mimetype", mimetype)
        if types:
            archive.writestr("[Content_Types].xml", f'<Types><Override ContentType="{types}"/></Types>')
        for name in names:
            archive.writestr(name, b"<x/>")
    return target.getvalue()


def sniffed(content: bytes, directory: Path, *, filename: str = "upload", declared: str | None = None) -> str:
    path = directory / "content"
    path.write_bytes(content)
    return sniff_media_type(content[:HEAD_BYTES], path, filename=filename, declared=declared)


@pytest.mark.capability("format-sniff")
@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"%PDF-1.7\n...", "application/pdf"),
        (b"\xef\xbb\xbf junk before %PDF-1.4\n1 0 obj\n<<>>", "application/pdf"),
        (b"The magic number of a PDF is %PDF-1.7, and ZIP has PK.", "text/plain"),
        (zipped("[content_types].xml", "word\\document.xml"), f"{OFFICE}.wordprocessingml.document"),
        (zipped("[CONTENT_TYPES].XML", "XL/workbook.xml"), f"{OFFICE}.spreadsheetml.sheet"),
        (zipped("[content_types].xml", "PPT\\presentation.xml"), f"{OFFICE}.presentationml.presentation"),
        (zipped("[Content_Types].xml", "xl/workbook.bin"), f"{OFFICE}.spreadsheetml.sheet"),
        (
            zipped(
                "workbook.xml", types="application/vnd.openxmlformats-officedocument.spreadsheetml.template.main+xml"
            ),
            f"{OFFICE}.spreadsheetml.sheet",
        ),
        (
            zipped("document.xml", types=f"{OFFICE}.wordprocessingml.document.main+xml"),
            f"{OFFICE}.wordprocessingml.document",
        ),
        (zipped("MIMETYPE", "a"), "application/zip"),
        (container("WORKBOOK"), "application/vnd.ms-excel"),
        (container("BOOK"), "application/vnd.ms-excel"),
        (container("book"), "application/vnd.ms-excel"),
        (container("WORDDOCUMENT"), "application/msword"),
        (container("encryptedPackage"), "application/encrypted"),
        (b"GIF89a is the second version of the format, and GIF87a the first.", "text/plain"),
        (b"{\\rtfm} is no macro", "text/plain"),
        ("Гарантийный срок два года".encode("utf-16-le"), "text/plain"),
        ("保証期間はお買い上げの日から二年間です".encode("utf-16-be"), "text/plain"),
        ("<html><body>Größe".encode("utf-32"), "text/html"),
        (b"From: the office\nTo: everyone\n\nThe lift is out of order.", "text/plain"),
        (b"<?xml version='1.0'?><article><title>The tag <html> in XML</title></article>", "application/xml"),
        (zipped("[Content_Types].xml", "word/document.xml"), f"{OFFICE}.wordprocessingml.document"),
        (zipped("[Content_Types].xml", "ppt/presentation.xml"), f"{OFFICE}.presentationml.presentation"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), f"{OFFICE}.spreadsheetml.sheet"),
        (zipped("a", mimetype="application/epub+zip"), "application/epub+zip"),
        (
            zipped("content.xml", mimetype="application/vnd.oasis.opendocument.text"),
            "application/vnd.oasis.opendocument.text",
        ),
        (zipped("content.xml", mimetype="text/x-evil"), "application/zip"),
        (zipped("word/document.xml"), "application/zip"),
        (zipped(), "application/zip"),
        (zipped("[Content_Types].xml", "ppt/presentation.xml")[:110], f"{OFFICE}.presentationml.presentation"),
        (b"PK\x03\x04 nothing more", "application/zip"),
        (OLE + bytes(600), "application/x-ole-storage"),
        (container("Contents"), "application/x-ole-storage"),
        (container("\x05SummaryInformation", "Workbook"), "application/vnd.ms-excel"),
        (container("Book"), "application/vnd.ms-excel"),
        (container("1Table", "WordDocument"), "application/msword"),
        (container("PowerPoint Document"), "application/vnd.ms-powerpoint"),
        (container("__nameid_version1.0", "__properties_version1.0"), "application/vnd.ms-outlook"),
        (container("EncryptionInfo", "EncryptedPackage"), "application/encrypted"),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(20), "image/jpeg"),
        (b"GIF89a" + bytes(20), "image/gif"),
        (b"BM\x46\0\0\0" + bytes(20), "image/bmp"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"II*\0" + bytes(20), "image/tiff"),
        (b"MM\0*" + bytes(20), "image/tiff"),
        (b"{\\rtf1\\ansi hello}", "application/rtf"),
        (b"\x1f\x8b\x08" + bytes(20), "application/gzip"),
        (b"\n <!DOCTYPE html><p>x", "text/html"),
        (b"<!-- note --><html lang='en'>", "text/html"),
        ("<html><body>x".encode("utf-16-le"), "text/html"),
        (b"<?xml version='1.0'?><!DOCTYPE html><html/>", "text/html"),
        (b"<?xml version='1.0'?><note/>", "application/xml"),
        (b"<!-- a -->\n<feed xmlns='http://www.w3.org/2005/Atom'><title>x</title></feed>", "application/xml"),
        (b"<!DOCTYPE note SYSTEM 'note.dtd'><note>x</note>", "application/xml"),
        (b"<p>an element that looks like HTML</p>", "text/plain"),
        (b' {"a": [1, -2.5e3, null, "b\\"c"]}\n', "application/json"),
        (b'{"a": 1}\n{"a": 2}\n', "application/json"),
        (b"[]", "application/json"),
        (b'["' + b"long text " * 2000 + b'"]', "application/json"),
        (b"[1] Smith, On footnotes, 1999.", "text/plain"),
        (b"{curly} words", "text/plain"),
        (b'{"a": unquoted}', "text/plain"),
        (b"[link](http://example.org)", "text/plain"),
        (b"Received: from a by b\r\n\tfor c; Mon\r\nSubject: Hi\r\n\r\nHello", "message/rfc822"),
        (b"From: a@example.org\nX-Mailer: y\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\nHello", "message/rfc822"),
        (b"Subject: only one line that a mail has\n\nHello", "text/plain"),
        (b"From: a\nTo: b\nand then prose without an empty line", "text/plain"),
        (bytes(range(256)) * 4, "application/octet-stream"),
        (b"\x7fELF" + bytes(60), "application/octet-stream"),
        (b"BMW builds cars", "text/plain"),
        ("žluťoučký kůň".encode("cp1250"), "text/plain"),
        ("UTF-16 without a mark".encode("utf-16-be"), "text/plain"),
        (b"one NUL \0 in a long enough line of text", "text/plain"),
        (b"", "text/plain"),
    ],
)
def test_sniff_media_type_content_decides(content: bytes, media_type: str, tmp_path: Path) -> None:
    assert sniffed(content, tmp_path) == media_type
    assert (
        sniffed(content[:HEAD_BYTES], tmp_path, filename="upload.xyz", declared="application/x-unheard-of")
        == media_type
    )


@pytest.mark.parametrize(
    ("content", "filename", "declared", "media_type"),
    [
        (b"# Title", "notes.md", None, "text/markdown"),
        (b"The magic number of a PDF is %PDF-1.7.", "magic.txt", None, "text/plain"),
        (b"%PDF-1.7 is how a PDF starts, as we know.", "magic.txt", None, "text/plain"),
        (b'HEAD = b"%PDF-1.4"\nOBJECT = b"1 0 obj"\n', "is_pdf.py", None, "text/x-python"),
        (b"# PDF\n\n    %PDF-1.7\n    1 0 obj\n    startxref\n    %%EOF\n", "pdf.md", None, "text/markdown"),
        (b"signature,type\n%PDF-1.7,pdf\nPK,zip\n", "signatures.csv", None, "text/csv"),
        (b'{"magic": "%PDF-1.7"}', "magic.json", None, "application/json"),
        (b"%PDF-1.4\n1 0 obj\n<<>>\nendobj", "renamed.txt", None, "application/pdf"),
        (b"\0\0\0junk%PDF-1.4\n", "scan.pdf", None, "application/pdf"),
        (b"HTTP/1.1 200\r\n\r\n%PDF-1.4\n" + bytes(9000) + b"\nstartxref\n9\n%%EOF", "scan", None, "application/pdf"),
        (b"%PDF-1.4 cut off", "scan", "application/pdf", "application/pdf"),
        (b"PK is how a zip starts.", "zip.txt", None, "text/plain"),
        (b"From the office: `<html>` is a tag.", "notes.txt", None, "text/plain"),
        (b"# Tags\n<html> is the root element.", "tags.md", None, "text/markdown"),
        (b"<?xml version='1.0'?> is the first line of many files.", "xml.txt", None, "text/plain"),
        (b"<?xml version='1.0'?> opens a file", "xml.md", None, "text/markdown"),
        (b"# Title", "notes.MARKDOWN", "text/plain", "text/markdown"),
        (b"# Title", "notes", "text/markdown; charset=utf-8", "text/markdown"),
        (b"# Title", "notes.txt", "text/markdown", "text/plain"),
        (b"<p>piece", "piece.htm", None, "text/html"),
        (b"<html>in a text file", "page.txt", None, "text/html"),
        (b"\x89PNG\r\n\x1a\n", "renamed.pdf", "application/pdf", "image/png"),
        (b"plain words", "renamed.pdf", "application/pdf", "text/plain"),
        (b"<?xml version='1.0'?><a/>", "feed.xml", "text/plain", "application/xml"),
        (b"a,b\n1,2", "table.csv", "application/vnd.ms-excel", "text/csv"),
        (b"a\tb\n1\t2", "table.tsv", None, "text/csv"),
        (b"a,b\n1,2", "table", "text/csv", "text/csv"),
        (b"a,b\n1,2", "table.txt", "text/csv", "text/plain"),
        (b"{}", "data.JSON", "text/plain", "application/json"),
        (b'{"a": 1}', "data.txt", None, "text/plain"),
        (b'{"a": 1}', "data", "text/plain", "text/plain"),
        (b'{"a": 1}\n{"a": 2}', "data.ndjson", None, "application/json"),
        (b"a: 1", "data.yml", None, "application/yaml"),
        (b"a: 1", "data", "text/x-yaml", "application/yaml"),
        (b"<note/>", "note.xml", None, "application/xml"),
        (b"<note/>", "note", "text/xml", "application/xml"),
        (b"Title\n=====", "index.rst", None, "text/x-rst"),
        (b"Subject: x\n\ny", "mail.eml", None, "message/rfc822"),
        (b"print()", "tool.py", "application/octet-stream", "text/x-python"),
        (b"print()", "tool", "text/x-script.python", "text/x-python"),
        (b"<?php echo 1;", "page.php", None, "text/x-php"),
        (b"<html><?php echo 1;", "page.php", None, "text/x-php"),
        (b"let a = 1", "a.ts", "video/mp2t", "application/typescript"),
        (bytes(range(256)) * 4, "video.ts", "video/mp2t", "application/octet-stream"),
        (OLE + bytes(600), "damaged.XLS", None, "application/vnd.ms-excel"),
        (OLE + bytes(600), "damaged.doc", "application/msword", "application/x-ole-storage"),
        (container("WordDocument"), "renamed.xls", "application/vnd.ms-excel", "application/msword"),
    ],
)
def test_sniff_media_type_declared_type_decides_among_text_types(
    content: bytes, filename: str, declared: str | None, media_type: str, tmp_path: Path
) -> None:
    assert sniffed(content, tmp_path, filename=filename, declared=declared) == media_type


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("samples/handbook.pdf", "application/pdf"),
        ("samples/product-tour.pptx", f"{OFFICE}.presentationml.presentation"),
        ("tests/samples/truncated.pptx", f"{OFFICE}.presentationml.presentation"),
        ("tests/samples/renamed.pdf", "image/png"),
        ("tests/samples/page.html", "text/html"),
        ("tests/samples/notes.md", "text/markdown"),
        ("tests/samples/plain_utf16.txt", "text/plain"),
    ],
)
def test_sniff_media_type_of_sample_files(path: str, media_type: str) -> None:
    file = ROOT / path
    assert sniff_media_type(file.read_bytes()[:HEAD_BYTES], file, filename=file.name, declared=None) == media_type
