"""A search as its caller's quotas admit it, for every door."""

from app.quotas.types import RateState
from app.retrieval.service import RetrievalService
from app.retrieval.types import SearchRequest, SearchResult


async def admitted(retrieval: RetrievalService, request: SearchRequest) -> tuple[SearchResult, RateState | None]:
    """Search, and count it; with what is left of the caller's rate. Raises RateLimited, and as the search."""
    rate = await retrieval.quotas.admit_search()
    result = await retrieval.search(request)
    retrieval.quotas.count(searches=1)
    return result, rate
