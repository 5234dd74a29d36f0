"""Parse and check the scores of a reranker."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from app.inference.circuit_breaker import EndpointFailed
from app.inference.rerank.dialect import RerankDialect


def parse_scores(payload: Any, dialect: RerankDialect, count: int) -> dict[int, float]:
    """Parse the scores of an answer.

    Args:
        payload: Decoded JSON.
        dialect: Format of the answer.
        count: Number of texts of the request.

    Returns:
        Scores by position of their text.

    Raises:
        EndpointFailed: The answer has no valid scores.
    """
    entries = payload.get(dialect.results_field) if dialect.results_field and isinstance(payload, dict) else payload
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise EndpointFailed("the answer is not a list of results")
    return check_scores(((entry.get("index"), entry.get(dialect.score_field)) for entry in entries), count)


def check_scores(pairs: Iterable[tuple[Any, Any]], count: int) -> dict[int, float]:
    """Check scores. A score that is null or not finite is left out: the model could not score that text.

    Args:
        pairs: Pairs of position and score.
        count: Number of texts of the request.

    Returns:
        Finite scores by position of their text.

    Raises:
        EndpointFailed: A position is unknown or appears twice, so that no score is reliable; a score is not a number;
            or no score is left.
    """
    scores: dict[int, float] = {}
    visited: set[int] = set()
    for position, score in pairs:
        index = _parse_position(position)
        if not 0 <= index < count:
            raise EndpointFailed("the answer has indexes that the request does not have")
        if index in visited:
            raise EndpointFailed("the answer repeats an index")
        visited.add(index)
        value = _parse_score(score)
        if math.isfinite(value):
            scores[index] = value
    if not scores:
        raise EndpointFailed("nothing is scored")
    return scores


def _parse_position(position: Any) -> int:
    """Return a position as an int, which may be a NumPy integer, or -1 if the value is not a position."""
    return -1 if isinstance(position, bool) or not isinstance(position, Integral) else int(position)


def _parse_score(score: Any) -> float:
    if score is None:
        return math.nan
    if isinstance(score, bool) or not isinstance(score, Real):
        raise EndpointFailed("a score is not a number")
    try:
        return float(score)
    except OverflowError:  # an integer with hundreds of digits
        return math.inf
