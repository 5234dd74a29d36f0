"""SQL of searches: both retrievers in one round trip, and the loading of chunks, texts and vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector

from app.db.driver import DriverReader
from app.db.statements import Record, Statement, parse_statement
from app.filters import CompiledFilter
from app.retrieval.expansion_statements import EXPAND, PAGES, PARENT_SPANS, STORED_TEXTS
from app.retrieval.explain import RetrieverPlan
from app.retrieval.hit_parts import HitChunk, HitDocument
from app.retrieval.lazy_metadata import LazyMetadata
from app.retrieval.types import ChunkKey, Expansion, RetrieverName

Floats = npt.NDArray[np.float32]
# Maximum number of retriever queries in one statement. Other requests are served between two statements, and a
# statement of hundreds of queries is slow to plan.
MAX_CALLS_PER_STATEMENT = 50
RETRIEVER_TABLES: dict[RetrieverName, str] = {"dense": "chunk_embedding", "lexical": "chunk_lexical"}


@dataclass(frozen=True, slots=True)
class RetrieverQuery:
    """One query in one search index.

    Attributes:
        tenant_id: Tenant of the search index.
        index_id: Id of the search index.
        dim: Dimensions of the search index.
        vector: Vector of the query; None leaves out the dense retriever.
        term_ids: Ids of the query's terms; empty leaves out the lexical retriever.
        keys: Key of each term in the search index.
        scopes: Scopes that the caller may read.
        filter: Compiled metadata filter.
        only_similarity: Whether the vector is used only for the cosines of lexical rows, without the dense retriever.
        is_slow: Whether both retrievers are slow enough to justify a second connection.
        max_cosines: Number of best lexical rows that get a cosine; None for all rows.
        second_pass_min_similarity: Value of ``min_similarity`` in the second pass.
        min_similarity: Minimum cosine of lexical rows with ``vector`` or any of ``other_vectors``; None for no limit.
        other_vectors: Vectors of all queries, for ``min_similarity``.
        is_user_restricted: Whether term weights count only the chunks of ``scopes``. A score then reveals nothing about
            the texts of other users.
    """

    tenant_id: UUID
    index_id: UUID
    dim: int
    vector: Floats | None
    term_ids: Sequence[int]
    keys: Sequence[int]
    scopes: Sequence[UUID]
    filter: CompiledFilter
    only_similarity: bool = False
    is_slow: bool = False
    max_cosines: int | None = None
    second_pass_min_similarity: float | None = None
    min_similarity: float | None = None
    other_vectors: Sequence[Floats] = ()
    is_user_restricted: bool = False

    def to_second_pass(self, now: datetime) -> Self:
        """Return a copy that skips expired documents and rows below the score threshold."""
        return replace(self, filter=self.filter.exclude_expired(now), min_similarity=self.second_pass_min_similarity)

    @property
    def needs_search(self) -> bool:
        """Whether at least one retriever has something to search."""
        return (self.vector is not None and not self.only_similarity) or bool(self.term_ids)


class RetrieverHits(NamedTuple):
    """Rows that one retriever found for one ``RetrieverQuery``, unsorted.

    The sequences have the same length and order.

    Attributes:
        call_position: Index of the ``RetrieverQuery`` in the calls.
        retriever: Retriever that found the rows.
        chunk_ids: Ids of the chunks.
        scores: Scores of the retriever: cosine or BM25.
        similarities: Cosines with the query; None if unknown.
    """

    call_position: int
    retriever: RetrieverName
    chunk_ids: Sequence[UUID]
    scores: Sequence[float]
    similarities: Sequence[float | None]


class HitRow(NamedTuple):
    """Chunk with its document, and its cosine with the vector of the call; None without a vector."""

    chunk: HitChunk
    document: HitDocument
    cosine: float | None


class ExpansionTarget(NamedTuple):
    """Range of a document's text, with the ids of the chunks (for a window) or nodes that it may be expanded to."""

    tenant_id: UUID
    index_id: UUID
    document_id: UUID
    start: int
    end: int
    candidate_ids: Sequence[UUID]
    page: int | None = None
    page_end: int | None = None


class TextVersion(NamedTuple):
    """Reference to the text of one version of a document."""

    tenant_id: UUID
    document_id: UUID
    version: int


class ParentSpans(NamedTuple):
    """Ranges in stored texts, as offsets in code points.

    Attributes:
        parents: Ranges of the parent nodes by the position of an ``ExpansionTarget``.
        chunks: Ranges of all chunks by document.
    """

    parents: Mapping[int, Sequence[tuple[int, int]]]
    chunks: Mapping[UUID, Sequence[tuple[int, int]]]


class StoredSource(NamedTuple):
    """Stored text of a document, with the stored forms of its positions and places in the file."""

    text: str
    source_map: bytes | None
    place_map: bytes | None


class RetrievalRepository:
    """Repository for the searches of one tenant, which reads the tenant's rows and shared rows.

    The argument ``tenants`` of the methods contains the owner of each row.
    """

    def __init__(self, reader: DriverReader) -> None:
        self.reader = reader

    async def run_retrievers(self, calls: Sequence[RetrieverQuery], *, size: int) -> list[RetrieverHits]:
        """Run both retrievers for each call.

        Args:
            calls: Queries in search indexes. Up to ``MAX_CALLS_PER_STATEMENT`` of them share a statement.
            size: Maximum number of rows of each retriever for each call.

        Returns:
            One list for each call and retriever that found something.
        """
        lists: list[RetrieverHits] = []
        for first in range(0, len(calls), MAX_CALLS_PER_STATEMENT):
            batch = calls[first : first + MAX_CALLS_PER_STATEMENT]
            for row in await self.reader.fetch_rows(
                _build_search_statement(len(batch)), _build_search_values(batch, size)
            ):
                lists.append(RetrieverHits(first + row[0], *row[1:]))
        return lists

    async def load_chunks(
        self,
        keys: Sequence[ChunkKey],
        *,
        tenants: Sequence[UUID],
        retriever: RetrieverName,
        vector: Floats | None = None,
    ) -> dict[ChunkKey, HitRow]:
        """Load chunks with their documents. Deleted chunks, and chunks of expired documents, are left out.

        Args:
            keys: Keys of the chunks.
            tenants: Owner of each chunk.
            retriever: Retriever whose table supplies the metadata. The other retriever's table may be unavailable.
            vector: Vector for the cosines; None for none.

        Returns:
            The rows by key.
        """
        key_values = _build_key_values(keys, tenants)
        if vector is None:
            rows = await self.reader.fetch_rows(_READ_CHUNKS[retriever], key_values)
        else:
            vector_values = {"vector": HalfVector(vector), "dim": len(vector)}
            rows = await self.reader.fetch_rows(_READ_CHUNKS_WITH_COSINES[retriever], key_values | vector_values)
        return {row[0].bytes + row[1].bytes: _parse_row(row) for row in rows}

    async def load_ranges(self, expansion: Expansion, chunks: Sequence[ExpansionTarget]) -> dict[int, tuple[int, int]]:
        """Load the range to which each target is expanded, by the position of the target."""
        rows = await self.reader.fetch_rows(EXPAND[expansion.kind], _build_expansion_values(expansion, chunks))
        return {row[0]: (row[1], row[2]) for row in rows}

    async def load_pages(self, spans: Sequence[ExpansionTarget]) -> dict[int, tuple[int, int]]:
        """Load the first and last page of each range, by the position of the range. Ranges without pages are missing.

        Args:
            spans: Ranges, with the ids of all chunks that may share a character with the range.
        """
        rows = [(number, span, id_) for number, span in enumerate(spans) for id_ in span.candidate_ids]
        values = {
            "numbers": [number for number, _, _ in rows],
            "tenants": [span.tenant_id for _, span, _ in rows],
            "indexes": [span.index_id for _, span, _ in rows],
            "starts": [span.start for _, span, _ in rows],
            "ends": [span.end for _, span, _ in rows],
            "near": [id_ for _, _, id_ in rows],
        }
        return {row[0]: (row[1], row[2]) for row in await self.reader.fetch_rows(PAGES, values) if row[1] is not None}

    async def load_parent_spans(self, expansion: Expansion, chunks: Sequence[ExpansionTarget]) -> ParentSpans:
        """Load the ranges of each target's parents up to the maximum length, and of all chunks of the documents."""
        rows = await self.reader.fetch_rows(PARENT_SPANS, _build_expansion_values(expansion, chunks))
        spans = [(row["number"], row["document_id"], list(zip(row[2], row[3], strict=True))) for row in rows]
        return ParentSpans(
            parents={number: ranges for number, _, ranges in spans if number is not None},
            chunks={document: ranges for number, document, ranges in spans if number is None},
        )

    async def load_stored_texts(self, versions: Sequence[TextVersion]) -> dict[UUID, StoredSource]:
        """Load the texts by document; a version that is no longer stored is missing."""
        tenants, documents, numbers = (list(column) for column in zip(*versions, strict=True))
        values = {"tenants": tenants, "documents": documents, "versions": numbers}
        return {row[0]: StoredSource(*row[1:]) for row in await self.reader.fetch_rows(STORED_TEXTS, values)}

    async def load_vectors(self, keys: Sequence[ChunkKey], *, tenants: Sequence[UUID]) -> dict[ChunkKey, list[float]]:
        """Load the stored vectors of chunks. Chunks without a vector are missing."""
        rows = await self.reader.fetch_rows(_VECTORS, _build_key_values(keys, tenants))
        return {row[0].bytes + row[1].bytes: row[2].to_list() for row in rows}

    async def compute_cosines(
        self, keys: Sequence[ChunkKey], tenants: Sequence[UUID], *, vectors: Sequence[Floats]
    ) -> dict[ChunkKey, float]:
        """Compute the highest cosine of each chunk with any of the vectors. Chunks without a vector are missing."""
        vector_values = {"vectors": [HalfVector(vector) for vector in vectors], "dim": len(vectors[0])}
        rows = await self.reader.fetch_rows(_BEST_COSINES, _build_key_values(keys, tenants) | vector_values)
        return {row[0].bytes + row[1].bytes: row[2] for row in rows}

    async def compute_cosine_table(
        self, keys: Sequence[ChunkKey], tenants: Sequence[UUID], *, vectors: Sequence[Floats]
    ) -> dict[ChunkKey, list[float]]:
        """Compute the cosine of each chunk with each of the vectors. Chunks without a vector are missing."""
        vector_values = {"vectors": [HalfVector(vector) for vector in vectors], "dim": len(vectors[0])}
        rows = await self.reader.fetch_rows(_COSINE_TABLE, _build_key_values(keys, tenants) | vector_values)
        return {row[0].bytes + row[1].bytes: row[2] for row in rows}

    async def load_plan(self, call: RetrieverQuery, *, size: int) -> RetrieverPlan:
        """Load the plan of the retrievers for a call."""
        values = _build_scope_values(call) | {"size": size, "terms": len(call.term_ids)}
        return RetrieverPlan(*(await self.reader.fetch_rows(_PLAN, values))[0])


def _build_search_values(calls: Sequence[RetrieverQuery], size: int) -> dict[str, Any]:
    values: dict[str, Any] = {"size": size}
    for number, call in enumerate(calls):
        call_values = _build_scope_values(call) | {
            "v": None if call.vector is None else HalfVector(call.vector),
            "d": call.dim,
            "w": call.term_ids,
            "k": call.keys,
            "m": 0 if call.only_similarity else size,
            "o": call.max_cosines,
            # Slightly lower, because callers see rounded similarities.
            "h": None if call.min_similarity is None else call.min_similarity - 1e-6,
            "n": None if call.min_similarity is None else [HalfVector(vector) for vector in call.other_vectors],
            "a": call.is_user_restricted,
        }
        values |= {f"{name}{number}": value for name, value in call_values.items()}
    return values


def _build_scope_values(call: RetrieverQuery) -> dict[str, Any]:
    """Build the parameters that select the rows of a call."""
    contains, path, lookups = call.filter.sql_params
    return {"t": call.tenant_id, "i": call.index_id, "s": call.scopes, "c": contains, "p": path, "l": lookups}


def _build_expansion_values(expansion: Expansion, chunks: Sequence[ExpansionTarget]) -> dict[str, Any]:
    """Build the parameters of the expansion statements: one row for each candidate id of each target."""
    rows = [(number, target, id_) for number, target in enumerate(chunks) for id_ in target.candidate_ids]
    return {
        "numbers": [number for number, _, _ in rows],
        "tenants": [target.tenant_id for _, target, _ in rows],
        "indexes": [target.index_id for _, target, _ in rows],
        "documents": [target.document_id for _, target, _ in rows],
        "starts": [target.start for _, target, _ in rows],
        "ends": [target.end for _, target, _ in rows],
        "pages": [target.page for _, target, _ in rows],
        "last_pages": [target.page if target.page_end is None else target.page_end for _, target, _ in rows],
        "near": [id_ for _, _, id_ in rows],
        "most": expansion.max_characters,
    }


def _build_key_values(keys: Sequence[ChunkKey], tenants: Sequence[UUID]) -> dict[str, Any]:
    """Build the parameters that statements unnest to find chunks by key."""
    # The driver also accepts hexadecimal digits, which are faster to create than UUID objects.
    indexes, chunks = [key[:16].hex() for key in keys], [key[16:].hex() for key in keys]
    return {"tenants": tenants, "indexes": indexes, "chunks": chunks}


@lru_cache(maxsize=128)
def _build_search_statement(call_count: int) -> Statement:
    """Build the statement for a number of calls. It is cached, because parsing its parameters takes time."""
    return parse_statement(" union all ".join(_SEARCH.replace("{n}", str(number)) for number in range(call_count)))


# One row for each retriever, because the database builds arrays faster than the driver decodes two hundred rows.
_SEARCH = """
select {n} as call, h.retriever, array_agg(h.chunk_id), array_agg(h.score), array_agg(h.similarity)
  from hybrid_search(:t{n}, :i{n}, :v{n}, :d{n}, :w{n}, :k{n}, :s{n}, :c{n}, :p{n}, :m{n}, :size,
                     :l{n}, :o{n}, :h{n}, :n{n}, :a{n}) h group by h.retriever"""
# The chunk's columns have the order of HitChunk. Metadata comes from the retriever's table, so it belongs to the found
# version: the document row may be of a newer version that is queued or failed. Both tables have it, so one of them may
# be unavailable.
# `offset 0` forces look-ups by key. With a plain join and stale statistics, the planner would first read all documents
# and chunks of the tenant.
# Metadata is read as text. The driver would decode the JSON of every row, and many rows are ties that become no result.
_CHUNKS = """
select c.index_id, c.id, c.version, c.ordinal, c.content, c.start_offset, c.end_offset, c.page, c.page_end, c.slide,
       c.section_titles, c.node_path, c.image_ordinal, c.media_type, l.metadata::text as search_metadata,
       c.table_head_length, c.source_start, c.source_end, c.place_start, c.place_end, c.tenant_id, c.document_id,
       d.chunk_count, d.metadata::text as own, {cosine}
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from chunk c
                      where c.tenant_id = k.tenant_id and c.index_id = k.index_id and c.id = k.id offset 0) c
 cross join lateral (select l.metadata from {table} l
                      where l.tenant_id = k.tenant_id and l.index_id = k.index_id and l.chunk_id = k.id offset 0) l
 cross join lateral (select d.chunk_count, case when c.metadata <> '{}' then d.metadata end as metadata
                       from document d where d.tenant_id = k.tenant_id and d.id = c.document_id
                        and (d.expires_at is null or d.expires_at > now()) offset 0) d"""
_COSINE = """(select (1 - (e.embedding <=> :vector))::real from chunk_embedding e
         where e.tenant_id = k.tenant_id and e.index_id = k.index_id and e.dim = :dim and e.chunk_id = k.id)"""
_VECTORS = parse_statement("""
select e.index_id, e.chunk_id, e.embedding
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from chunk_embedding e
                      where e.tenant_id = k.tenant_id and e.index_id = k.index_id and e.chunk_id = k.id offset 0) e""")
_BEST_COSINES = parse_statement("""
select e.index_id, e.chunk_id, (select max(1 - (e.embedding <=> q))::real from unnest(:vectors::halfvec[]) q)
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from chunk_embedding e where e.tenant_id = k.tenant_id and e.index_id = k.index_id
                        and e.dim = :dim and e.chunk_id = k.id offset 0) e""")
_COSINE_TABLE = parse_statement("""
select e.index_id, e.chunk_id,
       (select array_agg((1 - (e.embedding <=> q.vector))::real order by q.number)
          from unnest(:vectors::halfvec[]) with ordinality q(vector, number))
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from chunk_embedding e where e.tenant_id = k.tenant_id and e.index_id = k.index_id
                        and e.dim = :dim and e.chunk_id = k.id offset 0) e""")
_PLAN = parse_statement("""
select p.chunks, p.share, p.dense, p.lexical from search_plan(:t, :i, :s, :c, :p, :size, :l, :terms) p""")
_READ_CHUNKS, _READ_CHUNKS_WITH_COSINES = (
    {
        retriever: parse_statement(_CHUNKS.replace("{table}", table).replace("{cosine}", cosine))
        for retriever, table in RETRIEVER_TABLES.items()
    }
    for cosine in ("null::real", _COSINE)
)


def _parse_row(row: Record) -> HitRow:
    """Parse a row of ``_CHUNKS``. The document's metadata is present only if the chunk has metadata that differs."""
    table_head_length, source_start, source_end, place_start, place_end, *document_values, cosine = row[15:]
    tenant_id, document_id, chunk_count, own_metadata = document_values
    metadata = LazyMetadata(row[14])
    document = HitDocument(
        tenant_id, document_id, chunk_count, metadata, None if own_metadata is None else LazyMetadata(own_metadata)
    )
    table_head = None if table_head_length is None else row[4][:table_head_length]
    source_range = None if source_start is None else (source_start, source_end)
    place = None if place_start is None else (place_start, place_end)
    chunk_values = (*row[1:14], metadata, table_head, source_range, place)
    return HitRow(HitChunk(*chunk_values), document, cosine)
