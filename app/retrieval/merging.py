"""Hits that are most of a part of their document become that part (after LlamaIndex's auto-merging retriever)."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from app.retrieval.repository import FoundParts, RetrievalRepository
from app.retrieval.types import Expansion, Hit
from app.retrieval.widening import places, widened_to

Span = tuple[int, int]


async def merge(
    repository: RetrievalRepository, expansion: Expansion, share: float, hits: Sequence[Hit], *, top_k: int
) -> list[Hit]:
    """The hits, of which the best ``top_k`` decide: where they are this share of a part's passages, it comes instead.

    It comes with the score of the best of them. What follows is what it was, or gone where its text is there already.
    """
    best, others = hits[:top_k], hits[top_k:]
    found = await repository.parts(expansion, places(expansion, best))
    spans = [(hit.document.id, (hit.chunk.start, hit.chunk.end)) for hit in best]
    ranges = largest_parts(spans, found, share=share)
    return uncovered([*await widened_to(repository, best, ranges), *others])


def largest_parts(hits: Sequence[tuple[UUID, Span]], found: FoundParts, *, share: float) -> dict[int, Span]:
    """By a hit's position the largest part that holds it and has at least this share of its passages hit (pure)."""
    hit_spans: dict[UUID, list[Span]] = defaultdict(list)
    for document, span in hits:
        hit_spans[document].append(span)
    enough: dict[tuple[UUID, Span], bool] = {}
    chosen = {}
    for number, (document, _) in enumerate(hits):
        for part in sorted(found.parts.get(number, ()), key=_length, reverse=True):
            if (document, part) not in enough:
                inside = _count(hit_spans[document], part) / _count(found.passages[document], part)
                enough[document, part] = inside >= share
            if enough[document, part]:
                chosen[number] = part
                break
    return chosen


def uncovered(hits: Sequence[Hit]) -> list[Hit]:
    """Without those whose text is in a better one's (pure; best first)."""
    shown: dict[UUID, list[Span]] = defaultdict(list)
    kept = []
    for hit in hits:
        span = hit.passage.start, hit.passage.end
        if not any(_holds(wide, span) for wide in shown[hit.document.id]):
            kept.append(hit)
            if hit.wider is not None:
                shown[hit.document.id].append(span)
    return kept


def _count(spans: Sequence[Span], part: Span) -> int:
    return sum(_holds(part, span) for span in spans)


def _holds(part: Span, span: Span) -> bool:
    return part[0] <= span[0] and span[1] <= part[1]


def _length(span: Span) -> int:
    return span[1] - span[0]
