"""Positions of the text of blocks in the decoded text of a file.

A parser keeps the readable characters of its file with their positions as a ``SourceText``. It names the ranges of
these characters that each block was read from. The words of the block are compared with the words of these ranges. If
they are equal, each word gets its position. If they differ, the block gets the position of its ranges as a whole.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.documents.source_map import UNKNOWN, WHOLE, SourceSegment
from app.text_normalization import normalize_text

TextRange = tuple[int, int]
_WORD = re.compile(r"[^\W_]+")
_TOKEN = re.compile(r"\S+")


class SourceWord(NamedTuple):
    """Letters and digits with their range of the source. ``is_linear`` is true if each character has its own place."""

    text: str
    start: int
    end: int
    is_linear: bool


@dataclass(slots=True)
class SourceText:
    """Readable characters of a file, and the position of each of them in the decoded text.

    Attributes:
        source: Decoded text of the file.
        text: Readable characters, for example without tags and with characters in place of their references.
        starts: First character of each run in ``text``.
        source_starts: First character of each run in the source.
        source_ends: Offset behind the last character of each run in the source.
        linear: Whether the characters of each run follow each other in the source.
    """

    source: str
    text: str
    starts: "array[int]" = field(default_factory=lambda: array("i"))
    source_starts: "array[int]" = field(default_factory=lambda: array("i"))
    source_ends: "array[int]" = field(default_factory=lambda: array("i"))
    linear: bytearray = field(default_factory=bytearray)

    @classmethod
    def from_text(cls, text: str) -> "SourceText":
        """Create the readable characters of a plain text."""
        source = cls(text, text)
        source.add_run(0, 0, len(text))
        return source

    def add_run(self, start: int, source_start: int, source_end: int, *, is_linear: bool = True) -> None:
        """Add the next run of ``text``; it ends where the next one starts."""
        self.starts.append(start)
        self.source_starts.append(source_start)
        self.source_ends.append(source_end)
        self.linear.append(is_linear)

    def find_range(self, start: int, end: int) -> tuple[int, int, bool]:
        """Return the range of the source that has ``text[start:end]``, and whether it is linear."""
        first, last = bisect_right(self.starts, start) - 1, bisect_right(self.starts, end - 1) - 1
        source_start, source_end = self.source_starts[first], self.source_ends[last]
        if self.linear[first]:
            source_start += start - self.starts[first]
        if self.linear[last]:
            source_end = self.source_starts[last] + end - self.starts[last]
        return source_start, source_end, first == last and bool(self.linear[first])

    def iter_runs(self, start: int, end: int) -> Iterator[tuple[int, int, int, int, bool]]:
        """Yield the runs of ``text[start:end]``: their ranges of text and source, and whether they are linear."""
        run = bisect_right(self.starts, start) - 1
        while start < end:
            run += 1
            last = min(end, self.starts[run] if run < len(self.starts) else end)
            yield start, last, *self.find_range(start, last)
            start = last

    def replace_matches(self, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str) -> str:
        """Replace the matches of a pattern in the readable characters, like ``re.sub``, and return the new characters.

        ``text`` must be the readable characters so far.
        """
        former = SourceText(self.source, text, self.starts, self.source_starts, self.source_ends, self.linear)
        self.starts, self.source_starts, self.source_ends = array("i"), array("i"), array("i")
        self.linear = bytearray()
        parts: list[str] = []
        length = position = 0
        for match in pattern.finditer(text):
            replaced = replace(match)
            if replaced == match[0] or len(replaced) == len(match[0]) == 1:
                start = match.start()
                parts += text[position:start], replaced
                length = self._add_runs(former, position, match.end(), length)
            else:
                start = match.end() - len(replaced) if match[0].endswith(replaced) else match.end()
                parts += text[position : match.start()], replaced
                length = self._add_runs(former, position, match.start(), length)
                if start < match.end():
                    length = self._add_runs(former, start, match.end(), length)
                elif replaced:
                    source_start, source_end, _ = former.find_range(match.start(), match.end())
                    self.add_run(length, source_start, source_end, is_linear=False)
                    length += len(replaced)
            position = match.end()
        self._add_runs(former, position, len(text), length)
        self.text = "".join((*parts, text[position:]))
        return self.text

    def _add_runs(self, former: "SourceText", start: int, end: int, length: int) -> int:
        """Add the runs of a part of the former text, and return the number of characters so far."""
        for first, last, source_start, source_end, is_linear in former.iter_runs(start, end):
            is_next = self.linear and self.linear[-1] and is_linear and self.source_ends[-1] == source_start
            if is_next:
                self.source_ends[-1] = source_end
            else:
                self.add_run(length, source_start, source_end, is_linear=is_linear)
            length += last - first
        return length

    def iter_words(self, ranges: Iterable[TextRange]) -> Iterator[SourceWord]:
        """Yield the words of ranges of ``text`` in the form of stored text."""
        for begin, stop in ranges:
            for token in _TOKEN.finditer(self.text, begin, stop):
                stored = token[0] if token[0].isascii() and token[0].isprintable() else normalize_text(token[0])
                if stored == token[0]:
                    for word in _WORD.finditer(stored):
                        at = token.start() + word.start()
                        yield SourceWord(word[0], *self.find_range(at, at + len(word[0])))
                else:
                    start, end, _ = self.find_range(token.start(), token.end())
                    yield from (SourceWord(word, start, end, False) for word in _WORD.findall(stored))


def align_block(text: str, source: SourceText, ranges: Sequence[TextRange], *, whole: TextRange) -> list[SourceSegment]:
    """Return the segments of a block. The time is linear in the length of the block and its ranges.

    Args:
        text: Clean text of the block.
        source: Characters of the file.
        ranges: Ranges of ``source.text`` that the block was read from, in reading order.
        whole: Range of the source that has everything that the block was read from.

    Returns:
        Segments in the order of the text. There is at least one.
    """
    if len(ranges) == 1 and (copied := _align_copy(text, source, ranges[0])):
        return copied
    joiner = _SegmentJoiner(text, source.source)
    words = _WORD.finditer(text)
    position = end = 0
    for word in source.iter_words(ranges):
        done = 0
        while done < len(word.text):
            if position == end:
                position, end = _find_next(words)
            length = min(end - position, len(word.text) - done)
            if not length or text[position : position + length] != word.text[done : done + length]:
                return [_build_whole_segment(text, whole)]
            if word.is_linear:
                joiner.add(SourceSegment(position, length, word.start + done, WHOLE))
            else:
                joiner.add(SourceSegment(position, length, word.start, word.end - word.start))
            position, done = position + length, done + length
    if position < end or any(_find_next(words)) or not joiner.segments:
        return [_build_whole_segment(text, whole)]
    return joiner.finish()


def _find_next(words: Iterator[re.Match[str]]) -> TextRange:
    match = next(words, None)
    return (0, 0) if match is None else match.span()


def limit_segments(segments: Sequence[SourceSegment], limit: int) -> list[SourceSegment]:
    """Join neighbours until there are at most ``limit`` segments. Joined segments have the range of all their parts."""
    size = -(-len(segments) // max(limit, 1))
    if size <= 1:
        return list(segments)
    groups = [segments[at : at + size] for at in range(0, len(segments), size)]
    return [_join_segments(group) for group in groups]


def _join_segments(group: Sequence[SourceSegment]) -> SourceSegment:
    end = group[-1].start + group[-1].length
    parts = [part for segment in group if (part := segment.find_part(0, end)) is not None]
    if len(parts) < len(group):
        return SourceSegment(group[0].start, end - group[0].start, 0, UNKNOWN)
    source_start, source_end = min(part[0] for part in parts), max(part[1] for part in parts)
    return SourceSegment(group[0].start, end - group[0].start, source_start, source_end - source_start)


def locate_copy(text: str, *, source: SourceText, start: int, end: int) -> list[SourceSegment]:
    """Return the segments of a block that was read from one range of the readable characters of a file.

    Args:
        text: Clean text of the block, which is not empty.
        source: Characters of the file.
        start: First character of the range in ``source.text``.
        end: Offset behind its last character.
    """
    source_start, source_end, _ = source.find_range(start, end)
    return align_block(text, source, [(start, end)], whole=(source_start, source_end))


def _build_whole_segment(text: str, whole: TextRange) -> SourceSegment:
    return SourceSegment(0, len(text), whole[0], whole[1] - whole[0])


def _align_copy(text: str, source: SourceText, text_range: TextRange) -> list[SourceSegment]:
    """Return the segments of a block that is a copy of its range; nothing if it is none."""
    start = source.text.find(text[0], *text_range)
    if start < 0 or not source.text.startswith(text, start) or start + len(text) > text_range[1]:
        return []
    return [
        SourceSegment(first - start, last - first, source_start, WHOLE if is_linear else source_end - source_start)
        for first, last, source_start, source_end, is_linear in source.iter_runs(start, start + len(text))
    ]


class _SegmentJoiner:
    """Joiner of the words of a block to longer segments."""

    def __init__(self, text: str, source: str) -> None:
        self.segments: list[SourceSegment] = []
        self._text = text
        self._source = source

    def add(self, segment: SourceSegment) -> None:
        """Add a word. It extends the last segment if both are in the same place of the source."""
        last = self.segments[-1] if self.segments else None
        if last is not None and self._is_next(last, segment):
            length = segment.start + segment.length - last.start
            self.segments[-1] = SourceSegment(last.start, length, last.source_start, last.source_length)
        else:
            self.segments.append(segment)

    def _is_next(self, last: SourceSegment, segment: SourceSegment) -> bool:
        if WHOLE not in (last.source_length, segment.source_length):
            return last[2:] == segment[2:]
        if last.source_length != segment.source_length:
            return False
        shift = last.source_start - last.start
        if segment.source_start - segment.start != shift:
            return False
        gap = self._text[last.start + last.length : segment.start]
        source_gap = self._source[last.start + last.length + shift : segment.source_start]
        return gap == source_gap or all(
            left == right or (left.isspace() and right.isspace()) for left, right in zip(gap, source_gap, strict=True)
        )

    def finish(self) -> list[SourceSegment]:
        """Return the segments, extended by the punctuation around them that is the same in the source."""
        extended: list[SourceSegment] = []
        begin = source_begin = 0
        for number, segment in enumerate(self.segments):
            following = self.segments[number + 1].start if number + 1 < len(self.segments) else len(self._text)
            if segment.source_length == WHOLE:
                segment = self._extend(segment, begin, following, source_begin)
                source_begin = segment.source_start + segment.length
            begin = segment.start + segment.length
            extended.append(segment)
        return extended

    def _extend(self, segment: SourceSegment, begin: int, following: int, source_begin: int) -> SourceSegment:
        start, source_start, _ = segment.start, segment.source_start, segment.length
        end, source_end = start + segment.length, source_start + segment.length
        while begin < start and source_begin < source_start and self._is_same(start - 1, source_start - 1):
            start, source_start = start - 1, source_start - 1
        while end < following and source_end < len(self._source) and self._is_same(end, source_end):
            end, source_end = end + 1, source_end + 1
        return SourceSegment(start, end - start, source_start, WHOLE)

    def _is_same(self, position: int, source_position: int) -> bool:
        character = self._text[position]
        return character == self._source[source_position] and not character.isspace()
