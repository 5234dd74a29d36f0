"""Reasons of an unsupported upload: its media type, encryption, or another format to save it as."""

import io
import zipfile
from pathlib import Path

import pytest

from app.documents.types import EncryptedUpload, ReceivedFile, UnsupportedFileType
from app.documents.upload.media_type import detect_media_type
from app.ingestion.parsers import PARSERS
from app.ingestion.parsers.registry import select_available_parsers
from tests.documents.compound import container

AVAILABLE = select_available_parsers("")


def inspected(content: bytes, directory: Path, *, filename: str = "upload", declared: str | None = None) -> str:
    path = directory / "content"
    path.write_bytes(content)
    return detect_media_type(ReceivedFile(path, filename, declared, len(content), b""), AVAILABLE.keys())


def zipped(name: str, content: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(name, content)
    return target.getvalue()


@pytest.mark.parametrize(
    "extension",
    sorted(
        extension for spec in PARSERS.values() if spec.media_type.startswith("text/") for extension in spec.extensions
    ),
)
def test_text_format_is_recognized_by_extension(extension: str, tmp_path: Path) -> None:
    found = inspected(b"a, b", tmp_path, filename=f"upload.{extension}")
    assert extension in PARSERS[found].extensions


@pytest.mark.parametrize("media_type", sorted(kind for kind in PARSERS if kind.startswith("text/")))
def test_text_format_is_recognized_by_media_type(media_type: str, tmp_path: Path) -> None:
    assert inspected(b"a, b", tmp_path, declared=f"{media_type.upper()}; charset=utf-8") == media_type


def test_encrypted_office_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncryptedUpload):
        inspected(container("EncryptionInfo", "EncryptedPackage"), tmp_path, filename="plan.docx")


@pytest.mark.parametrize(
    ("content", "media_type", "advice"),
    [
        (container("WordDocument"), "application/msword", "Save it as .docx.*LibreOffice"),
        (container("PowerPoint Document"), "application/vnd.ms-powerpoint", "Save it as .pptx.*LibreOffice"),
        (zipped("inner.zip", "PK"), "application/zip", "one by one"),
        (container("Contents"), "application/x-ole-storage", "No parser reads files of type"),
        (b"\x7fELF" + bytes(60), "application/octet-stream", "No parser reads files of type"),
    ],
)  # fmt: skip
def test_unsupported_file_is_refused_with_advice(content: bytes, media_type: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFileType, match=advice) as caught:
        inspected(content, tmp_path, filename="upload.docx")
    assert caught.value.fields["media_type"] == media_type
