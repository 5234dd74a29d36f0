"""The texts of hits, widened: what may be near them, and how hits that come to the same text become one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.documents.types import chunk_id, node_id
from app.retrieval.repository import FoundText, RetrievalRepository, TextVersion
from app.retrieval.types import Expansion, Hit, Passage

# Whole texts, because the database needs longer to cut five pieces out of one than to send it; of as many documents at
# a time as the memory of a process bears.
TEXTS_AT_ONCE = 4


async def widen(repository: RetrievalRepository, expansion: Expansion, hits: Sequence[Hit]) -> list[Hit]:
    """The same hits, each with the text that it is widened to; as it was, where its version is there no longer."""
    return await widened_to(repository, hits, await repository.ranges(expansion, places(expansion, hits)))


def places(expansion: Expansion, hits: Sequence[Hit]) -> list[FoundText]:
    """Where the hits are, and the ids of what they may be widened to."""
    return [
        FoundText(
            tenant_id=hit.document.tenant_id,
            index_id=UUID(bytes=hit.key[:16]),
            document_id=hit.document.id,
            start=hit.chunk.start,
            end=hit.chunk.end,
            near=_near(expansion, hit),
        )
        for hit in hits
    ]


async def widened_to(
    repository: RetrievalRepository, hits: Sequence[Hit], ranges: Mapping[int, tuple[int, int]]
) -> list[Hit]:
    """The same hits, those with a range by their position with the text of it."""
    versions = [
        TextVersion(hits[number].document.tenant_id, hits[number].document.id, hits[number].chunk.version)
        for number in ranges
    ]
    documents = list({one.document_id: one for one in versions}.values())
    wider: dict[int, Passage] = {}
    for first in range(0, len(documents), TEXTS_AT_ONCE):
        texts = await repository.stored_texts(documents[first : first + TEXTS_AT_ONCE])
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
    """Without those that come to the text of a better one, or to another part of it around a passage in there.

    Of a section that is too long each hit has a part with its passage in the middle (pure; best first).
    """
    shown: dict[UUID, list[tuple[int, int]]] = defaultdict(list)
    kept = []
    for hit in hits:
        texts = shown[hit.document.id]
        if not any(start <= hit.chunk.start and hit.chunk.end <= end for start, end in texts):
            kept.append(hit)
            texts.append((hit.passage.start, hit.passage.end))
    return kept
