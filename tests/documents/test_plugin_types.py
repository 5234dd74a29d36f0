"""Files for plugins' parsers: chosen by extension, or by declared type if the content does not decide."""

import io
import zipfile
from pathlib import Path

import pytest

from app.documents.types import ReceivedFile, UnsupportedFileType
from app.documents.upload.media_type import detect_media_type
from app.ingestion.parsers import PARSERS

PLUGINS = {"text/vcard": ("vcf",), "application/x-cad": ("cad", "cadz"), "application/vnd.oasis.opendocument.text": ()}
ODT = "application/vnd.oasis.opendocument.text"
CARD = b"BEGIN:VCARD\nFN:Ada\nEND:VCARD\n"
BINARY = bytes(range(256))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def inspected(content: bytes, directory: Path, filename: str, declared: str | None) -> str:
    (directory / "content").write_bytes(content)
    received = ReceivedFile(directory / "content", filename, declared, len(content), b"")
    return detect_media_type(received, {*PARSERS, *PLUGINS}, PLUGINS)


def zipped(**members: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


@pytest.mark.parametrize(
    ("content", "filename", "declared", "expected"),
    [
        (CARD, "ada.vcf", None, "text/vcard"),
        (CARD, "ADA.VCF", "text/plain", "text/vcard"),
        (CARD, "ada", "text/vcard", "text/vcard"),
        (CARD, "ada.unknown", "text/vcard", "text/vcard"),
        (CARD, "ada.txt", "text/vcard", "text/plain"),
        (CARD, "ada.md", "text/vcard", "text/markdown"),
        (CARD, "ada", None, "text/plain"),
        (BINARY, "part.cad", None, "application/x-cad"),
        (BINARY, "part", "application/x-cad", "application/x-cad"),
        (zipped(part="x"), "part.cadz", None, "application/x-cad"),
        (b'<?xml version="1.0"?><cad/>', "part.cad", None, "application/x-cad"),
        (b'{"a": 1}', "part.cad", None, "application/x-cad"),
        (zipped(mimetype=ODT), "text.odt", None, ODT),
        (PNG, "part.cad", "application/x-cad", "image/png"),
        (b"%PDF-1.7", "ada.vcf", "text/vcard", "application/pdf"),
    ],
)
def test_plugin_media_type_is_chosen_by_content_extension_and_declared_type(
    content: bytes, filename: str, declared: str | None, expected: str, tmp_path: Path
) -> None:
    assert inspected(content, tmp_path, filename, declared) == expected


def test_plugin_unknown_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFileType):
        inspected(BINARY, tmp_path, "part.other", "application/x-other")
