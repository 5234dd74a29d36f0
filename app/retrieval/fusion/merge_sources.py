"""Merge of hits from sources whose scores are not comparable: scaling, sorting and removal of repeated texts (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.retrieval.types import ChunkKey, Hit


@dataclass(frozen=True, slots=True)
class SourceHits:
    """Hits of one source: the stored documents, or an HTTP source.

    Attributes:
        weight: Score of the source's best hit after scaling, above 0.
        hits: Hits of the source, best first.
    """

    weight: float
    hits: Sequence[Hit]


def fuse_sources(sources: Sequence[SourceHits]) -> list[Hit]:
    """Merge the hits of all sources into one list without repeated texts.

    Args:
        sources: Hits of each source.

    Returns:
        All hits, best first. If only one source has hits, they keep their scores.
    """
    non_empty = [source for source in sources if source.hits]
    if len(non_empty) < 2:
        return [hit for source in non_empty for hit in source.hits]
    return deduplicate_hits(merge_sources(non_empty))


def merge_sources(sources: Sequence[SourceHits]) -> list[Hit]:
    """Merge the hits of all sources by scaled scores.

    The best hit of a source gets the source's weight as score, and its other hits get proportional scores. Min-max
    scaling would give the last of many good hits the score 0. If a source has negative scores, its lowest score becomes
    0.

    Args:
        sources: Hits of each source.

    Returns:
        All hits with scaled scores, best first. Ties keep the order of the sources, and the order inside a source.
    """
    scaled = [hit for source in sources for hit in _scale_hits(source)]
    return sorted(scaled, key=lambda hit: -hit.score)


def deduplicate_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Drop hits that repeat the text of a better hit from another knowledge base; white space is ignored.

    Equal texts inside one knowledge base belong to different documents, so they stay. Hits without text also stay.

    Args:
        hits: Hits, best first.

    Returns:
        The remaining hits, best first.
    """
    owners: dict[str, ChunkKey] = {}
    return [
        hit
        for hit in hits
        if not (text := get_normalized_text(hit)) or owners.setdefault(text, hit.key[:16]) == hit.key[:16]
    ]


def get_normalized_text(hit: Hit) -> str:
    """Return the shown text of a hit with each run of white space as one space."""
    return " ".join(hit.text_span.text.split())


def apply_weight(score: float, weight: float) -> float:
    """Apply a weight to a score.

    A weight above 1 raises the score and a weight below 1 lowers it, for negative scores too.
    """
    return score * weight if score >= 0 else score / weight


def _scale_hits(source: SourceHits) -> list[Hit]:
    scores = [hit.score for hit in source.hits]
    floor = min(0.0, *scores) if scores else 0.0
    span = max(scores, default=0.0) - floor
    return [replace(hit, score=source.weight * ((hit.score - floor) / span if span else 1.0)) for hit in source.hits]
