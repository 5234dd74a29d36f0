"""Removal of documents, with their receipt and the job that removes their originals, in one transaction."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.db.session import Session
from app.documents.deletion.repository import DeletionRepository
from app.jobs.queue import JobQueue
from app.knowledge_bases.service import PURGE_JOB


async def remove_documents(
    session: Session,
    queue: JobQueue,
    tenant_id: UUID,
    kb_id: UUID,
    documents: Sequence[UUID],
    *,
    deletion_id: UUID,
    document_id: UUID | None = None,
    with_file: UUID | None = None,
    user_id: str | None = None,
) -> Mapping[str, int]:
    """Remove documents from all searches and enqueue the removal of their originals.

    Args:
        session: An open transaction of the tenant. The documents are locked.
        queue: The queue for the job that deletes the originals from the object store.
        tenant_id: The tenant that owns the documents.
        kb_id: The knowledge base of the documents.
        documents: The documents to remove.
        deletion_id: The deletion. Several batches can belong to one deletion.
        document_id: The document, if the request named only one document.
        with_file: A stored file that is deleted together with its documents.
        user_id: The user that the caller's key is restricted to.

    Returns:
        The numbers of documents and chunks, for the audit event.
    """
    repository = DeletionRepository(session, tenant_id)
    amount = await repository.remove(kb_id, documents, with_file=with_file)
    await repository.record_receipt(deletion_id, kb_id, amount, document_id=document_id, user_id=user_id)
    payload = {"prefixes": [f"{tenant_id}/{removed_id}/" for removed_id in documents], "deletion": str(deletion_id)}
    await queue.enqueue(session, PURGE_JOB, tenant_id=tenant_id, payload=payload)
    return {"documents": amount.documents, "chunks": amount.chunks}
