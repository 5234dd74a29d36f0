"""Printed lines of a PDF page, and the groups that they form."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from app.ingestion.parsers.formats.pdf.table_text import PageTable


RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""Pattern of a character of a script that runs from right to left."""


class TextLine(NamedTuple):
    """Printed line, or a piece of a line between wide spaces.

    The class is a tuple, because a page has many lines and creating a frozen dataclass takes three times as long.

    Attributes:
        x0: Left edge in points, from the top left corner of the page.
        y0: Top edge.
        x1: Right edge.
        y1: Bottom edge.
        size: Font size in points.
        text: Text of the line.
        block: Number of MuPDF's text block. A negative number marks the place of a ruled table.
        is_bold: Whether the whole text is bold.
        has_vertical_glyphs: Whether the text runs from top to bottom, as in Japanese books.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    text: str
    block: int = 0
    is_bold: bool = False
    has_vertical_glyphs: bool = False

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def is_vertical(self) -> bool:
        """Whether the text runs from bottom to top or from top to bottom."""
        return self.has_vertical_glyphs or (self.height > 2 * (self.x1 - self.x0) and len(self.text) > 2)


class LayoutGroup(NamedTuple):
    """Paragraph or table of a page, recognized from the positions of its lines.

    Attributes:
        text: Text of the paragraph, or of the table with its caption and its footnotes.
        size: Font size of the first line in points.
        rows: Rows of cells of a table; empty for a paragraph.
        lines: Printed lines; one for each printed row of a table.
        ranges: Range of each line in the text, as offsets in code points.
        table: Table with the places of its columns; None for a paragraph.
    """

    text: str
    size: float
    rows: tuple[tuple[str, ...], ...] = ()
    lines: Sequence[TextLine] = ()
    ranges: Sequence[tuple[int, int]] = ()
    table: "PageTable | None" = None


def has_mostly_right_to_left(lines: Sequence[TextLine]) -> bool:
    """Return whether most lines with letters from right to left or with Latin letters run from right to left."""
    others = [line.text for line in lines if not line.text.isascii()]  # most pages have none
    right = sum([RIGHT_TO_LEFT.search(text) is not None for text in others])
    return right > 0 and 2 * right >= sum([any(map(str.isalpha, line.text)) for line in lines])


def join_pieces(pieces: Sequence[TextLine]) -> TextLine:
    """Join lines or pieces of lines into one line with their common box.

    Args:
        pieces: Pieces, in reading order.

    Returns:
        The line; its font size is that of the piece with the longest text. Pieces from right to left are joined in
        their reading order.
    """
    if len(pieces) == 1:
        return pieces[0]
    if has_mostly_right_to_left(pieces):
        pieces = pieces[::-1]
    largest = max(pieces, key=lambda line: len(line.text))
    return TextLine(
        min([line.x0 for line in pieces]), min([line.y0 for line in pieces]),
        max([line.x1 for line in pieces]), max([line.y1 for line in pieces]),
        largest.size, " ".join([line.text for line in pieces]), pieces[0].block,
        all(line.is_bold for line in pieces),
    )  # fmt: skip


def group_rows(lines: Iterable[TextLine]) -> list[list[TextLine]]:
    """Return rows of lines at the same height, from top to bottom, each from left to right.

    Args:
        lines: Lines, in any order. A line with a negative block number is a row on its own.

    Returns:
        The rows.
    """
    rows: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda item: (item.y1, item.x0)):
        if rows and _is_same_row(rows[-1][-1], line):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        if len(row) > 1:
            row.sort(key=lambda item: item.x0)
    return rows


def _is_same_row(first: TextLine, second: TextLine) -> bool:
    if first.block < 0 or second.block < 0:
        return False
    overlap = min(first.y1, second.y1) - max(first.y0, second.y0)
    return overlap > 0 and overlap > 0.5 * min(first.height, second.height)
