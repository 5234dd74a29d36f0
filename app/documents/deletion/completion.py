"""The end of a deletion: count what is left of it, and close its receipt where that is nothing."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.db.session import TenantDatabase
from app.documents.deletion.receipt_repository import ReceiptRepository
from app.documents.deletion.residue_repository import ResidueRepository
from app.errors import UnavailableError
from app.object_store import ObjectStore


class DeletionIncomplete(UnavailableError):
    """Not everything could be removed yet; the receipt says what is left."""

    code = "deletion_incomplete"


async def count_objects(objects: ObjectStore, prefixes: Sequence[str]) -> int:
    """How many there are below these prefixes. Raises ObjectStoreUnavailable."""
    count = 0
    for prefix in prefixes:
        async for _ in objects.list_objects(prefix):
            count += 1
    return count


async def complete_document_deletion(
    db: TenantDatabase,
    documents: Sequence[UUID],
    *,
    deletion_id: UUID,
    job_id: UUID,
    objects: int,
    temporary_files: int = 0,
) -> None:
    """For the job that has removed these documents' originals, of which ``objects`` are left.

    ``temporary_files`` are folders of killed processes that may hold one. Raises DeletionIncomplete.
    """
    async with db.transaction() as session:
        receipts, residue = ReceiptRepository(session, db.tenant_id), ResidueRepository(session, db.tenant_id)
        receipt = await receipts.lock(deletion_id)
        await residue.delete_late_document_rows(documents, excluded_job_id=job_id)
        kb_id = None if receipt is None else receipt.kb_id
        remaining = await residue.count_document_rows(kb_id, documents, excluded_job_id=job_id)
        is_complete = await close_receipt(
            receipts, remaining | {"objects": objects, "temporary_files": temporary_files}, deletion_id, job_id
        )
    if not is_complete:
        raise DeletionIncomplete


async def complete_knowledge_base_deletion(
    db: TenantDatabase, kb_id: UUID, indexes: Sequence[UUID], *, deletion_id: UUID, job_id: UUID, roles: int = 0
) -> None:
    """For the job that has removed a knowledge base; its documents are settled by those of their originals.

    ``roles`` counts the database roles of its SQL views that are still there.

    Raises DeletionIncomplete.
    """
    async with db.transaction() as session:
        receipts, residue = ReceiptRepository(session, db.tenant_id), ResidueRepository(session, db.tenant_id)
        receipt = await receipts.lock(deletion_id)
        recorded = {} if receipt is None else receipt.remaining or {}
        await residue.delete_late_knowledge_base_rows(kb_id, indexes, excluded_job_id=job_id)
        document_counts = await residue.count_document_rows(
            kb_id, [], excluded_job_id=job_id
        )  # so that all tables are told of
        remaining = await residue.count_knowledge_base_rows(kb_id, indexes, excluded_job_id=job_id) | {
            "database_roles": roles
        }
        is_complete = await close_receipt(
            receipts, remaining, deletion_id, job_id, recorded={"objects": 0, **document_counts, **recorded}
        )
    if not is_complete:
        raise DeletionIncomplete


async def close_receipt(
    receipts: ReceiptRepository,
    remaining: Mapping[str, int],
    deletion_id: UUID,
    job_id: UUID,
    *,
    recorded: Mapping[str, int] | None = None,
) -> bool:
    """Finish where nothing is left; else the receipt says what is, and stays open. ``recorded`` is by other jobs."""
    await receipts.record_residue(deletion_id, {**(recorded or {}), **remaining})
    if any(remaining.values()):
        return False
    await receipts.finish(deletion_id, job_id)
    return True
