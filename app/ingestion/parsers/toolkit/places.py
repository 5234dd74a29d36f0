"""Places of texts in a file as people count them: numbers of lines and of rows, from 1."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from app.documents.source_map import UNKNOWN, WHOLE, SourceSegment

_LINE_BREAK = re.compile(r"\r\n?|\n")


class NumberedRow(list[str]):
    """Cells of a row, with the number of the row in its sheet.

    Attributes:
        number: Number of the row, from 1.
    """

    __slots__ = ("number",)

    def __init__(self, cells: Iterable[str], number: int) -> None:
        super().__init__(cells)
        self.number = number


def number_rows(rows: Iterable[Sequence[str]]) -> Iterator[NumberedRow]:
    """Yield rows with their numbers.

    Args:
        rows: All rows of a sheet, from the first one.
    """
    return (NumberedRow(row, number) for number, row in enumerate(rows, start=1))


def get_row_number(row: Sequence[str]) -> int | None:
    """Return the number of a row; None if it has none."""
    return row.number if isinstance(row, NumberedRow) else None


class LineNumbers:
    """Numbers of the lines of a file's decoded text."""

    def __init__(self, source: str) -> None:
        self._starts = array("i", (match.end() for match in _LINE_BREAK.finditer(source)))

    def find_line(self, offset: int) -> int:
        """Return the number of the line that has the character at an offset."""
        return bisect_right(self._starts, offset) + 1

    def locate(self, segments: Sequence[SourceSegment]) -> list[SourceSegment]:
        """Return the lines of a text.

        Args:
            segments: Positions of the text in the decoded text of the file.

        Returns:
            A segment for each run of text on the same lines, with the first line and the number of lines.
        """
        lines: list[SourceSegment] = []
        for segment in segments:
            for part in self._split(segment):
                if lines and lines[-1].source_length != UNKNOWN and lines[-1][2:] == part[2:]:
                    lines[-1] = lines[-1]._replace(length=part.start + part.length - lines[-1].start)
                else:
                    lines.append(part)
        return lines

    def _split(self, segment: SourceSegment) -> Iterator[SourceSegment]:
        """Yield the lines of a segment. Only a segment with a position for each character can be split."""
        start, length, source_start, source_length = segment
        if source_length == UNKNOWN:
            yield segment
        elif source_length != WHOLE:
            first = self.find_line(source_start)
            last = self.find_line(max(source_start, source_start + source_length - 1))
            yield SourceSegment(start, length, first, last - first + 1)
        else:
            first = bisect_right(self._starts, source_start)
            last = bisect_right(self._starts, source_start + length - 1)
            borders = [source_start, *self._starts[first:last], source_start + length]
            for number, (line_start, line_end) in enumerate(pairwise(borders), start=first + 1):
                yield SourceSegment(start + line_start - source_start, line_end - line_start, number, 1)


def locate_rows(text: str, numbers: Sequence[int | None]) -> list[SourceSegment]:
    """Return the rows of a table.

    Args:
        text: Text of the table.
        numbers: Number of the row for each line of the text; None for a line of another kind, such as a header.

    Returns:
        A segment for each line with a row. If the text has other lines, one segment with all rows.
    """
    row_numbers = [number for number in numbers if number is not None]
    lines = text.split("\n")
    if not row_numbers:
        return []
    if len(lines) != len(numbers):
        return [SourceSegment(0, len(text), min(row_numbers), max(row_numbers) - min(row_numbers) + 1)]
    segments = []
    start = 0
    for line, number in zip(lines, numbers, strict=True):
        if number is not None and line:
            segments.append(SourceSegment(start, len(line), number, 1))
        start += len(line) + 1
    return segments


def locate_code_lines(text: str, *, first: int) -> list[SourceSegment]:
    """Return the lines of code whose line breaks are those of the file.

    Args:
        text: Text of a block.
        first: Number of its first line.
    """
    return locate_rows(text, range(first, first + text.count("\n") + 1))
