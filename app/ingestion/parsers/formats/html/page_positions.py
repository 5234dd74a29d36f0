"""Positions of the nodes of a page in the text of its file.

The parser of HTML does not know positions. But the texts of its tree follow each other as in the file, also if they are
hidden. So each text of the tree must come next in the scanned file. At the first text that does not, the positions end:
they are exact or missing.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.documents.source_map import UNKNOWN, SourceSegment
from app.ingestion.parsers.formats.html.markup_scanner import UNREAD_TAGS
from app.ingestion.parsers.toolkit.source_alignment import SourceText, TextRange, align_block

_CHARACTER = re.compile(r"\S")
_SHIFT = 32


class SourcePlace(NamedTuple):
    """Range of the scanned text that a text or an element has. ``is_element`` is true if tags belong to the place."""

    start: int
    end: int
    is_element: bool = False


class BlockPlaces(NamedTuple):
    """Places that a block was read from, in reading order.

    Attributes:
        places: The places; None for a place that is not known.
        prefix: Number of characters at the start of the block that the file does not have, such as a list number.
    """

    places: Sequence[SourcePlace | None]
    prefix: int = 0


class PagePositions:
    """Positions of the texts and elements of one page."""

    def __init__(self, tree: LexborHTMLParser, source: SourceText) -> None:
        self._source = source
        self._ranges: dict[int, int] = {}
        self._next_characters: dict[int, int] = {}
        self._is_complete = self._match_tree(tree.root)

    def _match_tree(self, root: LexborNode | None) -> bool:
        """Find the place of each node; return whether all texts were found."""
        cursor = 0
        for node in [] if root is None else root.traverse(include_text=True):
            start = cursor
            if node.tag == "-text" and (node.parent is None or node.parent.tag not in UNREAD_TAGS):
                text_range = self._match_text(node.text_content or "", cursor)
                if text_range is None:
                    return False
                start, cursor = text_range
            self._ranges[node.mem_id] = start << _SHIFT | cursor
        return True

    def _match_text(self, content: str, cursor: int) -> TextRange | None:
        """Return the range of the next text of the tree; None if another text comes next."""
        text, stripped = self._source.text, content.strip()
        if not stripped:
            return cursor, cursor
        start = self._find_character(cursor)
        if text.startswith(stripped, start):
            return start, start + len(stripped)
        for word in stripped.split():
            cursor = self._find_character(cursor)
            if not text.startswith(word, cursor):
                return None
            cursor += len(word)
        return start, cursor

    def _find_character(self, position: int) -> int:
        following = self._next_characters.get(position)
        if following is None:
            match = _CHARACTER.search(self._source.text, position)
            following = self._next_characters[position] = len(self._source.text) if match is None else match.start()
        return following

    def find_text(self, node: LexborNode) -> SourcePlace | None:
        """Return the place of a text; None if it is not known."""
        packed = self._ranges.get(node.mem_id)
        return None if packed is None else SourcePlace(packed >> _SHIFT, packed & (1 << _SHIFT) - 1)

    def find_element(self, node: LexborNode) -> SourcePlace | None:
        """Return the place of an element with its tags; None if it is not known."""
        place, end = self.find_text(node), self._find_end(node)
        return None if place is None or end is None else SourcePlace(place.start, max(place.start, end), True)

    def _find_end(self, node: LexborNode) -> int | None:
        """Return the start of what follows an element; None if it is not known."""
        following = node
        while following.next is None:
            if following.parent is None:
                return len(self._source.text) if self._is_complete else None
            following = following.parent
        place = self.find_text(following.next)
        return None if place is None else place.start

    def find_tag(self, node: LexborNode) -> SourcePlace | None:
        """Return the place of the first tag of an element; None if it is not known."""
        place = self.find_text(node)
        return place and SourcePlace(place.start, place.start, True)

    def locate(self, text: str, block: BlockPlaces) -> list[SourceSegment]:
        """Return the segments of a block.

        Args:
            text: Clean text of the block.
            block: Places that the block was read from.
        """
        places = [place for place in block.places if place is not None]
        if len(places) < len(block.places) or not places:
            return [SourceSegment(0, len(text), 0, UNKNOWN)]
        bounds = [self._find_bounds(place) for place in places]
        whole = min(start for start, _ in bounds), max(end for _, end in bounds)
        ranges = [(place.start, place.end) for place in places if place.start < place.end]
        segments = align_block(text[block.prefix :], self._source, ranges, whole=whole)
        return [segment._replace(start=segment.start + block.prefix) for segment in segments]

    def _find_bounds(self, place: SourcePlace) -> TextRange:
        """Return the range of the file; for an element with everything between the texts around it."""
        if not place.is_element:
            return self._source.find_range(place.start, place.end)[:2]
        start, end = 0, len(self._source.source)
        if place.start:
            before = self._source.find_range(place.start - 1, place.start)
            start = before[1] if before[2] else before[0]
        following = self._find_character(place.end)
        if following < len(self._source.text):
            after = self._source.find_range(following, following + 1)
            end = after[0] if after[2] else after[1]
        return start, max(start, end)
