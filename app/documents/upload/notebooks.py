"""Recognition of Jupyter notebooks, which are JSON files with cells."""

import os
import re
from pathlib import Path, PurePath

from app.documents.upload.text_formats import JSON, PLAIN

NOTEBOOK = "application/x-ipynb+json"
_SCAN_BYTES = 64 * 1024
_START = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*+\{\s*+"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s*+:')
_FORMAT = re.compile(rb'"nbformat"\s*+:\s*+\d')
_CELLS = re.compile(rb'"(?:cells|worksheets)"\s*+:\s*+\[')


def may_be_notebook(text_type: str, filename: str) -> bool:
    """Return whether a file must be checked with ``is_notebook``: it is JSON, or has the name of a notebook."""
    return text_type == JSON or (text_type == PLAIN and PurePath(filename).suffix.lower() == ".ipynb")


def is_notebook(path: Path) -> bool:
    """Return whether a text file begins and ends like a notebook. The function reads the file and blocks.

    Programs write the members of a notebook in one of two orders: the cells are first or last. The version of the
    format is therefore near the start or the end of the file.
    """
    with path.open("rb") as file:
        start = file.read(_SCAN_BYTES).replace(b"\0", b"").lstrip(b"\xff\xfe")
        if not _START.match(start):
            return False
        file.seek(max(0, file.seek(0, os.SEEK_END) - _SCAN_BYTES))
        end = file.read(_SCAN_BYTES).replace(b"\0", b"")
    has_format = _FORMAT.search(start) or _FORMAT.search(end)
    return bool(has_format and (_CELLS.search(start) or _CELLS.search(end)))
