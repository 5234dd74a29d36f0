"""Where a part of a PDF's text stands on its pages: line by line, for highlighting."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from app.db.models.tenant_data import DocumentPage

MAX_LINE_BOXES = 2_000


@dataclass(frozen=True, slots=True)
class LineBox:
    """A printed line, in points from the top left corner of its page as it is shown."""

    page: int
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class PageSize:
    """Of a page as it is shown, in points."""

    page: int
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class LineBoxes:
    """The lines in the order of the text, ``MAX_LINE_BOXES`` at most, and the pages that these stand on."""

    boxes: Sequence[LineBox] = ()
    sizes: Sequence[PageSize] = ()


def select_line_boxes(pages: Sequence[DocumentPage], *, start: int, end: int) -> LineBoxes:
    """The lines that have any of the text from ``start`` to ``end``."""
    boxes = list(islice((box for page in pages for box in _iter_line_boxes(page, start, end)), MAX_LINE_BOXES))
    page_numbers = {box.page for box in boxes}
    # Stored in single precision: a tenth of a point comes back as a little more or less.
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
