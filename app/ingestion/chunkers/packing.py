"""Pieces into chunks: fill up to the limit, cut at the best place, repeat the end of the chunk before."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from app.ingestion.chunkers.drafting import drafts_of
from app.ingestion.chunkers.spec import ChunkSizes
from app.ingestion.chunkers.splitting import Boundary, Piece, TokenCounter, cut, split_regions
from app.ingestion.types import ChunkDraft, DocumentTree, TreeNode


@dataclass(slots=True)
class _Region:
    """Leaves that share chunks: their pieces, and how full a chunk of them may be by the sum over its pieces."""

    pieces: list[Piece]
    budget: int
    packs: list[list[Piece]] = field(default_factory=list)


def pack_regions(
    tree: DocumentTree, regions: Sequence[Sequence[TreeNode]], sizes: ChunkSizes, count_tokens: TokenCounter
) -> list[ChunkDraft]:
    """The chunks of each region of paragraphs in turn; none crosses a region."""
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=count_tokens)
    packed = pack_pieces(tree.text, pieces, sizes, count_tokens)
    return drafts_of(tree, [place for ranges in packed for place in ranges])


def pack_pieces(
    text: str, regions: Sequence[Sequence[Piece]], sizes: ChunkSizes, count_tokens: TokenCounter
) -> list[list[tuple[int, int]]]:
    """The ranges of each region's chunks; none counts over ``sizes.max_tokens``.

    A chunk is as full as it can be, cut back by up to half to the best boundary there: block, sentence, line, word. A
    heading never ends a chunk, nor is one by itself unless its region holds nothing else.
    """
    limit = sizes.max_tokens
    packed = [_Region(list(pieces), limit) for pieces in regions]
    # A tokenizer may give a text more tokens than its parts have, so chunks are counted whole before they are believed.
    waiting = packed
    while waiting:
        for region in waiting:
            region.packs = fill(region.pieces, region.budget, overlap=sizes.overlap_tokens)
        counts = iter(count_tokens([text[slice(*_range(pack))] for region in waiting for pack in region.packs]))
        waiting = [region for region in waiting if _over(text, region, [next(counts) for _ in region.packs], limit)]
    return [[_range(pack) for pack in region.packs] for region in packed]


def fill(pieces: list[Piece], budget: int, *, overlap: int) -> list[list[Piece]]:
    """Pieces that follow each other, up to ``budget`` tokens of them in a pack.

    Headings that do not fit with what follows are left out: its ``section_titles`` have them, unless they are too long.
    """
    bare = all(piece.heading for piece in pieces)
    totals = [0, *accumulate(piece.tokens for piece in pieces)]
    packs: list[list[Piece]] = []
    start = done = 0
    while done < len(pieces):
        end = max(done + 1, bisect_right(totals, totals[start] + budget) - 1)
        if end == len(pieces):
            packs.append(pieces[start:])
            break
        end = _best_end(pieces, totals, start, done, end)
        if (
            not bare
            and all(piece.heading for piece in pieces[start:end])
            and totals[end] - totals[start] <= budget // 2
        ):
            start = end
        else:
            packs.append(pieces[start:end])
            start = _overlap_start(pieces, totals, start, end, budget, overlap)
        done = end
    return packs


def _best_end(pieces: list[Piece], totals: list[int], start: int, done: int, end: int) -> int:
    """The last of the best boundaries in the fuller half of pieces[start:end], behind ``done``."""
    half = totals[start] + (totals[end] - totals[start]) // 2
    first = max(done + 1, bisect_left(totals, half))
    candidates = [place for place in range(first, end + 1) if not pieces[place - 1].heading]
    return max(candidates, key=lambda place: (pieces[place].boundary, place), default=end)


def _overlap_start(pieces: list[Piece], totals: list[int], start: int, end: int, budget: int, overlap: int) -> int:
    """Where the next chunk begins so that it repeats up to ``overlap`` tokens and still holds its first new piece.

    It repeats whole sentences, or, inside of one that was cut, the same kind of part.
    """
    earliest = max(totals[end] - overlap, totals[end + 1] - budget)
    wanted = min(Boundary.SENTENCE, pieces[end].boundary)
    first = max(start + 1, bisect_left(totals, earliest))
    return next((place for place in range(first, end) if pieces[place].boundary >= wanted), end)


def _range(pack: list[Piece]) -> tuple[int, int]:
    return pack[0].start, pack[-1].end


def _over(text: str, region: _Region, counts: list[int], limit: int) -> bool:
    """Whether a chunk of the region counts over the limit; if so, tighten the budget, or halve what is a single piece.

    A single character over the limit stays as it is.
    """
    over = [(pack, tokens) for pack, tokens in zip(region.packs, counts, strict=True) if tokens > limit]
    worst = max((tokens for pack, tokens in over if len(pack) > 1), default=0)
    if worst:
        # At least a thirty-second less, so that a few rounds do.
        smaller = region.budget - max(1, region.budget // 32)
        region.budget = max(1, min(smaller, region.budget * limit // worst))
    large = {pack[0].start for pack, _ in over if len(pack) == 1 and pack[0].end - pack[0].start > 1}
    if large:
        region.pieces = [part for piece in region.pieces for part in _halves(text, piece, large)]
    return bool(worst or large)


def _halves(text: str, piece: Piece, large: set[int]) -> list[Piece]:
    if piece.start not in large:
        return [piece]
    parts = cut(text, piece, 2)
    return [replace(part, tokens=-(-piece.tokens // len(parts))) for part in parts]
