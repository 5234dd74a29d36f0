"""The texts of hits, widened: what may be near them, and how hits that come to the same text become one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.documents.types import chunk_id, node_id
from app.retrieval.repository import FoundText, RetrievalRepository
from app.retrieval.types import Expansion, Hit, Passage

# Whole texts, because the database needs longer to cut five pieces out of one than to send it; of as many documents at
# a time as the memory of a process bears.
TEXTS_AT_ONCE = 4


async def widen(
    repository: RetrievalRepository, expansion: Expansion, hits: Sequence[Hit], *, tenant_id: UUID
) -> list[Hit]:
    """The same hits, each with the text that it is widened to; as it was, where its version is there no longer."""
    places = [
        FoundText(
            index_id=UUID(bytes=hit.key[:16]),
            document_id=hit.document.id,
            start=hit.chunk.start,
            end=hit.chunk.end,
            near=_near(expansion, hit),
        )
        for hit in hits
    ]
    ranges = await repository.ranges(expansion, places, tenant_id=tenant_id)
    versions = {hit.document.id: hit.chunk.version for hit in hits}
    wider: dict[int, Passage] = {}
    documents = list(versions)
    for first in range(0, len(documents), TEXTS_AT_ONCE):
        some = {document: versions[document] for document in documents[first : first + TEXTS_AT_ONCE]}
        texts = await repository.stored_texts(some, tenant_id=tenant_id)
        wider |= _cut(hits, ranges, texts)
    return [replace(hit, wider=wider.get(number)) for number, hit in enumerate(hits)]


def _cut(hits: Sequence[Hit], ranges: Mapping[int, tuple[int, int]], texts: Mapping[UUID, str]) -> dict[int, Passage]:
    return {
        number: Passage(texts[hits[number].document.id][start:end], start, end)
        for number, (start, end) in ranges.items()
        if hits[number].document.id in texts
    }


def _near(expansion: Expansion, hit: Hit) -> list[UUID]:
    """Ids are made from places, so neighbours and the nodes above need not be looked for."""
    chunk, document = hit.chunk, hit.document.id
    if expansion.kind == "window":
        span = range(max(0, chunk.ordinal - expansion.window), chunk.ordinal + expansion.window + 1)
        return [chunk_id(document, chunk.version, ordinal) for ordinal in span]
    path = tuple(chunk.node_path)
    return [node_id(document, chunk.version, path[:depth]) for depth in range(len(path) + 1)]


def merged(hits: Sequence[Hit]) -> list[Hit]:
    """Of those that came to the same section or parent the best: that text is there once (pure; best first)."""
    first: dict[tuple[UUID, int, int], Hit] = {}
    for hit in hits:
        first.setdefault((hit.document.id, hit.passage.start, hit.passage.end), hit)
    return list(first.values())
