"""Queries of exports, which read each document in one snapshot, and of imports, which set the mean chunk length."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import Record, Statement, parse_statement
from app.documents.row_codec import DOCUMENT_COLUMNS, parse_document_row
from app.documents.source_map import SourceMap
from app.documents.types import CHUNKS_TYPE, build_chunk_id

CHUNK_BATCH_SIZE = 500
NODE_BATCH_SIZE = 5_000
PAGE_BATCH_SIZE = 20
"""Numbers of rows that are read at a time."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """The text of a ready document. ``key`` is the key of its original in the object store."""

    key: str
    content: str
    source_map: SourceMap | None = None
    place_map: SourceMap | None = None


@dataclass(frozen=True, slots=True)
class DocumentSnapshot:
    """A document's row, whether the search index is still live, and the approximate memory that the document needs."""

    document: DocumentRow
    is_live: bool
    memory_bytes: int


class TransferRepository:
    """Queries of exports and imports for one search index of a knowledge base."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID, index_id: UUID) -> None:
        self.session = session
        self._key_params = {"t": tenant_id, "kb": kb_id, "i": index_id}

    async def is_live(self) -> bool:
        """Return whether the search index is still live."""
        return await self.session.fetch_row(_FIND_LIVE_INDEX, self._key_params) is not None

    async def needs_newest_format(self) -> bool:
        """Return whether any document has positions in its file, replies of the enrichment or context lines."""
        return await self.session.fetch_row(_NEEDS_NEWEST_FORMAT, self._key_params) is not None

    async def list_document_ids(self, *, after: UUID | None, limit: int) -> Sequence[UUID]:
        """Return a page of ids of documents, in ascending order."""
        rows = await self.session.fetch_rows(_LIST_DOCUMENT_IDS, {**self._key_params, "after": after, "most": limit})
        return [row["id"] for row in rows]

    async def find_document(self, document_id: UUID) -> DocumentSnapshot | None:
        """Return a document, or None if it does not exist."""
        row = await self.session.fetch_row(_DOCUMENT, {**self._key_params, "d": document_id})
        return None if row is None else DocumentSnapshot(parse_document_row(row), row["is_live"], row["size"])

    async def find_text(self, document: DocumentRow) -> StoredText | None:
        """Return the text of a document's live version, or None if it is missing."""
        row = await self.session.fetch_row(_TEXT, self._build_params(document))
        if row is None:
            return None
        maps = SourceMap.from_stored(row["source_map"]), SourceMap.from_stored(row["place_map"])
        return StoredText(row["key"], row["content"], *maps)

    def iter_nodes(self, document: DocumentRow) -> AsyncIterator[Sequence[Record]]:
        """Yield a document's nodes in batches, parents before children.

        The transaction must be a snapshot (repeatable read). The other iterators also need a snapshot.
        """
        return self._iter_batches(_NODES, document, "ordinal", NODE_BATCH_SIZE)

    def iter_pages(self, document: DocumentRow) -> AsyncIterator[Sequence[Record]]:
        """Yield a document's pages in batches."""
        return self._iter_batches(_PAGES, document, "page", PAGE_BATCH_SIZE)

    async def iter_chunks(self, document: DocumentRow) -> AsyncIterator[Sequence[Record]]:
        """Yield a document's chunks with their vectors, in batches. The query finds each chunk by its id."""
        count = document.chunk_count
        if document.media_type == CHUNKS_TYPE:  # deleted chunks leave gaps between the indexes
            row = await self.session.fetch_row(_LAST_ORDINAL, self._build_params(document))
            count = 0 if row is None or row["ordinal"] is None else row["ordinal"] + 1
        for start in range(0, count, CHUNK_BATCH_SIZE):
            ordinals = range(start, min(start + CHUNK_BATCH_SIZE, count))
            ids = [build_chunk_id(document.id, document.version, ordinal) for ordinal in ordinals]
            yield await self.session.fetch_rows(_CHUNKS, {**self._build_params(document), "ids": ids})

    async def list_images(self, document: DocumentRow) -> Sequence[Record]:
        """Return the rows of a document's images."""
        return await self.session.fetch_rows(_IMAGES, self._build_params(document))

    async def list_replies(self, document: DocumentRow) -> Sequence[Record]:
        """Return the stored replies of the enrichment of a document."""
        return await self.session.fetch_rows(_REPLIES, self._build_params(document))

    async def _iter_batches(
        self, query: Statement, document: DocumentRow, ordinal_column: str, batch_size: int
    ) -> AsyncIterator[Sequence[Record]]:
        after = -1
        while True:
            rows = await self.session.fetch_rows(
                query, {**self._build_params(document), "after": after, "most": batch_size}
            )
            if rows:
                yield rows
            if len(rows) < batch_size:
                return
            after = rows[-1][ordinal_column]

    async def seed_average_length(self, average_length: float) -> None:
        """Set the mean chunk length of the BM25 term weights, if the search index is empty."""
        if await self.session.fetch_row(_HAS_CHUNKS, self._key_params) is not None:
            return
        await self.session.fetch_rows(_LOCK_INDEX, self._key_params)
        await self.session.fetch_rows(_SEED_AVERAGE_LENGTH, {**self._key_params, "average": average_length})

    def _build_params(self, document: DocumentRow) -> dict[str, Any]:
        return {**self._key_params, "d": document.id, "v": document.version}


_IS_LIVE = """
select 1 from search_index i join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id
 where i.tenant_id = :t and i.kb_id = :kb and i.id = :i and i.state = 'live' and k.deleted_at is null"""
_FIND_LIVE_INDEX = parse_statement(_IS_LIVE)
_LIST_DOCUMENT_IDS = parse_statement("""
select id from document
 where tenant_id = :t and kb_id = :kb and (:after::uuid is null or id > :after) order by id limit :most""")
_NEEDS_NEWEST_FORMAT = parse_statement("""
select 1 where exists (
         select from document d join document_text t on t.tenant_id = d.tenant_id and t.document_id = d.id
          where d.tenant_id = :t and d.kb_id = :kb and coalesce(t.source_map, t.place_map) is not null)
    or exists (
         select from document d join enrichment_result r on r.tenant_id = d.tenant_id and r.document_id = d.id
          where d.tenant_id = :t and d.kb_id = :kb)
    or exists (select from chunk
                where tenant_id = :t and kb_id = :kb and index_id = :i and context_line is not null)""")
_DOCUMENT = parse_statement(f"""
select {DOCUMENT_COLUMNS}, exists ({_IS_LIVE}) is_live,
       (select coalesce(sum(octet_length(content)), 0) from document_text where tenant_id = :t and document_id = :d)
       + chunk_count::bigint * 2 * (select dim from search_index where tenant_id = :t and id = :i) size
  from document where tenant_id = :t and kb_id = :kb and id = :d""")  # noqa: S608
_TEXT = parse_statement("""
select o.key, t.content, t.source_map, t.place_map from document_text t
  join document_object o on o.tenant_id = t.tenant_id and o.document_id = t.document_id and o.version = t.version
 where t.tenant_id = :t and t.document_id = :d and t.version = :v""")
_LAST_ORDINAL = parse_statement("""
select max(ordinal) as ordinal from chunk
 where tenant_id = :t and kb_id = :kb and document_id = :d and index_id = :i and version = :v""")
_NODES = parse_statement("""
select id, parent_id, kind, level, title, start_offset, end_offset, page, page_end, slide, block, ordinal
  from node where tenant_id = :t and document_id = :d and ordinal > :after order by ordinal limit :most""")
_PAGES = parse_statement("""
select page, width, height, starts, ends, boxes from document_page
 where tenant_id = :t and document_id = :d and page > :after order by page limit :most""")
_CHUNKS = parse_statement("""
select c.content, c.start_offset, c.end_offset, c.token_count, c.page, c.page_end, c.slide, c.section_titles,
       c.node_path, c.metadata, c.image_ordinal, c.table_head_length, c.provided_graph,
       c.context_line, e.embedding
  from (select * from chunk where tenant_id = :t and kb_id = :kb and document_id = :d and version = :v
           and index_id = :i and id = any(:ids::uuid[])) c
  left join lateral (select e.embedding from chunk_embedding e
                      where e.tenant_id = :t and e.index_id = :i and e.chunk_id = c.id offset 0) e on true
 order by c.ordinal""")
_IMAGES = parse_statement("""
select ordinal, key, media_type, bytes, width, height, sha256 from document_image
 where tenant_id = :t and document_id = :d and version = :v order by ordinal""")
_REPLIES = parse_statement("""
select content_hash, reply, tokens, estimated_tokens from enrichment_result
 where tenant_id = :t and document_id = :d order by content_hash""")
_HAS_CHUNKS = parse_statement("select 1 from chunk where tenant_id = :t and index_id = :i limit 1")
# A transaction that adds a chunk locks the same row, so it waits for this transaction.
_LOCK_INDEX = parse_statement("select 1 from search_index where tenant_id = :t and kb_id = :kb and id = :i for update")
_SEED_AVERAGE_LENGTH = parse_statement("""
update search_index set avgdl = :average::real
 where tenant_id = :t and kb_id = :kb and id = :i and state = 'live'
   and not exists (select from chunk where tenant_id = :t and index_id = :i)""")
