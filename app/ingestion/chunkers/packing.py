"""Pieces into chunks: fill up to the limit, cut at the best place, repeat the end of the chunk before."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from app.errors import InvalidInput
from app.ingestion.chunkers.splitting import Boundary, Piece, TokenCounter, cut, split_regions
from app.ingestion.types import BlockKind, ChunkDraft, DocumentTree, NodeKind, TreeNode

MIN_TOKENS = 16
MAX_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """Sizes in tokens of the embedding model. Raises InvalidInput where they make no sense."""

    max_tokens: int = 200
    overlap_tokens: int = 50

    def __post_init__(self) -> None:
        if not MIN_TOKENS <= self.max_tokens <= MAX_TOKENS:
            raise InvalidInput(f"must be between {MIN_TOKENS} and {MAX_TOKENS}", loc=("max_tokens",))
        if not 0 <= self.overlap_tokens < self.max_tokens:
            raise InvalidInput("must be at least 0 and less than max_tokens", loc=("overlap_tokens",))


@dataclass(slots=True)
class _Region:
    """Leaves that share chunks: their pieces, and how full a chunk of them may be by the sum over its pieces."""

    pieces: list[Piece]
    budget: int
    packs: list[list[Piece]] = field(default_factory=list)


def pack_regions(
    tree: DocumentTree, regions: Sequence[Sequence[TreeNode]], options: ChunkOptions, count_tokens: TokenCounter
) -> list[ChunkDraft]:
    """The chunks of each region of leaves in turn; none crosses a region or counts over ``options.max_tokens``.

    A chunk is as full as it can be, cut back by up to half to the best boundary there: block, sentence, line, word. A
    heading never ends a chunk, nor is one by itself unless its region holds nothing else.
    """
    text, limit = tree.text, options.max_tokens
    regions = [part for region in regions for part in _records_apart(region)]
    pieces = split_regions(text, regions, max_tokens=limit, count_tokens=count_tokens)
    packed = [_Region(region, limit) for region in pieces]
    # A tokenizer may give a text more tokens than its parts have, so chunks are counted whole before they are believed.
    waiting = packed
    while waiting:
        for region in waiting:
            region.packs = _pack(region.pieces, region.budget, options.overlap_tokens)
        counts = iter(count_tokens([text[slice(*_range(pack))] for region in waiting for pack in region.packs]))
        waiting = [region for region in waiting if _over(text, region, [next(counts) for _ in region.packs], limit)]
    leaves = leaves_of(tree.root)
    starts = [leaf.start for leaf in leaves]
    return [_draft(tree, leaves, starts, *_range(pack)) for region in packed for pack in region.packs]


def _records_apart(leaves: Sequence[TreeNode]) -> list[list[TreeNode]]:
    """A record is a region of its own; what stands between two is another, but for headings alone."""
    parts: list[list[TreeNode]] = [[]]
    for leaf in leaves:
        if leaf.block is BlockKind.RECORD:
            parts += [[leaf], []]
        else:
            parts[-1].append(leaf)
    if len(parts) == 1:
        return parts
    return [part for part in parts if any(leaf.block is not BlockKind.HEADING for leaf in part)]


def leaves_of(root: TreeNode) -> list[TreeNode]:
    """The tree's paragraphs in reading order."""
    found: list[TreeNode] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.kind is NodeKind.PARAGRAPH:
            found.append(node)
        waiting.extend(reversed(node.children))
    return found


def _pack(pieces: list[Piece], budget: int, overlap: int) -> list[list[Piece]]:
    totals = [0, *accumulate(piece.tokens for piece in pieces)]
    packs: list[list[Piece]] = []
    start = done = 0
    while done < len(pieces):
        end = max(done + 1, bisect_right(totals, totals[start] + budget) - 1)
        if end == len(pieces):
            packs.append(pieces[start:])
            break
        end = _best_end(pieces, totals, start, done, end)
        if all(piece.heading for piece in pieces[start:end]):
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


def _draft(tree: DocumentTree, leaves: list[TreeNode], starts: list[int], start: int, end: int) -> ChunkDraft:
    covered = leaves[bisect_right(starts, start) - 1 : bisect_left(starts, end)]
    firsts = [leaf.page for leaf in covered if leaf.page is not None]
    lasts = [leaf.page_end for leaf in covered if leaf.page_end is not None]
    holders = _holders(tree.root, start, end)
    return ChunkDraft(
        text=tree.text[start:end],
        start=start,
        end=end,
        section_titles=tuple(node.title for node in holders if node.kind is NodeKind.SECTION and node.title),
        page=min(firsts, default=None),
        page_end=max(lasts, default=None),
        slide=covered[0].slide,
        node_path=holders[-1].path,
    )


def _holders(root: TreeNode, start: int, end: int) -> list[TreeNode]:
    """The nodes that hold the whole range, outermost first."""
    holders = [root]
    while holders[-1].children:
        children = holders[-1].children
        index = bisect_right(children, start, key=lambda node: node.start) - 1
        if index < 0 or children[index].end < end:
            break
        holders.append(children[index])
    return holders
