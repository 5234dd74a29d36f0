"""What a file is, by its content: signatures, a look inside zip archives, the client's word only among text types."""

import re
import zipfile
from pathlib import Path, PurePath

HEAD = 8192
"""How many bytes of the file ``sniff`` wants to see; fewer will do for a shorter file."""

OCTETS = "application/octet-stream"
ZIP = "application/zip"
OLE = "application/x-ole-storage"
PLAIN, MARKDOWN, HTML, XML = "text/plain", "text/markdown", "text/html", "application/xml"

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    (b"{\\rtf", "application/rtf"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"\x7fELF", OCTETS),
)
_ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")
_PDF_WITHIN = 1024
_OFFICE = "application/vnd.openxmlformats-officedocument"
_OFFICE_FOLDERS = (
    ("word/", f"{_OFFICE}.wordprocessingml.document"),
    ("ppt/", f"{_OFFICE}.presentationml.presentation"),
    ("xl/", f"{_OFFICE}.spreadsheetml.sheet"),
)
_MIMETYPE_MEMBER = re.compile(r"application/(epub\+zip|vnd\.oasis\.opendocument\.[a-z-]+)")
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HTML_START = re.compile(rb"<!doctype\s+html|<html[\s>]|<(head|body|title|meta)[\s>]", re.IGNORECASE)
_XHTML = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b"))
_MAX_CONTROL_SHARE = 0.05
_TEXT_EXTENSIONS = {
    "md": MARKDOWN, "markdown": MARKDOWN, "mkd": MARKDOWN, "html": HTML, "htm": HTML, "xhtml": HTML, "txt": PLAIN,
    "text": PLAIN, "log": PLAIN,
}  # fmt: skip
_TEXT_TYPES = {
    MARKDOWN: MARKDOWN, "text/x-markdown": MARKDOWN, HTML: HTML, "application/xhtml+xml": HTML, PLAIN: PLAIN,
}  # fmt: skip


def sniff(head: bytes, path: Path, *, filename: str, declared: str | None) -> str:
    """The media type of the file at ``path`` whose first bytes (``HEAD`` of them) are ``head``. Blocking.

    The extension of ``filename`` and the ``declared`` type only tell text types apart, in this order: neither makes a
    PNG a PDF. A zip that cannot be read is just a zip.
    """
    if b"%PDF-" in head[:_PDF_WITHIN]:
        return "application/pdf"
    if head.startswith(_ZIP_SIGNATURES):
        return _inside_zip(path)
    for signature, media_type in _SIGNATURES:
        if head.startswith(signature):
            return media_type
    if head.startswith(b"BM") and head[6:10] == bytes(4):
        return "image/bmp"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    if head and not _is_text(head):
        return OCTETS
    return _kind_of_text(head, filename=filename, declared=declared)


def is_encrypted_office(path: Path) -> bool:
    """Whether an OLE container holds an encrypted Office document: the name of its one stream says so. Blocking."""
    name, overlap = "EncryptedPackage".encode("utf-16-le"), b""
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            if name in overlap + piece:
                return True
            overlap = piece[-len(name) :]
    return False


def _inside_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            mimetype = _mimetype_member(archive) if "mimetype" in names else ""
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError):
        return _cut_off_zip(path)
    if _MIMETYPE_MEMBER.fullmatch(mimetype):
        return mimetype
    if "[Content_Types].xml" in names:
        for folder, media_type in _OFFICE_FOLDERS:
            if any(name.startswith(folder) for name in names):
                return media_type
    return ZIP


def _mimetype_member(archive: zipfile.ZipFile) -> str:
    with archive.open("mimetype") as member:
        return member.read(200).decode("latin-1").strip()


def _cut_off_zip(path: Path) -> str:
    """A damaged archive has no directory, but its first members still name the kind: its parser will say corrupt."""
    with path.open("rb") as file:
        start = file.read(64 * 1024)
    for folder, media_type in _OFFICE_FOLDERS:
        if b"[Content_Types].xml" in start and folder.encode() in start:
            return media_type
    return ZIP


def _is_text(head: bytes) -> bool:
    if head.startswith(_MARKS):
        return True
    control = len(head) - len(head.translate(None, _CONTROL))
    return control <= _MAX_CONTROL_SHARE * len(head) or _is_unmarked_utf16(head)


def _is_unmarked_utf16(head: bytes) -> bool:
    """Latin text in UTF-16 without a mark: NUL in every second byte, hardly ever in the others."""
    half = len(head) // 2
    even, odd = head[: 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
    return half > 0 and max(even, odd) > 0.4 * half and min(even, odd) < 0.05 * half


def _kind_of_text(head: bytes, *, filename: str, declared: str | None) -> str:
    start = head.replace(b"\0", b"")
    for mark in _MARKS:
        start = start.removeprefix(mark)
    start = start.lstrip()[:1024]
    extension = PurePath(filename).suffix.lower().removeprefix(".")
    hinted = _TEXT_EXTENSIONS.get(extension) or _TEXT_TYPES.get((declared or "").partition(";")[0].strip().lower())
    if start.startswith(b"<?xml"):
        return HTML if _XHTML.search(start) else XML
    if hinted in (MARKDOWN, HTML):
        return hinted
    return HTML if _HTML_START.match(_without_comments(start)) else PLAIN


def _without_comments(start: bytes) -> bytes:
    return re.sub(rb"\A(\s*<!--.*?-->)+\s*", b"", start, flags=re.DOTALL)
