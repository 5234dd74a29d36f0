"""Where a part of a PDF's text stands on its pages: line by line, for highlighting."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from app.db.models.tenant_data import DocumentPage

MOST_BOXES = 2_000


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
    """The lines in the order of the text, ``MOST_BOXES`` at most, and the pages that these stand on."""

    boxes: Sequence[LineBox] = ()
    sizes: Sequence[PageSize] = ()


def boxes_within(pages: Sequence[DocumentPage], *, start: int, end: int) -> LineBoxes:
    """The lines that have any of the text from ``start`` to ``end``."""
    boxes = list(islice((box for page in pages for box in _boxes(page, start, end)), MOST_BOXES))
    shown = {box.page for box in boxes}
    # Stored in single precision: a tenth of a point comes back as a little more or less.
    sizes = [PageSize(one.page, round(one.width, 1), round(one.height, 1)) for one in pages if one.page in shown]
    return LineBoxes(boxes, sizes)


def _boxes(page: DocumentPage, start: int, end: int) -> Iterator[LineBox]:
    for index, (begins, ends) in enumerate(zip(page.starts, page.ends, strict=True)):
        if begins < end and ends > start:
            x0, y0, x1, y1 = (value / 10 for value in page.boxes[4 * index : 4 * index + 4])
            yield LineBox(page.page, x0, y0, x1, y1)
