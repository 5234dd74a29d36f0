"""What an archive holds of a document, read at one moment; and the mean length that a knowledge base begins with."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import Record, Statement, statement
from app.documents.records import DOCUMENT_COLUMNS, document_from
from app.documents.types import chunk_id

BATCH = 500
NODES_BATCH = 5_000
PAGES_BATCH = 20
"""Rows that are read at a time."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """The text of a ready document; ``key`` is where its original is."""

    key: str
    content: str


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document's row, whether the search index is still live, and nearly how many bytes it holds in memory."""

    document: Document
    is_live: bool
    size: int


class TransferRepository:
    """Queries in one knowledge base of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID, index_id: UUID) -> None:
        self.session = session
        self._place = {"t": tenant_id, "kb": kb_id, "i": index_id}

    async def is_live(self) -> bool:
        """Whether the search index is still the one that is searched."""
        return await self.session.row(_LIVE, self._place) is not None

    async def documents(self, *, after: UUID | None, limit: int) -> Sequence[UUID]:
        """Their ids, in order."""
        rows = await self.session.rows(_IDS, {**self._place, "after": after, "most": limit})
        return [row["id"] for row in rows]

    async def document(self, document_id: UUID) -> FoundDocument | None:
        """None where it is gone."""
        row = await self.session.row(_DOCUMENT, {**self._place, "d": document_id})
        return None if row is None else FoundDocument(document_from(row), row["is_live"], row["size"])

    async def text(self, document: Document) -> StoredText | None:
        """The text of its live version; None where it is missing."""
        row = await self.session.row(_TEXT, self._of(document))
        return None if row is None else StoredText(row["key"], row["content"])

    def nodes(self, document: Document) -> AsyncIterator[Sequence[Record]]:
        """Its nodes in batches, parents before children. In a transaction that sees one moment, as all of these."""
        return self._batches(_NODES, document, "ordinal", NODES_BATCH)

    def pages(self, document: Document) -> AsyncIterator[Sequence[Record]]:
        """Its printed pages in batches."""
        return self._batches(_PAGES, document, "page", PAGES_BATCH)

    async def chunks(self, document: Document) -> AsyncIterator[Sequence[Record]]:
        """Its chunks with their vectors, in batches; their ids are looked up one by one."""
        for start in range(0, document.chunk_count, BATCH):
            ordinals = range(start, min(start + BATCH, document.chunk_count))
            ids = [chunk_id(document.id, document.version, ordinal) for ordinal in ordinals]
            yield await self.session.rows(_CHUNKS, {**self._of(document), "ids": ids})

    async def media(self, document: Document) -> Sequence[Record]:
        """Its pictures."""
        return await self.session.rows(_MEDIA, self._of(document))

    async def _batches(
        self, query: Statement, document: Document, number: str, most: int
    ) -> AsyncIterator[Sequence[Record]]:
        after = -1
        while True:
            rows = await self.session.rows(query, {**self._of(document), "after": after, "most": most})
            if rows:
                yield rows
            if len(rows) < most:
                return
            after = rows[-1][number]

    async def begin_with(self, average_length: float) -> None:
        """Let the words of a search index that is empty be weighed with this mean length."""
        if await self.session.row(_FILLED, self._place) is not None:
            return
        await self.session.rows(_HOLD, self._place)
        await self.session.rows(_BEGIN_WITH, {**self._place, "average": average_length})

    def _of(self, document: Document) -> dict[str, Any]:
        return {**self._place, "d": document.id, "v": document.version}


_IS_LIVE = """
select 1 from search_index i join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id
 where i.tenant_id = :t and i.kb_id = :kb and i.id = :i and i.state = 'live' and k.deleted_at is null"""
_LIVE = statement(_IS_LIVE)
_IDS = statement("""
select id from document
 where tenant_id = :t and kb_id = :kb and (:after::uuid is null or id > :after) order by id limit :most""")
_DOCUMENT = statement(f"""
select {DOCUMENT_COLUMNS}, exists ({_IS_LIVE}) is_live,
       (select coalesce(sum(octet_length(content)), 0) from document_text where tenant_id = :t and document_id = :d)
       + chunk_count::bigint * 2 * (select dim from search_index where tenant_id = :t and id = :i) size
  from document where tenant_id = :t and kb_id = :kb and id = :d""")  # noqa: S608
_TEXT = statement("""
select o.key, t.content from document_text t
  join document_object o on o.tenant_id = t.tenant_id and o.document_id = t.document_id and o.version = t.version
 where t.tenant_id = :t and t.document_id = :d and t.version = :v""")
_NODES = statement("""
select id, parent_id, kind, level, title, start_offset, end_offset, page, page_end, slide, block, ordinal
  from node where tenant_id = :t and document_id = :d and ordinal > :after order by ordinal limit :most""")
_PAGES = statement("""
select page, width, height, starts, ends, boxes from document_page
 where tenant_id = :t and document_id = :d and page > :after order by page limit :most""")
_CHUNKS = statement("""
select c.content, c.start_offset, c.end_offset, c.token_count, c.page, c.page_end, c.slide, c.section_titles,
       c.node_path, c.metadata, c.media_ordinal, e.embedding
  from (select * from chunk where tenant_id = :t and kb_id = :kb and document_id = :d and version = :v
           and index_id = :i and id = any(:ids::uuid[])) c
  left join lateral (select e.embedding from chunk_embedding e
                      where e.tenant_id = :t and e.index_id = :i and e.chunk_id = c.id offset 0) e on true
 order by c.ordinal""")
_MEDIA = statement("""
select ordinal, key, media_type, bytes, width, height, sha256 from document_media
 where tenant_id = :t and document_id = :d and version = :v order by ordinal""")
_FILLED = statement("select 1 from chunk where tenant_id = :t and index_id = :i limit 1")
# Whoever adds a chunk holds the row by a lock that this one waits for.
_HOLD = statement("select 1 from search_index where tenant_id = :t and kb_id = :kb and id = :i for update")
_BEGIN_WITH = statement("""
update search_index set avgdl = :average::real
 where tenant_id = :t and kb_id = :kb and id = :i and state = 'live'
   and not exists (select from chunk where tenant_id = :t and index_id = :i)""")
