"""Cosines of chunks in a search with several queries: those that the retrievers did not compute."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.retrieval.repository import RetrievalRepository
from app.retrieval.retrievers.ranking import ModelQueryVectors, Ranking, RetrieverResults
from app.retrieval.types import ChunkKey

# Maximum number of cosines to compute before the ranking: 0.01 ms each. A search with more of them, in many knowledge
# bases or with many queries, ranks with the cosines of the retrievers.
MAX_COSINES = 4000


async def complete_cosines(
    repository: RetrievalRepository,
    results: RetrieverResults,
    comparisons: Sequence[ModelQueryVectors],
    tenants: Mapping[bytes, UUID],
) -> None:
    """Compute the cosines of all found chunks with all queries, in one statement for each embedding model.

    A retriever compares only the chunks that it finds for a query. Chunks that another query found have a cosine too.

    Args:
        repository: Repository of the search.
        results: Results of the retrievers, whose cosines are completed.
        comparisons: Vectors of all queries, for each embedding model.
        tenants: Owner of each search index, by the 16 bytes of its id.
    """
    all_keys = results.list_keys()
    missing = [
        [
            key
            for key in all_keys
            if key[:16] in item.indexes and results.compared_queries.get(key, 0).bit_count() < len(item.vectors)
        ]
        for item in comparisons
    ]
    if sum(len(keys) * len(item.vectors) for keys, item in zip(missing, comparisons, strict=True)) > MAX_COSINES:
        return
    for keys, (_, vectors, queries) in zip(missing, comparisons, strict=True):
        if not keys:
            continue
        table = await repository.compute_cosine_table(keys, [tenants[key[:16]] for key in keys], vectors=vectors)
        for key, cosines in table.items():
            results.similarity[key] = max(cosines)
            for query, cosine in zip(queries, cosines, strict=True):
                results.cosines[query][key] = cosine
        results.compared_queries |= dict.fromkeys(keys, (1 << len(vectors)) - 1)


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
    for indexes, vectors, _ in ranking.model_query_vectors:
        missing = [
            (key, tenant)
            for key, tenant in zip(keys, tenants, strict=True)
            if key[:16] in indexes and results.compared_queries.get(key, 0).bit_count() < len(vectors)
        ]
        if missing:
            results.similarity |= await repository.compute_cosines(*zip(*missing, strict=True), vectors=vectors)
            results.compared_queries |= dict.fromkeys((key for key, _ in missing), (1 << len(vectors)) - 1)
