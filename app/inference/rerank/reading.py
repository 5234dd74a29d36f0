"""Reading scores: nothing in an answer is believed before it has been checked."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from app.inference.breaker import EndpointFailed
from app.inference.rerank.wire import Wire


def read_answer(payload: Any, wire: Wire, count: int) -> dict[int, float]:
    """The scores of a decoded JSON answer, by position among ``count`` texts. Raises as ``checked_scores``."""
    found = payload.get(wire.results) if wire.results and isinstance(payload, dict) else payload
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise EndpointFailed("it is no list of results")
    return checked_scores(((entry.get("index"), entry.get(wire.score)) for entry in found), count)


def checked_scores(pairs: Iterable[tuple[Any, Any]], count: int) -> dict[int, float]:
    """By position; without what is null or not finite, which is how models say that they could not score a text.

    Raises EndpointFailed for a position that was not asked for or comes twice, since then none can be relied on, for
    a score that is no number, and where nothing is left.
    """
    scores: dict[int, float] = {}
    seen: set[int] = set()
    for position, score in pairs:
        place = _place(position)
        if not 0 <= place < count:
            raise EndpointFailed("its indexes are not those of the request")
        if place in seen:
            raise EndpointFailed("an index comes twice")
        seen.add(place)
        value = _number(score)
        if math.isfinite(value):
            scores[place] = value
    if not scores:
        raise EndpointFailed("nothing is scored")
    return scores


def _place(position: Any) -> int:
    """-1 for what is none; numpy's numbers are not int."""
    return -1 if isinstance(position, bool) or not isinstance(position, Integral) else int(position)


def _number(score: Any) -> float:
    if score is None:
        return math.nan
    if isinstance(score, bool) or not isinstance(score, Real):
        raise EndpointFailed("a score is no number")
    try:
        return float(score)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf
