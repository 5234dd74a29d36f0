"""Completion of deletions: count the remaining rows and objects, and close the receipt if the count is zero."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.db.session import TenantDatabase
from app.documents.deletion.receipt_repository import ReceiptRepository
from app.documents.deletion.residue_repository import ResidueRepository
from app.errors import UnavailableError
from app.object_store import ObjectStore


class DeletionIncomplete(UnavailableError):
    """Some contents are not removed yet. The receipt counts them, and the job tries again."""

    code = "deletion_incomplete"


async def count_objects(objects: ObjectStore, prefixes: Sequence[str]) -> int:
    """Return the number of objects whose key begins with one of the prefixes. Raises ObjectStoreUnavailable."""
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
    """Close the receipt of a deletion of documents if no rows and objects of the documents remain.

    The job that removed the documents' originals calls this function last.

    Args:
        db: The tenant's database.
        documents: The deleted documents.
        deletion_id: The deletion.
        job_id: The calling job. The row of this job is not counted.
        objects: The number of originals that remain in the object store.
        temporary_files: The number of directories of killed processes that may contain a document.

    Raises:
        DeletionIncomplete: Something remains. The receipt has the counts.
    """
    async with db.transaction() as session:
        receipts, residue = ReceiptRepository(session, db.tenant_id), ResidueRepository(session, db.tenant_id)
        receipt = await receipts.lock(deletion_id)
        await residue.delete_late_document_rows(documents, excluded_job_id=job_id)
        kb_id = None if receipt is None else receipt.kb_id
        await residue.merge_subtracted_entities(kb_id)
        remaining = await residue.count_document_rows(kb_id, documents, excluded_job_id=job_id)
        is_complete = await close_receipt(
            receipts, remaining | {"objects": objects, "temporary_files": temporary_files}, deletion_id, job_id
        )
    if not is_complete:
        raise DeletionIncomplete


async def complete_knowledge_base_deletion(
    db: TenantDatabase, kb_id: UUID, indexes: Sequence[UUID], *, deletion_id: UUID, job_id: UUID, roles: int = 0
) -> None:
    """Close the receipt of a deletion of a knowledge base if no rows of the knowledge base remain.

    The job that removed the knowledge base calls this function last. Other jobs remove the originals of its documents
    and count them.

    Args:
        db: The tenant's database.
        kb_id: The deleted knowledge base.
        indexes: The search indexes of the knowledge base.
        deletion_id: The deletion.
        job_id: The calling job. The row of this job is not counted.
        roles: The number of remaining database roles of the knowledge base's SQL views.

    Raises:
        DeletionIncomplete: Something remains. The receipt has the counts.
    """
    async with db.transaction() as session:
        receipts, residue = ReceiptRepository(session, db.tenant_id), ResidueRepository(session, db.tenant_id)
        receipt = await receipts.lock(deletion_id)
        recorded = {} if receipt is None else receipt.remaining or {}
        await residue.delete_late_knowledge_base_rows(kb_id, indexes, excluded_job_id=job_id)
        # Without document ids, every count is zero. The zeros make the receipt list every table.
        document_counts = await residue.count_document_rows(kb_id, [], excluded_job_id=job_id)
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
    """Record the remaining counts in a receipt, and close it if all of this job's counts are zero.

    Args:
        receipts: The repository of the tenant that owns the receipt.
        remaining: Counts by table or kind of object, from this job.
        deletion_id: The deletion.
        job_id: The calling job.
        recorded: Counts that other jobs have recorded. They stay in the receipt and do not keep it open.

    Returns:
        Whether all counts of this job are zero.
    """
    await receipts.record_residue(deletion_id, {**(recorded or {}), **remaining})
    if any(remaining.values()):
        return False
    await receipts.finish(deletion_id, job_id)
    return True
