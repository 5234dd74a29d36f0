"""Detection of a file's media type from its bytes: signatures, members of archives, and rules for text."""

import re
import zipfile
import zlib
from pathlib import Path, PurePath

from app.documents.upload.notebooks import NOTEBOOK, is_notebook, may_be_notebook
from app.documents.upload.ole import SIGNATURE, read_entry_names
from app.documents.upload.open_document import (
    MANIFEST,
    MANIFEST_BYTES,
    find_flat_type,
    find_manifest_type,
    normalize_type,
)
from app.documents.upload.pdf_signature import PDF, is_pdf
from app.documents.upload.text_detection import sniff_text_type
from app.documents.upload.text_formats import XML
from app.documents.upload.wide_text import list_wide_encodings

HEAD_BYTES = 8192
"""Number of bytes at the start of a file that ``sniff_media_type`` needs; a shorter file has fewer."""

OCTET_STREAM = "application/octet-stream"
ZIP = "application/zip"
OLE = "application/x-ole-storage"
ENCRYPTED_OFFICE = "application/encrypted"
XLS, DOC, PPT = "application/vnd.ms-excel", "application/msword", "application/vnd.ms-powerpoint"
MSG = "application/vnd.ms-outlook"

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"\x7fELF", OCTET_STREAM),
)
_RICH_TEXT = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,100}+\{\\rtf\d*[\\{}\s]")
_GIF_HEADER_BYTES = 32
_ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")
_OFFICE = "application/vnd.openxmlformats-officedocument"
_OFFICE_FOLDERS = (
    ("word/", f"{_OFFICE}.wordprocessingml.document"),
    ("ppt/", f"{_OFFICE}.presentationml.presentation"),
    ("xl/", f"{_OFFICE}.spreadsheetml.sheet"),
)
# Parts of the content types of main parts, for archives whose folders have other names.
_MAIN_PARTS = (
    ("wordprocessingml.document.main", f"{_OFFICE}.wordprocessingml.document"),
    ("wordprocessingml.template.main", f"{_OFFICE}.wordprocessingml.document"),
    ("presentationml.", f"{_OFFICE}.presentationml.presentation"),
    ("spreadsheetml.sheet.main", f"{_OFFICE}.spreadsheetml.sheet"),
    ("spreadsheetml.template.main", f"{_OFFICE}.spreadsheetml.sheet"),
)
_CONTENT_TYPES, _CONTENT_TYPES_BYTES = "[content_types].xml", 64 * 1024
_MIMETYPE_MEMBER = re.compile(r"application/(epub\+zip|vnd\.oasis\.opendocument\.[a-z-]+)")
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b"))
_MAX_CONTROL_SHARE = 0.05
# Names of the streams by which each format is recognized, in lower case, because the names do not distinguish case
# ([MS-CFB] 2.6.4). Encrypted Office files come first, because an encrypted file
# has none of the other streams.
_OLE_KINDS = (
    ("encryptedpackage", ENCRYPTED_OFFICE),
    ("workbook", XLS),
    ("book", XLS),
    ("worddocument", DOC),
    ("powerpoint document", PPT),
    ("__properties_version1.0", MSG),
)


def sniff_media_type(head: bytes, path: Path, *, filename: str, declared: str | None) -> str:
    """Return the media type of a file. The function reads the file and blocks.

    The filename and the declared type only distinguish text formats, in this order. They never override a signature. A
    zip file that cannot be read has the type ``application/zip``.

    Args:
        head: The first ``HEAD_BYTES`` bytes of the file, or all of a shorter file.
        path: The file, for types that need a look inside.
        filename: The name of the upload.
        declared: The media type that the client declared, or None.

    Returns:
        The media type.
    """
    if is_pdf(head, path, filename=filename, declared=declared):
        return PDF
    if head.startswith(_ZIP_SIGNATURES):
        return _sniff_zip(path)
    if head.startswith(SIGNATURE):
        return _sniff_ole(path, filename=filename)
    media_type = _sniff_signature(head)
    if media_type:
        return media_type
    if head and not _is_text(head):
        return OCTET_STREAM
    text_type = sniff_text_type(head, filename=filename, declared=declared, is_complete=len(head) < HEAD_BYTES)
    if text_type == XML:
        return find_flat_type(head) or XML
    return NOTEBOOK if may_be_notebook(text_type, filename) and is_notebook(path) else text_type


def _sniff_signature(head: bytes) -> str | None:
    """Return the media type of a file with a signature at its start; None if it has none."""
    for signature, media_type in _SIGNATURES:
        if head.startswith(signature):
            return media_type
    if _RICH_TEXT.match(head):
        return "application/rtf"
    if head.startswith((b"GIF87a", b"GIF89a")) and not _is_text(head[:_GIF_HEADER_BYTES]):
        return "image/gif"
    if head.startswith(b"BM") and head[6:10] == bytes(4):
        return "image/bmp"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def _sniff_ole(path: Path, *, filename: str) -> str:
    names = {name.lower() for name in read_entry_names(path)}
    for name, media_type in _OLE_KINDS:
        if name in names:
            return media_type
    # A damaged container has no directory. If the file was an Excel workbook, its parser reports the damage.
    return XLS if not names and PurePath(filename).suffix.lower() == ".xls" else OLE


def _sniff_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {normalize_member_name(name): name for name in archive.namelist()}
            mimetype = _read_member(archive, members.get("mimetype"), 200).strip() or find_manifest_type(
                _read_member(archive, members.get(MANIFEST), MANIFEST_BYTES)
            )
            content_types = _read_member(archive, members.get(_CONTENT_TYPES), _CONTENT_TYPES_BYTES)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return _sniff_damaged_zip(path)
    if _MIMETYPE_MEMBER.fullmatch(mimetype):
        return normalize_type(mimetype)
    if _CONTENT_TYPES in members:
        for folder, media_type in _OFFICE_FOLDERS:
            if any(name.startswith(folder) for name in members):
                return media_type
        for name, media_type in _MAIN_PARTS:
            if name in content_types:
                return media_type
    return ZIP


def normalize_member_name(name: str) -> str:
    """Return the name of a member of an office archive for comparison: case and slash direction do not count."""
    return name.replace("\\", "/").lstrip("/").lower()


def _read_member(archive: zipfile.ZipFile, name: str | None, max_bytes: int) -> str:
    if name is None:
        return ""
    with archive.open(name) as member:
        return member.read(max_bytes).decode("latin-1")


def _sniff_damaged_zip(path: Path) -> str:
    """Return the media type of a zip without a readable directory, from the names at its beginning."""
    # The parser of the returned type then reports the damage.
    with path.open("rb") as file:
        start = file.read(64 * 1024).lower().replace(b"\\", b"/")
    for folder, media_type in _OFFICE_FOLDERS:
        if _CONTENT_TYPES.encode() in start and folder.encode() in start:
            return media_type
    return ZIP


def _is_text(head: bytes) -> bool:
    if head.startswith(_BYTE_ORDER_MARKS):
        return True
    control = len(head) - len(head.translate(None, _CONTROL_BYTES))
    return control <= _MAX_CONTROL_SHARE * len(head) or bool(list_wide_encodings(head))
