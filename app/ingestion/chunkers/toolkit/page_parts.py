"""Division of chunks at the borders of pages, for chunkers without the option ``pages``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from app.ingestion.chunkers.toolkit.drafts import LeafIndex, build_drafts
from app.ingestion.types import BlockKind, ChunkDraft, DocumentTree, TreeNode


@dataclass(frozen=True, slots=True)
class _PagePart:
    """Chunk on one page, or a chunk that was not divided."""

    draft: ChunkDraft
    is_divided: bool


def divide_at_pages(tree: DocumentTree, drafts: Sequence[ChunkDraft]) -> list[ChunkDraft]:
    """Divide chunks so that no chunk crosses a page.

    Parts of headings alone are left out if another part of the chunk has text. So are parts that another chunk
    contains, because chunks may overlap.

    Args:
        tree: Tree of the document.
        drafts: Valid chunks of the document.

    Returns:
        The chunks in reading order. A part keeps headings, node and metadata of its chunk.
    """
    leaves = LeafIndex.from_tree(tree)
    parts = [part for draft in drafts for part in _divide(tree, leaves, draft)]
    parts.sort(key=lambda part: (part.draft.start, -part.draft.end, part.is_divided))
    remaining: list[ChunkDraft] = []
    covered_end = -1
    for part in parts:
        if part.is_divided and part.draft.end <= covered_end:
            continue
        remaining.append(part.draft)
        covered_end = max(covered_end, part.draft.end)
    return sorted(remaining, key=lambda draft: (draft.start, draft.end))


def _divide(tree: DocumentTree, leaves: LeafIndex, draft: ChunkDraft) -> list[_PagePart]:
    overlapping = leaves.find_overlapping(draft.start, draft.end)
    pages = [list(group) for _, group in groupby(overlapping, key=lambda leaf: leaf.page)]
    if len(pages) < 2:
        return [_PagePart(draft, is_divided=False)]
    bodies = [page for page in pages if any(leaf.block is not BlockKind.HEADING for leaf in page)]
    ranges = [_limit_range(page, draft) for page in bodies or pages]
    return [
        _PagePart(_build_part(draft, part), is_divided=True)
        for part in build_drafts(tree, ranges, leaves)
        if not part.text.isspace()
    ]


def _limit_range(leaves: Sequence[TreeNode], draft: ChunkDraft) -> tuple[int, int]:
    """Return the range of a chunk within the paragraphs of one page."""
    return max(draft.start, leaves[0].start), min(draft.end, leaves[-1].end)


def _build_part(draft: ChunkDraft, part: ChunkDraft) -> ChunkDraft:
    """Return the part of a chunk. Only the part at the start of the chunk repeats the head of a table."""
    return replace(
        draft,
        text=part.text,
        start=part.start,
        end=part.end,
        page=part.page,
        page_end=part.page_end,
        table_head=draft.table_head if part.start == draft.start else None,
    )
