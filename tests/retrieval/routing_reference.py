"""Reference for ``app.retrieval.routing.candidates``: routing of one knowledge base after the other,
in plain Python.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from app.retrieval.fusion.merge_sources import apply_weight
from app.retrieval.routes import RoutingDecision, RoutingReason
from app.retrieval.routing.candidates import Candidate


class Likeness(NamedTuple):
    """The best cosines of a query with a search index's centroids, and with its descriptions."""

    centroids: float | None = None
    texts: float | None = None


def narrowed(
    candidates: Sequence[Candidate], only: Collection[UUID] | None, holding: Collection[UUID]
) -> list[Candidate]:
    return [
        replace(one, exempt_reason="own_documents") if one.exempt_reason is None and one.kb_id in holding else one
        for one in candidates
        if only is None or one.kb_id in only
    ]


def models_to_ask(candidates: Sequence[Candidate], *, top_n: int) -> set[UUID]:
    each = ({profile.model for profile in one.profiles} for one in candidates if one.exempt_reason is None)
    counts = Counter(model for models in each for model in models)
    return {model for model, count in counts.items() if count > top_n}


def routed(
    candidates: Sequence[Candidate], likeness: Mapping[UUID, Likeness], asked: Set[UUID], *, top_n: int
) -> list[RoutingDecision]:
    """Return every candidate with its result; ``likeness`` is by search index."""
    compared = {one.kb_id: found for one in candidates if (found := _compared(one, likeness, asked)) is not None}
    best = set()
    for model in asked:
        of_model = [one for one in candidates if model in compared.get(one.kb_id, {})]
        of_model.sort(key=lambda one: (-compared[one.kb_id][model][0], one.name))
        best |= {one.kb_id for one in of_model[:top_n]}
    told = []
    for one in candidates:
        if one.kb_id not in compared:
            told.append(
                RoutingDecision(one.kb_id, one.name, True, one.exempt_reason or "not_compared", weight=one.weight)
            )
            continue
        score, like = max(compared[one.kb_id].values(), key=lambda pair: pair[0])
        chosen = one.kb_id in best
        reason: RoutingReason = "best" if chosen else "less_similar"
        told.append(RoutingDecision(one.kb_id, one.name, chosen, reason, score, *like, one.weight))
    return sorted(told, key=lambda one: (not one.is_chosen, one.score is None, -(one.score or 0.0), one.name))


def _compared(
    one: Candidate, likeness: Mapping[UUID, Likeness], asked: Set[UUID]
) -> dict[UUID, tuple[float, Likeness]] | None:
    """Return, for each model, the better of the own and the shared index; None if an index was not compared."""
    if one.exempt_reason is not None:
        return None
    found: dict[UUID, tuple[float, Likeness]] = {}
    for profile in one.profiles:
        like = likeness.get(profile.index_id) if profile.model in asked else None
        if like is None:
            return None
        score = score_of(like, weight=profile.description_weight, scale=one.weight)
        if profile.model not in found or score > found[profile.model][0]:
            found[profile.model] = (score, like)
    return found or None


def score_of(likeness: Likeness, *, weight: float, scale: float) -> float:
    centroids, texts = likeness
    if centroids is None or texts is None:
        mixed = centroids if texts is None else texts
        assert mixed is not None
    else:
        mixed = (1 - weight) * centroids + weight * texts
    return apply_weight(mixed, scale)
