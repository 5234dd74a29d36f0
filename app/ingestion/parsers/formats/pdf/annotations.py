"""Annotations of a PDF page: values of form fields, comments, attached files and media."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymupdf
from pymupdf import mupdf

from app.ingestion.parsers.formats.pdf.text_line import TextLine
from app.ingestion.parsers.toolkit.text_cleanup import clean_line, clean_text

_FITZ: Any = pymupdf  # a library without type annotations
MAX_ANNOTATIONS = 5000
"""Maximum number of annotations and form fields of a page that are read."""

FIELD_SIZE = 10.0
"""Font size in points of the values of form fields, which is no size of headings."""

_ERRORS = (mupdf.FzErrorBase, RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)
_HIDDEN = _FITZ.PDF_ANNOT_IS_HIDDEN
_PASSWORD = _FITZ.PDF_TX_FIELD_IS_PASSWORD
_BOXES = (_FITZ.PDF_WIDGET_TYPE_CHECKBOX, _FITZ.PDF_WIDGET_TYPE_RADIOBUTTON)
_TEXTS = (_FITZ.PDF_WIDGET_TYPE_TEXT, _FITZ.PDF_WIDGET_TYPE_COMBOBOX, _FITZ.PDF_WIDGET_TYPE_LISTBOX)
_MEDIA = frozenset(
    {
        _FITZ.PDF_ANNOT_SOUND,
        _FITZ.PDF_ANNOT_MOVIE,
        _FITZ.PDF_ANNOT_RICH_MEDIA,
        _FITZ.PDF_ANNOT_SCREEN,
        _FITZ.PDF_ANNOT_3D,
    }
)
_SKIPPED = frozenset({_FITZ.PDF_ANNOT_LINK, _FITZ.PDF_ANNOT_WIDGET, _FITZ.PDF_ANNOT_POPUP})


@dataclass(slots=True)
class PageAnnotations:
    """Annotations of a page.

    Attributes:
        field_lines: Values of form fields at their places, with ☒ or ☐ for check boxes and radio buttons.
        comments: Texts of comments.
        attachments: Names of attached files.
        media_count: Number of videos, sounds and models.
        unread_count: Number of damaged annotations and form fields.
    """

    field_lines: list[TextLine] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    media_count: int = 0
    unread_count: int = 0


def get_pdf_page(page: Any) -> Any:
    """Return the PDF page of MuPDF of a PyMuPDF page, or None if it has none."""
    pdf_page = mupdf.pdf_page_from_fz_page(page.this) if isinstance(page.this, mupdf.FzPage) else page.this
    return pdf_page if pdf_page.m_internal else None


def has_annotations(page: Any) -> bool:
    """Return whether a page has annotations or form fields. The test is fast."""
    pdf_page = get_pdf_page(page)
    return pdf_page is not None and mupdf.pdf_dict_gets(pdf_page.obj(), "Annots").m_internal is not None


def has_form_fields(page: Any) -> bool:
    """Return whether a page has form fields."""
    pdf_page = get_pdf_page(page)
    return pdf_page is not None and mupdf.pdf_first_widget(pdf_page).m_internal is not None


def read_annotations(document: Any, page: Any) -> PageAnnotations:
    """Read the annotations of a page. Damaged annotations are counted, hidden ones are left out.

    Args:
        document: Document of PyMuPDF.
        page: Page of the document, before its rotation.
    """
    result = PageAnnotations()
    for widget in _iter_objects(page.widgets):
        try:
            result.field_lines += _read_field(document, widget)
        except _ERRORS:
            result.unread_count += 1
    for annotation in _iter_objects(page.annots):
        try:
            _read_annotation(annotation, result)
        except _ERRORS:
            result.unread_count += 1
    return result


def _iter_objects(list_objects: Any) -> Iterator[Any]:
    """Yield annotations until one is damaged: PyMuPDF cannot go on after it."""
    try:
        for number, item in enumerate(list_objects()):
            if number >= MAX_ANNOTATIONS:
                return
            yield item
    except mupdf.FzErrorSystem:
        raise
    except _ERRORS:
        return


def _read_field(document: Any, widget: Any) -> list[TextLine]:
    kind, box = widget.field_type, widget.rect
    if widget.field_display == 1 or box.is_empty:
        return []
    if kind in _BOXES:
        return _build_lines("☒" if _is_on(document, widget) else "☐", box)
    if kind in _TEXTS:
        if kind == _FITZ.PDF_WIDGET_TYPE_TEXT and widget.field_flags & _PASSWORD:
            return []
        return _build_lines(_read_value(widget), box)
    if kind == _FITZ.PDF_WIDGET_TYPE_BUTTON:
        return _build_lines(widget.button_caption or "", box)
    return []


def _is_on(document: Any, widget: Any) -> bool:
    """Return whether a check box or a radio button is on, by the state of its appearance, else by its value."""
    kind, state = document.xref_get_key(widget.xref, "AS")
    if kind == "name":
        return state not in ("/Off", "/")
    return str(widget.field_value) not in ("", "Off", "False", "None")


def _read_value(widget: Any) -> str:
    """Return the value of a field as a reader sees it: an export value becomes its label."""
    labels = {
        str(choice[0]): str(choice[1])
        for choice in widget.choice_values or ()
        if isinstance(choice, list | tuple) and len(choice) == 2
    }
    values = widget.field_value if isinstance(widget.field_value, list | tuple) else [widget.field_value]
    return "; ".join(labels.get(str(value), str(value)) for value in values if value not in (None, ""))


def _build_lines(text: str, box: Any) -> list[TextLine]:
    """Return the lines of a value: one in the middle of its field, several from the top of the field."""
    texts = [line for line in map(clean_line, text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) if line]
    height = 1.2 * FIELD_SIZE
    top = box.y0 if len(texts) > 1 else (box.y0 + box.y1 - height) / 2
    return [
        TextLine(box.x0, top + index * height, box.x1, top + (index + 1) * height, FIELD_SIZE, line)
        for index, line in enumerate(texts)
    ]


def _read_annotation(annotation: Any, result: PageAnnotations) -> None:
    kind = annotation.type[0]
    if kind in _SKIPPED or annotation.flags & _HIDDEN:
        return
    if kind == _FITZ.PDF_ANNOT_FILE_ATTACHMENT:
        result.attachments.append(clean_line(str(annotation.file_info.get("filename") or ""))[:100] or "file")
    elif kind in _MEDIA:
        result.media_count += 1
    if text := clean_text(str(annotation.info.get("content") or "")):
        result.comments.append(text)


def list_new_comments(comments: Sequence[str], lines: Sequence[TextLine]) -> list[str]:
    """Return the comments that the page does not show as text anyway, each once.

    Args:
        comments: Texts of comments.
        lines: Lines of the page.
    """
    shown = "".join(line.text for line in lines)
    shown = "".join(shown.split())
    return [comment for comment in dict.fromkeys(comments) if "".join(comment.split()) not in shown]
