"""A search as its caller's quotas admit it, and what its reply says of them."""

from collections.abc import Sequence

from fastapi import Response

from app.api.http.server_timing import format_server_timing
from app.bootstrap import TenantServices
from app.quotas.types import RateLimitState
from app.retrieval.quota import search_within_quota
from app.retrieval.types import Hit, SearchRequest, SearchResult


async def search_with_quota(tenant: TenantServices, request: SearchRequest, response: Response) -> SearchResult:
    """Search, and count it. Raises RateLimitExceeded, and as ``RetrievalService.search``."""
    result, rate = await search_within_quota(tenant.retrieval, request)
    response.headers.update(_format_rate_limit_headers(rate))
    response.headers["Server-Timing"] = format_server_timing(result.timings_ms, result.degraded_steps)
    return result


async def consume_search_quota(tenant: TenantServices, response: Response) -> None:
    """Take a search from the caller's rates, and say what is left. Raises RateLimitExceeded."""
    rate = await tenant.quotas.acquire_search()
    response.headers.update(_format_rate_limit_headers(rate))


def to_public_scores(hits: Sequence[Hit]) -> list[float]:
    """What a door tells whose callers compare their threshold with it: the cosine from 0 to 1, else what orders.

    That of words has no upper end: where it goes beyond 1, the best of them is 1.
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
