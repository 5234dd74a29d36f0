"""The semantic chunker: a topic ends between two sentences whose embeddings are far apart.

The percentile rule comes from Greg Kamradt (5 Levels of Text Splitting, 2023). The comparison of the sentences on both
sides of a gap comes from TextTiling (Hearst, 1997).
"""

from bisect import bisect, insort
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import numpy as np
from pydantic import Field

from app.inference.embedding import Vectors
from app.ingestion.chunkers.spec import ChunkerOutput, ChunkerSpec, ChunkSizes, ChunkTools, PageOptions
from app.ingestion.chunkers.toolkit.regions import find_section_regions, has_page_regions
from app.ingestion.chunkers.toolkit.splitter import Piece, group_by_sentence, split_regions
from app.ingestion.chunkers.toolkit.topics import pack_topics
from app.ingestion.types import DocumentTree

EMBED_SLICE_SIZE = 256
"""Number of sentences in one call of the embedding model."""


class SemanticOptions(PageOptions):
    """Options of the semantic chunker: the percentile, the buffer and the minimum size of a topic."""

    percentile: int = Field(
        90,
        ge=50,
        le=99,
        description="A topic ends between two sentences if their distance is above this percentile of all distances.",
    )
    buffer: int = Field(
        1, ge=0, le=5, description="Number of further sentences on each side that the distance takes into account."
    )
    min_tokens: int = Field(
        50, ge=0, le=8192, description="Minimum size of a topic in tokens; a shorter section is one topic."
    )


def chunk(tree: DocumentTree, sizes: ChunkSizes, options: SemanticOptions, tools: ChunkTools) -> ChunkerOutput:
    """Divide each section into topics, which are runs of sentences, and each topic into chunks.

    A topic is a node of the tree. The ``node_path`` of a chunk is the path of its topic.

    Args:
        tree: Tree of the document, with sentences.
        sizes: Sizes of the chunks.
        options: Percentile, buffer and minimum size of a topic.
        tools: Token counter and embeddings of the embedding model.

    Returns:
        The chunks and the topics.
    """
    regions = find_section_regions(tree.root, pages=has_page_regions(tree.root, options.pages))
    pieces = split_regions(tree.text, regions, max_tokens=sizes.max_tokens, count_tokens=tools.count_tokens)
    units = [group_by_sentence(leaves, region) for leaves, region in zip(regions, pieces, strict=True)]
    # A region of one sentence has no gap.
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
    """Return the text of a unit, cut to ``max_tokens`` tokens."""
    sums = list(accumulate(piece.tokens for piece in unit))
    return text[unit[0].start : unit[max(1, bisect(sums, max_tokens)) - 1].end]


def _measure_gaps(
    texts: Sequence[str], lengths: Sequence[int], embed: Callable[[Sequence[str]], Vectors], buffer: int
) -> list[list[float]]:
    """Return the cosine distance (0 to 2) between the sentences before and behind each gap, for each region.

    Only the vectors of a slice and of the buffer are in memory.
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
    # Rounded, so that equal distances stay equal, although sums in another order differ in their last digits.
    return round(1.0 - float(left @ right) / norms, 6) if norms else 0.0


def _split_topics(
    units: Sequence[Sequence[Piece]], widths: Sequence[float], threshold: float, min_tokens: int
) -> list[list[Piece]]:
    """Cut a region at gaps above ``threshold``, the widest first. Both sides of a cut keep at least ``min_tokens``."""
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
    "Ends a chunk between two sentences of different meaning; embeds every sentence, in addition to the chunks.",
    SemanticOptions,
    chunk,
    needs_sentences=True,
)
