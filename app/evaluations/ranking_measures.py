"""Measures of a ranking against judged documents, with the definitions of trec_eval. ``all`` is Carrel's: whether all
relevant documents are among the first K.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

# The default measures of an evaluation. ``DEFAULT_ALL_MEASURE`` follows if a query has several relevant documents.
DEFAULT_MEASURES = ("nDCG@10", "recall@5", "recall@10", "recall@100", "MRR@10")
DEFAULT_ALL_MEASURE = "all@5"


@dataclass(frozen=True, slots=True)
class JudgedRanking:
    """First documents of a ranking, with the grades of the judged documents. A grade above 0 is relevant."""

    documents: Sequence[str]
    grades: Mapping[str, int]
    cutoff: int | None

    @property
    def relevant(self) -> set[str]:
        """The relevant documents."""
        return {document for document, grade in self.grades.items() if grade > 0}

    @property
    def hits(self) -> list[int]:
        """Ranks of the relevant documents of the ranking, from 1."""
        relevant = self.relevant
        return [rank for rank, document in enumerate(self.documents, 1) if document in relevant]

    def compute_dcg(self, grades: Sequence[int]) -> float:
        """Return the discounted cumulative gain of the grades at the first ranks; a grade below 0 counts as 0."""
        return sum(max(grade, 0) / log2(rank + 1) for rank, grade in enumerate(grades[: self.cutoff], 1))


def _compute_ndcg(ranking: JudgedRanking) -> float:
    ideal = ranking.compute_dcg(sorted(ranking.grades.values(), reverse=True))
    gained = ranking.compute_dcg([ranking.grades.get(document, 0) for document in ranking.documents])
    return gained / ideal if ideal else 0.0


def _compute_map(ranking: JudgedRanking) -> float:
    precisions = [number / rank for number, rank in enumerate(ranking.hits, 1)]
    return sum(precisions) / len(ranking.relevant)


def _compute_recall(ranking: JudgedRanking) -> float:
    return len(ranking.hits) / len(ranking.relevant)


def _compute_precision(ranking: JudgedRanking) -> float:
    return len(ranking.hits) / (ranking.cutoff or len(ranking.documents) or 1)


def _compute_reciprocal_rank(ranking: JudgedRanking) -> float:
    return 1 / ranking.hits[0] if ranking.hits else 0.0


def _compute_success(ranking: JudgedRanking) -> float:
    return float(bool(ranking.hits))


def _compute_completeness(ranking: JudgedRanking) -> float:
    return float(ranking.relevant <= set(ranking.documents))


MEASURES: Mapping[str, Callable[[JudgedRanking], float]] = {
    "nDCG": _compute_ndcg,
    "recall": _compute_recall,
    "MRR": _compute_reciprocal_rank,
    "precision": _compute_precision,
    "MAP": _compute_map,
    "success": _compute_success,
    "all": _compute_completeness,
}


def score_ranking(name: str, cutoff: int | None, documents: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return the value of a measure for one query.

    Args:
        name: Name of the measure, one of ``MEASURES``.
        cutoff: Number of first documents that count; None for all.
        documents: Found documents, best first, each once.
        grades: Grades of the judged documents, at least one above 0.
    """
    return MEASURES[name](JudgedRanking(documents[:cutoff], grades, cutoff))


def score_by_label(label: str, documents: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return the value of a measure with a label such as ``nDCG@10`` for one query."""
    name, _, cutoff = label.partition("@")
    return score_ranking(name, int(cutoff) if cutoff else None, documents, grades)


def select_measures(relevant_counts: Sequence[int]) -> list[str]:
    """Return the labels of the default measures for queries with these numbers of relevant documents."""
    return [*DEFAULT_MEASURES, *([DEFAULT_ALL_MEASURE] if any(count > 1 for count in relevant_counts) else [])]
