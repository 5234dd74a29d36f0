"""What an upload asks and writes; on the driver's own connection, because uploads come by the thousand."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.audit.repository import build_event_values, build_insert_event_sql
from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.row_codec import DOCUMENT_COLUMNS, parse_document_row, to_row_values

# What is told of every version; the rest belongs to the document, and is told once.
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
    """The document that an upload is about, as far as the upload needs it."""

    id: UUID
    sha256: bytes
    created_at: datetime
    expires_at: datetime | None
    expired: bool


class UploadRepository:
    """Queries in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def has_metadata_revision(self, kb_id: UUID, metadata_revision: int) -> bool:
        """Whether everything that goes in still gets this stamp; if so, it does until the transaction ends."""
        values = {"tenant": self.tenant_id, "kb": kb_id, "number": metadata_revision}
        return await self.session.fetch_row(_HAS_METADATA_REVISION, values) is not None

    async def find_by_identity(
        self, kb_id: UUID, scope_key: UUID, *, external_id: str | None, sha256: bytes
    ) -> ExistingDocument | None:
        """The document that an upload with this identity is about."""
        params = {"tenant": self.tenant_id, "kb": kb_id, "scope": scope_key}
        if external_id is None:
            row = await self.session.fetch_row(_FIND_BY_CONTENT, {**params, "sha256": sha256})
        else:
            row = await self.session.fetch_row(_FIND_BY_EXTERNAL_ID, {**params, "external_id": external_id})
        return ExistingDocument(**row) if row else None

    async def add(self, document: DocumentRow, object_key: str, *, actor: Actor) -> DocumentRow | None:
        """Insert it and where its original is; None when another upload with the same identity was faster."""
        values = {**to_row_values(document, _COLUMNS), "key": object_key}
        row = await self.session.fetch_row(
            _ADD, values | build_event_values(AuditEvent(AuditAction.DOCUMENT_CREATE), actor)
        )
        return parse_document_row(row) if row else None

    async def begin_version(self, document: DocumentRow, object_key: str, *, actor: Actor) -> DocumentRow | None:
        """Make ``document`` the next version of its row, the live one staying; ``object_key`` is where its original is.

        None when the row is gone, promoted, or has these bytes by now.
        """
        values = {**to_row_values(document, _COLUMNS), "key": object_key}
        row = await self.session.fetch_row(
            _BEGIN_VERSION, values | build_event_values(AuditEvent(AuditAction.DOCUMENT_REPLACE), actor)
        )
        return parse_document_row(row) if row else None


# Inserting takes the same lock for its foreign key. Who has given a new stamp to all that is there waits for it.
_HAS_METADATA_REVISION = parse_statement("""
select 1 from knowledge_base
 where tenant_id = :tenant and id = :kb and filter_revision + (pending_metadata_filter is not null)::int = :number::int
   and deleted_at is null for key share""")
_SELECT_EXISTING = """
select id, sha256, created_at, expires_at, coalesce(expires_at <= now(), false) as expired from document
 where tenant_id = :tenant and kb_id = :kb and scope_key = :scope"""
_FIND_BY_CONTENT = parse_statement(f"{_SELECT_EXISTING} and external_id is null and sha256 = :sha256")
_FIND_BY_EXTERNAL_ID = parse_statement(f"{_SELECT_EXISTING} and external_id = :external_id")
# What follows a new version, in the statement that writes it: a round trip less for each.
_INSERT_OBJECT_AND_EVENT = f"""
placed as (
  insert into document_object (tenant_id, document_id, version, key)
  select tenant_id, id, version, :key from written
), event as (
  {build_insert_event_sql("tenant_id", "written", object_ids="array[id]", kb_id="kb_id")}
)"""  # noqa: S608
# The names are constants of this module; the values go as parameters.
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
