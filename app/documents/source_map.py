"""Map from ranges of a document's stored text to ranges of the decoded text of its file."""

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

SourceRange = tuple[int, int] | None
"""Start and end in the decoded text of a file, in code points; None if they are not known."""

WHOLE = -1
"""Source length of a segment whose characters follow each other in the source as they do in the text."""

UNKNOWN = -2
"""Source length of a segment without a known position."""

MAX_SEGMENTS = 500_000
"""Maximum number of segments of one document. Further blocks have one segment each."""

MAX_BLOCK_SEGMENTS = 20_000
"""Maximum number of segments of one block. More segments are joined to segments with the range of all their parts."""

_FIELDS = 4


class SourceSegment(NamedTuple):
    """Part of a text with its position in the source, in code points.

    Attributes:
        start: First character in the text.
        length: Number of characters of the text.
        source_start: First character in the source.
        source_length: Number of characters of the source, or ``WHOLE``, or ``UNKNOWN``.
    """

    start: int
    length: int
    source_start: int
    source_length: int

    def find_part(self, start: int, end: int) -> SourceRange:
        """Return the range of the source that has the part of the segment in ``start`` to ``end`` of the text."""
        if self.source_length == UNKNOWN:
            return None
        if self.source_length != WHOLE:
            return self.source_start, self.source_start + self.source_length
        first, last = max(start, self.start), min(end, self.start + self.length)
        return self.source_start + first - self.start, self.source_start + last - self.start


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Segments of a document in the order of its text. The text between two segments has no letters and digits.

    Attributes:
        numbers: Four numbers for each segment, as ``SourceSegment`` has them.
    """

    numbers: "array[int]" = field(default_factory=lambda: array("i"))

    @classmethod
    def from_segments(cls, segments: Iterable[SourceSegment]) -> Self:
        """Create a map from segments in the order of the text."""
        return cls(array("i", (number for segment in segments for number in segment)))

    @classmethod
    def from_stored(cls, stored: bytes | None) -> Self | None:
        """Restore a map from its stored form; None if none is stored."""
        if stored is None:
            return None
        numbers = array("i")
        numbers.frombytes(zlib.decompress(stored))
        return cls(numbers)

    def to_stored(self) -> bytes:
        """Return the stored form: 32-bit integers, compressed."""
        return zlib.compress(self.numbers.tobytes(), 1)

    def __iter__(self) -> Iterator[SourceSegment]:
        """Yield the segments."""
        numbers = iter(self.numbers)
        return (SourceSegment(*fields) for fields in zip(*[numbers] * _FIELDS, strict=True))

    def is_valid(self, characters: int) -> bool:
        """Return whether the segments follow one another in a text of this length, and can be stored."""
        if len(self.numbers) % _FIELDS:
            return False
        position = 0
        for start, length, source_start, source_length in self:
            is_inside = position <= start < start + length <= characters
            if not is_inside or source_start < 0 or source_length < UNKNOWN:
                return False
            if source_start + max(source_length, length) >= 1 << 31:
                return False
            position = start + length
        return True

    def slice(self, start: int, end: int) -> Self:
        """Return the map of a part of the text, with offsets into that part."""
        parts: list[SourceSegment] = []
        for segment in self._iter_overlapping(start, end):
            first, last = max(segment.start, start), min(segment.start + segment.length, end)
            source_start = segment.source_start + (first - segment.start if segment.source_length == WHOLE else 0)
            parts.append(SourceSegment(first - start, last - first, source_start, segment.source_length))
        return type(self).from_segments(parts)

    def find_range(self, start: int, end: int) -> SourceRange:
        """Find the range of the source that has all letters and digits of a part of the text.

        Args:
            start: First character of the part.
            end: Offset behind its last character.

        Returns:
            Start and end in the source; None if the position of any part is not known.
        """
        source_start = source_end = -1
        for segment in self._iter_overlapping(start, end):
            part = segment.find_part(start, end)
            if part is None:
                return None
            source_start = part[0] if source_end < 0 else min(source_start, part[0])
            source_end = max(source_end, part[1])
        return None if source_end < 0 else (source_start, source_end)

    def _iter_overlapping(self, start: int, end: int) -> Iterator[SourceSegment]:
        numbers = self.numbers
        position = bisect_right(range(len(numbers) // _FIELDS), start, key=lambda at: numbers[_FIELDS * at]) - 1
        for at in range(max(position, 0) * _FIELDS, len(numbers), _FIELDS):
            segment = SourceSegment(*numbers[at : at + _FIELDS])
            if segment.start >= end:
                return
            if segment.start + segment.length > start:
                yield segment


def find_place(place_map: SourceMap | None, start: int, end: int) -> tuple[int, int] | None:
    """Return the first and last line or row of a part of a text; None if they are not known.

    Args:
        place_map: Map from ranges of the text to numbers of lines or rows, from 1; None without any.
        start: First character of the part.
        end: Offset behind its last character.
    """
    place = None if place_map is None else place_map.find_range(start, end)
    return None if place is None else (place[0], place[1] - 1)
