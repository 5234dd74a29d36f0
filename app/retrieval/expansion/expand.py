"""The texts of hits, widened: what may be near them, and how hits that come to the same text become one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.documents.types import build_chunk_id, build_node_id
from app.retrieval.repository import ExpansionTarget, RetrievalRepository, TextVersion
from app.retrieval.types import Expansion, Hit, TextSpan

# Whole texts, because the database needs longer to cut five pieces out of one than to send it; of as many documents at
# a time as the memory of a process bears.
MAX_TEXTS_PER_QUERY = 4


async def expand_hits(repository: RetrievalRepository, expansion: Expansion, hits: Sequence[Hit]) -> list[Hit]:
    """The same hits, each with the text that it is widened to; as it was, where its version is there no longer."""
    return await expand_to_ranges(
        repository, hits, await repository.load_ranges(expansion, build_expansion_targets(expansion, hits))
    )


def build_expansion_targets(expansion: Expansion, hits: Sequence[Hit]) -> list[ExpansionTarget]:
    """Where the hits are, and the ids of what they may be widened to."""
    return [
        ExpansionTarget(
            tenant_id=hit.document.tenant_id,
            index_id=UUID(bytes=hit.key[:16]),
            document_id=hit.document.id,
            start=hit.chunk.start,
            end=hit.chunk.end,
            candidate_ids=_build_candidate_ids(expansion, hit),
        )
        for hit in hits
    ]


async def expand_to_ranges(
    repository: RetrievalRepository, hits: Sequence[Hit], ranges: Mapping[int, tuple[int, int]]
) -> list[Hit]:
    """The same hits, those with a range by their position with the text of it."""
    versions = [
        TextVersion(hits[number].document.tenant_id, hits[number].document.id, hits[number].chunk.version)
        for number in ranges
    ]
    documents = list({version.document_id: version for version in versions}.values())
    spans: dict[int, TextSpan] = {}
    for first in range(0, len(documents), MAX_TEXTS_PER_QUERY):
        texts = await repository.load_stored_texts(documents[first : first + MAX_TEXTS_PER_QUERY])
        spans |= _slice_texts(hits, ranges, texts)
    return [replace(hit, expanded_span=spans.get(number)) for number, hit in enumerate(hits)]


def _slice_texts(
    hits: Sequence[Hit], ranges: Mapping[int, tuple[int, int]], texts: Mapping[UUID, str]
) -> dict[int, TextSpan]:
    return {
        number: TextSpan(texts[hits[number].document.id][start:end], start, end)
        for number, (start, end) in ranges.items()
        if hits[number].document.id in texts
    }


def _build_candidate_ids(expansion: Expansion, hit: Hit) -> list[UUID]:
    """Ids are made from places, so neighbours and the nodes above need not be looked for."""
    chunk, document = hit.chunk, hit.document.id
    if expansion.kind == "window":
        span = range(max(0, chunk.ordinal - expansion.window), chunk.ordinal + expansion.window + 1)
        return [build_chunk_id(document, chunk.version, ordinal) for ordinal in span]
    path = tuple(chunk.node_path)
    return [build_node_id(document, chunk.version, path[:depth]) for depth in range(len(path) + 1)]


def drop_overlapping(hits: Sequence[Hit]) -> list[Hit]:
    """Without those that come to the text of a better one, or to another part of it around a passage in there.

    Of a section that is too long each hit has a part with its passage in the middle (pure; best first).
    """
    shown_ranges: dict[UUID, list[tuple[int, int]]] = defaultdict(list)
    remaining = []
    for hit in hits:
        ranges = shown_ranges[hit.document.id]
        if not any(start <= hit.chunk.start and hit.chunk.end <= end for start, end in ranges):
            remaining.append(hit)
            ranges.append((hit.text_span.start, hit.text_span.end))
    return remaining
