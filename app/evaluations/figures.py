"""Figures of an evaluation: means with 95 % confidence intervals, and the paired difference of two settings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from app.evaluations.bootstrap_ci import Bootstrap, ConfidenceInterval
from app.evaluations.ranking_measures import DEFAULT_ALL_MEASURE, DEFAULT_MEASURES, score_by_label, select_measures
from app.evaluations.types import ItemOutcome, QueryOutcome, RankedRelevance, Relevance
from app.warnings import ServiceWarning, WarningCode

MEASURE_LABELS = (*DEFAULT_MEASURES, DEFAULT_ALL_MEASURE)


def judge_hits(
    hits: Sequence[tuple[UUID, UUID]], relevant: Sequence[Relevance], *, missing_count: int, warnings: Sequence[str]
) -> QueryOutcome:
    """Return the outcome of one query.

    A document has the rank of its best chunk. If a chunk is judged, chunks of that document count separately.

    Args:
        hits: Document and chunk of each hit, best first.
        relevant: What is relevant and exists.
        missing_count: Number of relevant documents and chunks that do not exist.
        warnings: Codes of the warnings of the search.
    """
    judged = set(relevant)
    with_chunks = {relevance.document_id for relevance in relevant if relevance.chunk_id is not None}
    ranked: dict[str, None] = {}
    for document_id, chunk_id in hits:
        ranked |= dict.fromkeys(_list_units(document_id, chunk_id, judged, with_chunks))
    units = list(ranked)
    ranks = {unit: rank for rank, unit in enumerate(units, 1)}
    ranked_relevant = [RankedRelevance(relevance, ranks.get(_to_unit(relevance))) for relevance in relevant]
    grades = {_to_unit(relevance): 1 for relevance in relevant}
    scores = {label: score_by_label(label, units, grades) for label in MEASURE_LABELS} if grades else {}
    return QueryOutcome(scores, ranked_relevant, missing_count, warnings)


def fail_query(relevant: Sequence[Relevance], *, missing_count: int, error: str) -> QueryOutcome:
    """Return the outcome of a query that the search refused: all values are 0."""
    scores = dict.fromkeys(MEASURE_LABELS, 0.0) if relevant else {}
    return QueryOutcome(scores, [RankedRelevance(each, None) for each in relevant], missing_count, (), error)


def compute_figures(outcomes: Sequence[ItemOutcome]) -> list[dict[str, Any]]:
    """Return the figures of an evaluation, one object for each measure.

    Args:
        outcomes: Results of all items. Items of which nothing relevant exists are ignored.
    """
    scored = [item for item in outcomes if item.outcomes[0].scores and item.outcomes[-1].scores]
    if not scored:
        return []
    bootstrap = Bootstrap()
    labels = select_measures([len(item.outcomes[0].relevant) for item in scored])
    return [_compute_measure(bootstrap, label, scored) for label in labels]


def list_warnings(outcomes: Sequence[ItemOutcome], top_ks: Sequence[int]) -> list[ServiceWarning]:
    """Return the warnings of an evaluation.

    Args:
        outcomes: Results of all items.
        top_ks: Number of hits of each setting.
    """
    return list(_iter_warnings(outcomes, top_ks))


def _iter_warnings(outcomes: Sequence[ItemOutcome], top_ks: Sequence[int]) -> Iterator[ServiceWarning]:
    if missing := sum(max(outcome.missing_count for outcome in item.outcomes) for item in outcomes):
        message = f"{missing} relevant documents or chunks are missing, and were left out."
        yield ServiceWarning(WarningCode.GOLDEN_RELEVANCE_MISSING, message, missing)
    errors = Counter(outcome.error for item in outcomes for outcome in item.outcomes if outcome.error)
    for code, count in errors.most_common(5):
        message = f"{count} searches failed with {code}, and count as 0."
        yield ServiceWarning(WarningCode.EVALUATION_SEARCHES_FAILED, message, count)
    codes = Counter(code for item in outcomes for outcome in item.outcomes for code in outcome.warnings)
    for code, count in codes.most_common(5):
        yield ServiceWarning(WarningCode.EVALUATION_SEARCHES_WARNED, f"{count} searches warned of {code}.", count)
    deepest = max(int(label.partition("@")[2]) for label in MEASURE_LABELS)
    for number, top_k in enumerate(top_ks, 1):
        if top_k < deepest:
            message = f"Setting {number} requests {top_k} results, so measures below that rank are too low."
            yield ServiceWarning(WarningCode.EVALUATION_DEPTH_LIMITED, message)


def _compute_measure(bootstrap: Bootstrap, label: str, scored: Sequence[ItemOutcome]) -> dict[str, Any]:
    by_setting = [
        {str(item.item_id): item.outcomes[number].scores[label] for item in scored}
        for number in range(len(scored[0].outcomes))
    ]
    figure: dict[str, Any] = {
        "measure": label,
        "queries": len(scored),
        "values": [_to_json(bootstrap.compute_interval(list(values.values()))) for values in by_setting],
        "difference": None,
    }
    if len(by_setting) == 2:
        change = bootstrap.compute_difference(by_setting[1], by_setting[0])
        figure["difference"] = {
            **_to_json(change.interval),
            "better": change.better,
            "worse": change.worse,
            "equal": len(scored) - change.better - change.worse,
            "significant": change.is_significant,
        }
    return figure


def _to_json(interval: ConfidenceInterval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def _list_units(document_id: UUID, chunk_id: UUID, judged: set[Relevance], with_chunks: set[UUID]) -> Iterator[str]:
    """Yield the names under which a hit is ranked: of its chunk, of its document, or of both if both are judged."""
    if document_id in with_chunks:
        yield _to_unit(Relevance(document_id, chunk_id))
        if Relevance(document_id) not in judged:
            return
    yield _to_unit(Relevance(document_id))


def _to_unit(relevance: Relevance) -> str:
    return f"{relevance.document_id}/{relevance.chunk_id or ''}"
