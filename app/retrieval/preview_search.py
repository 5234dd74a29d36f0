"""Quick first search for transformers that adapt the queries to the words of the documents."""

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
    """Quick first search in the targets with the strategy hybrid, within the caller's scopes and filters.

    Attributes:
        db: Database in the tenant's scope.
        query_embedder: Embedder of queries, with a cache.
        targets: Knowledge bases to search.
        costs: Slots for expensive searches.
    """

    db: TenantDatabase
    query_embedder: QueryEmbedder
    targets: Sequence[SearchTarget]
    costs: SearchCosts = field(default_factory=SearchCosts)

    async def __call__(self, queries: Sequence[str], search_run: SearchRun, *, max_chunks: int) -> list[str] | None:
        """Return the texts of the best chunks.

        Args:
            queries: Texts to search.
            search_run: Deadline and database budget of the preview.
            max_chunks: Maximum number of chunks.

        Returns:
            The texts, best first; None if the search fails or exceeds the deadline.
        """
        # The preview has separate warnings and timings: the main search reports its own.
        preview_run = SearchRun(search_run.deadline, database_budget=search_run.database_budget)
        retriever = HybridRetriever(
            self.db,
            preview_run,
            collect_index_refs(self.targets),
            top_k=max_chunks,
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
