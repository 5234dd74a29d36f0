"""``combine``: how a result counts that several queries of a search found."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

QUERIES = ["bread with olives", "repair of a bicycle chain", "stars above the desert"]
TEXTS = [
    "Bread with olives is baked in a hot oven.", "A bicycle chain needs oil.", "The desert has cold nights.",
    "Stars are born in clouds of gas.", "Olives grow near the sea.", "Repair of a bicycle starts with its chain.",
    "Bread needs time.", "The chain of stars is called a constellation.", "A desert fox hunts at night.",
]  # fmt: skip
SEARCHES: dict[str, tuple[dict[str, Any], str]] = {
    "hybrid": ({"strategy": "hybrid"}, "sum"),
    "rrf": ({"strategy": "hybrid", "strategy_options": {"fusion": "rrf"}}, "sum"),
    "dense": ({"strategy": "dense"}, "best"),
    "lexical": ({"strategy": "lexical"}, "sum"),
}
COMBINATIONS: dict[str, Callable[[Sequence[float]], float]] = {"best": max, "sum": mean}


@pytest.fixture(scope="module")
def shelf(service: Service) -> Tenant:
    tenant = service.create_tenant("combining")
    for text in TEXTS:
        tenant.add_text(text)
    return tenant


def search(tenant: Tenant, **body: Any) -> dict[str, float]:
    """Return the scores of all results by their text."""
    reply = tenant.admin.post("/v1/knowledge-bases/default/search", json={"top_k": 100, **body})
    reply.raise_for_status()
    results = reply.json()["results"]
    scores = [result["score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    return {result["text"]: result["score"] for result in results}


@pytest.mark.capability("search-combine")
@pytest.mark.parametrize("combine", ["best", "sum", None])
@pytest.mark.parametrize("name", SEARCHES)
def test_combine_counts_best_or_sum_of_scores_of_single_queries(shelf: Tenant, name: str, combine: str | None) -> None:
    body, default = SEARCHES[name]
    single = [search(shelf, query=query, **body) for query in QUERIES]
    combined = search(shelf, queries=QUERIES, combine=combine, **body)
    count = COMBINATIONS[combine or default]
    expected = {text: count([scores.get(text, 0.0) for scores in single]) for text in set().union(*single)}
    assert combined == pytest.approx(expected, abs=2e-6)
    assert len(combined) > 3


def test_combine_changes_order(shelf: Tenant) -> None:
    orders = {tuple(search(shelf, queries=QUERIES, combine=combine)) for combine in COMBINATIONS}
    assert len(orders) == 2


def test_combine_of_one_query_changes_nothing(shelf: Tenant) -> None:
    for body, _ in SEARCHES.values():
        found = [search(shelf, query=QUERIES[0], combine=combine, **body) for combine in (None, *COMBINATIONS)]
        assert found[0] == found[1] == found[2]


def test_combine_unknown_is_422(shelf: Tenant) -> None:
    body = {"query": "x", "combine": "worst"}
    assert_problem(shelf.admin.post("/v1/knowledge-bases/default/search", json=body), 422, "invalid")
