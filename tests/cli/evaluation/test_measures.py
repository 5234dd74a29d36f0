"""Measures by name, and their values computed by hand."""

from math import log2

import pytest

from app.cli.evaluation.datasets import EvaluationQuery, ExcerptReference
from app.cli.evaluation.measures import (
    Measure,
    UnknownMeasure,
    parse_measure,
    score_documents,
    score_excerpts,
    select_default_measures,
)
from app.cli.evaluation.runner import QueryResult
from app.cli.evaluation.span_metrics import CorpusTexts, RetrievedChunk

JUDGED = EvaluationQuery("judged", {}, {"a": 1, "b": 2, "c": 0, "d": -1}, ())
UNANSWERED = EvaluationQuery("unanswered", {}, {"a": 1}, ())
WITH_EXCERPT = EvaluationQuery("excerpt", {}, {}, (ExcerptReference(document="d", span=(0, 5)),))
ANSWERS = {
    "judged": QueryResult(("x", "a", "d", "b")),
    "unanswered": QueryResult(problem="503"),
    "excerpt": QueryResult(("d",), (RetrievedChunk("e", "01234"), RetrievedChunk("d", "abcdefghij"))),
}


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("nDCG@10", Measure("nDCG", 10)),
        (" ndcg@3 ", Measure("nDCG", 3)),
        ("R@5", Measure("recall", 5)),
        ("rr", Measure("MRR", None)),
        ("ALL@5", Measure("all", 5)),
        ("map", Measure("MAP", None)),
        ("Excerpt_IOU@2", Measure("excerpt_IoU", 2)),
    ],
)
def test_parse_measure_reads_names(text: str, measure: Measure) -> None:
    assert parse_measure(text) == measure
    assert parse_measure(measure.label) == measure


@pytest.mark.parametrize(
    "text", ["", "ndgc@10", "recall", "nDCG@0", "nDCG@-1", "nDCG@10@2", "excerpt_recall", "P@x", "all"]
)
def test_parse_measure_unknown_name_is_refused(text: str) -> None:
    with pytest.raises(UnknownMeasure, match="nDCG@K, recall@K"):
        parse_measure(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nDCG@10", (1 / log2(3) + 2 / log2(5)) / (2 / log2(2) + 1 / log2(3))),
        ("nDCG@3", 1 / log2(3) / (2 / log2(2) + 1 / log2(3))),
        ("recall@2", 0.5),
        ("recall@4", 1.0),
        ("MRR@10", 0.5),
        ("MRR@1", 0.0),
        ("MRR", 0.5),
        ("precision@4", 0.5),
        ("MAP", (1 / 2 + 2 / 4) / 2),
        ("all@3", 0.0),
        ("all@4", 1.0),
        ("success@1", 0.0),
        ("success@2", 1.0),
    ],
)
def test_document_measures_equal_hand_computed_values(name: str, value: float) -> None:
    scores = score_documents([parse_measure(name)], [JUDGED, UNANSWERED, WITH_EXCERPT], ANSWERS)
    assert scores == {name: {"judged": pytest.approx(value), "unanswered": 0.0}}


def test_excerpt_measures_equal_hand_computed_values() -> None:
    measures = [parse_measure(name) for name in ("excerpt_recall@1", "excerpt_recall@2", "excerpt_precision@2")]
    scores, unlocated = score_excerpts(measures, [JUDGED, WITH_EXCERPT], ANSWERS, CorpusTexts({"d": "abcdefghijkl"}))
    assert scores == {
        "excerpt_recall@1": {"excerpt": 0.0},
        "excerpt_recall@2": {"excerpt": 1.0},
        "excerpt_precision@2": {"excerpt": pytest.approx(5 / 15)},
    }
    assert unlocated == 0


def test_all_measure_of_several_queries_is_share_of_complete_results() -> None:
    scores = score_documents([parse_measure("all@5"), parse_measure("recall@5")], [JUDGED, UNANSWERED], ANSWERS)
    assert scores == {"recall@5": {"judged": 1.0, "unanswered": 0.0}, "all@5": {"judged": 1.0, "unanswered": 0.0}}


def test_default_measures_follow_judgements() -> None:
    names = ["nDCG", "recall", "recall", "recall", "MRR"]
    assert [one.name for one in select_default_measures([UNANSWERED])] == names
    assert [one.name for one in select_default_measures([JUDGED])] == [*names, "all"]
    assert {one.is_excerpt_measure for one in select_default_measures([WITH_EXCERPT])} == {True}
    assert len(select_default_measures([JUDGED, WITH_EXCERPT])) == 9
