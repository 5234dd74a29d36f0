"""What is done for each kind of job."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.bootstrap import Resources
from app.db.maintenance import OwnerDatabase
from app.db.models.control_rows import ClaimedJob
from app.db.session import TenantDatabase
from app.documents.erasing import DELETIONS_JOB, STALE, DeletionUpkeep, Erasing
from app.documents.file_batches import ATTACH_JOB
from app.documents.restamping import RestampUpkeep, restamp_documents
from app.documents.scopes import Scope
from app.documents.settling import count_objects, settle_documents
from app.documents.sweeping import (
    EVENTS_JOB,
    EXPIRED_JOB,
    OBJECTS_JOB,
    RECORDS_JOB,
    RETRY_JOB,
    Sweeper,
    sweep_temporary,
)
from app.errors import AppError
from app.ids import derived_id
from app.indexing.dropping import DROP_JOB, IndexDropping
from app.indexing.routing import RoutingUpkeep
from app.indexing.service import CENTROIDS_JOB, INDEX_JOB, PERIODIC_JOB, IndexMaintenance
from app.inference.embedding import EmbeddingUnavailable
from app.ingestion.chunker_nodes import remove_unnamed_nodes
from app.ingestion.pipeline import IngestionPipeline
from app.ingestion.rebuilding import DocumentRebuilder
from app.ingestion.reindexing import Reindexer
from app.ingestion.stint import Stint
from app.knowledge_bases.reindexing import REINDEX_JOB
from app.knowledge_bases.service import ERASE_JOB, RESTAMP_JOB, ROUTING_JOB
from app.publications.service import PUBLISH_JOB
from app.publications.settling import PublicationSettling
from app.quotas.types import NO_KEY
from app.settings.environment import temporary_directory
from app.temporary import count_left
from app.tenants.callers import caller_of
from app.webhooks.delivering import Delivering
from app.webhooks.types import SEND_JOB

EXPIRED_AT_ONCE = 200
EVENTS_AT_ONCE = CHANGED_AT_ONCE = 10_000
DELETIONS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class JobContext:
    """What the handlers work with."""

    resources: Resources
    pipeline: IngestionPipeline
    owner: OwnerDatabase | None = None
    stint: Stint | None = None

    @property
    def sweeper(self) -> Sweeper:
        """What the periodic jobs call."""
        resources = self.resources
        return Sweeper(
            resources.database,
            resources.objects,
            resources.queue,
            resources.tenants,
            partial(resources.system.expired_documents, limit=EXPIRED_AT_ONCE),
            partial(
                resources.system.remove_old_audit_events,
                keep=timedelta(days=resources.settings.audit.retention_days),
                limit=EVENTS_AT_ONCE,
            ),
            timedelta(seconds=resources.settings.worker.orphan_seconds),
        )

    @property
    def maintenance(self) -> IndexMaintenance:
        """What looks after search indexes."""
        resources = self.resources
        return IndexMaintenance(
            resources.database,
            resources.queue,
            partial(resources.system.changed_indexes, limit=CHANGED_AT_ONCE),
            partial(resources.system.unsettled_indexes, limit=CHANGED_AT_ONCE),
            self.owner,
            resources.settings.worker.hnsw_threshold,
        )

    @property
    def dropping(self) -> IndexDropping:
        """What removes search indexes that nobody goes back to."""
        resources = self.resources
        undo = timedelta(seconds=resources.settings.worker.reindex_undo_seconds)
        find_expired = partial(resources.system.expired_indexes, undo=undo, limit=CHANGED_AT_ONCE)
        return IndexDropping(resources.database, resources.queue, find_expired, self.owner)

    @property
    def erasing(self) -> Erasing:
        """What removes deleted knowledge bases and tenants."""
        resources = self.resources
        return Erasing(
            resources.database, resources.queue, resources.objects, self.dropping, self.publications, resources.tenants
        )

    @property
    def publications(self) -> PublicationSettling:
        """What makes publications and takes them away."""
        return PublicationSettling(self.resources.database, self.resources.queue, self.owner)

    @property
    def restamp_upkeep(self) -> RestampUpkeep:
        """What sees that stamps come to all documents."""
        find_stalled = partial(self.resources.system.stalled_restamps, limit=CHANGED_AT_ONCE)
        return RestampUpkeep(self.resources.database, self.resources.queue, find_stalled)

    @property
    def deletion_upkeep(self) -> DeletionUpkeep:
        """What sees that deletions come to their end, and receipts to theirs."""
        resources = self.resources
        keep = timedelta(days=resources.settings.deletion.receipt_retention_days)
        return DeletionUpkeep(
            resources.database,
            resources.queue,
            resources.objects,
            partial(resources.system.unfinished_deletions, age=STALE, limit=DELETIONS_AT_ONCE),
            partial(resources.system.remove_old_deletions, keep=keep, limit=DELETIONS_AT_ONCE),
        )

    @property
    def delivering(self) -> Delivering:
        """What sends to webhooks."""
        resources = self.resources
        return Delivering(resources.database, resources.webhooks, resources.settings.webhooks)

    @property
    def reindexer(self) -> Reindexer:
        """What builds the next search index of a knowledge base."""
        rebuilder = DocumentRebuilder(self.resources.embedders, self.resources.objects)
        return Reindexer(rebuilder, self.resources.queue, self._prepare)

    @property
    def routing(self) -> RoutingUpkeep:
        """What makes that by which searches choose knowledge bases."""
        return RoutingUpkeep(self.resources.database, self.resources.embedders, Scope().visible())

    async def _prepare(self, tenant_id: UUID, index_id: UUID) -> bool:
        """What a search index wants to have as soon as it is live. Raises as ``IndexMaintenance.prepare``."""
        if not await self.maintenance.prepare(tenant_id, index_id):
            return False
        with suppress(EmbeddingUnavailable):  # its centroids are there; what is said of it is embedded another time
            await self.routing.refresh(tenant_id, index_id)
        return True


Handler = Callable[[JobContext, ClaimedJob], Awaitable[None]]


async def ingest_document(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``version``, and ``key``, by whose upload it came."""
    if job.document_id is not None:
        db = TenantDatabase(context.resources.database, job.tenant_id)
        uploader = UUID(job.payload.get("key") or NO_KEY.hex)
        await context.pipeline.ingest(
            db, job.document_id, int(job.payload["version"]), uploader=uploader, stint=context.stint
        )


async def purge_objects(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``prefix``, ``prefixes``, ``key``, ``keys``, all below the job's own tenant; and maybe ``deletion``."""
    own, objects = f"{job.tenant_id}/", context.resources.objects
    named = (job.payload.get("prefix"), *job.payload.get("prefixes", ()))
    prefixes = [prefix for prefix in named if prefix is not None and prefix.startswith(own)]
    for prefix in prefixes:
        await objects.delete_prefix(prefix)
    for key in (job.payload.get("key"), *job.payload.get("keys", ())):
        if key is not None and key.startswith(own):
            await objects.delete(key)
    if "deletion" in job.payload:
        # Originals that a killed process of this machine was reading; other machines' workers tidy up after their own.
        place = temporary_directory()
        await asyncio.to_thread(sweep_temporary, place)
        await settle_documents(
            TenantDatabase(context.resources.database, job.tenant_id),
            [UUID(prefix.split("/")[1]) for prefix in prefixes],
            deletion_id=UUID(job.payload["deletion"]),
            job_id=job.id,
            objects=await count_objects(objects, prefixes),
            temporary_files=await asyncio.to_thread(count_left, place),
        )


async def erase_knowledge_base(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``knowledge_base``, ``indexes``, ``deletion``."""
    kb_id, deletion_id = (UUID(job.payload[name]) for name in ("knowledge_base", "deletion"))
    indexes = [UUID(one) for one in job.payload["indexes"]]
    await context.erasing.knowledge_base(job.tenant_id, kb_id, indexes, deletion_id=deletion_id, job_id=job.id)


async def attach_files(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``batch``, ``knowledge_base``, and ``caller``, as whom the files are attached."""
    caller = await caller_of(context.resources.database, job.tenant_id, job.payload["caller"])
    if caller is not None:
        await context.resources.for_tenant(caller).batch_attaching.run(UUID(job.payload["batch"]))


async def restamp_knowledge_base(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``knowledge_base``."""
    db = TenantDatabase(context.resources.database, job.tenant_id)
    await restamp_documents(db, UUID(job.payload["knowledge_base"]))


async def delete_tenant(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``tenant_id``; a job of the system tenant, so that it outlives the rows it removes."""
    tenant_id = UUID(job.payload["tenant_id"])
    await context.erasing.tenant(tenant_id, deletion_id=derived_id("deletion", tenant_id), job_id=job.id)


async def sweep_deletions(context: JobContext, job: ClaimedJob) -> None:  # noqa: ARG001  (as all handlers)
    """A periodic job: deletions that have stopped go on, and old receipts go."""
    await context.deletion_upkeep.run()


async def sweep(context: JobContext, job: ClaimedJob) -> None:
    """A periodic job: one of the sweepers."""
    await context.sweeper.run(job.kind)


async def maintain_indexes(context: JobContext, job: ClaimedJob) -> None:  # noqa: ARG001  (as all handlers)
    """A periodic job: look after what has changed, what nobody goes back to, and what has stopped.

    What one of them cannot reach, as the tables' owner, the others may do without. Raises the first failure.
    """
    failures: list[Exception] = []
    for upkeep in (context.maintenance, context.dropping, context.publications, context.restamp_upkeep):
        try:
            await upkeep.look_after_all()
        except (AppError, DBAPIError, TimeoutError) as exc:
            failures.append(exc)
    if failures:
        raise failures[0]


async def maintain_index(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``index``."""
    await context.maintenance.maintain(job.tenant_id, UUID(job.payload["index"]))


async def make_routing_profile(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``index``."""
    await context.routing.refresh(job.tenant_id, UUID(job.payload["index"]))


async def reindex_knowledge_base(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``index``."""
    db = TenantDatabase(context.resources.database, job.tenant_id)
    await context.reindexer.run(db, UUID(job.payload["index"]), job.id)


async def drop_search_index(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``index``. Its row goes last: until then a lost worker's job is done again."""
    index_id = UUID(job.payload["index"])
    kb_id = await context.dropping.empty(job.tenant_id, index_id)
    if kb_id is not None:
        await remove_unnamed_nodes(TenantDatabase(context.resources.database, job.tenant_id), kb_id)
        await context.dropping.remove(job.tenant_id, index_id)


async def send_webhook(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``delivery``."""
    is_last = job.attempts >= job.max_attempts
    await context.delivering.deliver(job.tenant_id, UUID(job.payload["delivery"]), is_last=is_last)


async def settle_publication(context: JobContext, job: ClaimedJob) -> None:
    """Payload: ``publication``, ``knowledge_base``."""
    ids = (UUID(job.payload[name]) for name in ("knowledge_base", "publication"))
    await context.publications.settle(job.tenant_id, *ids)


HANDLERS: dict[str, Handler] = {
    "ingest_document": ingest_document,
    "purge_objects": purge_objects,
    "delete_tenant": delete_tenant,
    ERASE_JOB: erase_knowledge_base,
    DELETIONS_JOB: sweep_deletions,
    RESTAMP_JOB: restamp_knowledge_base,
    ATTACH_JOB: attach_files,
    EXPIRED_JOB: sweep,
    OBJECTS_JOB: sweep,
    RECORDS_JOB: sweep,
    EVENTS_JOB: sweep,
    RETRY_JOB: sweep,
    PERIODIC_JOB: maintain_indexes,
    INDEX_JOB: maintain_index,
    CENTROIDS_JOB: make_routing_profile,
    ROUTING_JOB: make_routing_profile,
    REINDEX_JOB: reindex_knowledge_base,
    DROP_JOB: drop_search_index,
    SEND_JOB: send_webhook,
    PUBLISH_JOB: settle_publication,
}
