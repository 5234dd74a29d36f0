"""Document, node and chunk queries, and status transitions."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, null, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.control_plane import Job
from app.db.models.tenant_data import Chunk, Document, DocumentObject, DocumentText, Node


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """What a list of documents can be narrowed by."""

    status: str | None = None
    external_id: str | None = None
    scope_key: UUID | None = None
    contains: dict[str, Any] | None = None
    path: str | None = None


class DocumentRepository:
    """Queries in one tenant; the knowledge base narrows every one that a caller's id reaches."""

    def __init__(self, session: AsyncSession, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(self, document: Document) -> bool:
        """Insert; False when another upload with the same identity was faster."""
        values = {
            column.key: value
            for column in Document.__mapper__.column_attrs
            if (value := getattr(document, column.key)) is not None
        }
        statement = insert(Document).values(values).on_conflict_do_nothing().returning(Document.id)
        return (await self.session.scalar(statement)) is not None

    async def begin_version(self, document: Document, *, expected: int) -> bool:
        """Make ``document`` the newest version of its row, the live one staying; False unless ``expected`` still is."""
        changed = (
            "version",
            "source",
            "title",
            "source_uri",
            "source_created_at",
            "media_type",
            "encoding",
            "bytes",
            "sha256",
        )
        statement = (
            update(Document)
            .where(Document.tenant_id == self.tenant_id, Document.id == document.id, Document.version == expected)
            .values({name: getattr(document, name) for name in changed})
            .values(
                attributes=document.attributes,
                filterable=document.filterable,
                status="queued",
                error=null(),
                progress=null(),
                warnings=[],
            )
            .returning(Document.id)
        )
        return (await self.session.scalar(statement)) is not None

    async def requeue(self, document_id: UUID, version: int, *, encoding: str | None) -> bool:
        """Take a failed version back to the start, in another encoding if named; False when it is not failed."""
        statement = (
            update(Document)
            .where(
                Document.tenant_id == self.tenant_id,
                Document.id == document_id,
                Document.version == version,
                Document.status == "failed",
            )
            .values(status="queued", error=null(), progress=null(), encoding=func.coalesce(encoding, Document.encoding))
            .returning(Document.id)
        )
        await self.session.execute(
            delete(Job).where(Job.tenant_id == self.tenant_id, Job.document_id == document_id, Job.state == "dead")
        )
        return (await self.session.scalar(statement)) is not None

    async def get(self, kb_id: UUID, document_id: UUID, *, lock: bool = False) -> Document | None:
        """One document; ``lock`` keeps every other change of it waiting until the transaction ends."""
        statement = select(Document).where(
            Document.tenant_id == self.tenant_id, Document.kb_id == kb_id, Document.id == document_id
        )
        return await self.session.scalar(statement.with_for_update() if lock else statement)

    async def by_id(self, document_id: UUID) -> Document | None:
        """One document of the tenant, for the worker."""
        statement = select(Document).where(Document.tenant_id == self.tenant_id, Document.id == document_id)
        return await self.session.scalar(statement)

    async def by_identity(
        self, kb_id: UUID, scope_key: UUID, *, external_id: str | None, sha256: bytes, lock: bool = False
    ) -> Document | None:
        """The document that an upload with this identity is about."""
        statement = select(Document).where(
            Document.tenant_id == self.tenant_id, Document.kb_id == kb_id, Document.scope_key == scope_key
        )
        if external_id is None:
            statement = statement.where(Document.external_id.is_(None), Document.sha256 == sha256)
        else:
            statement = statement.where(Document.external_id == external_id)
        return await self.session.scalar(statement.with_for_update() if lock else statement)

    async def page(
        self, kb_id: UUID, filters: DocumentFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[Document]:
        """Newest first."""
        statement = select(Document).where(Document.tenant_id == self.tenant_id, Document.kb_id == kb_id)
        if filters.status is not None:
            statement = statement.where(Document.status == filters.status)
        if filters.external_id is not None:
            statement = statement.where(Document.external_id == filters.external_id)
        if filters.scope_key is not None:
            statement = statement.where(Document.scope_key == filters.scope_key)
        if filters.contains is not None:
            contains = text("document.filterable @> cast(:contains as jsonb)")
            statement = statement.where(contains.bindparams(contains=json.dumps(filters.contains)))
        if filters.path is not None:
            path = text("document.filterable @@ cast(:path as jsonpath)")
            statement = statement.where(path.bindparams(path=filters.path))
        if after is not None:
            statement = statement.where(tuple_(Document.created_at, Document.id) < after)
        statement = statement.order_by(Document.created_at.desc(), Document.id.desc()).limit(limit)
        return list(await self.session.scalars(statement))

    async def add_object(self, document_id: UUID, version: int, key: str) -> None:
        """Remember where a version's original is."""
        self.session.add(DocumentObject(tenant_id=self.tenant_id, document_id=document_id, version=version, key=key))
        await self.session.flush()

    async def object_key(self, document_id: UUID, version: int) -> str | None:
        """Where the original of a version is."""
        found: str | None = await self.session.scalar(
            text("select key from document_object where tenant_id = :t and document_id = :d and version = :v"),
            {"t": self.tenant_id, "d": document_id, "v": version},
        )
        return found

    async def take_objects_before(self, document_id: UUID, version: int) -> list[str]:
        """Forget the originals of older versions; returns their keys, to be purged."""
        rows = await self.session.scalars(
            text(
                "delete from document_object where tenant_id = :t and document_id = :d and version < :v returning key"
            ),
            {"t": self.tenant_id, "d": document_id, "v": version},
        )
        return list(rows)

    async def set_status(
        self, document_id: UUID, version: int, status: str, progress: dict[str, Any] | None = None
    ) -> bool:
        """Move a version that is being ingested along; False when it is gone, settled or no longer the newest."""
        row = await self.session.scalar(
            text(
                "update document set status = :status, progress = cast(:progress as jsonb), updated_at = now() "
                "where tenant_id = :t and id = :d and version = :v and status not in ('ready', 'failed') returning 1"
            ),
            {
                "status": status,
                "progress": None if progress is None else json.dumps(progress),
                "t": self.tenant_id,
                "d": document_id,
                "v": version,
            },
        )
        return row is not None

    async def restamp(self, document: Document) -> None:
        """Give the lanes what filters see of the document now.

        What belongs to the single chunk (page, node) stays; so does the file's name and type while the row is already
        that of another version than the live one.
        """
        stamped = json.dumps(document.filterable)
        kept = ["$page", "$node"]
        if document.version != document.live_version:
            kept += ["$source", "$media_type"]
        for lane in ("chunk_embedding", "chunk_lexical"):
            await self.session.execute(
                text(_RESTAMP.format(lane=lane)),
                {"t": self.tenant_id, "kb": document.kb_id, "d": document.id, "stamped": stamped, "kept": kept},
            )

    async def remove(self, kb_id: UUID, document_id: UUID) -> bool:
        """Remove a document with all that hangs on it, out of every search at once; False when it is not there."""
        if await self.get(kb_id, document_id, lock=True) is None:
            return False
        values = {"t": self.tenant_id, "kb": kb_id, "d": document_id}
        await self.session.execute(text(NEGATIVE_DELTAS), values)
        await self.session.execute(
            text("delete from chunk where tenant_id = :t and kb_id = :kb and document_id = :d"), values
        )
        await self.session.execute(
            text("delete from document where tenant_id = :t and kb_id = :kb and id = :d"), values
        )
        return True

    async def chunks(self, document: Document, *, after: int, limit: int) -> list[Chunk]:
        """Chunks of the live version behind chunk_index ``after``."""
        statement = (
            select(Chunk)
            .where(
                Chunk.tenant_id == self.tenant_id,
                Chunk.kb_id == document.kb_id,
                Chunk.document_id == document.id,
                Chunk.version == document.live_version,
                Chunk.ordinal > after,
            )
            .order_by(Chunk.ordinal)
            .limit(limit)
        )
        return list(await self.session.scalars(statement))

    async def nodes(self, document_id: UUID) -> list[Node]:
        """The tree of the live version in reading order."""
        statement = (
            select(Node).where(Node.tenant_id == self.tenant_id, Node.document_id == document_id).order_by(Node.ordinal)
        )
        return list(await self.session.scalars(statement))

    async def stored_text(self, document_id: UUID) -> str | None:
        """The text that the offsets of the live version refer to."""
        statement = select(DocumentText.content).where(
            DocumentText.tenant_id == self.tenant_id, DocumentText.document_id == document_id
        )
        return await self.session.scalar(statement)


# The document frequencies and totals of what is about to go, kept by key, so that the rows themselves say them.
NEGATIVE_DELTAS = """
with gone as (
  select l.index_id, l.keys, l.dl from chunk c
    join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
   where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d
), totals as (
  insert into lex_totals select cast(:t as uuid), index_id, -count(*), -sum(dl) from gone group by index_id
)
insert into lex_df select cast(:t as uuid), index_id, k, -count(*) from gone, unnest(keys) k group by index_id, k"""
_RESTAMP = """
update {lane} l
   set metadata = cast(:stamped as jsonb) || coalesce(
         (select jsonb_object_agg(e.key, e.value) from jsonb_each(l.metadata) e where e.key = any(:kept)),
         '{{}}'::jsonb)
  from chunk c
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d
   and l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id"""
