"""Recognition of PDF files: by the header at the start, or by the header and the objects of a PDF after other bytes."""

import os
import re
from pathlib import Path, PurePath

from app.documents.upload.text_formats import MEDIA_TYPE_BY_EXTENSION

PDF = "application/pdf"
MAX_HEADER_OFFSET = 1024
TAIL_BYTES = 2048
_HEADER = re.compile(rb"%PDF-")
_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*+%PDF-\d\.\d")
_OBJECT = re.compile(rb"\b\d{1,10}[ \r\n]\d{1,5}[ \r\n]obj\b")
_END = re.compile(rb"startxref|%%EOF|\btrailer\b")


def is_pdf(head: bytes, path: Path, *, filename: str, declared: str | None) -> bool:
    """Return whether a file is a PDF. The function reads the end of the file and blocks.

    A file that its name or its declared type calls a PDF needs only the header in its first 1024 bytes. Any other file
    also needs an object or the end of a PDF. If its name calls it a text, the header must also be at the start: texts
    about PDF files quote headers and objects.

    Args:
        head: First bytes of the file.
        path: The file.
        filename: The name of the upload.
        declared: The media type that the client declared, or None.
    """
    if _HEADER.search(head, 0, MAX_HEADER_OFFSET) is None:
        return False
    extension = PurePath(filename).suffix.lower().removeprefix(".")
    is_start = _START.match(head) is not None
    if extension == "pdf":
        return True
    if extension in MEDIA_TYPE_BY_EXTENSION:
        return is_start and _has_structure(head, path)
    if declared == PDF:
        return True
    return _has_structure(head, path) or (is_start and len(head) < TAIL_BYTES)


def _has_structure(head: bytes, path: Path) -> bool:
    if _OBJECT.search(head):
        return True
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        return _END.search(file.read()) is not None
