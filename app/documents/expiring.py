"""Documents whose time has passed go: found by a sweeper, or by a document that would take one's place."""

from collections.abc import Collection
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import SERVICE, Action, Event
from app.db.session import Session
from app.documents.removing import remove_documents
from app.documents.sweep_repository import SweepRepository
from app.documents.upload_repository import KnownDocument, UploadRepository
from app.ids import new_id
from app.job_queue import JobQueue


async def remove_expired(
    session: Session, queue: JobQueue, tenant_id: UUID, kb_id: UUID, documents: Collection[UUID]
) -> int:
    """As a DELETE of them does, but for those whose time was put off meanwhile; returns how many went."""
    expired = await SweepRepository(session, tenant_id).lock_expired(kb_id, documents)
    if expired:
        deletion = new_id()
        counts = await remove_documents(session, queue, tenant_id, kb_id, expired, deletion=deletion)
        event = Event(Action.DOCUMENT_EXPIRE, expired, kb_id, deletion, counts)
        await AuditRepository(session, tenant_id).add(event, SERVICE)
    return len(expired)


async def find_lasting(
    session: Session, queue: JobQueue, tenant_id: UUID, kb_id: UUID, scope_key: UUID, *, name: str | None, sha256: bytes
) -> KnownDocument | None:
    """The document of this identity, ``name`` its external id. One that has expired goes now, and makes room."""
    repository = UploadRepository(session, tenant_id)
    found = await repository.by_identity(kb_id, scope_key, external_id=name, sha256=sha256)
    if found is None or not found.expired:
        return found
    await remove_expired(session, queue, tenant_id, kb_id, [found.id])
    return None
