"""A quick first search, for a transformer that wants to see how the documents speak of something."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.db.session import TenantDatabase
from app.errors import AppError
from app.retrieval.costs import SearchCosts
from app.retrieval.query_embedding import QueryEmbedder
from app.retrieval.retrievers.executor import HybridRetriever
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies import hybrid
from app.retrieval.strategies.strategy import SearchContext, SearchTarget, collect_index_refs
from app.retrieval.types import Query


@dataclass(frozen=True, slots=True)
class HybridPreviewSearch:
    """A look at what a search is about to ask, with nothing but its targets: as the caller may see them."""

    db: TenantDatabase
    query_embedder: QueryEmbedder
    targets: Sequence[SearchTarget]
    costs: SearchCosts = field(default_factory=SearchCosts)

    async def __call__(self, queries: Sequence[str], search_run: SearchRun, *, max_chunks: int) -> list[str] | None:
        """The best passages by both lanes; None where they cannot be had in the course's time."""
        # Its own warnings and times: the search that follows says what it leaves out itself.
        preview_run = SearchRun(search_run.deadline, database_budget=search_run.database_budget)
        retriever = HybridRetriever(
            self.db,
            preview_run,
            collect_index_refs(self.targets),
            top_k=max_chunks,
            score_threshold=None,
            costs=self.costs,
        )
        query_embedder = replace(self.query_embedder, search_run=preview_run)
        context = SearchContext(retriever, query_embedder, preview_run, [*map(Query, queries)], self.targets)
        try:
            async with asyncio.timeout(preview_run.remaining_seconds):
                hits = await hybrid.run(context, hybrid.HybridOptions.model_validate({}))
        except (AppError, TimeoutError):
            return None
        return [hit.chunk.content for hit in hits]
