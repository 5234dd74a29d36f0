"""The best hits in the order that a reranker gives them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.inference.rerank import Reranker, RerankUnavailable
from app.logging import get_logger
from app.retrieval import shares
from app.retrieval.course import Course
from app.retrieval.types import Hit, Query, in_order

logger = get_logger(__name__)

# How many are shown to it, however few are wanted.
ROWS = 50


async def rerank(reranker: Reranker | None, course: Course, queries: Sequence[Query], hits: Sequence[Hit]) -> list[Hit]:
    """The hits by what the reranker says of them and the first query; with a warning as they are, where it cannot."""
    query = next((one.text for one in queries if one.text is not None), None)
    seconds = course.remaining
    if reranker is None:
        course.remark("No reranker is configured: the order is that of the search.")
    elif query is None:
        course.remark("Only words can be reranked: the order is that of the search.")
    elif seconds < shares.RERANK_LEAST_SECONDS:
        course.drop("rerank", "no_time")
        course.remark("There was no time left to rerank: the order is that of the search.")
    elif hits:
        try:
            with course.timing("rerank"):
                texts = [hit.passage.text for hit in hits]
                scores = await reranker.rerank(query, texts, top_n=len(texts), seconds=seconds * shares.RERANK)
            return reranked(hits, scores)
        except RerankUnavailable as exc:
            logger.warning("search.rerank_failed", reason=exc.reason)
            course.drop("rerank", exc.reason)
            course.remark("The reranker could not answer: the order is that of the search.")
    return list(hits)


def reranked(hits: Sequence[Hit], scores: Mapping[int, float]) -> list[Hit]:
    """The hits by their scores, which are by place in ``hits``, ties by document and chunk_index.

    What has no score follows as it was, since the reranker was asked for the best. It keeps its own score where that is
    no better than the least given one, and else gets that: the two are of different scales, and the score orders.
    """
    if not scores:
        return list(hits)
    scored = [replace(hits[place], score=score) for place, score in scores.items()]
    scored.sort(key=in_order)
    least = scored[-1].score
    rest = [hit for place, hit in enumerate(hits) if place not in scores]
    return [*scored, *(replace(hit, score=min(hit.score, least)) for hit in rest)]
