"""Loaders of section summaries and keywords. They extract at the request: nothing is stored."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from uuid import UUID

from app.db.driver import DriverReader
from app.documents.types import build_chunk_id, build_node_id
from app.lexical.analyzers import get_analyzer, parse_analyzer_version
from app.lexical.weights import compute_term_id
from app.section_notes.extraction import TermIds, extract_notes
from app.section_notes.repository import ChunkKey, ChunkPlace, NodeKey, SectionRepository, StoredSection
from app.section_notes.types import Keyword, SectionChunk, SectionedChunk, SectionNote, SectionSummary
from app.threads import raise_if_cancelled, run_in_thread

MAX_DEPTH = 6
"""Maximum number of sections above one chunk: the root and the innermost sections."""
MAX_SAMPLED_CHUNKS, MIN_SAMPLED_CHUNKS = 16, 4
"""Numbers of chunks of a section that are read. Of a longer section, evenly spaced chunks are read."""
MAX_CHUNKS = 2_000
"""Number of chunks of all sections together, up to which each section has ``MAX_SAMPLED_CHUNKS``."""
MAX_LISTED_CHUNKS = 1_000
"""Number of chunks of a document whose positions are read. Of a longer document, evenly spaced ones are read."""
MIN_LISTED_CHUNKS = 8
"""Number of positions in a section below which all positions around the chunk are read."""
KEYWORD_TERMS = 200
"""Number of terms of a section whose frequencies are read."""

Owners = Mapping[NodeKey, ChunkPlace]
"""A requested chunk of each section."""


async def load_parent_summaries(
    reader: DriverReader, chunks: Sequence[SectionedChunk]
) -> Mapping[SectionedChunk, Sequence[SectionSummary]]:
    """Load summaries of the sections above chunks, outermost first.

    Args:
        reader: Reader of a transaction of the caller's tenant.
        chunks: Chunks that the caller may read.

    Returns:
        The summaries by chunk.
    """
    paths = {chunk: _list_node_keys(chunk) for chunk in chunks}
    notes = await _load_notes(reader, paths, needs_keywords=False)
    return {chunk: [notes[key].summary for key in keys if key in notes] for chunk, keys in paths.items()}


async def load_keywords(
    reader: DriverReader, chunks: Sequence[SectionedChunk]
) -> Mapping[SectionedChunk, Sequence[Keyword]]:
    """Load the keywords of the innermost section of each chunk, best first.

    Args:
        reader: Reader of a transaction of the caller's tenant.
        chunks: Chunks that the caller may read.

    Returns:
        The keywords by chunk.
    """
    paths = {chunk: _list_node_keys(chunk) for chunk in chunks}
    sections = await SectionRepository(reader).load_sections(list({key for keys in paths.values() for key in keys}))
    innermost = {chunk: [key for key in keys if key in sections][-1:] for chunk, keys in paths.items()}
    notes = await _load_notes(reader, innermost, needs_keywords=True)
    return {
        chunk: [word for key in keys if key in notes for word in notes[key].keywords]
        for chunk, keys in innermost.items()
    }


def _list_node_keys(chunk: SectionedChunk) -> list[NodeKey]:
    """Return the keys of the nodes above a chunk, outermost first."""
    path = tuple(chunk.node_path)
    depths = [0, *range(max(1, len(path) - MAX_DEPTH + 2), len(path) + 1)]
    return [
        NodeKey(chunk.tenant_id, chunk.document_id, build_node_id(chunk.document_id, chunk.version, path[:depth]))
        for depth in depths
    ]


async def _load_notes(
    reader: DriverReader, paths: Mapping[SectionedChunk, Sequence[NodeKey]], *, needs_keywords: bool
) -> dict[NodeKey, SectionNote]:
    """Load the notes of a chat model, and extract the notes of all other sections."""
    repository = SectionRepository(reader)
    sections = await repository.load_sections(list(dict.fromkeys(key for keys in paths.values() for key in keys)))
    places = await repository.load_places(list(paths))
    owners = {key: places[chunk] for chunk, keys in paths.items() if chunk in places for key in keys if key in sections}
    sections = {key: section for key, section in sections.items() if key in owners}
    samples = await _load_samples(repository, sections, owners)
    term_functions = await _load_term_functions(repository, list(owners.values()))
    idf = await _load_idf(repository, samples, owners)
    return await run_in_thread(_build_notes, sections, samples, term_functions, idf, needs_keywords)


async def _load_samples(
    repository: SectionRepository, sections: Mapping[NodeKey, StoredSection], owners: Owners
) -> dict[NodeKey, list[SectionChunk]]:
    """Load chunks of each section without stored notes, in reading order."""
    extracted = [section for section in sections.values() if section.summary is None]
    listed: dict[UUID, dict[int, ChunkKey]] = {}
    for section in extracted:
        place = owners[section.key]
        if place.document_id not in listed:
            listed[place.document_id] = _list_spaced_keys(place)
        listed[place.document_id] |= _list_near_keys(place)
    ranges = await repository.load_ranges([key for keys in listed.values() for key in keys.values()])
    count = max(MIN_SAMPLED_CHUNKS, min(MAX_SAMPLED_CHUNKS, MAX_CHUNKS // max(1, len(extracted))))
    chosen = {
        section.key: _choose_chunks(section, owners[section.key], listed[section.key.document_id], ranges, count)
        for section in extracted
    }
    chunks = await repository.load_chunks(list(dict.fromkeys(key for keys in chosen.values() for key in keys)))
    return {section: [chunks[key] for key in keys if key in chunks] for section, keys in chosen.items()}


def _list_spaced_keys(place: ChunkPlace) -> dict[int, ChunkKey]:
    """Return evenly spaced chunks of the document, by their ordinal."""
    return {ordinal: _build_key(place, ordinal) for ordinal in range(0, place.chunk_count, _find_step(place))}


def _list_near_keys(place: ChunkPlace) -> dict[int, ChunkKey]:
    """Return the chunks around a chunk of a long document. They contain each section with few listed chunks."""
    step = _find_step(place)
    width = 0 if step == 1 else step * MIN_LISTED_CHUNKS
    first, last = max(0, place.ordinal - width), min(place.chunk_count - 1, place.ordinal + width)
    return {ordinal: _build_key(place, ordinal) for ordinal in range(first, last + 1)}


def _find_step(place: ChunkPlace) -> int:
    return max(1, math.ceil(place.chunk_count / MAX_LISTED_CHUNKS))


def _build_key(place: ChunkPlace, ordinal: int) -> ChunkKey:
    return ChunkKey(place.tenant_id, place.index_id, build_chunk_id(place.document_id, place.version, ordinal))


def _choose_chunks(
    section: StoredSection,
    place: ChunkPlace,
    listed: Mapping[int, ChunkKey],
    ranges: Mapping[ChunkKey, tuple[int, int]],
    max_count: int,
) -> list[ChunkKey]:
    """Choose evenly spaced chunks of a section. They do not depend on the requested chunk."""
    inside = [
        ordinal
        for ordinal, key in sorted(listed.items())
        if key in ranges and ranges[key][0] < section.end and ranges[key][1] > section.start
    ]
    spaced = [ordinal for ordinal in inside if ordinal % _find_step(place) == 0]
    ordinals = spaced if len(spaced) >= MIN_LISTED_CHUNKS else inside
    count = min(len(ordinals), max_count)
    return [listed[ordinals[number * len(ordinals) // count]] for number in range(count)]


async def _load_term_functions(repository: SectionRepository, places: Sequence[ChunkPlace]) -> dict[UUID, TermIds]:
    """Return the function that finds the terms of a word, by document."""
    documents = list(dict.fromkeys((place.tenant_id, place.index_id, place.document_id) for place in places))
    analyzers = await repository.load_analyzers(documents)
    return {
        document_id: _get_term_function(language or "english", parse_analyzer_version(analyzer))
        for document_id, (language, analyzer) in analyzers.items()
    }


@lru_cache(maxsize=64)
def _get_term_function(language: str, version: int) -> TermIds:
    tokenize = get_analyzer(language, version).tokenize

    def find_term_ids(word: str) -> list[int]:
        return [compute_term_id(term) for term in tokenize(word)]

    return find_term_ids


async def _load_idf(
    repository: SectionRepository, samples: Mapping[NodeKey, Sequence[SectionChunk]], owners: Owners
) -> dict[NodeKey, dict[int, float]]:
    """Load the idf of the terms with the greatest weights of each section."""
    terms_by_section = {key: _list_heavy_terms(chunks) for key, chunks in samples.items()}
    indexes: dict[tuple[UUID, UUID], set[int]] = {}
    for key, terms in terms_by_section.items():
        indexes.setdefault((owners[key].tenant_id, owners[key].index_id), set()).update(terms)
    idf: dict[UUID, dict[int, float]] = {}
    for (tenant_id, index_id), terms_of_index in indexes.items():
        total, counts = await repository.load_frequencies(tenant_id, index_id, sorted(terms_of_index))
        idf[index_id] = {
            term: math.log(1 + (max(total, count) - count + 0.5) / (max(0, count) + 0.5))
            for term, count in counts.items()
        }
    return {
        key: {term: idf[owners[key].index_id].get(term, 0.0) for term in terms}
        for key, terms in terms_by_section.items()
    }


def _list_heavy_terms(chunks: Sequence[SectionChunk]) -> list[int]:
    sums: dict[int, float] = {}
    for chunk in chunks:
        for term, weight in chunk.weights.items():
            sums[term] = sums.get(term, 0.0) + weight
    return sorted(sums, key=lambda term: (-sums[term], term))[:KEYWORD_TERMS]


def _build_notes(
    sections: Mapping[NodeKey, StoredSection],
    samples: Mapping[NodeKey, Sequence[SectionChunk]],
    term_functions: Mapping[UUID, TermIds],
    idf: Mapping[NodeKey, Mapping[int, float]],
    needs_keywords: bool,
) -> dict[NodeKey, SectionNote]:
    notes = {}
    for key, section in sections.items():
        raise_if_cancelled()
        if section.summary is not None:
            stored = [Keyword(word, 1.0, "model") for word in section.keywords]
            notes[key] = SectionNote(
                SectionSummary(key.node_id, section.kind, section.title, section.summary, "model"), stored
            )
            continue
        summary, keywords = extract_notes(
            samples[key], idf[key], term_functions[key.document_id], needs_keywords=needs_keywords
        )
        notes[key] = SectionNote(SectionSummary(key.node_id, section.kind, section.title, summary), keywords)
    return notes
