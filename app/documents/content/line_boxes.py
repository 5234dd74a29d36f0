"""Positions of text lines on the pages of a PDF, so that clients can highlight a passage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from app.db.models.tenant_data import DocumentPage

MAX_LINE_BOXES = 2_000


@dataclass(frozen=True, slots=True)
class LineBox:
    """Box of a printed line, in points from the top left corner of the page as displayed."""

    page: int
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class PageSize:
    """Size of a page as displayed, in points."""

    page: int
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class LineBoxes:
    """Boxes of lines in the order of the text, at most ``MAX_LINE_BOXES``, and the sizes of their pages."""

    boxes: Sequence[LineBox] = ()
    sizes: Sequence[PageSize] = ()


def select_line_boxes(pages: Sequence[DocumentPage], *, start: int, end: int) -> LineBoxes:
    """Return the boxes of the first MAX_LINE_BOXES lines that overlap a range of the text.

    Args:
        pages: Pages with the lines' offsets and boxes.
        start: Offset of the first character of the range.
        end: Offset after the last character of the range.

    Returns:
        The boxes and the page sizes.
    """
    boxes = list(islice((box for page in pages for box in _iter_line_boxes(page, start, end)), MAX_LINE_BOXES))
    page_numbers = {box.page for box in boxes}
    # Sizes are tenths of a point, stored in single precision. Rounding removes the error of single precision.
    sizes = [
        PageSize(document_page.page, round(document_page.width, 1), round(document_page.height, 1))
        for document_page in pages
        if document_page.page in page_numbers
    ]
    return LineBoxes(boxes, sizes)


def _iter_line_boxes(page: DocumentPage, start: int, end: int) -> Iterator[LineBox]:
    for index, (line_start, line_end) in enumerate(zip(page.starts, page.ends, strict=True)):
        if line_start < end and line_end > start:
            x0, y0, x1, y1 = (value / 10 for value in page.boxes[4 * index : 4 * index + 4])
            yield LineBox(page.page, x0, y0, x1, y1)
