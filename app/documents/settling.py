"""The end of a deletion: count what is left of it, and close its receipt where that is nothing."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.db.session import TenantDatabase
from app.documents.receipt_repository import ReceiptRepository
from app.documents.remains import RemainsRepository
from app.errors import Unavailable
from app.object_store import ObjectStore


class SomethingLeft(Unavailable):
    """Not everything could be removed yet; the receipt says what is left."""

    code = "deletion_unfinished"


async def count_objects(objects: ObjectStore, prefixes: Sequence[str]) -> int:
    """How many there are below these prefixes. Raises ObjectStoreUnavailable."""
    count = 0
    for prefix in prefixes:
        async for _ in objects.list_objects(prefix):
            count += 1
    return count


async def settle_documents(
    db: TenantDatabase,
    documents: Sequence[UUID],
    *,
    deletion_id: UUID,
    job_id: UUID,
    objects: int,
    temporary_files: int = 0,
) -> None:
    """For the job that has removed these documents' originals, of which ``objects`` are left.

    ``temporary_files`` are folders of killed processes that may hold one. Raises SomethingLeft.
    """
    async with db.transaction() as session:
        receipts, remains = ReceiptRepository(session, db.tenant_id), RemainsRepository(session, db.tenant_id)
        receipt = await receipts.lock(deletion_id)
        await remains.forget_documents(documents, but_job=job_id)
        kb_id = None if receipt is None else receipt.kb_id
        left = await remains.of_documents(kb_id, documents, but_job=job_id)
        is_over = await close(
            receipts, left | {"objects": objects, "temporary_files": temporary_files}, deletion_id, job_id
        )
    if not is_over:
        raise SomethingLeft


async def settle_knowledge_base(
    db: TenantDatabase, kb_id: UUID, indexes: Sequence[UUID], *, deletion_id: UUID, job_id: UUID, roles: int = 0
) -> None:
    """For the job that has removed a knowledge base; its documents are settled by those of their originals.

    ``roles`` counts the database roles of its publications that are still there.

    Raises SomethingLeft.
    """
    async with db.transaction() as session:
        receipts, remains = ReceiptRepository(session, db.tenant_id), RemainsRepository(session, db.tenant_id)
        receipt = await receipts.lock(deletion_id)
        told = {} if receipt is None else receipt.remaining or {}
        await remains.forget_knowledge_base(kb_id, indexes, but_job=job_id)
        nothing = await remains.of_documents(kb_id, [], but_job=job_id)  # so that all tables are told of
        left = await remains.of_knowledge_base(kb_id, indexes, but_job=job_id) | {"database_roles": roles}
        is_over = await close(receipts, left, deletion_id, job_id, told={"objects": 0, **nothing, **told})
    if not is_over:
        raise SomethingLeft


async def close(
    receipts: ReceiptRepository,
    left: Mapping[str, int],
    deletion_id: UUID,
    job_id: UUID,
    *,
    told: Mapping[str, int] | None = None,
) -> bool:
    """Finish where nothing is left; else the receipt says what is, and stays open. ``told`` is by other jobs."""
    await receipts.tell(deletion_id, {**(told or {}), **left})
    if any(left.values()):
        return False
    await receipts.finish(deletion_id, job_id)
    return True
