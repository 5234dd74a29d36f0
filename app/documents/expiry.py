"""Removal of expired documents, by the sweeper or by an upload that replaces an expired document."""

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
    """Lock the given documents, and delete the documents that are still expired.

    The deletion has a receipt, a purge job and an audit event, like a deletion by a request. A document whose expiry
    was postponed after the caller read it stays.

    Args:
        session: An open transaction of the tenant.
        queue: Receives the job that removes the originals from the object store.
        tenant_id: The tenant that owns the documents.
        kb_id: The knowledge base of the documents.
        documents: Ids of documents that were expired when the caller read them.

    Returns:
        The number of deleted documents.
    """
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
    """Return the document with an external id or content hash. If the document has expired, delete it.

    Args:
        session: An open transaction of the tenant.
        queue: Receives the job that removes an expired document's original.
        tenant_id: The tenant that owns the knowledge base.
        kb_id: The knowledge base.
        scope_key: The key of the document's scope.
        external_id: The external id, or None if the content identifies the document.
        sha256: The hash of the content. It identifies documents without an external id.

    Returns:
        The document, or None if it does not exist or was expired.
    """
    repository = UploadRepository(session, tenant_id)
    document = await repository.find_by_identity(kb_id, scope_key, external_id=external_id, sha256=sha256)
    if document is None or not document.expired:
        return document
    await remove_expired_documents(session, queue, tenant_id, kb_id, [document.id])
    return None
