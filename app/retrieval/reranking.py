"""The best hits in the order that a reranker gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.inference.rerank import Reranker, RerankUnavailable
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.search_run import SearchRun
from app.retrieval.types import Hit, Query, get_sort_key
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

# How many are shown to it, however few are wanted.
MIN_CANDIDATES = 50
RERANKER_NOT_CONFIGURED = ServiceWarning(
    WarningCode.RERANKER_NOT_CONFIGURED, "No reranker is configured: the order is that of the search."
)
RERANKER_UNAVAILABLE = ServiceWarning(
    WarningCode.RERANKER_UNAVAILABLE, "The reranker could not answer: the order is that of the search."
)
RERANKING_NEEDS_TEXT = ServiceWarning(
    WarningCode.RERANKING_NEEDS_TEXT, "Only words can be reranked: the order is that of the search."
)
RERANKING_SKIPPED = ServiceWarning(
    WarningCode.RERANKING_SKIPPED, "There was no time left to rerank: the order is that of the search."
)


async def rerank(
    reranker: Reranker | None, search_run: SearchRun, queries: Sequence[Query], hits: Sequence[Hit]
) -> list[Hit]:
    """The hits by what the reranker says of them and the first query; with a warning as they are, where it cannot."""
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
    """The hits by their scores, which are by place in ``hits``, ties by document and chunk_index.

    What has no score follows as it was, since the reranker was asked for the best. It keeps its own score where that is
    no better than the least given one, and else gets that: the two are of different scales, and the score orders.
    """
    if not scores:
        return list(hits)
    scored = [replace(hits[position], score=score) for position, score in scores.items()]
    scored.sort(key=get_sort_key)
    min_score = scored[-1].score
    unscored = [hit for position, hit in enumerate(hits) if position not in scores]
    return [*scored, *(replace(hit, score=min(hit.score, min_score)) for hit in unscored)]
