"""What a file is: signatures, zip kinds, text types; and what the client says counts for little."""

import io
import zipfile
from pathlib import Path

import pytest

from app.documents.sniffing import HEAD, is_encrypted_office, sniff

ROOT = Path(__file__).resolve().parents[2]
OFFICE = "application/vnd.openxmlformats-officedocument"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def zipped(*names: str, mimetype: str | None = None) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        if mimetype is not None:
            archive.writestr("mimetype", mimetype)
        for name in names:
            archive.writestr(name, b"<x/>")
    return target.getvalue()


def sniffed(content: bytes, directory: Path, *, filename: str = "upload", declared: str | None = None) -> str:
    path = directory / "content"
    path.write_bytes(content)
    return sniff(content[:HEAD], path, filename=filename, declared=declared)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"%PDF-1.7\n...", "application/pdf"),
        (b"\xef\xbb\xbf junk before %PDF-1.4", "application/pdf"),
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
        (bytes(range(256)) * 4, "application/octet-stream"),
        (b"\x7fELF" + bytes(60), "application/octet-stream"),
        (b"BMW builds cars", "text/plain"),
        ("žluťoučký kůň".encode("cp1250"), "text/plain"),
        ("UTF-16 without a mark".encode("utf-16-be"), "text/plain"),
        (b"one NUL \0 in a long enough line of text", "text/plain"),
        (b"", "text/plain"),
    ],
)
def test_content_decides(content: bytes, media_type: str, tmp_path: Path) -> None:
    assert sniffed(content, tmp_path) == media_type
    assert sniffed(content[:HEAD], tmp_path, filename="upload.xyz", declared="application/x-unheard-of") == media_type


@pytest.mark.parametrize(
    ("content", "filename", "declared", "media_type"),
    [
        (b"# Title", "notes.md", None, "text/markdown"),
        (b"# Title", "notes.MARKDOWN", "text/plain", "text/markdown"),
        (b"# Title", "notes", "text/markdown; charset=utf-8", "text/markdown"),
        (b"# Title", "notes.txt", "text/markdown", "text/plain"),
        (b"<p>piece", "piece.htm", None, "text/html"),
        (b"<html>in a text file", "page.txt", None, "text/html"),
        (b"\x89PNG\r\n\x1a\n", "renamed.pdf", "application/pdf", "image/png"),
        (b"plain words", "renamed.pdf", "application/pdf", "text/plain"),
        (b"<?xml version='1.0'?><a/>", "feed.xml", "text/plain", "application/xml"),
    ],
)
def test_the_clients_word_tells_text_types_apart_and_nothing_else(
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
def test_the_sample_files(path: str, media_type: str) -> None:
    file = ROOT / path
    assert sniff(file.read_bytes()[:HEAD], file, filename=file.name, declared=None) == media_type


@pytest.mark.parametrize("padding", [0, (1 << 20) - 10, (1 << 20) + 3])
def test_encrypted_office_files_are_known_by_their_stream(padding: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLE + bytes(padding) + "EncryptedPackage".encode("utf-16-le") + bytes(100))
    assert is_encrypted_office(path)
    path.write_bytes(OLE + bytes(padding) + "WordDocument".encode("utf-16-le"))
    assert not is_encrypted_office(path)
