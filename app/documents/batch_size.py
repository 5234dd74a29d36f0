"""Limit on the chunks of the documents that one transaction changes, so that no statement exceeds its timeout."""

from collections.abc import Iterable
from itertools import accumulate
from uuid import UUID

# The maximum number of chunks that one transaction deletes. Each statement of a deletion may run for two minutes.
MAX_BATCH_CHUNKS = 20_000


def take_until_chunks(documents: Iterable[tuple[UUID, int]], max_chunks: int) -> list[UUID]:
    """Return documents from the beginning until they have ``max_chunks`` chunks together, at least one document.

    Args:
        documents: Document ids, each with the document's number of chunks.
        max_chunks: The document that reaches this number is the last document, so the sum may exceed the number.

    Returns:
        The ids, in the given order.
    """
    rows = list(documents)
    preceding_counts = accumulate((count for _, count in rows), initial=0)
    return [
        document_id
        for (document_id, _), preceding_count in zip(rows, preceding_counts, strict=False)
        if preceding_count < max_chunks
    ]
