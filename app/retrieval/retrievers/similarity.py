"""Of several queries a hit counts as near as the nearest of them is, whichever query's lanes have found it."""

from collections.abc import Sequence
from uuid import UUID

from app.retrieval.repository import RetrievalRepository
from app.retrieval.retrievers.ranking import Ranking
from app.retrieval.types import ChunkKey


async def fill_missing_similarities(
    repository: RetrievalRepository, ranking: Ranking, keys: Sequence[ChunkKey], tenants: Sequence[UUID]
) -> None:
    """Have the best cosines of these keys among the known ones, where the lanes did not compare them with each query.

    A lane has a hundred rows, and the lexical one those that hold its query's words: what one query's lanes have found
    may be nearer to another.
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
