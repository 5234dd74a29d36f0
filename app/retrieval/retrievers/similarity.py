"""Similarity of hits in a search with several queries: the highest cosine with any of the queries."""

from collections.abc import Sequence
from uuid import UUID

from app.retrieval.repository import RetrievalRepository
from app.retrieval.retrievers.ranking import Ranking
from app.retrieval.types import ChunkKey


async def fill_missing_similarities(
    repository: RetrievalRepository, ranking: Ranking, keys: Sequence[ChunkKey], tenants: Sequence[UUID]
) -> None:
    """Compute the highest cosine of chunks that the retrievers did not compare with every query.

    A retriever returns a limited number of rows for each query. A chunk that one query found may be more similar to
    another query.

    Args:
        repository: Repository of the search.
        ranking: Ranking whose similarities are updated.
        keys: Keys of the chunks.
        tenants: Owner of each chunk.
    """
    results = ranking.results
    for indexes, vectors in ranking.model_query_vectors:
        missing = [
            (key, tenant)
            for key, tenant in zip(keys, tenants, strict=True)
            if key[:16] in indexes and results.compared_queries.get(key, 0).bit_count() < len(vectors)
        ]
        if missing:
            results.similarity |= await repository.compute_cosines(*zip(*missing, strict=True), vectors=vectors)
            results.compared_queries |= dict.fromkeys((key for key, _ in missing), (1 << len(vectors)) - 1)
