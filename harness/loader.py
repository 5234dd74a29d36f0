"""Loader that fills knowledge bases with COPY in a separate database, as superuser and without foreign key checks.

It writes the rows that a search reads: documents, chunks, rows of both retrievers, frequencies and totals. It writes no
originals, no nodes and no stored texts.
"""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Self
from uuid import UUID

import asyncpg
import numpy as np
import numpy.typing as npt
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.db.models.tenant_data import DocumentRow
from app.documents.scopes import DocumentScope, ScopeLevel
from app.documents.types import build_chunk_id, build_document_filter_metadata, build_node_id
from app.ids import derive_id, encode_id
from app.index_maintenance.repository import StoredTerms
from app.lexical.weights import DIMENSIONS, K1, B, compute_salt, compute_term_id, compute_term_key

CHUNKS_PER_DOCUMENT = 10
# Columns that ingestion writes and that a search, a filter or a count reads.
DOCUMENT_COLUMNS = [
    "tenant_id", "kb_id", "id", "live_version", "source", "title", "media_type", "bytes", "sha256", "scope_key",
    "metadata", "filterable", "status", "chunk_count",
]  # fmt: skip
CHUNK_COLUMNS = [
    "tenant_id", "kb_id", "index_id", "id", "document_id", "version", "ordinal", "content", "start_offset",
    "end_offset", "token_count", "node_path",
]  # fmt: skip
DENSE_COLUMNS = ["tenant_id", "index_id", "chunk_id", "dim", "scope_key", "metadata", "embedding"]
LEXICAL_COLUMNS = ["tenant_id", "index_id", "chunk_id", "dl", "scope_key", "metadata", "terms", "keys"]
# Indexes without a constraint. Creating them once after loading takes less time than updating them for each row.
_SECONDARY_INDEXES_SQL = """
select x.indexrelid::regclass::text, pg_get_indexdef(x.indexrelid) from pg_index x
 where x.indrelid in ('chunk'::regclass, 'chunk_lexical'::regclass) and not x.indisunique"""

MetadataFactory = Callable[[int], dict[str, Any]]
"""Function that returns the metadata of a document by its number."""


@dataclass(frozen=True, slots=True)
class IndexReference:
    """Ids of a knowledge base, its tenant and its live search index."""

    tenant_id: UUID
    kb_id: UUID
    index_id: UUID


@dataclass(frozen=True, slots=True)
class TermTable:
    """Terms of all texts, numbered in the order of their ids.

    Attributes:
        ids: Term id of each number.
        numbers: Number of each term.
    """

    ids: npt.NDArray[np.int64]
    numbers: dict[str, int]

    @classmethod
    def from_terms(cls, terms: Iterable[str]) -> Self:
        """Number the terms in the order of their ids."""
        ids = {term: compute_term_id(term) for term in terms}
        existing = sorted(set(ids.values()))
        places = {id_: number for number, id_ in enumerate(existing)}
        return cls(np.array(existing, np.int64), {term: places[id_] for term, id_ in ids.items()})


@dataclass(frozen=True, slots=True)
class LoadBatch:
    """Chunks of documents with ``CHUNKS_PER_DOCUMENT`` chunks each.

    Attributes:
        texts: Texts of the chunks.
        vectors: Unit vectors, shape (chunks, dimensions).
        terms: Term numbers of all chunks, one chunk after the other.
        lengths: Number of terms in each chunk.
    """

    texts: Sequence[str]
    vectors: npt.NDArray[np.float16]
    terms: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LexicalRows:
    """Rows of a batch for the lexical retriever.

    Attributes:
        terms: Stored terms of each chunk.
        keys: Term keys of each chunk.
        counts: Number of chunks with each term.
        max_weights: Maximum weight of each term.
    """

    terms: list[StoredTerms]
    keys: list[list[int]]
    counts: npt.NDArray[np.int64]
    max_weights: npt.NDArray[np.float32]


def build_lexical_rows(batch: LoadBatch, table: TermTable, keys: npt.NDArray[np.int32], *, avgdl: float) -> LexicalRows:
    """Build the same rows as ``app.lexical.weights.build_entries``, for many chunks at once.

    Args:
        batch: The chunks.
        table: Terms of all texts.
        keys: Key of each term number.
        avgdl: Average number of terms in a chunk.

    Returns:
        The rows.
    """
    size, passages = len(table.ids), len(batch.lengths)
    place = np.repeat(np.arange(passages), batch.lengths)
    pairs, tf = np.unique(place * size + batch.terms, return_counts=True)
    place, terms = np.divmod(pairs, size)
    weights = tf / (tf + K1 * (1 - B + B * batch.lengths[place] / avgdl))
    starts = np.searchsorted(place, np.arange(passages + 1)).tolist()
    ids, values = table.ids[terms].astype(">i4").tobytes(), weights.astype(">f4").tobytes()
    ordered = keys[terms].tolist()
    tops = np.zeros(size, np.float32)
    np.maximum.at(tops, terms, weights.astype(np.float32))
    stored, keyed = [], []
    for start, end in pairwise(starts):
        head = struct.pack(">iii", DIMENSIONS, end - start, 0)
        stored.append(StoredTerms(head + ids[4 * start : 4 * end] + values[4 * start : 4 * end]))
        keyed.append(ordered[start:end])
    return LexicalRows(stored, keyed, np.bincount(terms, minlength=size), tops)


@dataclass(frozen=True, slots=True)
class Loader:
    """Loader with three superuser connections, to fill three tables at the same time."""

    connections: Sequence[asyncpg.Connection]

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[Self]:
        """Connect to the database at ``url`` as superuser, without foreign key checks, until the block ends."""
        connections = [await asyncpg.connect(url, command_timeout=1800) for _ in range(3)]
        try:
            for each in connections:
                await register_vector(each)
                await each.execute("set session_replication_role = replica; set maintenance_work_mem = '1GB'")
            yield cls(connections)
        finally:
            for each in connections:
                await each.close()

    @asynccontextmanager
    async def without_secondary_indexes(self) -> AsyncIterator[None]:
        """Drop the secondary indexes for the block, create them again at the end, and collect statistics."""
        owner = self.connections[0]
        definitions = [tuple(row) for row in await owner.fetch(_SECONDARY_INDEXES_SQL)]
        for name, _ in definitions:
            await owner.execute(f"drop index {name}")
        yield
        for _, definition in definitions:
            await owner.execute(definition)
        await owner.execute(
            "vacuum (analyze) document, chunk, chunk_embedding, chunk_lexical, term_document_frequency, index_totals"
        )
        await owner.execute("checkpoint")

    async def fill_index(
        self,
        place: IndexReference,
        batches: Iterable[LoadBatch],
        table: TermTable,
        describe: MetadataFactory,
        *,
        avgdl: float,
    ) -> int:
        """Fill one empty knowledge base.

        Args:
            place: The knowledge base.
            batches: Batches of chunks.
            table: Terms of all texts.
            describe: Function that returns the metadata of a document by its number.
            avgdl: Average number of terms in a chunk.

        Returns:
            The number of chunks.
        """
        salted = compute_salt(place.index_id)
        keys = np.array([compute_term_key(int(each), salted) for each in table.ids], np.int32)
        counts, tokens, chunks = np.zeros(len(table.ids), np.int64), 0, 0
        tops = np.zeros(len(table.ids), np.float32)
        for batch in batches:
            lexical = build_lexical_rows(batch, table, keys, avgdl=avgdl)
            await self._add_batch(place, batch, lexical, _build_documents(place, chunks, batch.texts, describe))
            counts += lexical.counts
            np.maximum(tops, lexical.max_weights, out=tops)
            tokens += int(batch.lengths.sum())
            chunks += len(batch.texts)
        owner, scope = self.connections[0], (place.tenant_id, place.index_id)
        frequencies = [(*scope, int(keys[n]), int(counts[n]), float(tops[n])) for n in np.flatnonzero(counts)]
        columns = ["tenant_id", "index_id", "key", "df", "max_weight"]
        await owner.copy_records_to_table("term_document_frequency", records=frequencies, columns=columns)
        await owner.execute(
            "insert into index_totals (tenant_id, index_id, chunks, tokens) values ($1, $2, $3, $4)",
            *scope, chunks, tokens,
        )  # fmt: skip
        await owner.execute("update search_index set avgdl = $3 where tenant_id = $1 and id = $2", *scope, avgdl)
        return chunks

    async def _add_batch(
        self, place: IndexReference, batch: LoadBatch, lexical: LexicalRows, documents: Sequence[DocumentRow]
    ) -> None:
        chunks = list(_iter_chunks(documents))
        scope, dim = DocumentScope().to_key(), batch.vectors.shape[1]
        tenant, kb, index = place.tenant_id, place.kb_id, place.index_id
        texts = (
            (tenant, kb, index, id_, document.id, 1, ordinal, text, 0, len(text), int(length), [0])
            for (document, ordinal, id_, _), text, length in zip(chunks, batch.texts, batch.lengths, strict=True)
        )
        dense = (
            (tenant, index, id_, dim, scope, stamp, HalfVector(vector))
            for (_, _, id_, stamp), vector in zip(chunks, batch.vectors, strict=True)
        )
        rows = zip(chunks, batch.lengths.tolist(), lexical.terms, lexical.keys, strict=True)
        words = (
            (tenant, index, id_, length, scope, stamp, terms, keys) for (_, _, id_, stamp), length, terms, keys in rows
        )
        first, second, third = self.connections
        await first.copy_records_to_table("document", records=map(_build_row, documents), columns=DOCUMENT_COLUMNS)
        await asyncio.gather(
            first.copy_records_to_table("chunk", records=texts, columns=CHUNK_COLUMNS),
            second.copy_records_to_table("chunk_embedding", records=dense, columns=DENSE_COLUMNS),
            third.copy_records_to_table("chunk_lexical", records=words, columns=LEXICAL_COLUMNS),
        )


def _build_documents(
    place: IndexReference, first: int, texts: Sequence[str], describe: MetadataFactory
) -> list[DocumentRow]:
    """Build the documents of consecutive chunks. ``first`` is the number of the first chunk in the knowledge base."""
    created, now = [], datetime.now(UTC)
    for start in range(0, len(texts), CHUNKS_PER_DOCUMENT):
        number, own = (first + start) // CHUNKS_PER_DOCUMENT, texts[start : start + CHUNKS_PER_DOCUMENT]
        document = DocumentRow(
            tenant_id=place.tenant_id, kb_id=place.kb_id, id=derive_id("bench", place.kb_id, number), version=1,
            live_version=1, source=f"document-{number}.txt", title=f"Document {number}", media_type="text/plain",
            bytes=sum(map(len, own)), sha256=number.to_bytes(32, "big"), scope_level=ScopeLevel.TENANT,
            scope_key=DocumentScope().to_key(), dynamic=False, attributes=describe(number), status="ready",
            chunk_count=len(own),
            created_at=now,
        )  # fmt: skip
        document.filterable = build_document_filter_metadata(document)
        created.append(document)
    return created


def _build_row(document: DocumentRow) -> tuple[Any, ...]:
    named = {"metadata": "attributes"}
    values = (getattr(document, named.get(column, column)) for column in DOCUMENT_COLUMNS)
    return tuple(json.dumps(value) if isinstance(value, dict) else value for value in values)


def _iter_chunks(documents: Iterable[DocumentRow]) -> Iterable[tuple[DocumentRow, int, UUID, str]]:
    """Yield document, ordinal, chunk id, and the JSON that filters read."""
    for document in documents:
        node = encode_id("nod", build_node_id(document.id, 1, ()))
        stamp = json.dumps({**document.filterable, "$node": [node]})
        for ordinal in range(document.chunk_count):
            yield document, ordinal, build_chunk_id(document.id, 1, ordinal), stamp
