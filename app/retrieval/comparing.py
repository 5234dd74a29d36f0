"""Of several queries a hit counts as near as the nearest of them is, whichever query's lanes have found it."""

from collections.abc import Sequence
from uuid import UUID

from app.retrieval.lanes import Ranking
from app.retrieval.repository import RetrievalRepository
from app.retrieval.types import Key


async def compare(
    repository: RetrievalRepository, ranking: Ranking, keys: Sequence[Key], tenants: Sequence[UUID]
) -> None:
    """Have the best cosines of these keys among the known ones, where the lanes did not compare them with each query.

    A lane has a hundred rows, and the lexical one those that hold its query's words: what one query's lanes have found
    may be nearer to another.
    """
    found = ranking.found
    for indexes, vectors in ranking.comparisons:
        lacking = [
            (key, tenant)
            for key, tenant in zip(keys, tenants, strict=True)
            if key[:16] in indexes and found.compared.get(key, 0).bit_count() < len(vectors)
        ]
        if lacking:
            found.similarity |= await repository.cosines(*zip(*lacking, strict=True), vectors=vectors)
            found.compared |= dict.fromkeys((key for key, _ in lacking), (1 << len(vectors)) - 1)
