"""Search within the quotas of the caller, and the check for complete results; all APIs share both."""

from app.quotas.types import RateLimitState
from app.retrieval.service import RetrievalService
from app.retrieval.types import SearchRequest, SearchResult, SearchUnavailable


async def search_within_quota(
    retrieval: RetrievalService, request: SearchRequest
) -> tuple[SearchResult, RateLimitState]:
    """Check the rate limit of the caller, search, and add the search to the caller's usage.

    Args:
        retrieval: Search service of the caller.
        request: The search request.

    Returns:
        The result, and the state of the caller's rate limit.

    Raises:
        RateLimitExceeded: The caller's rate limit is used up. Errors of ``RetrievalService.search`` are raised as well.
    """
    rate = await retrieval.quotas.acquire_search()
    result = await retrieval.search(request)
    retrieval.quotas.count(searches=1)
    return result, rate


def require_complete(result: SearchResult) -> SearchResult:
    """Return the result unchanged, or raise an error if it is empty and incomplete.

    Use the function for callers that take an empty result as proof that nothing matches.

    Raises:
        SearchUnavailable: The result has no hits, and a part of the search was left out.
    """
    if not result.hits and not result.is_complete:
        raise SearchUnavailable(timings_ms=result.timings_ms, degraded=result.degraded_steps)
    return result
