"""A search as its caller's quotas admit it, and whether its silence means anything: for every door."""

from app.quotas.types import RateLimitState
from app.retrieval.service import RetrievalService
from app.retrieval.types import SearchRequest, SearchResult, SearchUnavailable


async def search_within_quota(
    retrieval: RetrievalService, request: SearchRequest
) -> tuple[SearchResult, RateLimitState]:
    """Search, and count it; with what is left of the caller's rate. Raises RateLimitExceeded, and as the search."""
    rate = await retrieval.quotas.acquire_search()
    result = await retrieval.search(request)
    retrieval.quotas.count(searches=1)
    return result, rate


def require_complete(result: SearchResult) -> SearchResult:
    """The same, for a caller who takes an empty result as an answer.

    Raises SearchUnavailable where nothing was found and something was left out: that says nothing of what is there.
    """
    if not result.hits and not result.is_complete:
        raise SearchUnavailable(timings_ms=result.timings_ms, degraded=result.degraded_steps)
    return result
