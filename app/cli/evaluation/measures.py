"""Measures by name, and their values per query: measures of documents, and measures of excerpts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.cli.evaluation import span_metrics
from app.cli.evaluation.datasets import EvaluationQuery
from app.cli.evaluation.runner import QueryResult
from app.cli.evaluation.span_metrics import CorpusTexts
from app.errors import InvalidInputError
from app.evaluations.ranking_measures import DEFAULT_ALL_MEASURE, DEFAULT_MEASURES, score_ranking

# Name in reports -> name in other programs.
DOCUMENT_MEASURES = {"nDCG": "nDCG", "recall": "R", "MRR": "RR", "precision": "P", "MAP": "AP", "success": "Success"}
# Share of the queries whose relevant documents are all among the first K.
ALL_MEASURE = "all"
CUTOFF_MEASURES = (ALL_MEASURE, "recall", "precision", "success", "excerpt_recall", "excerpt_precision", "excerpt_IoU")
EXCERPT_MEASURES = ("excerpt_recall", "excerpt_precision", "excerpt_IoU")
MEASURE_NAMES = (*DOCUMENT_MEASURES, ALL_MEASURE, *EXCERPT_MEASURES)
DEFAULT_EXCERPT_MEASURES = ("excerpt_recall@5", "excerpt_precision@5", "excerpt_IoU@5")

ScoreByQuery = dict[str, float]


class UnknownMeasure(InvalidInputError):
    """Unknown measure."""

    code = "unknown_measure"


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure over the first ``cutoff`` documents or passages."""

    name: str
    cutoff: int | None

    @property
    def label(self) -> str:
        """Name with cutoff, for example nDCG@10."""
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    @property
    def is_excerpt_measure(self) -> bool:
        """Whether the measure is about excerpts instead of documents."""
        return self.name in EXCERPT_MEASURES


def parse_measure(text: str) -> Measure:
    """Return the measure with a name such as nDCG@10. Upper and lower case are equal; names of other programs are
    accepted too.

    Raises:
        UnknownMeasure: There is no such measure, or its cutoff is missing.
    """
    names_by_lower = {name.lower(): name for name in MEASURE_NAMES}
    names_by_lower |= {library_name.lower(): measure_name for measure_name, library_name in DOCUMENT_MEASURES.items()}
    match = re.fullmatch(r"([A-Za-z_]+)(?:@([1-9]\d{0,3}))?", text.strip())
    name = names_by_lower.get(match[1].lower()) if match else None
    if match is None or name is None or (match[2] is None and name in CUTOFF_MEASURES):
        names = ", ".join(f"{name}@K" for name in MEASURE_NAMES)
        raise UnknownMeasure(f"there is no measure {text!r}; use one of: {names}")
    return Measure(name, int(match[2]) if match[2] else None)


def select_default_measures(queries: Sequence[EvaluationQuery]) -> list[Measure]:
    """Return the default document measures if documents are judged, and the default excerpt measures if there are
    excerpts. If a query has several relevant documents, the measure of complete results is a default too.
    """
    names: list[str] = []
    if any(query.is_judged for query in queries):
        names += DEFAULT_MEASURES
    if any(len(_list_relevant(query)) > 1 for query in queries):
        names.append(DEFAULT_ALL_MEASURE)
    if any(query.references for query in queries):
        names += DEFAULT_EXCERPT_MEASURES
    return [parse_measure(name) for name in names]


def count_needed_chunks(measures: Sequence[Measure]) -> int:
    """Return the number of passages per query that the measures of excerpts need."""
    return max((measure.cutoff or 0 for measure in measures if measure.is_excerpt_measure), default=0)


def score_documents(
    measures: Sequence[Measure], queries: Sequence[EvaluationQuery], results: Mapping[str, QueryResult]
) -> dict[str, ScoreByQuery]:
    """Return the scores of documents by measure and query; a query without an answer gets 0.

    Args:
        measures: Measures; excerpt measures are ignored.
        queries: Queries; queries without a relevant document are ignored.
        results: Results by query.
    """
    return {
        measure.label: {
            query.id: score_ranking(measure.name, measure.cutoff, results[query.id].documents, query.grades)
            for query in queries
            if query.is_judged
        }
        for measure in measures
        if not measure.is_excerpt_measure
    }


def _list_relevant(query: EvaluationQuery) -> set[str]:
    return {document for document, grade in query.grades.items() if grade > 0}


def score_excerpts(
    measures: Sequence[Measure],
    queries: Sequence[EvaluationQuery],
    results: Mapping[str, QueryResult],
    texts: CorpusTexts,
) -> tuple[dict[str, ScoreByQuery], int]:
    """Return the scores of excerpts.

    Args:
        measures: Measures; document measures are ignored.
        queries: Queries; queries without excerpts are ignored.
        results: Results by query.
        texts: Texts of the documents.

    Returns:
        The scores by measure and query, and the number of passages that were not found in the text of their document.

    Raises:
        DatasetError: An excerpt is not in the text of its document.
    """
    scores: dict[str, ScoreByQuery] = {measure.label: {} for measure in measures if measure.is_excerpt_measure}
    max_cutoff = count_needed_chunks(measures)
    unlocated = 0
    for query in (query for query in queries if query.references and scores):
        expected = texts.locate_references(query.references)
        chunks = results[query.id].chunks
        by_cutoff = {
            cutoff: span_metrics.score_query(chunks[:cutoff], expected, texts)
            for cutoff in {measure.cutoff for measure in measures if measure.is_excerpt_measure}
        }
        unlocated += by_cutoff[max_cutoff].unlocated
        for measure in measures:
            if measure.is_excerpt_measure:
                scores[measure.label][query.id] = by_cutoff[measure.cutoff].to_dict()[measure.name]
    return scores, unlocated
