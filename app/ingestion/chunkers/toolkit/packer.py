"""Packing of pieces into chunks: fill to the limit, cut at the best boundary, repeat the overlap."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from app.ingestion.chunkers.spec import ChunkSizes, TokenCounter
from app.ingestion.chunkers.toolkit.drafts import build_drafts
from app.ingestion.chunkers.toolkit.splitter import Boundary, Piece, split_piece, split_regions
from app.ingestion.types import ChunkDraft, DocumentTree, TreeNode


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
    tree: DocumentTree, regions: Sequence[Sequence[TreeNode]], sizes: ChunkSizes, count_tokens: TokenCounter
) -> list[ChunkDraft]:
    """Divide regions of paragraphs into chunks. No chunk crosses a region.

    Args:
        tree: Tree of the document.
        regions: Groups of paragraph nodes that may share a chunk, in reading order, each inside one section.
        sizes: Sizes of the chunks.
        count_tokens: Function that counts tokens, usually ``ChunkTools.count_tokens``.

    Returns:
        The chunks in reading order. They keep the rules of ``validate_chunks``.

    Raises:
        IngestionError: The text has more than a million sentences, rows and lines.
    """
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=count_tokens)
    packed = pack_pieces(tree.text, pieces, sizes, count_tokens)
    return build_drafts(tree, [text_range for ranges in packed for text_range in ranges])


def pack_pieces(
    text: str, regions: Sequence[Sequence[Piece]], sizes: ChunkSizes, count_tokens: TokenCounter
) -> list[list[tuple[int, int]]]:
    """Pack the pieces of each region into chunks.

    A chunk is filled to the limit, then cut back by up to half to the best boundary: block, sentence, line, word. A
    heading never ends a chunk, and is a chunk by itself only if its region contains nothing else.

    Args:
        text: Stored text of the document.
        regions: Pieces of each region, as ``split_regions`` returns them.
        sizes: Sizes of the chunks.
        count_tokens: Function that counts tokens.

    Returns:
        Start and end of each chunk in code points, for each region. No chunk has more than ``sizes.max_tokens`` tokens,
        unless it is a single character.
    """
    limit = sizes.max_tokens
    packed = [_PackedRegion(list(pieces), limit) for pieces in regions]
    # A text can have more tokens than the sum of its parts, so each complete chunk is counted again.
    pending = packed
    while pending:
        for region in pending:
            region.packs = pack_within_budget(region.pieces, region.budget, overlap=sizes.overlap_tokens)
        counts = iter(count_tokens([text[slice(*_to_range(pack))] for region in pending for pack in region.packs]))
        pending = [
            region for region in pending if _tighten_if_over(text, region, [next(counts) for _ in region.packs], limit)
        ]
    return [[_to_range(pack) for pack in region.packs] for region in packed]


def pack_within_budget(pieces: list[Piece], budget: int, *, overlap: int) -> list[list[Piece]]:
    """Group adjacent pieces into packs of up to ``budget`` tokens.

    Headings that do not fit into a pack with the piece behind them are left out, unless they fill more than half of the
    budget: ``section_titles`` of the chunks below repeat them.

    Args:
        pieces: Pieces of one region, in reading order.
        budget: Maximum sum of the tokens of a pack.
        overlap: Maximum number of tokens that a pack repeats of the pack before it.

    Returns:
        The pieces of each pack.
    """
    has_only_headings = all(piece.is_heading for piece in pieces)
    totals = [0, *accumulate(piece.tokens for piece in pieces)]
    packs: list[list[Piece]] = []
    start = done = 0
    while done < len(pieces):
        end = max(done + 1, bisect_right(totals, totals[start] + budget) - 1)
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


def _find_best_end(pieces: list[Piece], totals: list[int], start: int, done: int, end: int) -> int:
    """Return the last of the best boundaries behind ``done`` in the second half of the tokens of pieces[start:end]."""
    half = totals[start] + (totals[end] - totals[start]) // 2
    first = max(done + 1, bisect_left(totals, half))
    candidates = [index for index in range(first, end + 1) if not pieces[index - 1].is_heading]
    return max(candidates, key=lambda index: (pieces[index].boundary, index), default=end)


def _find_overlap_start(pieces: list[Piece], totals: list[int], start: int, end: int, budget: int, overlap: int) -> int:
    """Return the first piece of the next chunk, which repeats up to ``overlap`` tokens and has room for a new piece.

    The chunk repeats complete sentences. If the cut is inside a sentence, it repeats parts of the same kind.
    """
    earliest = max(totals[end] - overlap, totals[end + 1] - budget)
    min_boundary = min(Boundary.SENTENCE, pieces[end].boundary)
    first = max(start + 1, bisect_left(totals, earliest))
    return next((index for index in range(first, end) if pieces[index].boundary >= min_boundary), end)


def _to_range(pack: list[Piece]) -> tuple[int, int]:
    return pack[0].start, pack[-1].end


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
    oversized_starts = {pack[0].start for pack, _ in oversized if len(pack) == 1 and pack[0].end - pack[0].start > 1}
    if oversized_starts:
        region.pieces = [part for piece in region.pieces for part in _halve_if_oversized(text, piece, oversized_starts)]
    return bool(max_count or oversized_starts)


def _halve_if_oversized(text: str, piece: Piece, oversized_starts: set[int]) -> list[Piece]:
    if piece.start not in oversized_starts:
        return [piece]
    parts = split_piece(text, piece, 2)
    return [replace(part, tokens=-(-piece.tokens // len(parts))) for part in parts]
