"""The semantic chunker: topics end where the embeddings of neighbouring sentences part.

The percentile rule is Greg Kamradt's (5 Levels of Text Splitting, 2023); comparing the blocks on both sides of a gap is
TextTiling's (Hearst, 1997).
"""

from bisect import bisect, insort
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import numpy as np
from pydantic import BaseModel, Field

from app.inference.embedding import Vectors
from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools
from app.ingestion.chunkers.toolkit.regions import find_section_regions
from app.ingestion.chunkers.toolkit.splitter import Piece, group_by_sentence, split_regions
from app.ingestion.chunkers.toolkit.topics import pack_topics
from app.ingestion.types import DocumentTree

EMBED_SLICE_SIZE = 256


class SemanticOptions(BaseModel, extra="forbid"):
    """Where topics end."""

    percentile: int = Field(
        90, ge=50, le=99, description="A topic ends at the gaps between sentences wider than so many of a hundred."
    )
    buffer: int = Field(1, ge=0, le=5, description="How many further sentences on each side count at a gap.")
    min_tokens: int = Field(50, ge=0, le=8192, description="No topic is shorter, unless its section is.")


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: SemanticOptions, tools: ChunkTools) -> ChunkerOutput:
    """Topics are runs of sentences of one section, and nodes of the tree; each is packed into chunks that name it."""
    regions = find_section_regions(tree.root)
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=tools.count_tokens)
    units = [group_by_sentence(leaves, region) for leaves, region in zip(regions, pieces, strict=True)]
    # What is a region of its own has no gap to look at.
    multi_unit_regions = [region for region in units if len(region) > 1]
    texts = [_truncate_unit(tree.text, unit, sizes.max_tokens) for region in multi_unit_regions for unit in region]
    gaps = _measure_gaps(texts, [len(region) for region in multi_unit_regions], tools.embed, options.buffer)
    all_gaps = [gap for region in gaps for gap in region]
    threshold = float(np.percentile(all_gaps, options.percentile)) if all_gaps else 0.0
    remaining_gaps = iter(gaps)
    topics = [
        topic
        for region in units
        for topic in _split_topics(
            region, next(remaining_gaps) if len(region) > 1 else [], threshold, options.min_tokens
        )
    ]
    return pack_topics(tree, topics, sizes, tools.count_tokens)


def _truncate_unit(text: str, unit: Sequence[Piece], max_tokens: int) -> str:
    """The unit's text, or as much of it as a chunk may hold."""
    sums = list(accumulate(piece.tokens for piece in unit))
    return text[unit[0].start : unit[max(1, bisect(sums, max_tokens)) - 1].end]


def _measure_gaps(
    texts: Sequence[str], lengths: Sequence[int], embed: Callable[[Sequence[str]], Vectors], buffer: int
) -> list[list[float]]:
    """For each region, how far the sentences before and behind each of its gaps are apart: 0 to 2.

    No more vectors are held than a slice and the buffer need.
    """
    window: list[Vectors] = []
    base = first = 0
    gaps: list[list[float]] = []
    for length in lengths:
        last = first + length
        gaps.append([])
        for gap in range(first, last - 1):
            left, right = max(first, gap - buffer), min(last, gap + 2 + buffer)
            while base + len(window) < right:
                position = base + len(window)
                window += list(embed(texts[position : position + EMBED_SLICE_SIZE]))
            del window[: left - base]
            base = left
            gaps[-1].append(_compute_distance(window[: gap + 1 - base], window[gap + 1 - base : right - base]))
        first = last
    return gaps


def _compute_distance(before: Sequence[Vectors], after: Sequence[Vectors]) -> float:
    left, right = np.sum(before, axis=0), np.sum(after, axis=0)
    norms = float(np.linalg.norm(left) * np.linalg.norm(right))
    # Rounded, so that what is as far apart stays so whatever the order of a sum.
    return round(1.0 - float(left @ right) / norms, 6) if norms else 0.0


def _split_topics(
    units: Sequence[Sequence[Piece]], widths: Sequence[float], threshold: float, min_tokens: int
) -> list[list[Piece]]:
    """The region cut at its gaps over ``threshold``, the widest first, where both sides keep ``min_tokens``."""
    totals = [0, *accumulate(sum(piece.tokens for piece in unit) for unit in units)]
    ends = [0, len(units)]
    for gap in sorted(range(len(widths)), key=lambda gap: (-widths[gap], gap)):
        boundary, index = gap + 1, bisect(ends, gap + 1)
        if widths[gap] <= threshold:
            break
        if min(totals[boundary] - totals[ends[index - 1]], totals[ends[index]] - totals[boundary]) >= min_tokens:
            insort(ends, boundary)
    return [[piece for unit in units[start:end] for piece in unit] for start, end in pairwise(ends)]


CHUNKER = ChunkerSpec(
    "semantic",
    "Ends a chunk where the meaning of neighbouring sentences parts; embeds every sentence once more.",
    SemanticOptions,
    chunk,
    needs_sentences=True,
)
