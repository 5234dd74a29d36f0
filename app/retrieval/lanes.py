"""What the lanes found, by query, and how several queries' lists become one (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.retrieval.repository import LaneCall, LaneRow
from app.retrieval.types import Candidate, Key

Ranked = list[tuple[Key, float]]


@dataclass(slots=True)
class LaneResults:
    """Per query one dense and one lexical list, over all targets, best first; the best cosine seen for each chunk."""

    dense: list[Ranked]
    lexical: list[Ranked]
    similarity: dict[Key, float] = field(default_factory=dict)

    def candidates(self, ranked: Ranked) -> list[Candidate]:
        """The list that a strategy made of these, with the similarities."""
        return [Candidate(key, score, self.similarity.get(key)) for key, score in ranked]


def collect(calls: Sequence[LaneCall], rows: Sequence[LaneRow], *, queries: int) -> LaneResults:
    """Sort the rows to their queries; in ``calls`` those of one query stand together, and queries in their order."""
    found = LaneResults(dense=[[] for _ in range(queries)], lexical=[[] for _ in range(queries)])
    targets = len(calls) // queries
    for row in rows:
        key = (calls[row.call].index_id, row.chunk_id)
        lanes = found.dense if row.lane == "dense" else found.lexical
        lanes[row.call // targets].append((key, row.score))
        if row.similarity is not None:
            found.similarity[key] = max(row.similarity, found.similarity.get(key, -1.0))
    for lane in (*found.dense, *found.lexical):
        lane.sort(key=_best_first)
    return found


def best_of(lanes: Sequence[Ranked]) -> Ranked:
    """Several queries' lists of one lane as one: a chunk counts at its best score."""
    if len(lanes) == 1:
        return lanes[0]
    best: dict[Key, float] = {}
    for lane in lanes:
        for key, score in lane:
            best[key] = max(score, best.get(key, score))
    return sorted(best.items(), key=_best_first)


def _best_first(item: tuple[Key, float]) -> tuple[float, Key]:
    return -item[1], item[0]
