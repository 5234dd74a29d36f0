"""Documents go in the transaction of their receipt, and of the job that removes their objects."""

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
    """Out of every search at once; returns how many documents and chunks, for the event.

    ``document_id`` is the one that was asked for by its id, ``with_file`` a kept file that goes as well,
    ``user_id`` the user that the asking key is restricted to.
    """
    repository = DeletionRepository(session, tenant_id)
    amount = await repository.remove(kb_id, documents, with_file=with_file)
    await repository.record_receipt(deletion_id, kb_id, amount, document_id=document_id, user_id=user_id)
    payload = {"prefixes": [f"{tenant_id}/{removed_id}/" for removed_id in documents], "deletion": str(deletion_id)}
    await queue.enqueue(session, PURGE_JOB, tenant_id=tenant_id, payload=payload)
    return {"documents": amount.documents, "chunks": amount.chunks}
