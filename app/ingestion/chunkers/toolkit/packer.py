"""Packing of pieces into chunks: fill to the limit, cut at the best boundary, repeat the overlap."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from app.ingestion.chunkers.spec import ChunkSizes, TokenCounter
from app.ingestion.chunkers.toolkit.drafts import ChunkRange, build_drafts
from app.ingestion.chunkers.toolkit.splitter import Boundary, Piece, count_rows, split_piece, split_regions
from app.ingestion.types import ChunkDraft, DocumentTree, TreeNode

MAX_TABLE_TOKENS = 120
"""Maximum size of a part of a table with the repeated head."""

MAX_SINGLE_ROWS = 2_000
"""Maximum number of rows of a document whose cut tables have one row in each part.

A question for one row then finds its part first. If the document has more rows, its parts have more, so that the number
of chunks stays small.
"""

INTRODUCTION_SHARE = 4
"""A text before a table shares its chunk with the first rows if it fills at most one part in four of the budget."""


@dataclass(frozen=True, slots=True)
class TablePartSize:
    """Maximum number of rows, and of tokens with the repeated head, of a part of a table that does not fit."""

    rows: int
    tokens: int


@dataclass(slots=True)
class _PackedRegion:
    """Region whose pieces are being packed into chunks.

    Attributes:
        pieces: Pieces of the region.
        budget: Maximum sum of the tokens of the pieces of a chunk.
        packs: Pieces of each chunk.
    """

    pieces: list[Piece]
    budget: int
    packs: list[list[Piece]] = field(default_factory=list)


def pack_regions(
    tree: DocumentTree,
    regions: Sequence[Sequence[TreeNode]],
    sizes: ChunkSizes,
    count_tokens: TokenCounter,
    *,
    units_per_token: int = 1,
) -> list[ChunkDraft]:
    """Divide regions of paragraphs into chunks. No chunk crosses a region.

    Args:
        tree: Tree of the document.
        regions: Groups of paragraph nodes that may share a chunk, in reading order, each inside one section.
        sizes: Sizes of the chunks.
        count_tokens: Function that counts tokens, usually ``ChunkTools.count_tokens``, or smaller units.
        units_per_token: Number of such units in a token. A chunk's number of tokens is rounded down.

    Returns:
        The chunks in reading order. They keep the rules of ``validate_chunks``.

    Raises:
        IngestionError: The text has more than a million sentences, rows and lines.
    """
    max_units = _compute_limit(sizes, units_per_token)
    pieces = split_regions(tree.text, regions, max_tokens=max_units, count_tokens=count_tokens)
    packed = pack_pieces(tree.text, pieces, sizes, count_tokens, units_per_token=units_per_token)
    return build_drafts(tree, [text_range for ranges in packed for text_range in ranges])


def _compute_limit(sizes: ChunkSizes, units_per_token: int) -> int:
    """Return the most units that are still ``max_tokens`` tokens when rounded down."""
    return sizes.max_tokens * units_per_token + units_per_token - 1


def pack_pieces(
    text: str,
    regions: Sequence[Sequence[Piece]],
    sizes: ChunkSizes,
    count_tokens: TokenCounter,
    *,
    units_per_token: int = 1,
) -> list[list[ChunkRange]]:
    """Pack the pieces of each region into chunks.

    A chunk is filled to the limit, then cut back by up to half to the best boundary: block, sentence, line, word. A
    heading never ends a chunk, and is a chunk by itself only if its region contains nothing else. A table that does not
    fit into a chunk is cut between rows into small parts, each with the table's head.

    Args:
        text: Stored text of the document.
        regions: Pieces of each region, as ``split_regions`` returns them.
        sizes: Sizes of the chunks.
        count_tokens: Function that counts tokens, or smaller units. The pieces were counted with it.
        units_per_token: Number of such units in a token.

    Returns:
        Range of each chunk with the repeated head of its table, for each region. Range and head together have at most
        ``sizes.max_tokens`` tokens, unless the range is a single character.
    """
    limit = _compute_limit(sizes, units_per_token)
    packed = [_PackedRegion(list(pieces), limit) for pieces in regions]
    rows, overlap = -(-count_rows(regions) // MAX_SINGLE_ROWS), sizes.overlap_tokens * units_per_token
    part_size = TablePartSize(rows, MAX_TABLE_TOKENS * units_per_token)
    # A text can have more tokens than the sum of its parts, so each complete chunk is counted again.
    pending = packed
    while pending:
        for region in pending:
            region.packs = pack_within_budget(region.pieces, region.budget, overlap=overlap, part_size=part_size)
        counts = iter(count_tokens([_format_pack(text, pack) for region in pending for pack in region.packs]))
        pending = [
            region for region in pending if _tighten_if_over(text, region, [next(counts) for _ in region.packs], limit)
        ]
    return [[_to_range(pack) for pack in region.packs] for region in packed]


def pack_within_budget(
    pieces: list[Piece], budget: int, *, overlap: int, part_size: TablePartSize | None = None
) -> list[list[Piece]]:
    """Group adjacent pieces into packs of up to ``budget`` tokens.

    Headings that do not fit into a pack with the piece behind them are left out, unless they fill more than half of the
    budget: ``section_titles`` of the chunks below repeat them.

    Args:
        pieces: Pieces of one region, in reading order.
        budget: Maximum sum of the tokens of a pack.
        overlap: Maximum number of tokens that a pack repeats of the pack before it.
        part_size: Maximum size of a part of a table that does not fit into a pack; None for the size of a pack.

    Returns:
        The pieces of each pack.
    """
    part_size = part_size or TablePartSize(len(pieces), budget)
    has_only_headings = all(piece.is_heading for piece in pieces)
    totals = [0, *accumulate(piece.tokens for piece in pieces)]
    packs: list[list[Piece]] = []
    start = done = 0
    while done < len(pieces):
        end = _find_last_end(totals, start, done, budget - pieces[start].head_tokens)
        end = _limit_table(pieces, totals, (start, done, end), budget, part_size)
        if end == len(pieces):
            packs.append(pieces[start:])
            break
        end = _find_best_end(pieces, totals, start, done, end)
        if (
            not has_only_headings
            and all(piece.is_heading for piece in pieces[start:end])
            and totals[end] - totals[start] <= budget // 2
        ):
            start = end
        else:
            packs.append(pieces[start:end])
            start = _find_overlap_start(pieces, totals, start, end, budget, overlap)
        done = end
    return packs


def _find_last_end(totals: list[int], start: int, done: int, tokens: int) -> int:
    """Return the end of the longest pack from ``start`` with up to ``tokens`` tokens and a piece behind ``done``."""
    return max(done + 1, bisect_right(totals, totals[start] + tokens) - 1)


def _limit_table(
    pieces: list[Piece], totals: list[int], pack: tuple[int, int, int], budget: int, part_size: TablePartSize
) -> int:
    """Return the end of a pack, moved so that the pack contains whole tables, or a small part of one table.

    A table that does not fit begins a pack, unless only a short text is before it. ``pack`` has the first piece of the
    pack, the end of the pack before it, and the end that the budget allows.
    """
    start, done, end = pack
    first = start
    while first < end:
        table = pieces[first].table
        table_end = first + 1
        while table is not None and table_end < end and pieces[table_end].table is table:
            table_end += 1
        is_continued = table is not None and first == start and pieces[start].start > table.start
        is_cut = table is not None and end < len(pieces) and pieces[end].table is table
        if is_continued or (is_cut and table_end == end):
            if totals[first] - totals[start] > budget // INTRODUCTION_SHARE:
                return first
            part_tokens = min(budget, part_size.tokens) - pieces[start].head_tokens
            part_end = _find_last_end(totals, start, max(done, first), part_tokens)
            return min(table_end, part_end, _find_row_end(pieces, first, part_end, part_size.rows))
        first = table_end
    return end


def _find_row_end(pieces: list[Piece], first: int, end: int, rows: int) -> int:
    """Return the end of the first ``rows`` rows of a table, with the labels above and the notes below these rows."""
    count, last_row = 0, None
    for index in range(first, end):
        row = pieces[index].row
        if row is not None and row is not last_row and not row.is_note:
            if count == rows:
                return index
            count, last_row = count + (not row.is_label), row
    return end


def _find_best_end(pieces: list[Piece], totals: list[int], start: int, done: int, end: int) -> int:
    """Return the last of the best boundaries behind ``done`` in the second half of the tokens of pieces[start:end]."""
    half = totals[start] + (totals[end] - totals[start]) // 2
    first = max(done + 1, bisect_left(totals, half))
    candidates = [index for index in range(first, end + 1) if not pieces[index - 1].is_introduction]
    return max(candidates, key=lambda index: (pieces[index].boundary, index), default=end)


def _find_overlap_start(pieces: list[Piece], totals: list[int], start: int, end: int, budget: int, overlap: int) -> int:
    """Return the first piece of the next chunk, which repeats up to ``overlap`` tokens and has room for a new piece.

    The chunk repeats complete sentences. If the cut is inside a sentence, it repeats parts of the same kind. A table
    repeats nothing, and no row is repeated.
    """
    if pieces[end].table is not None:
        return end
    earliest = max(totals[end] - overlap, totals[end + 1] - budget)
    min_boundary = min(Boundary.SENTENCE, pieces[end].boundary)
    first = max(start + 1, bisect_left(totals, earliest))
    return next((index for index in range(first, end) if _can_repeat(pieces[index], min_boundary)), end)


def _can_repeat(piece: Piece, min_boundary: Boundary) -> bool:
    return piece.boundary >= min_boundary and piece.table is None


def _to_range(pack: list[Piece]) -> ChunkRange:
    return ChunkRange(pack[0].start, pack[-1].end, pack[0].table_head)


def _format_pack(text: str, pack: list[Piece]) -> str:
    start, end, table_head = _to_range(pack)
    return text[start:end] if table_head is None else f"{table_head}\n{text[start:end]}"


def _tighten_if_over(text: str, region: _PackedRegion, counts: list[int], limit: int) -> bool:
    """Return whether a chunk of the region is over the limit, and if so reduce the budget or halve single pieces.

    A single character over the limit stays unchanged.
    """
    oversized = [(pack, tokens) for pack, tokens in zip(region.packs, counts, strict=True) if tokens > limit]
    max_count = max((tokens for pack, tokens in oversized if len(pack) > 1), default=0)
    if max_count:
        # Reduced by at least 1/32, so that a few rounds are enough.
        reduced_budget = region.budget - max(1, region.budget // 32)
        region.budget = max(1, min(reduced_budget, region.budget * limit // max_count))
    single = [pack[0] for pack, _ in oversized if len(pack) == 1]
    shortened_starts = {piece.start for piece in single if piece.shorten_head()}
    oversized_starts = {
        piece.start for piece in single if piece.start not in shortened_starts and piece.end - piece.start > 1
    }
    if oversized_starts:
        region.pieces = [part for piece in region.pieces for part in _halve_if_oversized(text, piece, oversized_starts)]
    return bool(max_count or shortened_starts or oversized_starts)


def _halve_if_oversized(text: str, piece: Piece, oversized_starts: set[int]) -> list[Piece]:
    if piece.start not in oversized_starts:
        return [piece]
    parts = split_piece(text, piece, 2)
    return [replace(part, tokens=-(-piece.tokens // len(parts))) for part in parts]
