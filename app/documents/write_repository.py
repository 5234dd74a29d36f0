"""Queries of an upload. They use the driver's connection without the ORM, because uploads come by the thousand."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.audit.repository import build_event_values, build_insert_event_sql
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.row_codec import DOCUMENT_COLUMNS, parse_document_row, to_row_values

# The columns that each version of a document sets. The other columns are set when the document is created.
_VERSION_COLUMNS = (
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
    "metadata",
    "filterable",
    "quota_key_id",
    "metadata_revision",
)
_COLUMNS = (
    *("tenant_id", "kb_id", "id", "external_id", "created_at"),
    *("scope_level", "scope_key", "user_id", "chat_id", "agent_id"),
    *_VERSION_COLUMNS,
)


@dataclass(frozen=True, slots=True)
class ExistingDocument:
    """Columns of a stored document with the same identity (external id or content hash) as an upload."""

    id: UUID
    sha256: bytes
    created_at: datetime
    expires_at: datetime | None
    expired: bool


class UploadRepository:
    """Queries of uploads of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def has_metadata_revision(self, kb_id: UUID, metadata_revision: int) -> bool:
        """Return whether the knowledge base's enforced metadata still has this revision.

        If the result is True, the row is locked, so the revision cannot change until the transaction ends.
        """
        values = {"tenant": self.tenant_id, "kb": kb_id, "number": metadata_revision}
        return await self.session.fetch_row(_HAS_METADATA_REVISION, values) is not None

    async def find_by_identity(
        self, kb_id: UUID, scope_key: UUID, *, external_id: str | None, sha256: bytes
    ) -> ExistingDocument | None:
        """Return the document of a scope that has an identity.

        Args:
            kb_id: The knowledge base.
            scope_key: The key of the document's scope.
            external_id: The external id, or None if the content identifies the document.
            sha256: The hash of the content. It identifies documents without an external id.

        Returns:
            The document, or None. The document may have expired.
        """
        params = {"tenant": self.tenant_id, "kb": kb_id, "scope": scope_key}
        if external_id is None:
            row = await self.session.fetch_row(_FIND_BY_CONTENT, {**params, "sha256": sha256})
        else:
            row = await self.session.fetch_row(_FIND_BY_EXTERNAL_ID, {**params, "external_id": external_id})
        return ExistingDocument(**row) if row else None

    async def add(self, document: DocumentRow, object_key: str, *, actor: Actor) -> DocumentRow | None:
        """Insert a document and its object key. Return None if another upload with the same identity was faster."""
        values = {**to_row_values(document, _COLUMNS), "key": object_key}
        row = await self.session.fetch_row(
            _ADD, values | build_event_values(AuditEvent(AuditAction.DOCUMENT_CREATE), actor)
        )
        return parse_document_row(row) if row else None

    async def begin_version(self, document: DocumentRow, object_key: str, *, actor: Actor) -> DocumentRow | None:
        """Write a document as the next version of its row.

        The live version stays in searches until the next version is ingested.

        Args:
            document: The values of the next version, with the id of the existing document.
            object_key: The object store's key of the original.
            actor: The author of the audit event.

        Returns:
            The row, or None if the row was deleted or promoted, or has the same bytes already.
        """
        values = {**to_row_values(document, _COLUMNS), "key": object_key}
        row = await self.session.fetch_row(
            _BEGIN_VERSION, values | build_event_values(AuditEvent(AuditAction.DOCUMENT_REPLACE), actor)
        )
        return parse_document_row(row) if row else None


# An insert locks the same row for its foreign key. The end of a metadata backfill waits for this lock.
_HAS_METADATA_REVISION = parse_statement("""
select 1 from knowledge_base
 where tenant_id = :tenant and id = :kb and filter_revision + (pending_metadata_filter is not null)::int = :number::int
   and deleted_at is null for key share""")
_SELECT_EXISTING = """
select id, sha256, created_at, expires_at, coalesce(expires_at <= now(), false) as expired from document
 where tenant_id = :tenant and kb_id = :kb and scope_key = :scope"""
_FIND_BY_CONTENT = parse_statement(f"{_SELECT_EXISTING} and external_id is null and sha256 = :sha256")
_FIND_BY_EXTERNAL_ID = parse_statement(f"{_SELECT_EXISTING} and external_id = :external_id")
# The object key and the audit event are written by the statement that writes the version, which saves round trips.
_INSERT_OBJECT_AND_EVENT = f"""
placed as (
  insert into document_object (tenant_id, document_id, version, key)
  select tenant_id, id, version, :key from written
), event as (
  {build_insert_event_sql("tenant_id", "written", object_ids="array[id]", kb_id="kb_id")}
)"""  # noqa: S608
# Only constant names of this module are formatted into the statement. Values are parameters.
_ADD = parse_statement(f"""
with written as (
  insert into document ({", ".join(_COLUMNS)}) values ({", ".join(f":{name}" for name in _COLUMNS)})
  on conflict do nothing returning {DOCUMENT_COLUMNS}
), {_INSERT_OBJECT_AND_EVENT} select * from written""")  # noqa: S608
_BEGIN_VERSION = parse_statement(f"""
with written as (
  update document
     set {", ".join(f"{name} = :{name}" for name in _VERSION_COLUMNS)}, version = version + 1, status = 'queued',
         error = null, progress = null, warnings = '[]', updated_at = now()
   where tenant_id = :tenant_id and kb_id = :kb_id and id = :id and scope_key = :scope_key and sha256 <> :sha256
  returning {DOCUMENT_COLUMNS}
), {_INSERT_OBJECT_AND_EVENT} select * from written""")  # noqa: S608
