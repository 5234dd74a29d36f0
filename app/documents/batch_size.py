"""How many documents one transaction changes: as many as it has time for."""

from collections.abc import Iterable
from itertools import accumulate
from uuid import UUID

# Of a deletion, all of whose statements have two minutes each.
MAX_BATCH_CHUNKS = 20_000


def take_until_chunks(documents: Iterable[tuple[UUID, int]], max_chunks: int) -> list[UUID]:
    """The first of ``documents``, each with its number of chunks, that have about ``max_chunks``: one at least."""
    rows = list(documents)
    preceding_counts = accumulate((count for _, count in rows), initial=0)
    return [
        document_id
        for (document_id, _), preceding_count in zip(rows, preceding_counts, strict=False)
        if preceding_count < max_chunks
    ]
