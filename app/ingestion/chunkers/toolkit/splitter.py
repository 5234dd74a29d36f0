"""Splitting of text into counted pieces: sentences, rows and lines, and oversized ones into words and characters."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import islice

from app.ingestion.chunkers.spec import TokenCounter
from app.ingestion.chunkers.toolkit.table_parts import PieceTable, RowRange, find_table_rows, measure_heads
from app.ingestion.types import MAX_PIECES, BlockKind, TooManyPieces, TreeNode
from app.lexical.sentences import find_sentence_spans, strip_range

_UNCOUNTED = -1
# A sentence that is too large is split into parts of an eighth of a chunk, so that parts fill a chunk and can overlap.
_PARTS_PER_CHUNK = 8
# Characters of a line. Many programs write a paragraph as one longer line without an empty line behind it.
_MAX_WRAPPED_LINE = 200

_LINE_END = re.compile(r"\n+")
# WordPiece tokenizers read a word of more than 100 characters as one unknown token. Scripts without spaces are
# excluded, because each of their characters is a word.
_LONG_WORD = re.compile(r"[^\s\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U000323af]{101,}")
# A quick check: a text without a match has no long word.
_LONG_RUN = re.compile(r"(?<!\S)\S{101}")
_CHARACTERS_PER_TOKEN = 3
_UNIT_KINDS = (BlockKind.TABLE, BlockKind.CODE, BlockKind.RECORD, BlockKind.IMAGE)
_CLAUSE_SIGNS = "、,;:。"


class Boundary(IntEnum):
    """Quality of a cut before a piece; a higher value is a better cut."""

    CHARACTER = 0
    WORD = 1
    LINE = 2
    SENTENCE = 3
    BLOCK = 4


@dataclass(slots=True)
class Piece:
    """Range of the text that a chunk contains as a whole, without white space at its ends.

    Attributes:
        previous_end: End of the piece before it in the region.
        start: First character, as an offset in code points.
        end: Offset behind the last character.
        boundary: Quality of a cut before the piece.
        is_heading: Whether the piece is a heading.
        tokens: Number of tokens from ``previous_end`` to ``end``; -1 before it is counted.
        table: Table of the piece; None if the piece is not part of a table.
        row: Row that the piece belongs to; None for the head of a table and outside tables.
    """

    previous_end: int
    start: int
    end: int
    boundary: Boundary
    is_heading: bool
    tokens: int = _UNCOUNTED
    table: PieceTable | None = None
    row: RowRange | None = None

    @property
    def is_introduction(self) -> bool:
        """Whether the piece never ends a chunk: a heading, the head of a table, or the label of rows."""
        return self.is_heading or (self.table is not None and (self.row is None or self.row.is_label))

    @property
    def head_tokens(self) -> int:
        """Number of tokens of the head that a chunk repeats if it begins with this piece."""
        return 0 if self.table is None or self.row is None else self.table.count_head_tokens(self.row)

    @property
    def table_head(self) -> str | None:
        """Head that a chunk repeats if it begins with this piece."""
        return None if self.table is None or self.row is None else self.table.format_head(self.row)

    def shorten_head(self) -> bool:
        """Use a shorter form of the head, or none, for a chunk that begins here. Return False without any head."""
        return self.table is not None and self.row is not None and self.table.shorten_head(self.row)


def split_regions(
    text: str, regions: Sequence[Sequence[TreeNode]], *, max_tokens: int, count_tokens: TokenCounter
) -> list[list[Piece]]:
    """Split the text of regions into pieces.

    All pieces are counted in one call. Pieces that are too large are split and counted again, until none is too large;
    real text needs one or two rounds.

    Args:
        text: Stored text of the document.
        regions: Paragraph nodes of each region, in reading order.
        max_tokens: Maximum number of tokens of a piece. A single character is never split.
        count_tokens: Function that counts tokens.

    Returns:
        The pieces of each region. Each has at least one token.

    Raises:
        IngestionError: The text has more than a million pieces.
    """
    pieces = _check_piece_limit(_split_leaves(text, leaves) for leaves in regions)
    has_long_words = _LONG_RUN.search(text) is not None
    while uncounted := [piece for region in pieces for piece in region if piece.tokens == _UNCOUNTED]:
        counts = count_tokens([text[piece.previous_end : piece.end] for piece in uncounted])
        for piece, tokens in zip(uncounted, counts, strict=True):
            piece.tokens = max(1, tokens, _estimate_min_tokens(text, piece) if has_long_words else 0)
        pieces = _check_piece_limit(_split_oversized(text, region, max_tokens) for region in pieces)
    tables = {id(piece.table): piece.table for region in pieces for piece in region if piece.table is not None}
    rows = [piece.row for region in pieces for piece in region if piece.row is not None]
    measure_heads(list(tables.values()), rows, max_tokens=max_tokens, count_tokens=count_tokens)
    return pieces


def split_piece(text: str, piece: Piece, parts: int) -> list[Piece]:
    """Split a piece at lines if possible, otherwise at words or characters.

    Args:
        text: Stored text of the document.
        piece: The piece; a single character is not split.
        parts: Approximate number of parts, at least 2.

    Returns:
        The parts, whose tokens are not counted.
    """
    length = piece.end - piece.start
    if length < 2:
        return [piece]
    step = length / max(2, min(parts, length))
    pieces: list[Piece] = []
    position, previous_end, boundary = piece.start, piece.previous_end, piece.boundary
    while position < piece.end:
        target = min(piece.end, max(position + 1, round(position + step)))
        # A rest of less than 1.5 steps is one piece, unless it is the whole piece.
        if piece.end - position < 1.5 * step and position > piece.start:
            target = piece.end
        end, next_boundary = _find_cut(text, position, target, piece.end, is_row=piece.row is not None)
        start, stop = strip_range(text, position, end)
        if start < stop:
            part = replace(piece, previous_end=previous_end, start=start, end=stop, boundary=boundary)
            part.tokens = _UNCOUNTED
            pieces.append(part)
            previous_end = stop
            boundary = next_boundary
        position = end
    return pieces


def count_rows(regions: Iterable[Iterable[Piece]]) -> int:
    """Return the number of rows of all tables, without labels and notes."""
    rows = {id(piece.row) for region in regions for piece in region if piece.row is not None and piece.row.is_data}
    return len(rows)


def group_by_sentence(leaves: Sequence[TreeNode], pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Group the pieces of a region by sentence.

    A heading belongs to the sentence behind it. A table, a code block, a record or an image is one group.

    Args:
        leaves: Paragraph nodes of the region.
        pieces: Pieces of the region, as ``split_regions`` returns them.

    Returns:
        The pieces of each sentence, in reading order.
    """
    starts = [leaf.start for leaf in leaves]
    units: list[list[Piece]] = []
    for piece in pieces:
        leaf = leaves[bisect_right(starts, piece.start) - 1]
        is_continuation = leaf.block in _UNIT_KINDS and piece.start > leaf.start
        if units and (is_continuation or piece.boundary < Boundary.SENTENCE or units[-1][-1].is_heading):
            units[-1].append(piece)
        else:
            units.append([piece])
    return units


def _check_piece_limit(regions: Iterable[Iterable[Piece]]) -> list[list[Piece]]:
    remaining, checked = MAX_PIECES, []
    for region in regions:
        pieces = list(islice(region, remaining + 1))
        remaining -= len(pieces)
        if remaining < 0:
            raise TooManyPieces
        checked.append(pieces)
    return checked


def _split_leaves(text: str, leaves: Sequence[TreeNode]) -> Iterator[Piece]:
    previous_end: int | None = None
    previous_kind: BlockKind | None = None
    for leaf in leaves:
        # A cut between two items of a list is no better than one between two sentences.
        in_list = leaf.block is BlockKind.LIST_ITEM and previous_kind is BlockKind.LIST_ITEM
        boundary = Boundary.SENTENCE if in_list else Boundary.BLOCK
        previous_kind = leaf.block
        spans = _split_table(text, leaf) if leaf.block is BlockKind.TABLE else _split_block(text, leaf)
        for piece in spans:
            piece.start, piece.end, is_first = *strip_range(text, piece.start, piece.end), piece.start == leaf.start
            if piece.start < piece.end:
                piece.boundary = boundary if is_first else piece.boundary
                piece.previous_end = piece.start if previous_end is None else previous_end
                yield piece
                previous_end = piece.end


def _split_block(text: str, leaf: TreeNode) -> Iterator[Piece]:
    for start, end, boundary in _find_spans(text, leaf):
        yield Piece(start, start, end, boundary, leaf.block is BlockKind.HEADING)


def _split_table(text: str, leaf: TreeNode) -> Iterator[Piece]:
    """Yield the head of a table and then its rows. A cut before a label is better than a cut before another row."""
    table = PieceTable.from_text(text, leaf.start, leaf.end)
    position = leaf.start
    if table.head_end > position:
        yield Piece(position, position, table.head_end, Boundary.BLOCK, False, table=table)
        position = table.head_end
    for row in find_table_rows(text, position, leaf.end):
        boundary = Boundary.SENTENCE if row.begins_group else Boundary.LINE
        yield Piece(row.start, row.start, row.end, boundary, False, table=table, row=row)


def _find_spans(text: str, leaf: TreeNode) -> Iterator[tuple[int, int, Boundary]]:
    """Return the sentences or lines of a block as adjacent ranges."""
    if leaf.block is BlockKind.HEADING:
        return iter([(leaf.start, leaf.end, Boundary.BLOCK)])
    if leaf.block is BlockKind.CODE:
        return _find_lines(text, leaf)
    return _find_sentences(text, leaf)


def _find_sentences(text: str, leaf: TreeNode) -> Iterator[tuple[int, int, Boundary]]:
    for start, end in find_sentence_spans(text, leaf.start, leaf.end):
        yield start, end, Boundary.BLOCK if _is_after_unwrapped_line(text, leaf, start) else Boundary.SENTENCE


def _is_after_unwrapped_line(text: str, leaf: TreeNode, start: int) -> bool:
    """Return whether the line before ``start`` is too long to be a wrapped line, and therefore ends a paragraph."""
    line_end = start - 1
    earliest = line_end - _MAX_WRAPPED_LINE - 1
    return earliest >= leaf.start and text[line_end] == "\n" and text.rfind("\n", earliest, line_end) == -1


def _find_lines(text: str, leaf: TreeNode) -> Iterator[tuple[int, int, Boundary]]:
    position, boundary = leaf.start, Boundary.SENTENCE
    for match in _LINE_END.finditer(text, leaf.start, leaf.end):
        yield position, match.end(), boundary
        position = match.end()
        boundary = Boundary.SENTENCE if len(match[0]) > 1 else Boundary.LINE
    yield position, leaf.end, boundary


def _estimate_min_tokens(text: str, piece: Piece) -> int:
    """Estimate the tokens of words that are too long for the tokenizer. The estimate limits the length of chunks."""
    return sum(len(word) for word in _LONG_WORD.findall(text, piece.start, piece.end)) // _CHARACTERS_PER_TOKEN


def _split_oversized(text: str, pieces: list[Piece], max_tokens: int) -> list[Piece]:
    if all(piece.tokens <= max_tokens for piece in pieces):
        return pieces
    target_tokens = max(1, max_tokens // _PARTS_PER_CHUNK)
    result: list[Piece] = []
    for piece in pieces:
        result += split_piece(text, piece, -(-piece.tokens // target_tokens)) if piece.tokens > max_tokens else [piece]
    return result


def _find_cut(text: str, position: int, target: int, end: int, *, is_row: bool = False) -> tuple[int, Boundary]:
    """Find a cut at or before ``target``: after a line, a cell, a word or a clause, otherwise before a character."""
    if target >= end:
        return end, Boundary.WORD
    earliest = position + (target - position) // 2
    cell = text.rfind(" | ", earliest, target + 1) if is_row else -1
    if cell > position:
        return cell + 1, Boundary.WORD
    line = text.rfind("\n", earliest, target)
    if line > position:
        return line + 1, Boundary.LINE
    space = text.rfind(" ", earliest, target + 1)
    if space > position:
        return space + 1, Boundary.WORD
    clause = max(text.rfind(sign, earliest, target) for sign in _CLAUSE_SIGNS)
    if clause > position:
        return clause + 1, Boundary.WORD
    while target - 1 > earliest and unicodedata.category(text[target]).startswith("M"):
        target -= 1
    return target, Boundary.CHARACTER
