"""Measures of rankings equal those of ir-measures (trec_eval) for random rankings."""

import random

import ir_measures
import pytest

from app.evaluations.ranking_measures import score_by_label, select_measures

# Label -> name in ir-measures.
LABELS = {
    "nDCG@10": "nDCG@10",
    "nDCG": "nDCG",
    "recall@5": "R@5",
    "recall@100": "R@100",
    "MRR@10": "RR@10",
    "MRR": "RR",
    "precision@7": "P@7",
    "MAP": "AP",
    "MAP@5": "AP@5",
    "success@3": "Success@3",
}


@pytest.mark.parametrize("label", LABELS)
def test_measures_equal_those_of_ir_measures(label: str) -> None:
    generator = random.Random(7)
    for _ in range(200):
        names = [f"d{number}" for number in range(30)]
        grades = {name: generator.choice([-1, 0, 0, 1, 2, 3]) for name in generator.sample(names, 12)} | {"d0": 1}
        documents = generator.sample(names, generator.randrange(0, 25))
        run = {"q": {document: -float(rank) for rank, document in enumerate(documents)}}
        judged = {"q": {name: max(grade, 0) for name, grade in grades.items()}}
        expected = ir_measures.calc_aggregate([ir_measures.parse_measure(LABELS[label])], judged, run)
        value = score_by_label(label, documents, grades)
        assert value == pytest.approx(next(iter(expected.values()))), (documents, grades)


def test_all_counts_complete_rankings_only() -> None:
    grades = {"a": 1, "b": 2, "c": 0}
    assert score_by_label("all@3", ["a", "x", "b"], grades) == 1.0
    assert score_by_label("all@2", ["a", "x", "b"], grades) == 0.0


def test_select_measures_adds_all_for_several_relevant_documents() -> None:
    assert "all@5" not in select_measures([1, 1])
    assert "all@5" in select_measures([1, 2])
