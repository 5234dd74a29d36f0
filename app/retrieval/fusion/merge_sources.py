"""Hits of sources whose scores cannot be compared: scaled into one list, equal texts of several once (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.retrieval.types import ChunkKey, Hit


@dataclass(frozen=True, slots=True)
class SourceHits:
    """What one source has found, best first, and what its best counts beside that of the others (above 0)."""

    weight: float
    hits: Sequence[Hit]


def fuse_sources(sources: Sequence[SourceHits]) -> list[Hit]:
    """All hits in one list, best first; where only one source has found something, as that one has it."""
    non_empty = [source for source in sources if source.hits]
    if len(non_empty) < 2:
        return [hit for source in non_empty for hit in source.hits]
    return deduplicate_hits(merge_sources(non_empty))


def merge_sources(sources: Sequence[SourceHits]) -> list[Hit]:
    """All hits, best first, ties by source, then as the source has them; scores as scaled.

    The best of a source scores its scale, and the others in proportion: min-max scaling would make the last of many
    good hits worth nothing. Only where scores are negative the least becomes 0.
    """
    scaled = [hit for source in sources for hit in _scale_hits(source)]
    return sorted(scaled, key=lambda hit: -hit.score)


def deduplicate_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Of hits of different knowledge bases that say the same but for white space those of the first one's.

    Equal texts of one knowledge base are documents of their own; a hit without words is like no other.
    """
    owners: dict[str, ChunkKey] = {}
    return [
        hit
        for hit in hits
        if not (text := get_normalized_text(hit)) or owners.setdefault(text, hit.key[:16]) == hit.key[:16]
    ]


def get_normalized_text(hit: Hit) -> str:
    """Of what is shown all but the white space."""
    return " ".join(hit.text_span.text.split())


def apply_weight(score: float, weight: float) -> float:
    """A scale above 1 raises a score and one below lowers it, also below nought."""
    return score * weight if score >= 0 else score / weight


def _scale_hits(source: SourceHits) -> list[Hit]:
    scores = [hit.score for hit in source.hits]
    floor = min(0.0, *scores) if scores else 0.0
    span = max(scores, default=0.0) - floor
    return [replace(hit, score=source.weight * ((hit.score - floor) / span if span else 1.0)) for hit in source.hits]
