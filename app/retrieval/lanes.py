"""What the lanes found, by query, and how several queries' lists become one (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from app.retrieval.fusion import best_first
from app.retrieval.repository import Floats, LaneCall, LaneList
from app.retrieval.types import Key, Lane, LanePlace, Scores, shown

Ranked = list[tuple[Key, float]]


@dataclass(slots=True)
class LaneResults:
    """Per query one lexical list over all targets, best first; the best cosine seen for each chunk.

    There is none for what the words of a query have found that has no vector: it may be nearer to that one.
    Cosines of two models cannot be compared: ``dense`` has for each model such lists of its own. Of several queries
    ``compared`` has, a bit each, those whose cosine with the chunk was seen.
    """

    dense: list[list[Ranked]]
    lexical: list[Ranked]
    similarity: dict[Key, float] = field(default_factory=dict)
    compared: dict[Key, int] = field(default_factory=dict)

    def places(self) -> dict[Key, list[LanePlace]]:
        """Where the lanes have each chunk, query by query."""
        lanes: list[tuple[Lane, list[Ranked]]] = [
            *(("dense", lists) for lists in self.dense),
            ("lexical", self.lexical),
        ]
        found: dict[Key, list[LanePlace]] = {}
        for query in range(len(self.lexical)):
            for name, lists in lanes:
                for rank, (key, score) in enumerate(lists[query], start=1):
                    found.setdefault(key, []).append(LanePlace(query, name, rank, score))
        return found


class Comparison(NamedTuple):
    """The vectors of all queries in the search indexes of one model, whose keys begin with ``indexes``."""

    indexes: frozenset[bytes]
    vectors: Sequence[Floats]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The list that a strategy made of the lanes'; ``fused`` where it put both lanes together.

    ``vector`` is the query's where the lanes were not asked for all cosines: what a hit lacks is still to be had. So
    are, of several queries, those of a hit that the lanes of another query have found: ``comparisons``.
    """

    found: LaneResults
    ranked: Ranked
    fused: bool
    vector: Floats | None = None
    comparisons: Sequence[Comparison] = ()

    def told_apart(self) -> Self:
        """The same, where nothing is asked for that the lanes have not told: the dense one may be what failed."""
        return replace(self, vector=None, comparisons=())

    def scores(self, hits: Sequence[tuple[Key, float]]) -> list[Scores]:
        """What the lanes gave those of the list; only asked for the few that are returned."""
        dense = {key: score for lists in self.found.dense for key, score in best_of(lists)}
        lexical = dict(best_of(self.found.lexical))
        return [Scores(dense.get(key), lexical.get(key), score if self.fused else None) for key, score in hits]


def collect(
    calls: Sequence[LaneCall], lists: Sequence[LaneList], *, queries: int, models: Sequence[int] = ()
) -> LaneResults:
    """Put the lists to their queries; in ``calls`` those of one query stand together, and queries in their order.

    ``models`` number the targets' models from 0; without them it is one.
    """
    targets = len(calls) // queries
    models = models or [0] * targets
    found = LaneResults(
        dense=[[[] for _ in range(queries)] for _ in range(max(models) + 1)], lexical=[[] for _ in range(queries)]
    )
    unknown: set[Key] = set()
    for one in lists:
        call = calls[one.call]
        index = call.index_id.bytes
        keys = [index + chunk.bytes for chunk in one.chunk_ids]
        query, target = divmod(one.call, targets)
        lanes = found.dense[models[target]] if one.lane == "dense" else found.lexical
        lanes[query] += zip(keys, one.scores, strict=True)
        told = {key: near for key, near in zip(keys, one.similarities, strict=True) if near is not None}
        if queries > 1:
            for key in told:
                found.compared[key] = found.compared.get(key, 0) | 1 << query
            if call.vector is None:
                unknown |= set(keys) - told.keys()
        for key in told.keys() & found.similarity.keys():
            told[key] = max(told[key], found.similarity[key])
        found.similarity.update(told)
    for key in unknown & found.similarity.keys():
        del found.similarity[key]
    for ranked in (*found.dense, found.lexical):
        ranked[:] = map(best_first, ranked)
    return found


def goes_on(calls: Sequence[LaneCall], lists: Sequence[LaneList], *, size: int, threshold: float | None = None) -> bool:
    """Whether a lane that gave all of ``size`` rows may have more that reach the threshold."""
    for one in lists:
        call = calls[one.call]
        if len(one.chunk_ids) < size:
            continue
        if threshold is None or (call.only_similarity or call.vector is None):
            return True
        # All that reach it are among the nearest; scores as callers see them.
        if one.lane == "dense" and round(min(one.scores), 6) >= threshold:
            return True
    return False


def best_of(lanes: Sequence[Ranked]) -> Ranked:
    """Several queries' lists of one lane as one: a chunk counts at its best score."""
    if len(lanes) == 1:
        return lanes[0]
    best: dict[Key, float] = {}
    for lane in lanes:
        for key, score in lane:
            best[key] = max(score, best.get(key, score))
    return best_first(best.items())


def split(ranked: Ranked, size: int) -> tuple[Ranked, Ranked]:
    """The first ``size`` with whatever ties with the last of them, as scores are shown, and the rest."""
    end = min(size, len(ranked))
    while end < len(ranked) and shown(ranked[end][1]) == shown(ranked[end - 1][1]):
        end += 1
    return ranked[:end], ranked[end:]
