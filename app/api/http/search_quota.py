"""Searches within the caller's rate limit, with the response headers for rate limit and timings."""

from collections.abc import Sequence

from fastapi import Response

from app.api.http.server_timing import format_server_timing
from app.bootstrap import TenantServices
from app.quotas.types import RateLimitState
from app.retrieval.quota import search_within_quota
from app.retrieval.types import Hit, SearchRequest, SearchResult


async def search_with_quota(tenant: TenantServices, request: SearchRequest, response: Response) -> SearchResult:
    """Search, count the search against the rate limit, and set the response headers.

    Args:
        tenant: Services of the caller.
        request: The search.
        response: Response that gets the headers ``RateLimit-*`` and ``Server-Timing``.

    Returns:
        The result of the search.

    Raises:
        RateLimitExceeded: The caller is over its rate limit.
        AppError: An error of ``RetrievalService.search``.
    """
    result, rate = await search_within_quota(tenant.retrieval, request)
    response.headers.update(_format_rate_limit_headers(rate))
    response.headers["Server-Timing"] = format_server_timing(result.timings_ms, result.degraded_steps)
    return result


async def consume_search_quota(tenant: TenantServices, response: Response) -> None:
    """Count a search against the caller's rate limit, and set the response headers. Raises RateLimitExceeded."""
    rate = await tenant.quotas.acquire_search()
    response.headers.update(_format_rate_limit_headers(rate))


def to_public_scores(hits: Sequence[Hit]) -> list[float]:
    """Return scores from 0 to 1, for APIs whose callers compare scores with a threshold.

    Args:
        hits: Hits of one search.

    Returns:
        One score for each hit: its cosine similarity, or the score of the strategy if it has no similarity. Lexical
        scores have no upper bound. If the highest lexical score is above 1, all lexical scores are divided by it.
    """
    best = max((hit.score for hit in hits if hit.similarity is None), default=1.0)
    scores = [hit.score / max(best, 1.0) if hit.similarity is None else hit.similarity for hit in hits]
    return [round(min(max(score, 0.0), 1.0), 6) for score in scores]


def _format_rate_limit_headers(rate: RateLimitState) -> dict[str, str]:
    return {
        "RateLimit-Limit": str(rate.limit),
        "RateLimit-Remaining": str(rate.remaining),
        "RateLimit-Reset": str(rate.reset_seconds),
    }
