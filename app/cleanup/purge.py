"""Purge of deleted knowledge bases and tenants in small batches, while the service continues to run.

Each step looks for the remains of the previous steps. A job that was killed can therefore run again from its beginning.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from app.cleanup.purge_repository import PurgeRepository
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import UnfinishedDeletion
from app.db.session import Database, TenantDatabase
from app.documents.deletion.completion import (
    DeletionIncomplete,
    close_receipt,
    complete_knowledge_base_deletion,
    count_objects,
)
from app.documents.deletion.receipt_repository import ReceiptRepository
from app.documents.deletion.residue_repository import ResidueRepository
from app.idempotency import delete_stored_responses
from app.index_maintenance.index_drop import IndexDropper
from app.jobs.queue import JobQueue
from app.knowledge_bases.service import PURGE_JOB, PURGE_KNOWLEDGE_BASE_JOB
from app.knowledge_bases.soft_delete_repository import SoftDeleteRepository
from app.logging import get_logger
from app.object_store import ObjectStore
from app.sql_views.reconciler import SqlViewReconciler
from app.tenants.service import TenantService

logger = get_logger(__name__)

DELETIONS_JOB = "sweep_deletions"
# The age at which an unfinished deletion is examined. A deletion that still has a job is left alone.
STALE_DELETION_AGE = timedelta(minutes=5)
# The period in which an upload or ingestion that was running may still write an object of a deleted tenant.
MAX_LATE_WRITE_AGE = timedelta(hours=1)
# The number of documents of a batch. The deletion of their trees takes some tenths of a second.
BATCH_SIZE = 200


@dataclass(frozen=True, slots=True)
class Purger:
    """Purges of deleted knowledge bases and tenants, called by jobs."""

    database: Database
    queue: JobQueue
    objects: ObjectStore
    index_dropper: IndexDropper
    sql_views: SqlViewReconciler
    tenants: TenantService

    async def purge_knowledge_base(
        self, tenant_id: UUID, kb_id: UUID, indexes: Sequence[UUID], *, deletion_id: UUID, job_id: UUID
    ) -> None:
        """Remove the contents of a deleted knowledge base, and close its receipt.

        Args:
            tenant_id: The tenant that owned the knowledge base.
            kb_id: The knowledge base.
            indexes: The search indexes of the knowledge base.
            deletion_id: The deletion.
            job_id: The calling job.

        Raises:
            DeletionIncomplete: Something remains. ``IndexDropper.delete_chunks`` lists the other errors.
        """
        db = TenantDatabase(self.database, tenant_id)
        await self._drop_sql_views(tenant_id, kb_id, receipt_tenant_id=tenant_id, deletion_id=deletion_id)
        await self._drop_indexes(tenant_id, indexes)
        await self._remove_contents(db, kb_id, deletion_id)
        roles = await self._remove_roles(tenant_id, deletion_id)
        await complete_knowledge_base_deletion(db, kb_id, indexes, deletion_id=deletion_id, job_id=job_id, roles=roles)
        logger.info("knowledge_base.purged", deletion=str(deletion_id))

    async def purge_tenant(self, tenant_id: UUID, *, deletion_id: UUID, job_id: UUID) -> None:
        """Remove a tenant with all its contents, and close its receipt.

        Args:
            tenant_id: The tenant.
            deletion_id: The deletion. Its receipt belongs to the system tenant.
            job_id: The calling job.

        Raises:
            DeletionIncomplete: Something remains. ``IndexDropper.delete_chunks`` lists the other errors.
        """
        db = TenantDatabase(self.database, tenant_id)
        await self.tenants.disable(tenant_id)
        async with db.transaction() as session:
            indexes = {}
            for kb_id in await PurgeRepository(session, tenant_id).list_knowledge_bases():
                repository = SoftDeleteRepository(session, tenant_id, kb_id)
                await repository.soft_delete()
                indexes[kb_id] = await repository.retire_indexes()
        for kb_id, kb_indexes in indexes.items():
            await self._drop_sql_views(tenant_id, kb_id, receipt_tenant_id=SYSTEM_TENANT, deletion_id=deletion_id)
            await self._drop_indexes(tenant_id, kb_indexes)
            await self._remove_contents(db, kb_id, None)
        await self.tenants.purge(tenant_id)
        await self._complete_tenant_deletion(db, deletion_id=deletion_id, job_id=job_id)
        logger.info("tenant.purged", deletion=str(deletion_id))

    async def _drop_sql_views(
        self, tenant_id: UUID, kb_id: UUID, *, receipt_tenant_id: UUID, deletion_id: UUID
    ) -> None:
        """Drop the SQL views of a knowledge base.

        The receipt records the database roles that cannot be dropped yet. The removal of rows and originals does not
        wait for these roles.
        """
        remaining_ids = await self.sql_views.drop_all(tenant_id, kb_id)
        if remaining_ids:
            async with self.database.transaction(receipt_tenant_id) as session:
                await ReceiptRepository(session, receipt_tenant_id).record_sql_views(deletion_id, remaining_ids)
            await self.sql_views.delete_revoked(tenant_id, kb_id, remaining_ids)

    async def _remove_roles(self, receipt_tenant_id: UUID, deletion_id: UUID) -> int:
        """Drop the database roles that the receipt records. Return the number of roles that remain."""
        async with self.database.transaction(receipt_tenant_id) as session:
            receipt = await ReceiptRepository(session, receipt_tenant_id).get(deletion_id)
        return await self.sql_views.drop_deleted(receipt_tenant_id, [] if receipt is None else receipt.sql_views)

    async def _drop_indexes(self, tenant_id: UUID, indexes: Sequence[UUID]) -> None:
        """Remove search indexes; their partial database indexes are dropped before their chunks are deleted."""
        for index_id in indexes:
            await self.index_dropper.delete_chunks(tenant_id, index_id)
            await self.index_dropper.remove(tenant_id, index_id)

    async def _remove_contents(self, db: TenantDatabase, kb_id: UUID, deletion_id: UUID | None) -> None:
        """Remove the documents, then the knowledge base.

        If ``deletion_id`` is set, each batch enqueues the removal of its originals from the object store.
        """
        is_removed = False
        while not is_removed:
            async with db.transaction(allow_generic_plans=True) as session:  # for the cascading deletes
                repository = PurgeRepository(session, db.tenant_id)
                documents = await repository.lock_documents(kb_id, limit=BATCH_SIZE)
                stored_file_count = await repository.remove_documents(kb_id, documents)
                if documents and deletion_id is not None:
                    await ReceiptRepository(session, db.tenant_id).add_stored_file_count(deletion_id, stored_file_count)
                    prefixes = [f"{db.tenant_id}/{document_id}/" for document_id in documents]
                    payload = {"prefixes": prefixes, "deletion": str(deletion_id)}
                    await self.queue.enqueue(session, PURGE_JOB, tenant_id=db.tenant_id, payload=payload)
                if not documents:
                    is_removed = await repository.remove_if_empty(kb_id)

    async def _complete_tenant_deletion(self, db: TenantDatabase, *, deletion_id: UUID, job_id: UUID) -> None:
        """Count the remains of a tenant and close its receipt. The receipt belongs to the system tenant."""
        prefix = f"{db.tenant_id}/"
        await self.objects.delete_prefix(prefix)
        async with db.transaction() as session:
            remaining = await ResidueRepository(session, db.tenant_id).count_tenant_rows()
            await ReceiptRepository(session, db.tenant_id).close_all()  # all contents are deleted
        remaining["objects"] = await count_objects(self.objects, [prefix])
        remaining["database_roles"] = await self._remove_roles(SYSTEM_TENANT, deletion_id)
        async with self.database.transaction(SYSTEM_TENANT) as session:
            receipts = ReceiptRepository(session, SYSTEM_TENANT)
            await receipts.lock(deletion_id)
            await delete_stored_responses(session, SYSTEM_TENANT, [db.tenant_id])
            is_complete = await close_receipt(receipts, remaining, deletion_id, job_id)
        if not is_complete:
            raise DeletionIncomplete


@dataclass(frozen=True, slots=True)
class DeletionRecovery:
    """Periodic job that resumes stopped deletions and removes receipts after their retention time."""

    database: Database
    queue: JobQueue
    objects: ObjectStore
    find_unfinished: Callable[[], Awaitable[Sequence[UnfinishedDeletion]]]
    remove_old_receipts: Callable[[], Awaitable[int]]

    async def run(self) -> None:
        """Resume unfinished deletions, delete late objects of purged tenants, and remove old receipts.

        Raises:
            DatabaseUnavailable: The database does not answer.
            ObjectStoreUnavailable: The object store does not answer.
        """
        unfinished = await self.find_unfinished()
        for deletion in unfinished:
            await self._resume_deletion(deletion.tenant_id, deletion.deletion_id)
        async with self.database.transaction(SYSTEM_TENANT) as session:
            tenants = await ReceiptRepository(session, SYSTEM_TENANT).list_purged_tenants(within=MAX_LATE_WRITE_AGE)
        for tenant_id in tenants:
            await self.objects.delete_prefix(f"{tenant_id}/")
        removed = 0
        while batch := await self.remove_old_receipts():
            removed += batch
        logger.info("sweep.deletions", incomplete=len(unfinished), removed=removed)

    async def _resume_deletion(self, tenant_id: UUID, deletion_id: UUID) -> None:
        """Requeue the failed jobs of a deletion, or enqueue its first job again if it has no jobs."""
        async with self.database.transaction(tenant_id) as session:
            receipts = ReceiptRepository(session, tenant_id)
            receipt = await receipts.lock(deletion_id)
            if receipt is None or receipt.finished_at is not None or await receipts.requeue_jobs(deletion_id):
                return
            payload: dict[str, Any] = {"deletion": str(deletion_id)}
            kind = PURGE_JOB
            if receipt.kind == "knowledge_base" and receipt.kb_id is not None:
                indexes = await SoftDeleteRepository(session, tenant_id, receipt.kb_id).retire_indexes()
                kind = PURGE_KNOWLEDGE_BASE_JOB
                payload |= {"knowledge_base": str(receipt.kb_id), "indexes": [str(index_id) for index_id in indexes]}
            elif receipt.kind == "tenant":
                kind = TenantService.DELETE_JOB
                payload |= {"tenant_id": str(receipt.object_id)}
            await self.queue.enqueue(session, kind, tenant_id=tenant_id, payload=payload)
