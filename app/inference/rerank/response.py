"""Reading scores: nothing in an answer is believed before it has been checked."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from app.inference.circuit_breaker import EndpointFailed
from app.inference.rerank.dialect import RerankDialect


def parse_scores(payload: Any, dialect: RerankDialect, count: int) -> dict[int, float]:
    """Return the scores of a decoded JSON answer, by position among ``count`` texts. Raises as ``check_scores``."""
    entries = payload.get(dialect.results_field) if dialect.results_field and isinstance(payload, dict) else payload
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise EndpointFailed("it is no list of results")
    return check_scores(((entry.get("index"), entry.get(dialect.score_field)) for entry in entries), count)


def check_scores(pairs: Iterable[tuple[Any, Any]], count: int) -> dict[int, float]:
    """Return the scores by position, without those that are null or not finite: the model could not score these texts.

    Raises EndpointFailed for a position that was not asked for or comes twice, since then none can be relied on, for
    a score that is no number, and where nothing is left.
    """
    scores: dict[int, float] = {}
    visited: set[int] = set()
    for position, score in pairs:
        index = _parse_position(position)
        if not 0 <= index < count:
            raise EndpointFailed("its indexes are not those of the request")
        if index in visited:
            raise EndpointFailed("an index comes twice")
        visited.add(index)
        value = _parse_score(score)
        if math.isfinite(value):
            scores[index] = value
    if not scores:
        raise EndpointFailed("nothing is scored")
    return scores


def _parse_position(position: Any) -> int:
    """Return a position, or -1 if the value is none; numpy's numbers are not int."""
    return -1 if isinstance(position, bool) or not isinstance(position, Integral) else int(position)


def _parse_score(score: Any) -> float:
    if score is None:
        return math.nan
    if isinstance(score, bool) or not isinstance(score, Real):
        raise EndpointFailed("a score is no number")
    try:
        return float(score)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf
