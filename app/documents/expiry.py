"""Documents whose time has passed go: found by a sweeper, or by a document that would take one's place."""

from collections.abc import Collection
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import SERVICE_ACTOR, AuditAction, AuditEvent
from app.db.session import Session
from app.documents.deletion.remove import remove_documents
from app.documents.deletion.repository import DeletionRepository
from app.documents.write_repository import ExistingDocument, UploadRepository
from app.ids import generate_id
from app.jobs.queue import JobQueue


async def remove_expired_documents(
    session: Session, queue: JobQueue, tenant_id: UUID, kb_id: UUID, documents: Collection[UUID]
) -> int:
    """As a DELETE of them does, but for those whose time was put off meanwhile; returns how many went."""
    expired = await DeletionRepository(session, tenant_id).lock_expired(kb_id, documents)
    if expired:
        deletion_id = generate_id()
        counts = await remove_documents(session, queue, tenant_id, kb_id, expired, deletion_id=deletion_id)
        event = AuditEvent(AuditAction.DOCUMENT_EXPIRE, expired, kb_id, deletion_id, counts)
        await AuditRepository(session, tenant_id).add(event, SERVICE_ACTOR)
    return len(expired)


async def find_unexpired_document(
    session: Session,
    queue: JobQueue,
    tenant_id: UUID,
    kb_id: UUID,
    scope_key: UUID,
    *,
    external_id: str | None,
    sha256: bytes,
) -> ExistingDocument | None:
    """The document of this identity, ``external_id`` its external id. One that has expired goes now, and makes room."""
    repository = UploadRepository(session, tenant_id)
    document = await repository.find_by_identity(kb_id, scope_key, external_id=external_id, sha256=sha256)
    if document is None or not document.expired:
        return document
    await remove_expired_documents(session, queue, tenant_id, kb_id, [document.id])
    return None
