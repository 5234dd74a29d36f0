"""Hits of sources whose scores cannot be compared: scaled into one list, equal texts of several once (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.retrieval.types import Hit, Key


@dataclass(frozen=True, slots=True)
class Source:
    """What one source has found, best first, and what its best counts beside that of the others (above 0)."""

    scale: float
    hits: Sequence[Hit]


def fuse_sources(sources: Sequence[Source]) -> list[Hit]:
    """All hits in one list, best first; where only one source has found something, as that one has it."""
    found = [source for source in sources if source.hits]
    if len(found) < 2:
        return [hit for source in found for hit in source.hits]
    return without_duplicates(merge_sources(found))


def merge_sources(sources: Sequence[Source]) -> list[Hit]:
    """All hits, best first, ties by source, then as the source has them; scores as scaled.

    The best of a source scores its scale, and the others in proportion: min-max scaling would make the last of many
    good hits worth nothing. Only where scores are negative the least becomes 0.
    """
    scaled = [hit for source in sources for hit in _scaled(source)]
    return sorted(scaled, key=lambda hit: -hit.score)


def without_duplicates(hits: Sequence[Hit]) -> list[Hit]:
    """Of hits of different knowledge bases that say the same but for white space those of the first one's.

    Equal texts of one knowledge base are documents of their own; a hit without words is like no other.
    """
    owners: dict[str, Key] = {}
    return [
        hit for hit in hits if not (words := words_of(hit)) or owners.setdefault(words, hit.key[:16]) == hit.key[:16]
    ]


def words_of(hit: Hit) -> str:
    """Of what is shown all but the white space."""
    return " ".join(hit.passage.text.split())


def counted(score: float, scale: float) -> float:
    """A scale above 1 raises a score and one below lowers it, also below nought."""
    return score * scale if score >= 0 else score / scale


def _scaled(source: Source) -> list[Hit]:
    scores = [hit.score for hit in source.hits]
    floor = min(0.0, *scores) if scores else 0.0
    span = max(scores, default=0.0) - floor
    return [replace(hit, score=source.scale * ((hit.score - floor) / span if span else 1.0)) for hit in source.hits]
