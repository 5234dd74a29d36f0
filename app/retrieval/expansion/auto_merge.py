"""Auto-merging: a parent node replaces its hits if enough chunks of the parent are hits (after LlamaIndex)."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from app.retrieval.expansion.expand import build_expansion_targets, expand_to_ranges
from app.retrieval.repository import ParentSpans, RetrievalRepository
from app.retrieval.types import Expansion, Hit

Span = tuple[int, int]


async def auto_merge(
    repository: RetrievalRepository, expansion: Expansion, min_share: float, hits: Sequence[Hit], *, top_k: int
) -> list[Hit]:
    """Replace hits by their parents (after LlamaIndex's auto-merging retriever).

    A parent replaces its chunks if at least ``min_share`` of them are among the best ``top_k`` hits. The parent gets
    the score of its best hit. Hits after the best ``top_k`` are unchanged, except that hits inside a parent are
    dropped.

    Args:
        repository: Repository of the search.
        expansion: Expansion of the request, with the maximum length of a parent.
        min_share: Minimum share of a parent's chunks, from 0 to 1.
        hits: Hits, best first.
        top_k: Number of best hits that count towards ``min_share``.

    Returns:
        The merged hits, best first.
    """
    best, others = hits[:top_k], hits[top_k:]
    parent_spans = await repository.load_parent_spans(expansion, build_expansion_targets(expansion, best))
    spans = [(hit.document.id, (hit.chunk.start, hit.chunk.end)) for hit in best]
    ranges = find_largest_parents(spans, parent_spans, min_share=min_share)
    return drop_contained([*await expand_to_ranges(repository, best, ranges), *others])


def find_largest_parents(
    hits: Sequence[tuple[UUID, Span]], parent_spans: ParentSpans, *, min_share: float
) -> dict[int, Span]:
    """Find for each hit the largest parent that has at least ``min_share`` of its chunks among the hits (pure).

    Args:
        hits: Document and range of each hit.
        parent_spans: Ranges of the parents by the position of the hit, and ranges of all chunks by document.
        min_share: Minimum share of a parent's chunks, from 0 to 1.

    Returns:
        The range of the parent by the position of the hit. Hits without such a parent are missing.
    """
    hit_spans: dict[UUID, list[Span]] = defaultdict(list)
    for document, span in hits:
        hit_spans[document].append(span)
    has_enough_hits: dict[tuple[UUID, Span], bool] = {}
    chosen = {}
    for number, (document, _) in enumerate(hits):
        for parent in sorted(parent_spans.parents.get(number, ()), key=_get_length, reverse=True):
            if (document, parent) not in has_enough_hits:
                share = _count_contained(hit_spans[document], parent) / _count_contained(
                    parent_spans.chunks[document], parent
                )
                has_enough_hits[document, parent] = share >= min_share
            if has_enough_hits[document, parent]:
                chosen[number] = parent
                break
    return chosen


def drop_contained(hits: Sequence[Hit]) -> list[Hit]:
    """Drop the hits whose text is inside the expanded text of a better hit (pure).

    Args:
        hits: Hits, best first.

    Returns:
        The remaining hits, best first.
    """
    expanded_spans: dict[UUID, list[Span]] = defaultdict(list)
    remaining = []
    for hit in hits:
        span = hit.text_span.start, hit.text_span.end
        if not any(_contains_span(expanded_span, span) for expanded_span in expanded_spans[hit.document.id]):
            remaining.append(hit)
            if hit.expanded_span is not None:
                expanded_spans[hit.document.id].append(span)
    return remaining


def _count_contained(spans: Sequence[Span], outer: Span) -> int:
    return sum(_contains_span(outer, span) for span in spans)


def _contains_span(outer: Span, span: Span) -> bool:
    return outer[0] <= span[0] and span[1] <= outer[1]


def _get_length(span: Span) -> int:
    return span[1] - span[0]
