"""Reranking: sorting of the best hits by the scores of a reranker."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.inference.rerank import Reranker, RerankUnavailable
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.hit_order import get_sort_key
from app.retrieval.search_run import SearchRun
from app.retrieval.types import Hit, Query
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

# Minimum number of hits that the reranker scores, even if the caller requests fewer.
MIN_CANDIDATES = 50
RERANKER_NOT_CONFIGURED = ServiceWarning(
    WarningCode.RERANKER_NOT_CONFIGURED, "No reranker is configured, so the results were not reranked."
)
RERANKER_UNAVAILABLE = ServiceWarning(
    WarningCode.RERANKER_UNAVAILABLE, "The reranker did not answer, so the results were not reranked."
)
RERANKING_NEEDS_TEXT = ServiceWarning(
    WarningCode.RERANKING_NEEDS_TEXT, "No query has a text, so the results were not reranked."
)
RERANKING_SKIPPED = ServiceWarning(
    WarningCode.RERANKING_SKIPPED, "The remaining time was too short, so the results were not reranked."
)


async def rerank(
    reranker: Reranker | None, search_run: SearchRun, queries: Sequence[Query], hits: Sequence[Hit]
) -> list[Hit]:
    """Rerank the hits by the first query that has a text. If that fails, return the hits unchanged with a notice.

    Args:
        reranker: Reranker; None if none is configured.
        search_run: Deadline, timings and notices of the search.
        queries: Queries of the search.
        hits: Hits, best first.

    Returns:
        The hits, best first.
    """
    query = next((item.text for item in queries if item.text is not None), None)
    remaining_seconds = search_run.remaining_seconds
    if reranker is None:
        search_run.add_notice(RERANKER_NOT_CONFIGURED)
    elif query is None:
        search_run.add_notice(RERANKING_NEEDS_TEXT)
    elif remaining_seconds < time_budget.MIN_RERANK_SECONDS:
        search_run.degrade("rerank", "no_time")
        search_run.add_notice(RERANKING_SKIPPED)
    elif hits:
        try:
            with search_run.time_step("rerank"):
                texts = [hit.text_span.text for hit in hits]
                scores = await reranker.rerank(
                    query, texts, top_n=len(texts), timeout_seconds=remaining_seconds * time_budget.RERANK
                )
            return apply_rerank_scores(hits, scores)
        except RerankUnavailable as exc:
            logger.warning("search.rerank_failed", reason=exc.reason)
            search_run.degrade("rerank", exc.reason)
            search_run.add_notice(RERANKER_UNAVAILABLE)
    return list(hits)


def apply_rerank_scores(hits: Sequence[Hit], scores: Mapping[int, float]) -> list[Hit]:
    """Sort hits by the scores of a reranker.

    Hits without a score follow in their order, because the reranker may score only the best. They keep their old score,
    but at most the lowest new score: the scales differ, and scores must not increase along the list.

    Args:
        hits: Hits, best first.
        scores: New scores by the position in ``hits``.

    Returns:
        The hits, best first, ties by document and chunk index.
    """
    if not scores:
        return list(hits)
    scored = [replace(hits[position], score=score) for position, score in scores.items()]
    scored.sort(key=get_sort_key)
    min_score = scored[-1].score
    unscored = [hit for position, hit in enumerate(hits) if position not in scores]
    return [*scored, *(replace(hit, score=min(hit.score, min_score)) for hit in unscored)]
