"""Order of hits: best score first, with the digits that callers see."""

from uuid import UUID

from app.retrieval.types import Hit


def round_score(score: float) -> float:
    """Round a score to the digits that callers see. Scores that look equal to callers then count as ties."""
    return round(score, 6)


def get_sort_key(hit: Hit) -> tuple[float, UUID, int]:
    """Return the sort key of a hit: best score first, ties by document and chunk index."""
    return -round_score(hit.score), hit.document.id, hit.chunk.ordinal
