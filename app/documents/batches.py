"""How many documents one transaction changes: as many as it has time for."""

from collections.abc import Iterable
from itertools import accumulate
from uuid import UUID

# Of a deletion, all of whose statements have two minutes each.
BATCH_CHUNKS = 20_000


def with_chunks(documents: Iterable[tuple[UUID, int]], chunks: int) -> list[UUID]:
    """The first of ``documents``, each with its number of chunks, that have about ``chunks``: one at least."""
    rows = list(documents)
    before = accumulate((count for _, count in rows), initial=0)
    return [one for (one, _), so_many in zip(rows, before, strict=False) if so_many < chunks]
