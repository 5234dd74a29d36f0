"""Hits that are most of a part of their document become that part (after LlamaIndex's auto-merging retriever)."""

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
    """The hits, of which the best ``top_k`` decide: where they are this share of a part's passages, it comes instead.

    It comes with the score of the best of them. What follows is what it was, or gone where its text is there already.
    """
    best, others = hits[:top_k], hits[top_k:]
    parent_spans = await repository.load_parent_spans(expansion, build_expansion_targets(expansion, best))
    spans = [(hit.document.id, (hit.chunk.start, hit.chunk.end)) for hit in best]
    ranges = find_largest_parents(spans, parent_spans, min_share=min_share)
    return drop_contained([*await expand_to_ranges(repository, best, ranges), *others])


def find_largest_parents(
    hits: Sequence[tuple[UUID, Span]], parent_spans: ParentSpans, *, min_share: float
) -> dict[int, Span]:
    """By a hit's position the largest part that holds it and has at least this share of its passages hit (pure)."""
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
    """Without those whose text is in a better one's (pure; best first)."""
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
