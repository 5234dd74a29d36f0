"""Context lines: a line of a chat model about a range of a document's text."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

MAX_LINE_CHARACTERS = 300
"""Maximum length of a context line in characters."""


@dataclass(frozen=True, slots=True)
class ContextLine:
    """Line about a range of the text of a document.

    Attributes:
        start: First character of the range.
        end: Offset behind the last character.
        text: The line.
    """

    start: int
    end: int
    text: str


def find_context_lines(ranges: Sequence[tuple[int, int]], lines: Sequence[ContextLine]) -> list[str | None]:
    """Return the line of each range: the line whose own range overlaps it most; None if no line overlaps it.

    Args:
        ranges: Ranges of the text, such as those of chunks.
        lines: Lines about ranges of the same text.
    """
    ordered = sorted(lines, key=lambda line: (line.start, line.end))
    starts = [line.start for line in ordered]
    longest = max((line.end - line.start for line in ordered), default=0)
    results: list[str | None] = []
    for start, end in ranges:
        candidates = ordered[bisect_right(starts, start - longest - 1) : bisect_right(starts, end - 1)]
        best, best_overlap = None, 0
        for line in candidates:
            overlap = min(end, line.end) - max(start, line.start)
            if overlap > best_overlap:
                best, best_overlap = line.text, overlap
        results.append(best)
    return results
