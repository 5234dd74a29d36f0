"""Parts of a PDF file that are not read: attachments, media, hidden layers and XFA forms."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pymupdf import mupdf

from app.ingestion.parsers.formats.pdf.annotations import PageAnnotations
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.warnings import ServiceWarning, WarningCode

MAX_NAMES = 10
_MAX_NAME_CHARACTERS = 100
_ANNOTATIONS = ("damaged annotation", "damaged annotations")
_MEDIA = ("video, sound or model", "videos, sounds or models")
_ERRORS = (mupdf.FzErrorBase, RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)


def list_part_warnings(document: Any, annotations: Iterable[PageAnnotations]) -> list[ServiceWarning]:
    """Return a warning for each kind of content that is not read, with its count.

    Args:
        document: Document of PyMuPDF.
        annotations: Annotations of the pages that have any.
    """
    pages = list(annotations)
    attachments = [*_list_embedded_files(document), *(name for page in pages for name in page.attachments)]
    return [
        *_iter_warnings(WarningCode.ATTACHMENTS_NOT_READ, "attachment", attachments),
        *_iter_warnings(WarningCode.HIDDEN_LAYERS_NOT_READ, "hidden layer", _list_hidden_layers(document)),
        *_iter_counts(WarningCode.MEDIA_NOT_READ, _MEDIA, sum(page.media_count for page in pages)),
        *_iter_counts(WarningCode.ANNOTATIONS_NOT_READ, _ANNOTATIONS, sum(page.unread_count for page in pages)),
        *_iter_counts(WarningCode.XFA_FORMS_NOT_READ, ("XFA form", "XFA forms"), int(_has_only_xfa(document))),
    ]


def _iter_warnings(code: WarningCode, kind: str, names: Sequence[str]) -> Iterator[ServiceWarning]:
    if names:
        others = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        subject = f"1 {kind} was" if len(names) == 1 else f"{len(names)} {kind}s were"
        yield ServiceWarning(code, f"{subject} not read: {', '.join(names[:MAX_NAMES])}{others}.", len(names))


def _iter_counts(code: WarningCode, kinds: tuple[str, str], count: int) -> Iterator[ServiceWarning]:
    if count:
        subject = f"1 {kinds[0]} was" if count == 1 else f"{count} {kinds[1]} were"
        yield ServiceWarning(code, f"{subject} not read.", count)


def _list_embedded_files(document: Any) -> list[str]:
    try:
        names = list(document.embfile_names())
    except _ERRORS:
        return []
    return [_read_file_name(document, name) for name in names]


def _read_file_name(document: Any, name: str) -> str:
    try:
        info = document.embfile_info(name)
    except _ERRORS:
        info = {}
    text = info.get("ufilename") or info.get("filename") or name
    return clean_line(str(text))[:_MAX_NAME_CHARACTERS] or "file"


def _list_hidden_layers(document: Any) -> list[str]:
    """Return the names of the layers that are off, so that MuPDF does not show their content."""
    try:
        if document.xref_get_key(document.pdf_catalog(), "OCProperties")[0] == "null":
            return []
        layers = document.get_ocgs().values()
    except _ERRORS:
        return []
    return [clean_line(str(layer.get("name")))[:_MAX_NAME_CHARACTERS] for layer in layers if not layer.get("on", True)]


def _has_only_xfa(document: Any) -> bool:
    """Return whether the file has an XFA form without the fields of a usual form, which would have its values."""
    try:
        catalog = document.pdf_catalog()
        has_form = document.xref_get_key(catalog, "AcroForm/XFA")[0] != "null"
        fields = document.xref_get_key(catalog, "AcroForm/Fields")
    except _ERRORS:
        return False
    return bool(has_form and (fields[0] == "null" or fields[1].strip("[] ") == ""))
