"""Document queries, and status transitions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVarTuple
from uuid import UUID

from sqlalchemy import Select, delete, func, null, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.control_plane import Job
from app.db.models.tenant_data import Document, DocumentObject
from app.documents.types import filterable

Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """What a list of documents can be narrowed by."""

    ids: Sequence[UUID] | None = None
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
            "dynamic",
            "expires_at",
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

    async def restart(self, document_id: UUID, *, encoding: str | None = None) -> None:
        """Take the newest version back to the start, in another encoding if named; its dead letters are done with."""
        await self.session.execute(
            delete(Job).where(Job.tenant_id == self.tenant_id, Job.document_id == document_id, Job.state == "dead")
        )
        await self.session.execute(
            update(Document)
            .where(Document.tenant_id == self.tenant_id, Document.id == document_id)
            .values(status="queued", error=null(), progress=null(), encoding=func.coalesce(encoding, Document.encoding))
        )

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
        statement = narrowed(select(Document), filters)
        statement = statement.where(Document.tenant_id == self.tenant_id, Document.kb_id == kb_id)
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
        """Give the lanes what filters see of the document now, and whom it belongs to.

        What belongs to the single chunk (page, node) stays; so does the file's name and type while the row is already
        that of another version than the live one.
        """
        kept = ["$page", "$node"]
        if document.version != document.live_version:
            kept += ["$source", "$media_type"]
        place = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id}
        rows = (await self.session.execute(text(_OWN_METADATA), place)).all()
        values = {
            **place,
            "scope": document.scope_key,
            "stamped": json.dumps(document.filterable),
            "kept": kept,
            "chunks": [row.id for row in rows],
            "own": [json.dumps(filterable(document, row.metadata)) for row in rows],
        }
        for lane in ("chunk_embedding", "chunk_lexical"):
            await self.session.execute(text(_RESTAMP.format(lane=lane)), values)


def narrowed(statement: Select[*Ts], filters: DocumentFilters) -> Select[*Ts]:
    """The statement over documents, for those alone that the filters mean."""
    if filters.ids is not None:
        statement = statement.where(Document.id.in_(filters.ids))
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
    return statement


_OWN_METADATA = """
select id, metadata from chunk where tenant_id = :t and kb_id = :kb and document_id = :d and metadata <> '{}'"""
_RESTAMP = """
update {lane} l
   set scope_key = :scope, metadata = coalesce(o.metadata, cast(:stamped as jsonb)) || coalesce(
         (select jsonb_object_agg(e.key, e.value) from jsonb_each(l.metadata) e where e.key = any(:kept)),
         '{{}}'::jsonb)
  from chunk c
  left join unnest(cast(:chunks as uuid[]), cast(:own as jsonb[])) o(id, metadata) on o.id = c.id
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d
   and l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id"""
