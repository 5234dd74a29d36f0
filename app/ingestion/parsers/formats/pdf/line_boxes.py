"""Positions of the lines of a PDF file on its displayed pages."""

from array import array
from collections.abc import Sequence
from math import ceil, isfinite

from app.ingestion.parsers.formats.pdf.pages import PdfPage
from app.ingestion.parsers.formats.pdf.text_line import TextLine
from app.ingestion.parsers.sandbox.protocol import MAX_BLOCK_LINES, MAX_LINES, MAX_PAGE_SIDE
from app.ingestion.types import LineLayout


class LineBoxBuilder:
    """Builder of line layouts for the blocks of a document.

    Beyond the maximum number of lines of a block or of the document, lines have no position.
    """

    def __init__(self, pages: Sequence[PdfPage]) -> None:
        self._pages = {
            page.number: (page, _to_tenths(page.shown_size[0]), _to_tenths(page.shown_size[1])) for page in pages
        }
        self._remaining_lines = MAX_LINES

    def build_layout(
        self, number: int, lines: Sequence[TextLine], ranges: Sequence[tuple[int, int]]
    ) -> LineLayout | None:
        """Build the layout of the lines of a block. Boxes are cut at the edges of the page.

        Args:
            number: Page number from 1.
            lines: Lines of the block.
            ranges: Range of each line in the text of the block, as offsets in code points.

        Returns:
            The layout; None if no line is visible on the page.
        """
        page, width, height = self._pages[number]
        if not width or not height:
            return None
        boxes = array("i")
        for (start, end), line in list(zip(ranges, lines, strict=True))[: min(self._remaining_lines, MAX_BLOCK_LINES)]:
            x0, y0, x1, y1 = _rotate_box(line, page) if page.rotation else line[:4]
            left, top, right, bottom = int(10 * x0), int(10 * y0), ceil(10 * x1), ceil(10 * y1)
            if left < 0 or top < 0 or right > width or bottom > height:
                left, top, right, bottom = max(0, left), max(0, top), min(width, right), min(height, bottom)
            if start < end and left < right and top < bottom:
                boxes.extend((start, end, left, top, right, bottom))
        self._remaining_lines -= len(boxes) // 6
        return LineLayout(width, height, boxes) if boxes else None


def _to_tenths(points: float) -> int:
    return min(MAX_PAGE_SIDE, round(10 * points)) if isfinite(points) else 0


def _rotate_box(line: TextLine, page: PdfPage) -> tuple[float, float, float, float]:
    """Return the box of a line on the displayed page, which is rotated clockwise by 90, 180 or 270 degrees."""
    width, height = page.shown_size
    if page.rotation == 90:
        return width - line.y1, line.x0, width - line.y0, line.x1
    if page.rotation == 180:
        return width - line.x1, height - line.y1, width - line.x0, height - line.y0
    return line.y0, height - line.x1, line.y1, height - line.x0
