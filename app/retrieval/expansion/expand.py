"""Expansion of hits to a larger text around the chunk, and removal of hits that repeat the text of a better hit."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.documents.source_map import SourceMap, find_place
from app.documents.table_heads import find_head_at, find_row_start
from app.documents.types import build_chunk_id, build_node_id
from app.retrieval.repository import ExpansionTarget, RetrievalRepository, StoredSource, TextVersion
from app.retrieval.types import Expansion, Hit, TextSpan

# Whole texts are loaded, because the database needs longer to cut five pieces out of a text than to send the text. A
# limit on the texts that are loaded together bounds the memory of the process.
MAX_TEXTS_PER_QUERY = 4
MIN_NEIGHBOUR_CHARACTERS = 60
"""Minimum length that the chunks around a chunk are expected to have."""


async def expand_hits(repository: RetrievalRepository, expansion: Expansion, hits: Sequence[Hit]) -> list[Hit]:
    """Expand each hit; hits whose document version is no longer stored stay unchanged."""
    return await expand_to_ranges(
        repository, hits, await repository.load_ranges(expansion, build_expansion_targets(expansion, hits))
    )


def build_expansion_targets(expansion: Expansion, hits: Sequence[Hit]) -> list[ExpansionTarget]:
    """Build the range of each hit, with the ids of the chunks or nodes that it may be expanded to."""
    return [
        ExpansionTarget(
            tenant_id=hit.document.tenant_id,
            index_id=UUID(bytes=hit.key[:16]),
            document_id=hit.document.id,
            start=hit.chunk.start,
            end=hit.chunk.end,
            candidate_ids=_build_candidate_ids(expansion, hit),
            page=hit.chunk.page,
            page_end=hit.chunk.page_end,
        )
        for hit in hits
    ]


async def expand_to_ranges(
    repository: RetrievalRepository, hits: Sequence[Hit], ranges: Mapping[int, tuple[int, int]]
) -> list[Hit]:
    """Give hits the stored text of a range.

    Args:
        repository: Repository of the search.
        hits: Hits to expand.
        ranges: Start and end of the expanded text by the position of the hit, in code points.

    Returns:
        The hits in their order. Hits without a range, or whose document version is no longer stored, are not expanded.
    """
    versions = [
        TextVersion(hits[number].document.tenant_id, hits[number].document.id, hits[number].chunk.version)
        for number in ranges
    ]
    documents = list({version.document_id: version for version in versions}.values())
    spans: dict[int, TextSpan] = {}
    for first in range(0, len(documents), MAX_TEXTS_PER_QUERY):
        texts = await repository.load_stored_texts(documents[first : first + MAX_TEXTS_PER_QUERY])
        spans |= _slice_texts(hits, ranges, texts)
    pages = await _load_pages(repository, hits, spans)
    return [
        replace(hit, expanded_span=spans.get(number), expanded_pages=pages.get(number))
        for number, hit in enumerate(hits)
    ]


async def _load_pages(
    repository: RetrievalRepository, hits: Sequence[Hit], spans: Mapping[int, TextSpan]
) -> dict[int, tuple[int, int]]:
    """Load the first and last page of each expanded text, by the position of the hit."""
    numbers = [number for number in spans if hits[number].chunk.page is not None]
    if not numbers:
        return {}
    targets = [_build_page_target(hits[number], spans[number]) for number in numbers]
    return {numbers[position]: pages for position, pages in (await repository.load_pages(targets)).items()}


def _build_page_target(hit: Hit, span: TextSpan) -> ExpansionTarget:
    """Build the range of an expanded text, with the ids of the chunks that it may contain.

    The chunks around a chunk have similar lengths. Their number is estimated with chunks of a third of its length.
    """
    chunk, document = hit.chunk, hit.document
    length = max(MIN_NEIGHBOUR_CHARACTERS, (chunk.end - chunk.start) // 3)
    first = max(0, chunk.ordinal - 1 - max(0, chunk.start - span.start) // length)
    # Deleted chunks leave gaps, so the last index may be higher than the number of chunks.
    last = chunk.ordinal + 1 + max(0, span.end - chunk.end) // length
    return ExpansionTarget(
        tenant_id=document.tenant_id,
        index_id=UUID(bytes=hit.key[:16]),
        document_id=document.id,
        start=span.start,
        end=span.end,
        candidate_ids=[build_chunk_id(document.id, chunk.version, ordinal) for ordinal in range(first, last + 1)],
    )


def _slice_texts(
    hits: Sequence[Hit], ranges: Mapping[int, tuple[int, int]], texts: Mapping[UUID, StoredSource]
) -> dict[int, TextSpan]:
    maps = {
        document: (SourceMap.from_stored(stored.source_map), SourceMap.from_stored(stored.place_map))
        for document, stored in texts.items()
    }
    spans: dict[int, TextSpan] = {}
    for number, (start, end) in ranges.items():
        document = hits[number].document.id
        if document in texts:
            spans[number] = _slice_text(texts[document].text, start, end, hits[number], *maps[document])
    return spans


def _slice_text(
    text: str, start: int, end: int, hit: Hit, source_map: SourceMap | None, place_map: SourceMap | None
) -> TextSpan:
    """Return the text of a range. A range that begins inside a table begins with a whole row, and repeats the head."""
    chunk = hit.chunk
    if start == chunk.start:
        table_head = chunk.table_head
    elif (table_head := find_head_at(text, start)) is not None:
        start = find_row_start(text, start, chunk.start)
    content = text[start:end] if table_head is None else f"{table_head}\n{text[start:end]}"
    source_range = None if source_map is None else source_map.find_range(start, end)
    return TextSpan(content, start, end, table_head, source_range, find_place(place_map, start, end))


def _build_candidate_ids(expansion: Expansion, hit: Hit) -> list[UUID]:
    """Compute the ids of the neighbour chunks or ancestor nodes, which are derived from positions and need no query."""
    chunk, document = hit.chunk, hit.document.id
    if expansion.kind == "window":
        span = range(max(0, chunk.ordinal - expansion.window), chunk.ordinal + expansion.window + 1)
        return [build_chunk_id(document, chunk.version, ordinal) for ordinal in span]
    path = tuple(chunk.node_path)
    return [build_node_id(document, chunk.version, path[:depth]) for depth in range(len(path) + 1)]


def drop_overlapping(hits: Sequence[Hit]) -> list[Hit]:
    """Drop the hits whose chunk is inside the text of a better hit (pure).

    A long section gives each of its hits a different part, with the chunk in the middle. A chunk inside a shown part
    would mostly repeat that part.

    Args:
        hits: Hits, best first.

    Returns:
        The remaining hits, best first.
    """
    shown_ranges: dict[UUID, list[tuple[int, int]]] = defaultdict(list)
    remaining = []
    for hit in hits:
        ranges = shown_ranges[hit.document.id]
        if not any(start <= hit.chunk.start and hit.chunk.end <= end for start, end in ranges):
            remaining.append(hit)
            ranges.append((hit.text_span.start, hit.text_span.end))
    return remaining
