"""Remove what was put out of reach: knowledge bases and tenants, in batches beside everything that goes on.

Every step finds what the steps before have left, so that a job that was killed is simply done again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_rows import UnfinishedDeletion
from app.db.session import Database, TenantDatabase
from app.documents.erasure_repository import ErasureRepository
from app.documents.receipt_repository import ReceiptRepository
from app.documents.remains import RemainsRepository
from app.documents.settling import SomethingLeft, close, count_objects, settle_knowledge_base
from app.idempotency import forget_answers
from app.indexing.dropping import IndexDropping
from app.job_queue import JobQueue
from app.knowledge_bases.service import ERASE_JOB, PURGE_JOB
from app.knowledge_bases.withdrawal_repository import WithdrawalRepository
from app.logging import get_logger
from app.object_store import ObjectStore
from app.publications.settling import PublicationSettling
from app.tenants.service import TenantService

logger = get_logger(__name__)

DELETIONS_JOB = "sweep_deletions"
# So long a deletion may take before somebody looks whether it still goes on; one that does is left as it is.
STALE = timedelta(minutes=5)
# So long an ingestion or an upload that was under way may still put an object below a tenant that is gone.
LATE = timedelta(hours=1)
# Documents of a batch: their trees go with them, some tenths of a second.
BATCH = 200


@dataclass(frozen=True, slots=True)
class Erasing:
    """What the jobs call."""

    database: Database
    queue: JobQueue
    objects: ObjectStore
    dropping: IndexDropping
    publications: PublicationSettling
    tenants: TenantService

    async def knowledge_base(
        self, tenant_id: UUID, kb_id: UUID, indexes: Sequence[UUID], *, deletion_id: UUID, job_id: UUID
    ) -> None:
        """Remove one that was withdrawn. Raises SomethingLeft, and as ``IndexDropping.empty``."""
        db = TenantDatabase(self.database, tenant_id)
        await self._take_publications_away(tenant_id, kb_id, receipts_of=tenant_id, deletion_id=deletion_id)
        await self._drop(tenant_id, indexes)
        await self._remove(db, kb_id, deletion_id)
        roles = await self._remove_roles(tenant_id, deletion_id)
        await settle_knowledge_base(db, kb_id, indexes, deletion_id=deletion_id, job_id=job_id, roles=roles)
        logger.info("deletion.knowledge_base", deletion=str(deletion_id))

    async def tenant(self, tenant_id: UUID, *, deletion_id: UUID, job_id: UUID) -> None:
        """Remove one with everything that it had. Raises as ``knowledge_base``."""
        db = TenantDatabase(self.database, tenant_id)
        await self.tenants.shut_out(tenant_id)
        async with db.transaction() as session:
            indexes = {}
            for kb_id in await ErasureRepository(session, tenant_id).knowledge_bases():
                withdrawal = WithdrawalRepository(session, tenant_id, kb_id)
                await withdrawal.withdraw()
                indexes[kb_id] = await withdrawal.retire()
        for kb_id, of_kb in indexes.items():
            await self._take_publications_away(tenant_id, kb_id, receipts_of=SYSTEM_TENANT, deletion_id=deletion_id)
            await self._drop(tenant_id, of_kb)
            await self._remove(db, kb_id, None)
        await self.tenants.erase(tenant_id)
        await self._settle_tenant(db, deletion_id=deletion_id, job_id=job_id)
        logger.info("deletion.tenant", deletion=str(deletion_id))

    async def _take_publications_away(
        self, tenant_id: UUID, kb_id: UUID, *, receipts_of: UUID, deletion_id: UUID
    ) -> None:
        """The receipt remembers database roles that cannot go yet: neither rows nor originals wait for them."""
        left = await self.publications.take_away(tenant_id, kb_id)
        if left:
            async with self.database.transaction(receipts_of) as session:
                await ReceiptRepository(session, receipts_of).remember_publications(deletion_id, left)
            await self.publications.release(tenant_id, kb_id, left)

    async def _remove_roles(self, receipts_of: UUID, deletion_id: UUID) -> int:
        """Try once more to drop the roles that the receipt remembers; returns how many are still there."""
        async with self.database.transaction(receipts_of) as session:
            receipt = await ReceiptRepository(session, receipts_of).get(deletion_id)
        return await self.publications.remove_released(receipts_of, [] if receipt is None else receipt.publications)

    async def _drop(self, tenant_id: UUID, indexes: Sequence[UUID]) -> None:
        """Search indexes first: their own partial indexes go before a single chunk is taken out of them."""
        for index_id in indexes:
            await self.dropping.empty(tenant_id, index_id)
            await self.dropping.remove(tenant_id, index_id)

    async def _remove(self, db: TenantDatabase, kb_id: UUID, deletion_id: UUID | None) -> None:
        """The documents, then the knowledge base; with a deletion each batch has a job remove its originals."""
        is_gone = False
        while not is_gone:
            async with db.transaction(kept_plans=True) as session:  # for the cascades, as in IndexDropping
                repository = ErasureRepository(session, db.tenant_id)
                documents = await repository.take(kb_id, limit=BATCH)
                kept_files = await repository.remove_documents(kb_id, documents)
                if documents and deletion_id is not None:
                    await ReceiptRepository(session, db.tenant_id).count_kept(deletion_id, kept_files)
                    prefixes = [f"{db.tenant_id}/{document_id}/" for document_id in documents]
                    payload = {"prefixes": prefixes, "deletion": str(deletion_id)}
                    await self.queue.enqueue(session, PURGE_JOB, tenant_id=db.tenant_id, payload=payload)
                if not documents:
                    is_gone = await repository.remove_empty(kb_id)

    async def _settle_tenant(self, db: TenantDatabase, *, deletion_id: UUID, job_id: UUID) -> None:
        """The receipt is the system tenant's: what is the tenant's own is not there any more."""
        prefix = f"{db.tenant_id}/"
        await self.objects.delete_prefix(prefix)
        async with db.transaction() as session:
            left = await RemainsRepository(session, db.tenant_id).of_tenant()
            await ReceiptRepository(session, db.tenant_id).close_all()  # their jobs are gone, and so is what they did
        left["objects"] = await count_objects(self.objects, [prefix])
        left["database_roles"] = await self._remove_roles(SYSTEM_TENANT, deletion_id)
        async with self.database.transaction(SYSTEM_TENANT) as session:
            receipts = ReceiptRepository(session, SYSTEM_TENANT)
            await receipts.lock(deletion_id)
            await forget_answers(session, SYSTEM_TENANT, [db.tenant_id])
            is_over = await close(receipts, left, deletion_id, job_id)
        if not is_over:
            raise SomethingLeft


@dataclass(frozen=True, slots=True)
class DeletionUpkeep:
    """The periodic job: deletions that have stopped go on, and receipts that are old enough go."""

    database: Database
    queue: JobQueue
    objects: ObjectStore
    find_unfinished: Callable[[], Awaitable[Sequence[UnfinishedDeletion]]]
    remove_old: Callable[[], Awaitable[int]]

    async def run(self) -> None:
        """Raises DatabaseUnavailable, ObjectStoreUnavailable."""
        unfinished = await self.find_unfinished()
        for one in unfinished:
            await self._resume(one.tenant_id, one.deletion_id)
        async with self.database.transaction(SYSTEM_TENANT) as session:
            tenants = await ReceiptRepository(session, SYSTEM_TENANT).erased_tenants(within=LATE)
        for tenant_id in tenants:
            await self.objects.delete_prefix(f"{tenant_id}/")
        removed = 0
        while batch := await self.remove_old():
            removed += batch
        logger.info("sweep.deletions", unfinished=len(unfinished), removed=removed)

    async def _resume(self, tenant_id: UUID, deletion_id: UUID) -> None:
        """Have the jobs that were given up tried again; where none is left at all, the work is asked for anew."""
        async with self.database.transaction(tenant_id) as session:
            receipts = ReceiptRepository(session, tenant_id)
            receipt = await receipts.lock(deletion_id)
            if receipt is None or receipt.finished_at is not None or await receipts.revive(deletion_id):
                return
            payload: dict[str, Any] = {"deletion": str(deletion_id)}
            kind = PURGE_JOB
            if receipt.kind == "knowledge_base" and receipt.kb_id is not None:
                indexes = await WithdrawalRepository(session, tenant_id, receipt.kb_id).retire()
                kind = ERASE_JOB
                payload |= {"knowledge_base": str(receipt.kb_id), "indexes": [str(one) for one in indexes]}
            elif receipt.kind == "tenant":
                kind = TenantService.DELETE_JOB
                payload |= {"tenant_id": str(receipt.object_id)}
            await self.queue.enqueue(session, kind, tenant_id=tenant_id, payload=payload)
