"""Validation of scores, case by case."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from app.inference.circuit_breaker import EndpointFailed
from app.inference.rerank.dialects import DIALECTS
from app.inference.rerank.response import check_scores, parse_scores


@pytest.mark.parametrize(
    ("pairs", "scores"),
    [
        ([(0, 0.5), (2, -3)], {0: 0.5, 2: -3.0}),
        ([(np.int64(1), np.float32(0.5)), (0, Fraction(1, 4))], {1: 0.5, 0: 0.25}),
        ([(0, 1.0), (1, float("nan")), (2, None)], {0: 1.0}),
        ([(0, 1.0), (1, -(10**400)), (2, float("inf"))], {0: 1.0}),
    ],
)
def test_check_scores_returns_scores_by_position(pairs: list[tuple[Any, Any]], scores: dict[int, float]) -> None:
    found = check_scores(pairs, 3)
    assert found == scores
    assert {type(one) for one in (*found, *found.values())} == {int, float}


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(0, None)],
        [(3, 0.5)],
        [(-1, 0.5)],
        [(True, 0.5)],
        [(0.0, 0.5)],
        [("0", 0.5)],
        [(None, 0.5)],
        [(0, 0.5), (0, 0.5)],
        [(0, None), (0, 0.5)],
        [(0, "0.5")],
        [(0, True)],
        [(0, [0.5])],
        [(0, 0.5), (1, {})],
    ],
)
def test_check_scores_malformed_scores_are_refused(pairs: list[tuple[Any, Any]]) -> None:
    with pytest.raises(EndpointFailed) as raised:
        check_scores(pairs, 3)
    assert raised.value.kind == "invalid_response"


@pytest.mark.parametrize("style", ["tei", "cohere"])
@pytest.mark.parametrize(
    "payload",
    [None, 1, "x", {}, {"results": None}, {"results": {"0": 1}}, [1], [[0, 0.5]], {"results": [None]}, {"error": "x"}],
)
def test_parse_scores_malformed_payload_is_refused(style: Any, payload: Any) -> None:
    with pytest.raises(EndpointFailed, match=r"not a list|nothing"):
        parse_scores(payload, DIALECTS[style], 1)


def test_parse_scores_uses_field_of_dialect() -> None:
    entry = {"index": 0, "score": 0.1, "relevance_score": 0.9}
    assert parse_scores([entry], DIALECTS["tei"], 1) == {0: 0.1}
    assert parse_scores({"results": [entry]}, DIALECTS["vllm"], 1) == {0: 0.9}
