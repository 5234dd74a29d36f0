"""The index queries: both lanes in one round trip, then the text of what is returned."""

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
from app.retrieval.expansion_statements import EXPAND, PARENT_SPANS, STORED_TEXTS
from app.retrieval.explain import RetrieverPlan
from app.retrieval.types import ChunkKey, Expansion, HitChunk, HitDocument, LazyMetadata, RetrieverName

Floats = npt.NDArray[np.float32]
# Calls of one statement: others' requests are served between two of them, and a statement of hundreds is slow to plan.
MAX_CALLS_PER_STATEMENT = 50
RETRIEVER_TABLES: dict[RetrieverName, str] = {"dense": "chunk_embedding", "lexical": "chunk_lexical"}


@dataclass(frozen=True, slots=True)
class RetrieverQuery:
    """One query in one search index; a None vector leaves the dense lane out, no terms the lexical one.

    ``only_similarity``: the vector is there for the cosines of the lexical lane's rows, the dense lane is not wanted.
    ``is_slow``: both lanes take so long that each is worth a connection. ``max_cosines``: of the lexical lane's rows so
    many have theirs, the best; all, where nothing is said. ``min_similarity``: the lexical lane has only rows whose
    cosine is that, with the vector or any of ``other_vectors``; ``second_pass_min_similarity`` is what it will be when
    the call is made once more. ``is_user_restricted``: words are weighed by the chunks of ``scopes`` alone, so that a
    score tells nothing of others' texts.
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
        """Passing over what is known not to become a result: what has expired, and what is below the threshold."""
        return replace(self, filter=self.filter.exclude_expired(now), min_similarity=self.second_pass_min_similarity)

    @property
    def needs_search(self) -> bool:
        """False where neither lane has anything to look for."""
        return (self.vector is not None and not self.only_similarity) or bool(self.term_ids)


class RetrieverHits(NamedTuple):
    """What one lane found for the RetrieverQuery at ``call_position``, in no order; the sequences go together."""

    call_position: int
    retriever: RetrieverName
    chunk_ids: Sequence[UUID]
    scores: Sequence[float]
    similarities: Sequence[float | None]


class HitRow(NamedTuple):
    """A chunk, its document, and its cosine with a vector, where one was given."""

    chunk: HitChunk
    document: HitDocument
    cosine: float | None


class ExpansionTarget(NamedTuple):
    """A range of a document's text, and the ids of what it may be widened to: chunks for a window, else nodes."""

    tenant_id: UUID
    index_id: UUID
    document_id: UUID
    start: int
    end: int
    candidate_ids: Sequence[UUID]


class TextVersion(NamedTuple):
    """The text of one version of a document."""

    tenant_id: UUID
    document_id: UUID
    version: int


class ParentSpans(NamedTuple):
    """Ranges of the stored texts: by a text's position the parts that hold it, by a document's id all its passages."""

    parents: Mapping[int, Sequence[tuple[int, int]]]
    chunks: Mapping[UUID, Sequence[tuple[int, int]]]


class RetrievalRepository:
    """Reads in one tenant's scope: its own, and what is shared, each told by its tenant."""

    def __init__(self, reader: DriverReader) -> None:
        self.reader = reader

    async def run_retrievers(self, calls: Sequence[RetrieverQuery], *, size: int) -> list[RetrieverHits]:
        """Both lanes of every call, the ``size`` best rows of each, in one statement unless there are very many."""
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
        """The chunks with these keys, their documents, and their cosines with the vector; told from this lane.

        What is gone or expired is left out.
        """
        key_values = _build_key_values(keys, tenants)
        if vector is None:
            rows = await self.reader.fetch_rows(_READ_CHUNKS[retriever], key_values)
        else:
            vector_values = {"vector": HalfVector(vector), "dim": len(vector)}
            rows = await self.reader.fetch_rows(_READ_CHUNKS_WITH_COSINES[retriever], key_values | vector_values)
        return {row[0].bytes + row[1].bytes: _parse_row(row) for row in rows}

    async def load_ranges(self, expansion: Expansion, chunks: Sequence[ExpansionTarget]) -> dict[int, tuple[int, int]]:
        """Where each text is to begin and end when it is widened, by its position."""
        rows = await self.reader.fetch_rows(EXPAND[expansion.kind], _build_expansion_values(expansion, chunks))
        return {row[0]: (row[1], row[2]) for row in rows}

    async def load_parent_spans(self, expansion: Expansion, chunks: Sequence[ExpansionTarget]) -> ParentSpans:
        """The parts of documents that hold more than each text, though no more than is allowed; and all passages."""
        rows = await self.reader.fetch_rows(PARENT_SPANS, _build_expansion_values(expansion, chunks))
        spans = [(row["number"], row["document_id"], list(zip(row[2], row[3], strict=True))) for row in rows]
        return ParentSpans(
            parents={number: ranges for number, _, ranges in spans if number is not None},
            chunks={document: ranges for number, document, ranges in spans if number is None},
        )

    async def load_stored_texts(self, versions: Sequence[TextVersion]) -> dict[UUID, str]:
        """By document, where that version is the one that is there."""
        tenants, documents, numbers = (list(column) for column in zip(*versions, strict=True))
        values = {"tenants": tenants, "documents": documents, "versions": numbers}
        return {row[0]: row[1] for row in await self.reader.fetch_rows(STORED_TEXTS, values)}

    async def load_vectors(self, keys: Sequence[ChunkKey], *, tenants: Sequence[UUID]) -> dict[ChunkKey, list[float]]:
        """The stored vectors of these chunks; not every chunk has one."""
        rows = await self.reader.fetch_rows(_VECTORS, _build_key_values(keys, tenants))
        return {row[0].bytes + row[1].bytes: row[2].to_list() for row in rows}

    async def compute_cosines(
        self, keys: Sequence[ChunkKey], tenants: Sequence[UUID], *, vectors: Sequence[Floats]
    ) -> dict[ChunkKey, float]:
        """The best cosine of each of these chunks with any of the vectors; not every chunk has one."""
        vector_values = {"vectors": [HalfVector(vector) for vector in vectors], "dim": len(vectors[0])}
        rows = await self.reader.fetch_rows(_BEST_COSINES, _build_key_values(keys, tenants) | vector_values)
        return {row[0].bytes + row[1].bytes: row[2] for row in rows}

    async def load_plan(self, call: RetrieverQuery, *, size: int) -> RetrieverPlan:
        """How the call's lanes are searched."""
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
            # A little less, for callers see it rounded.
            "h": None if call.min_similarity is None else call.min_similarity - 1e-6,
            "n": None if call.min_similarity is None else [HalfVector(vector) for vector in call.other_vectors],
            "a": call.is_user_restricted,
        }
        values |= {f"{name}{number}": value for name, value in call_values.items()}
    return values


def _build_scope_values(call: RetrieverQuery) -> dict[str, Any]:
    """The rows that a call looks at."""
    contains, path, lookups = call.filter.sql_params
    return {"t": call.tenant_id, "i": call.index_id, "s": call.scopes, "c": contains, "p": path, "l": lookups}


def _build_expansion_values(expansion: Expansion, chunks: Sequence[ExpansionTarget]) -> dict[str, Any]:
    """What the statements that widen take: a row for each id that is near a text."""
    rows = [(number, target, id_) for number, target in enumerate(chunks) for id_ in target.candidate_ids]
    return {
        "numbers": [number for number, _, _ in rows],
        "tenants": [target.tenant_id for _, target, _ in rows],
        "indexes": [target.index_id for _, target, _ in rows],
        "documents": [target.document_id for _, target, _ in rows],
        "starts": [target.start for _, target, _ in rows],
        "ends": [target.end for _, target, _ in rows],
        "near": [id_ for _, _, id_ in rows],
        "most": expansion.max_characters,
    }


def _build_key_values(keys: Sequence[ChunkKey], tenants: Sequence[UUID]) -> dict[str, Any]:
    """What the statements unnest to look chunks up by."""
    # The driver takes their digits as well, which are sooner made than a UUID.
    indexes, chunks = [key[:16].hex() for key in keys], [key[16:].hex() for key in keys]
    return {"tenants": tenants, "indexes": indexes, "chunks": chunks}


@lru_cache(maxsize=128)
def _build_search_statement(call_count: int) -> Statement:
    """The statement for so many calls; made once, because reading its parameters out of the text is not free."""
    return parse_statement(" union all ".join(_SEARCH.replace("{n}", str(number)) for number in range(call_count)))


# One row for each retriever: decoding two hundred rows takes longer than building arrays in the database.
_SEARCH = """
select {n} as call, h.retriever, array_agg(h.chunk_id), array_agg(h.score), array_agg(h.similarity)
  from hybrid_search(:t{n}, :i{n}, :v{n}, :d{n}, :w{n}, :k{n}, :s{n}, :c{n}, :p{n}, :m{n}, :size,
                     :l{n}, :o{n}, :h{n}, :n{n}, :a{n}) h group by h.retriever"""
# The chunk's columns stand in the order of HitChunk. What is told of the document is what a lane was stamped with,
# and so belongs to the version that was found: the row may be a newer one's, queued or failed. Both lanes have the
# stamp, so that one of them can be out of reach.
# `offset 0` keeps these look-ups by key: joined freely, a planner without fresh statistics reads all of the tenant's
# documents and chunks first. Metadata is read as text, because the driver decodes JSON of every row as it arrives,
# and most rows may be ties that become no result.
_CHUNKS = """
select c.index_id, c.id, c.version, c.ordinal, c.content, c.start_offset, c.end_offset, c.page, c.page_end, c.slide,
       c.section_titles, c.node_path, c.image_ordinal, c.media_type, l.metadata::text as search_metadata, c.tenant_id,
       c.document_id, d.chunk_count, d.metadata::text as own, {cosine}
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
    """Of a row of ``_CHUNKS``; ``own_metadata`` is there only where a chunk has metadata of its own."""
    tenant_id, document_id, chunk_count, own_metadata, cosine = row[15:]
    metadata = LazyMetadata(row[14])
    document = HitDocument(
        tenant_id, document_id, chunk_count, metadata, None if own_metadata is None else LazyMetadata(own_metadata)
    )
    chunk_values = (*row[1:14], metadata)
    return HitRow(HitChunk(*chunk_values), document, cosine)
