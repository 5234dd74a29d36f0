"""Reranking: scores order the hits, and hits without a score come last."""

import pytest

from app.retrieval.reranking import apply_rerank_scores
from tests.retrieval.hits import hit


@pytest.mark.parametrize(
    ("scores", "order"),
    [
        ({}, [("a", 0.9), ("b", 0.7), ("c", 0.7), ("d", 0.1)]),
        ({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}, [("d", 0.4), ("c", 0.3), ("b", 0.2), ("a", 0.1)]),
        # Hits without a score come last, in their order, and with no better score.
        ({2: 0.8}, [("c", 0.8), ("a", 0.8), ("b", 0.7), ("d", 0.1)]),
        ({3: 0.05, 1: 0.5}, [("b", 0.5), ("d", 0.05), ("a", 0.05), ("c", 0.05)]),
        ({3: -4.5, 0: -2.0}, [("a", -2.0), ("d", -4.5), ("b", -4.5), ("c", -4.5)]),
    ],
)
def test_rerank_orders_by_scores(scores: dict[int, float], order: list[tuple[str, float]]) -> None:
    hits = [
        hit("a", 0.9, document=1, ordinal=0),
        hit("b", 0.7, document=1, ordinal=2),
        hit("c", 0.7, document=1, ordinal=10),
        hit("d", 0.1, document=2, ordinal=1),
    ]
    found = apply_rerank_scores(hits, scores)
    assert [(one.chunk.content, one.score) for one in found] == order
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_rerank_ties_are_ordered_by_document_and_chunk_index() -> None:
    places = [(2, 10), (2, 9), (1, 11), (1, 3)]
    hits = [hit("same", 0.9, document=document, ordinal=ordinal) for document, ordinal in places]
    found = apply_rerank_scores(hits, {0: 0.5, 2: 0.5, 1: 0.5, 3: 0.5})
    assert [(one.document.id.int, one.chunk.ordinal) for one in found] == sorted(places)


def test_rerank_changes_only_scores() -> None:
    before = hit("a", 0.9, similarity=0.4)
    (after,) = apply_rerank_scores([before], {0: 0.2})
    assert (after.similarity, after.scores, after.document, after.chunk) == (
        0.4,
        before.scores,
        before.document,
        before.chunk,
    )
    assert (before.score, after.score) == (0.9, 0.2)
