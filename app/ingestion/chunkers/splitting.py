"""Text into counted pieces: blocks into sentences, rows and lines, and what is too large into words and characters."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice

from app.ingestion.sentences import sentence_spans, stripped
from app.ingestion.types import MAX_PIECES, BlockKind, TooManyPieces, TreeNode

TokenCounter = Callable[[Sequence[str]], list[int]]

_UNCOUNTED = -1
# A part of a sentence too large is an eighth of a chunk, so that chunks fill up and an overlap can be repeated.
_SHARE = 8
# In characters. Many programs write a paragraph as one line and leave no empty line behind it.
_LONGEST_WRAPPED_LINE = 200

_LINE_END = re.compile(r"\n+")
_TABLE_RULE = re.compile(r"[\s|:+-]+")
# Tokenizers of the WordPiece kind read a word of more than 100 characters as one unknown token. The scripts without
# spaces are left out: their characters are words of their own.
_LONG_WORD = re.compile(r"[^\s\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U000323af]{101,}")
# Quick to look for; without one there is no long word.
_LONG_RUN = re.compile(r"(?<!\S)\S{101}")
_CHARACTERS_A_TOKEN = 3
_WHOLE = (BlockKind.TABLE, BlockKind.CODE, BlockKind.RECORD, BlockKind.PICTURE)
_CLAUSE_SIGNS = "、,;:。"


class Boundary(IntEnum):
    """How good a place the beginning of a piece is to cut at; higher is better."""

    CHARACTER = 0
    WORD = 1
    LINE = 2
    SENTENCE = 3
    BLOCK = 4


@dataclass(slots=True)
class Piece:
    """Text that is never cut again, without white space at its ends.

    ``lead`` is where the piece before it in the region ends; ``tokens`` counts the text from there, white space
    included, so that sums over pieces come close to the count of the whole.
    """

    lead: int
    start: int
    end: int
    boundary: Boundary
    heading: bool
    tokens: int = _UNCOUNTED


def split_regions(
    text: str, regions: Sequence[Sequence[TreeNode]], *, max_tokens: int, count_tokens: TokenCounter
) -> list[list[Piece]]:
    """The pieces of each region (leaves that follow each other), none of them over ``max_tokens``.

    Counts everything in one call, and what had to be cut once more in another, until nothing is too large: one or two
    rounds for real text. A single character is never cut, and a piece has at least one token, so that a small enough
    budget always parts two pieces. Raises TooManyPieces.
    """
    pieces = _within_limit(_region_pieces(text, leaves) for leaves in regions)
    has_long_words = _LONG_RUN.search(text) is not None
    while fresh := [piece for region in pieces for piece in region if piece.tokens == _UNCOUNTED]:
        counts = count_tokens([text[piece.lead : piece.end] for piece in fresh])
        for piece, tokens in zip(fresh, counts, strict=True):
            piece.tokens = max(1, tokens, _least(text, piece) if has_long_words else 0)
        pieces = _within_limit(_cut_large(text, region, max_tokens) for region in pieces)
    return pieces


def cut(text: str, piece: Piece, parts: int) -> list[Piece]:
    """The piece in about ``parts`` (at least 2) uncounted ones, cut at lines, words or characters, in that order.

    Gives back the piece itself where it is a single character.
    """
    length = piece.end - piece.start
    if length < 2:
        return [piece]
    step = length / max(2, min(parts, length))
    found: list[Piece] = []
    position, lead, boundary = piece.start, piece.lead, piece.boundary
    while position < piece.end:
        aim = min(piece.end, max(position + 1, round(position + step)))
        # The rest is one piece where it is hardly more than a step, but never the whole.
        if piece.end - position < 1.5 * step and position > piece.start:
            aim = piece.end
        end, next_boundary = _place(text, position, aim, piece.end)
        start, stop = stripped(text, position, end)
        if start < stop:
            found.append(Piece(lead, start, stop, boundary, piece.heading))
            lead = stop
            boundary = next_boundary
        position = end
    return found


def sentence_units(leaves: Sequence[TreeNode], pieces: Sequence[Piece]) -> list[list[Piece]]:
    """A region's pieces by sentence; a heading goes with what follows; a table, a listing or a record is one unit."""
    starts = [leaf.start for leaf in leaves]
    units: list[list[Piece]] = []
    for piece in pieces:
        leaf = leaves[bisect_right(starts, piece.start) - 1]
        whole = leaf.block in _WHOLE and piece.start > leaf.start
        if units and (whole or piece.boundary < Boundary.SENTENCE or units[-1][-1].heading):
            units[-1].append(piece)
        else:
            units.append([piece])
    return units


def _within_limit(regions: Iterable[Iterable[Piece]]) -> list[list[Piece]]:
    left, found = MAX_PIECES, []
    for region in regions:
        pieces = list(islice(region, left + 1))
        left -= len(pieces)
        if left < 0:
            raise TooManyPieces
        found.append(pieces)
    return found


def _region_pieces(text: str, leaves: Sequence[TreeNode]) -> Iterator[Piece]:
    lead: int | None = None
    before: BlockKind | None = None
    for leaf in leaves:
        # A list reads as one: between its items is no better a place than between sentences.
        in_list = leaf.block is BlockKind.LIST_ITEM and before is BlockKind.LIST_ITEM
        boundary = Boundary.SENTENCE if in_list else Boundary.BLOCK
        before = leaf.block
        for position, end, inner in _spans(text, leaf):
            start, stop = stripped(text, position, end)
            if start < stop:
                at = boundary if position == leaf.start else inner
                yield Piece(start if lead is None else lead, start, stop, at, leaf.block is BlockKind.HEADING)
                lead = stop


def _spans(text: str, leaf: TreeNode) -> Iterator[tuple[int, int, Boundary]]:
    """The sentences, rows or lines of a block as ranges that follow each other."""
    if leaf.block is BlockKind.HEADING:
        return iter([(leaf.start, leaf.end, Boundary.BLOCK)])
    if leaf.block is BlockKind.TABLE:
        return _rows(text, leaf)
    if leaf.block is BlockKind.CODE:
        return _lines(text, leaf)
    return _sentences(text, leaf)


def _sentences(text: str, leaf: TreeNode) -> Iterator[tuple[int, int, Boundary]]:
    for start, end in sentence_spans(text, leaf.start, leaf.end):
        yield start, end, Boundary.BLOCK if _after_unwrapped_line(text, leaf, start) else Boundary.SENTENCE


def _after_unwrapped_line(text: str, leaf: TreeNode, start: int) -> bool:
    """Whether a line ends just before ``start`` that is longer than lines are wrapped at: then a paragraph does."""
    line_end = start - 1
    earliest = line_end - _LONGEST_WRAPPED_LINE - 1
    return earliest >= leaf.start and text[line_end] == "\n" and text.rfind("\n", earliest, line_end) == -1


def _lines(text: str, leaf: TreeNode) -> Iterator[tuple[int, int, Boundary]]:
    position, boundary = leaf.start, Boundary.SENTENCE
    for match in _LINE_END.finditer(text, leaf.start, leaf.end):
        yield position, match.end(), boundary
        position = match.end()
        boundary = Boundary.SENTENCE if len(match[0]) > 1 else Boundary.LINE
    yield position, leaf.end, boundary


def _rows(text: str, leaf: TreeNode) -> Iterator[tuple[int, int, Boundary]]:
    """A table's lines; the rule below the column names belongs to them."""
    position = line = leaf.start
    ends = [match.end() for match in _LINE_END.finditer(text, leaf.start, leaf.end)]
    for end in ends:
        if line > position and not _TABLE_RULE.fullmatch(text, line, end):
            yield position, line, Boundary.SENTENCE
            position = line
        line = end
    if line > position and not _TABLE_RULE.fullmatch(text, line, leaf.end):
        yield position, line, Boundary.SENTENCE
        position = line
    yield position, leaf.end, Boundary.SENTENCE


def _least(text: str, piece: Piece) -> int:
    """What words too long for the tokenizer count at least: else they would make chunks of any length."""
    return sum(len(word) for word in _LONG_WORD.findall(text, piece.start, piece.end)) // _CHARACTERS_A_TOKEN


def _cut_large(text: str, pieces: list[Piece], max_tokens: int) -> list[Piece]:
    if all(piece.tokens <= max_tokens for piece in pieces):
        return pieces
    wanted = max(1, max_tokens // _SHARE)
    found: list[Piece] = []
    for piece in pieces:
        found += cut(text, piece, -(-piece.tokens // wanted)) if piece.tokens > max_tokens else [piece]
    return found


def _place(text: str, position: int, aim: int, end: int) -> tuple[int, Boundary]:
    """Where to cut near ``aim``: after a line, a word or a clause in the half before it, else before a character."""
    if aim >= end:
        return end, Boundary.WORD
    earliest = position + (aim - position) // 2
    line = text.rfind("\n", earliest, aim)
    if line > position:
        return line + 1, Boundary.LINE
    space = text.rfind(" ", earliest, aim + 1)
    if space > position:
        return space + 1, Boundary.WORD
    clause = max(text.rfind(sign, earliest, aim) for sign in _CLAUSE_SIGNS)
    if clause > position:
        return clause + 1, Boundary.WORD
    while aim - 1 > earliest and unicodedata.category(text[aim]).startswith("M"):
        aim -= 1
    return aim, Boundary.CHARACTER
