"""Removal of text that a PDF file prints several times at one place, for a bold font or a shadow."""

from itertools import pairwise

from app.ingestion.parsers.formats.pdf.text_line import TextLine

MAX_SHIFT = 0.2
"""Maximum distance between two copies of a text, as a share of the font size."""

_MAX_COPIES = 8


def remove_overprints(lines: list[TextLine]) -> list[TextLine]:
    """Return the lines of a page with each text once per place.

    Repeated words at other places stay, because a copy is printed over its original with almost no shift.

    Args:
        lines: Lines in the order of the file.
    """
    repeated = _find_repeated_texts(lines)
    # Most pages have no overprints. This test is faster than the loop.
    if not repeated and not any(
        below.x0 < above.x1 - 1 and abs(below.y0 - above.y0) < above.size for above, below in pairwise(lines)
    ):
        return lines
    result: list[TextLine] = []
    places: dict[tuple[str, int], list[TextLine]] = {}
    for line in lines:
        previous = result[-1] if result else None
        if previous and previous.x0 - 1 <= line.x0 < previous.x1 - 1 and _is_same_height(previous, line):
            if _is_printed_over(previous, line):
                continue
            if _is_printed_over(line, previous):
                result[-1] = line
                continue
        if line.text in repeated:
            row = int(line.y0 // 8)
            copies = [
                copy for key in (row - 1, row, row + 1) for copy in places.get((line.text, key), ())[-_MAX_COPIES:]
            ]
            if any(_is_same_height(copy, line) and abs(copy.x0 - line.x0) <= MAX_SHIFT * line.size for copy in copies):
                continue
            places.setdefault((line.text, row), []).append(line)
        result.append(line)
    return result


def _find_repeated_texts(lines: list[TextLine]) -> set[str]:
    """Return the texts that several lines in almost the same place on the page may have."""
    first: dict[str, TextLine] = {}
    repeated = set()
    for line in lines:
        other = first.setdefault(line.text, line)
        if other is not line:
            repeated.add(line.text)
    return repeated


def _is_same_height(first: TextLine, second: TextLine) -> bool:
    return abs(first.y0 - second.y0) <= MAX_SHIFT * first.size and abs(first.size - second.size) <= 0.05 * first.size


def _is_printed_over(original: TextLine, copy: TextLine) -> bool:
    """Return whether the text of a copy is at the same place in the text of another line."""
    text = copy.text.strip()
    start = original.text.find(text)
    if not text or start < 0:
        return False
    expected = original.x0 + start / len(original.text) * (original.x1 - original.x0)
    return abs(copy.x0 - expected) <= original.size and copy.x1 <= original.x1 + MAX_SHIFT * original.size
