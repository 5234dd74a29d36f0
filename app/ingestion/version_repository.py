"""The version of a document that is being ingested: what is read of it, what is told of it, and its end."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import Record, statement


class VersionRepository:
    """Queries in one tenant, for the worker."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def load(self, document_id: UUID, version: int) -> tuple[Document, str] | None:
        """A document whose newest version this is and that is not settled, detached, and where its original is."""
        row = await self.session.row(_LOAD, {"t": self.tenant_id, "d": document_id, "v": version})
        return None if row is None else (_document(row), row["key"])

    async def lock(self, document_id: UUID, version: int) -> Document | None:
        """The same as it is now, kept from every other change until the transaction ends."""
        row = await self.session.row(_LOCK, {"t": self.tenant_id, "d": document_id, "v": version})
        return None if row is None else _document(row)

    async def set_status(
        self, document_id: UUID, version: int, status: str, progress: Mapping[str, Any] | None = None
    ) -> bool:
        """Move a version that is being ingested along; False when it is gone, settled or no longer the newest."""
        values = {
            "t": self.tenant_id,
            "d": document_id,
            "v": version,
            "status": status,
            "progress": None if progress is None else json.dumps(progress),
        }
        return await self.session.row(_SET_STATUS, values) is not None

    async def finish(
        self,
        document: Document,
        index_id: UUID,
        *,
        chunks: int,
        page_count: int | None,
        warnings: Sequence[str],
        pictures: Collection[bytes],
    ) -> list[str] | None:
        """The version is whole and ``index_id`` still live: what is left of earlier versions and attempts goes.

        Returns the keys of their objects, to be purged; None when another index has become the live one. ``pictures``
        are the hashes of those that it shows: what was said of them stays.
        """
        values = {
            "t": self.tenant_id,
            "kb": document.kb_id,
            "d": document.id,
            "v": document.version,
            "i": index_id,
            "title": document.title,
            "filterable": json.dumps(document.filterable),
            "chunks": chunks,
            "pages": page_count,
            "warnings": json.dumps(list(warnings)),
            "pictures": list(pictures),
        }
        row = await self.session.row(_FINISH, values)
        assert row is not None
        return row["keys"] if row["finished"] else None


def _document(row: Record) -> Document:
    """What ingestion needs to know of it, apart from any session."""
    return Document(**{name: row[name] for name in _COLUMNS}, attributes=row["metadata"])


_COLUMNS = (
    "tenant_id",
    "id",
    "kb_id",
    "version",
    "live_version",
    "status",
    "source",
    "title",
    "source_uri",
    "source_created_at",
    "media_type",
    "encoding",
    "scope_key",
    "dynamic",
    "created_at",
)
_WANTED = "d.tenant_id = :t and d.id = :d and d.version = :v and d.status not in ('ready', 'failed')"
_LOAD = statement(f"""
select {", ".join(f"d.{name}" for name in _COLUMNS)}, d.metadata, o.key from document d
  join document_object o on o.tenant_id = d.tenant_id and o.document_id = d.id and o.version = d.version
 where {_WANTED}""")  # noqa: S608  (constants)
_LOCK = statement(f"""
select {", ".join(f"d.{name}" for name in _COLUMNS)}, d.metadata
  from document d where {_WANTED} for update""")  # noqa: S608  (constants)
_SET_STATUS = statement(f"""
update document d set status = :status, progress = :progress::jsonb, updated_at = now()
 where {_WANTED} returning 1""")  # noqa: S608  (constants)
_FINISH = statement("""
with finished as (
  update document d
     set status = 'ready', live_version = d.version, title = :title, filterable = :filterable::jsonb, error = null,
         progress = null, warnings = :warnings::jsonb, page_count = :pages, chunk_count = :chunks, updated_at = now()
    from search_index i
   where d.tenant_id = :t and d.id = :d and i.tenant_id = :t and i.kb_id = :kb and i.id = :i and i.state = 'live'
  returning 1
), vectors as (
  delete from embedding_checkpoint where tenant_id = :t and document_id = :d
), descriptions as (
  delete from picture_description where tenant_id = :t and document_id = :d and sha256 <> all(:pictures::bytea[])
), media as (
  delete from document_media where tenant_id = :t and document_id = :d returning key
), originals as (
  delete from document_object where tenant_id = :t and document_id = :d and version < :v returning key
)
select exists (select from finished) finished,
       array(select key from media union all select key from originals) keys""")
