"""Queries that read the sections above chunks, and samples of the chunks of each section."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from app.db.driver import DriverReader
from app.db.statements import Record, parse_statement
from app.lexical.weights import compute_query_keys, compute_salt
from app.section_notes.extraction import to_term_weights
from app.section_notes.types import SectionChunk, SectionedChunk


class NodeKey(NamedTuple):
    """Key of a node: tenant, document and node."""

    tenant_id: UUID
    document_id: UUID
    node_id: UUID


class ChunkKey(NamedTuple):
    """Key of a chunk: tenant, search index and chunk."""

    tenant_id: UUID
    index_id: UUID
    chunk_id: UUID


class ChunkPlace(NamedTuple):
    """Place of a chunk: its document and version, its index in the document, and the document's number of chunks."""

    tenant_id: UUID
    index_id: UUID
    document_id: UUID
    version: int
    ordinal: int
    chunk_count: int


@dataclass(frozen=True, slots=True)
class StoredSection:
    """Section of a document: its heading, its range in the stored text, and the notes of a chat model, if any."""

    key: NodeKey
    kind: str
    title: str | None
    start: int
    end: int
    summary: str | None
    keywords: Sequence[str]


class SectionRepository:
    """Repository that reads sections, in a transaction of the caller's tenant. It reads shared rows too."""

    def __init__(self, reader: DriverReader) -> None:
        self.reader = reader

    async def load_sections(self, keys: Sequence[NodeKey]) -> dict[NodeKey, StoredSection]:
        """Load sections by key. Nodes that are no sections are missing."""
        tenants, documents, nodes = _to_columns(keys)
        rows = await self.reader.fetch_rows(_SECTIONS, {"tenants": tenants, "documents": documents, "nodes": nodes})
        sections = [
            StoredSection(
                NodeKey(row["tenant_id"], row["document_id"], row["id"]),
                row["kind"],
                row["title"],
                row["start_offset"],
                row["end_offset"],
                row["summary"],
                row["keywords"] or (),
            )
            for row in rows
        ]
        return {section.key: section for section in sections}

    async def load_places(self, chunks: Sequence[SectionedChunk]) -> dict[SectionedChunk, ChunkPlace]:
        """Load the place of each chunk in its document. Chunks that do not exist are missing."""
        tenants, indexes, ids = _to_columns([(chunk.tenant_id, chunk.index_id, chunk.chunk_id) for chunk in chunks])
        rows = await self.reader.fetch_rows(_PLACES, {"tenants": tenants, "indexes": indexes, "chunks": ids})
        return {
            (chunk := chunks[row["position"]]): ChunkPlace(
                chunk.tenant_id, chunk.index_id, chunk.document_id, chunk.version, row["ordinal"], row["chunk_count"]
            )
            for row in rows
        }

    async def load_ranges(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, tuple[int, int]]:
        """Load the range of each chunk in the stored text. Chunks that do not exist are missing."""
        tenants, indexes, chunks = _to_columns(keys)
        rows = await self.reader.fetch_rows(_RANGES, {"tenants": tenants, "indexes": indexes, "chunks": chunks})
        return {ChunkKey(row[0], row[1], row[2]): (row[3], row[4]) for row in rows}

    async def load_chunks(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, SectionChunk]:
        """Load the text, vector, term weights and entities of chunks."""
        tenants, indexes, chunks = _to_columns(keys)
        rows = await self.reader.fetch_rows(_CHUNKS, {"tenants": tenants, "indexes": indexes, "chunks": chunks})
        return {ChunkKey(row[0], row[1], row[2]): _parse_chunk(row) for row in rows}

    async def load_analyzers(self, documents: Sequence[tuple[UUID, UUID, UUID]]) -> dict[UUID, tuple[str, object]]:
        """Load the language of each document and the analyzer of its search index, by document.

        Args:
            documents: Tenant, search index and id of each document.
        """
        tenants, indexes, ids = _to_columns(documents)
        rows = await self.reader.fetch_rows(_ANALYZERS, {"tenants": tenants, "indexes": indexes, "documents": ids})
        return {row["id"]: (row["language"], row["analyzer"]) for row in rows}

    async def load_frequencies(
        self, tenant_id: UUID, index_id: UUID, term_ids: Sequence[int]
    ) -> tuple[int, dict[int, int]]:
        """Return the number of chunks on open levels, and the number of them that have each term.

        Chunks on private levels do not count, so that keywords reveal nothing about the texts of other users.

        Args:
            tenant_id: Owner of the search index.
            index_id: The search index.
            term_ids: Ids of the terms.
        """
        keys = compute_query_keys(term_ids, compute_salt(index_id))
        values = {"t": tenant_id, "i": index_id, "keys": keys}
        total_rows = await self.reader.fetch_rows(_TOTAL, {"t": tenant_id, "i": index_id})
        counts = {row["key"]: row["chunks"] for row in await self.reader.fetch_rows(_FREQUENCIES, values)}
        frequencies = {term: counts[key] for term, key in zip(term_ids, keys, strict=True) if key in counts}
        return int(total_rows[0]["chunks"] or 0), frequencies


def _to_columns(keys: Sequence[tuple[UUID, UUID, UUID]]) -> tuple[list[UUID], list[UUID], list[UUID]]:
    first, second, third = zip(*keys, strict=True) if keys else ((), (), ())
    return list(first), list(second), list(third)


def _parse_chunk(row: Record) -> SectionChunk:
    content, head_length, vector, terms, names, counts = row[3:]
    return SectionChunk(
        text=content if head_length is None else content[head_length + 1 :],
        vector=() if vector is None else vector.to_numpy(),
        weights={} if terms is None else to_term_weights(terms),
        names=dict(zip(names or (), counts or (), strict=True)),
    )


_SECTIONS = parse_statement("""
select n.tenant_id, n.document_id, n.id, n.kind, n.title, n.start_offset, n.end_offset, e.summary, e.keywords
  from unnest(:tenants::uuid[], :documents::uuid[], :nodes::uuid[]) k(tenant_id, document_id, id)
 cross join lateral (select * from node n where n.tenant_id = k.tenant_id and n.document_id = k.document_id
                        and n.id = k.id and n.kind in ('document', 'section') offset 0) n
  left join lateral (select e.summary, e.keywords from node_enrichment e where e.tenant_id = k.tenant_id
                        and e.document_id = k.document_id and e.node_id = k.id offset 0) e on true""")
_PLACES = parse_statement("""
select (k.position - 1)::int as position, c.ordinal, d.chunk_count
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[])
       with ordinality k(tenant_id, index_id, id, position)
 cross join lateral (select * from chunk c
                      where c.tenant_id = k.tenant_id and c.index_id = k.index_id and c.id = k.id offset 0) c
 cross join lateral (select d.chunk_count from document d
                      where d.tenant_id = k.tenant_id and d.id = c.document_id offset 0) d""")
_RANGES = parse_statement("""
select c.tenant_id, c.index_id, c.id, c.start_offset, c.end_offset
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from chunk c
                      where c.tenant_id = k.tenant_id and c.index_id = k.index_id and c.id = k.id offset 0) c""")
_CHUNKS = parse_statement("""
select c.tenant_id, c.index_id, c.id, c.content, c.table_head_length, v.embedding, l.terms, e.names, e.counts
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from chunk c
                      where c.tenant_id = k.tenant_id and c.index_id = k.index_id and c.id = k.id offset 0) c
  left join lateral (select v.embedding from chunk_embedding v where v.tenant_id = k.tenant_id
                        and v.index_id = k.index_id and v.chunk_id = k.id offset 0) v on true
  left join lateral (select l.terms from chunk_lexical l where l.tenant_id = k.tenant_id
                        and l.index_id = k.index_id and l.chunk_id = k.id offset 0) l on true
  left join lateral (select e.names, e.counts from chunk_entity e where e.tenant_id = k.tenant_id
                        and e.index_id = k.index_id and e.chunk_id = k.id offset 0) e on true""")
_ANALYZERS = parse_statement("""
select d.id, d.language, i.identity ->> 'analyzer' as analyzer
  from unnest(:tenants::uuid[], :indexes::uuid[], :documents::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select d.id, d.language from document d
                      where d.tenant_id = k.tenant_id and d.id = k.id offset 0) d
 cross join lateral (select i.identity from search_index i
                      where i.tenant_id = k.tenant_id and i.id = k.index_id offset 0) i""")
_TOTAL = parse_statement("""
select coalesce((select sum(chunks) from index_totals where tenant_id = :t and index_id = :i), 0)
     - coalesce((select sum(chunks) from private_frequency
                  where tenant_id = :t and index_id = :i and scope_key = all_private_levels() and key is null), 0)
       as chunks""")
_FREQUENCIES = parse_statement("""
select k.key, (f.df - p.chunks)::int as chunks from unnest(:keys::int[]) k(key)
 cross join lateral (select coalesce(sum(d.df), 0) as df from term_document_frequency d
                      where d.tenant_id = :t and d.index_id = :i and d.key = k.key offset 0) f
 cross join lateral (select coalesce(sum(x.chunks), 0) as chunks from private_frequency x
                      where x.tenant_id = :t and x.index_id = :i and x.scope_key = all_private_levels()
                        and x.key = k.key offset 0) p""")
