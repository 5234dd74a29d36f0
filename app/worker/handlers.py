"""Handlers of the kinds of jobs."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.bootstrap import Resources
from app.bootstrap.tenant_services import TenantServices
from app.cleanup.purge import DELETIONS_JOB, STALE_DELETION_AGE, DeletionRecovery, Purger
from app.cleanup.sweeper import (
    EVENTS_JOB,
    EXPIRED_JOB,
    OBJECTS_JOB,
    RECORDS_JOB,
    RETRY_JOB,
    Sweeper,
    sweep_temp_files,
)
from app.db.index_ddl import OwnerDatabase
from app.db.models.control_plane_rows import ClaimedJob
from app.db.session import TenantDatabase
from app.documents.deletion.completion import complete_document_deletion, count_objects
from app.documents.metadata_backfill.service import BackfillRecovery, backfill_documents
from app.enrichment.enricher import DocumentEnricher
from app.enrichment.types import ENRICH_JOB
from app.errors import AppError, JobPostponed
from app.evaluations.types import RUN_EVALUATION_JOB
from app.files.batches import ATTACH_JOB
from app.ids import derive_id
from app.index_maintenance.index_drop import DROP_JOB, IndexDropper
from app.index_maintenance.service import (
    MAINTAIN_INDEX_JOB,
    MAINTAIN_INDEXES_JOB,
    REFRESH_PROFILE_JOB,
    IndexMaintenance,
)
from app.inference.embedding import EmbeddingUnavailable
from app.ingestion.context_lines import ContextLineIndexer
from app.ingestion.pipeline import IngestionPipeline
from app.ingestion.reindex.document_build import DocumentRebuilder
from app.ingestion.reindex.index_build import Reindexer
from app.ingestion.time_slice import JobPreempted, PreemptionTimer
from app.ingestion.unreferenced_nodes import delete_unreferenced_nodes
from app.knowledge_bases.reindex_service import REINDEX_JOB
from app.knowledge_bases.service import BACKFILL_JOB, PURGE_KNOWLEDGE_BASE_JOB, ROUTING_JOB
from app.quotas.types import NO_KEY
from app.settings.environment import find_temporary_directory
from app.sql_views.reconciler import SqlViewReconciler
from app.sql_views.service import RECONCILE_SQL_VIEW_JOB
from app.temp_files import count_abandoned
from app.tenants.auth.caller_snapshot import restore_caller
from app.webhooks.delivery_runner import WebhookDeliverer
from app.webhooks.types import SEND_WEBHOOK_JOB
from app.worker.evaluation_job import run_evaluation_job

EXPIRED_BATCH_SIZE = 200
EVENT_BATCH_SIZE = CHANGE_BATCH_SIZE = 10_000
DELETION_BATCH_SIZE = 1000


@dataclass(frozen=True, slots=True)
class JobContext:
    """Resources of the worker, from which handlers create their services."""

    resources: Resources
    pipeline: IngestionPipeline
    owner_database: OwnerDatabase | None = None
    preemption: PreemptionTimer | None = None

    @property
    def sweeper(self) -> Sweeper:
        """The sweeper, which the periodic cleanup jobs call."""
        resources = self.resources
        return Sweeper(
            resources.database,
            resources.objects,
            resources.queue,
            resources.tenants,
            partial(resources.control_plane.find_expired_documents, limit=EXPIRED_BATCH_SIZE),
            partial(
                resources.control_plane.remove_old_audit_events,
                retention=timedelta(days=resources.settings.audit.retention_days),
                limit=EVENT_BATCH_SIZE,
            ),
            timedelta(seconds=resources.settings.worker.orphan_age_seconds),
        )

    @property
    def index_maintenance(self) -> IndexMaintenance:
        """The maintenance of search indexes."""
        resources = self.resources
        return IndexMaintenance(
            resources.database,
            resources.queue,
            partial(resources.control_plane.find_changed_indexes, limit=CHANGE_BATCH_SIZE),
            partial(resources.control_plane.find_outdated_indexes, limit=CHANGE_BATCH_SIZE),
            self.owner_database,
            resources.settings.worker.hnsw_threshold,
        )

    @property
    def index_dropper(self) -> IndexDropper:
        """The service that removes retired search indexes after the rollback period."""
        resources = self.resources
        rollback_period = timedelta(seconds=resources.settings.worker.reindex_rollback_seconds)
        find_expired = partial(
            resources.control_plane.find_expired_indexes, rollback_period=rollback_period, limit=CHANGE_BATCH_SIZE
        )
        return IndexDropper(resources.database, resources.queue, find_expired, self.owner_database)

    @property
    def purger(self) -> Purger:
        """The service that removes deleted knowledge bases and tenants."""
        resources = self.resources
        return Purger(
            resources.database,
            resources.queue,
            resources.objects,
            self.index_dropper,
            self.sql_view_reconciler,
            resources.tenants,
        )

    @property
    def sql_view_reconciler(self) -> SqlViewReconciler:
        """The reconciler of SQL views."""
        return SqlViewReconciler(self.resources.database, self.resources.queue, self.owner_database)

    @property
    def backfill_recovery(self) -> BackfillRecovery:
        """The service that restarts stalled metadata backfills."""
        find_stalled = partial(self.resources.control_plane.find_stalled_backfills, limit=CHANGE_BATCH_SIZE)
        return BackfillRecovery(self.resources.database, self.resources.queue, find_stalled)

    @property
    def deletion_recovery(self) -> DeletionRecovery:
        """The service that restarts stalled deletions and removes old receipts."""
        resources = self.resources
        retention = timedelta(days=resources.settings.deletion.receipt_retention_days)
        return DeletionRecovery(
            resources.database,
            resources.queue,
            resources.objects,
            partial(
                resources.control_plane.find_unfinished_deletions, min_age=STALE_DELETION_AGE, limit=DELETION_BATCH_SIZE
            ),
            partial(resources.control_plane.remove_old_deletions, retention=retention, limit=DELETION_BATCH_SIZE),
        )

    @property
    def webhook_deliverer(self) -> WebhookDeliverer:
        """The service that sends deliveries to webhooks."""
        resources = self.resources
        return WebhookDeliverer(resources.database, resources.webhook_sender, resources.settings.webhooks)

    @property
    def reindexer(self) -> Reindexer:
        """The service that builds the next search index of a knowledge base."""
        rebuilder = DocumentRebuilder(self.resources.embedders, self.resources.objects, self.resources.extractors)
        return Reindexer(rebuilder, self.resources.queue, self._prepare_index)

    async def _prepare_index(self, tenant_id: UUID, index_id: UUID) -> bool:
        """Build the partial indexes and the routing profile that a search index needs when it goes live.

        Return whether the partial indexes are ready. Raises the errors of ``IndexMaintenance.prepare``.
        """
        if not await self.index_maintenance.prepare(tenant_id, index_id):
            return False
        with suppress(EmbeddingUnavailable):  # the centroids exist; the description is embedded later
            await self.resources.routing_profile_builder.refresh(tenant_id, index_id)
        return True


JobHandler = Callable[[JobContext, ClaimedJob], Awaitable[None]]


async def ingest_document(context: JobContext, job: ClaimedJob) -> None:
    """Ingest a version of a document.

    Args:
        context: Resources of the worker.
        job: Job whose payload has ``version``, and ``key``, the id of the API key that uploaded the version.
    """
    if job.document_id is not None:
        db = TenantDatabase(context.resources.database, job.tenant_id)
        uploader = UUID(job.payload.get("key") or NO_KEY.hex)
        await context.pipeline.ingest(
            db, job.document_id, int(job.payload["version"]), uploader=uploader, preemption=context.preemption
        )


async def enrich_document(context: JobContext, job: ClaimedJob) -> None:
    """Enrich a document by a chat model.

    Payload: ``knowledge_base``, ``document`` and, after an upload, ``key``, the id of the API key of the upload.
    If the last attempt fails, the enrichment of the document fails; the document itself stays ready.
    """
    db = TenantDatabase(context.resources.database, job.tenant_id)
    kb_id, document_id = (UUID(job.payload[name]) for name in ("knowledge_base", "document"))
    uploader = UUID(job.payload.get("key") or NO_KEY.hex)
    indexer = ContextLineIndexer(context.resources.embedders, uploader)
    enricher = DocumentEnricher(context.resources.enrichment_models, indexer.apply)
    preemption = context.preemption or PreemptionTimer()
    try:
        await enricher.enrich(db, kb_id, document_id, preemption.check_preemption)
    except (JobPostponed, JobPreempted):
        raise
    except (AppError, DBAPIError):
        if job.attempts >= job.max_attempts:
            await enricher.mark_failed(db, document_id)
        raise


async def purge_objects(context: JobContext, job: ClaimedJob) -> None:
    """Delete objects from the object store, and complete the deletion of their documents.

    Args:
        context: Resources of the worker.
        job: Job whose payload has ``prefix``, ``prefixes``, ``key`` or ``keys`` of objects, and optionally
            ``deletion``, the id of the receipt. Keys outside the job's tenant are ignored.
    """
    own_prefix, objects = f"{job.tenant_id}/", context.resources.objects
    requested_prefixes = (job.payload.get("prefix"), *job.payload.get("prefixes", ()))
    prefixes = [prefix for prefix in requested_prefixes if prefix is not None and prefix.startswith(own_prefix)]
    for prefix in prefixes:
        await objects.delete_prefix(prefix)
    for key in (job.payload.get("key"), *job.payload.get("keys", ())):
        if key is not None and key.startswith(own_prefix):
            await objects.delete(key)
    if "deletion" in job.payload:
        # Remove temporary copies of originals that a killed process left on this machine. Each machine's worker does
        # so.
        directory = find_temporary_directory()
        await asyncio.to_thread(sweep_temp_files, directory)
        await complete_document_deletion(
            TenantDatabase(context.resources.database, job.tenant_id),
            [UUID(prefix.split("/")[1]) for prefix in prefixes],
            deletion_id=UUID(job.payload["deletion"]),
            job_id=job.id,
            objects=await count_objects(objects, prefixes),
            temporary_files=await asyncio.to_thread(count_abandoned, directory),
        )


async def purge_knowledge_base(context: JobContext, job: ClaimedJob) -> None:
    """Remove the contents of a deleted knowledge base. Payload: ``knowledge_base``, ``indexes``, ``deletion``."""
    kb_id, deletion_id = (UUID(job.payload[name]) for name in ("knowledge_base", "deletion"))
    indexes = [UUID(index) for index in job.payload["indexes"]]
    await context.purger.purge_knowledge_base(job.tenant_id, kb_id, indexes, deletion_id=deletion_id, job_id=job.id)


async def attach_files(context: JobContext, job: ClaimedJob) -> None:
    """Attach the files of a batch to a knowledge base, with the rights of the caller who created the batch.

    Payload: ``batch``, ``knowledge_base`` and ``caller``.
    """
    caller = await restore_caller(context.resources.database, job.tenant_id, job.payload["caller"])
    if caller is not None:
        await TenantServices(caller, context.resources).file_batch_worker.run(UUID(job.payload["batch"]))


async def run_evaluation(context: JobContext, job: ClaimedJob) -> None:
    """Run an evaluation. Payload: ``evaluation`` and ``caller``."""
    await run_evaluation_job(context.resources, job)


async def backfill_metadata(context: JobContext, job: ClaimedJob) -> None:
    """Run the metadata backfill of a knowledge base. Payload: ``knowledge_base``."""
    db = TenantDatabase(context.resources.database, job.tenant_id)
    await backfill_documents(db, UUID(job.payload["knowledge_base"]))


async def delete_tenant(context: JobContext, job: ClaimedJob) -> None:
    """Remove the contents of a deleted tenant. Payload: ``tenant_id``.

    The job belongs to the system tenant, because it must outlive the rows that it removes.
    """
    tenant_id = UUID(job.payload["tenant_id"])
    await context.purger.purge_tenant(tenant_id, deletion_id=derive_id("deletion", tenant_id), job_id=job.id)


async def recover_deletions(context: JobContext, job: ClaimedJob) -> None:  # noqa: ARG001  (as all handlers)
    """Restart stalled deletions and remove old receipts. The job is periodic."""
    await context.deletion_recovery.run()


async def run_sweeper(context: JobContext, job: ClaimedJob) -> None:
    """Run one of the sweepers. The job is periodic."""
    await context.sweeper.run_job(job.kind)


async def maintain_indexes(context: JobContext, job: ClaimedJob) -> None:  # noqa: ARG001  (as all handlers)
    """Maintain changed search indexes, remove retired ones, reconcile SQL views and restart stalled metadata backfills.

    The job is periodic. If one task fails, the others still run, because only some of them need the login of the
    tables' owner.

    Args:
        context: Resources of the worker.
        job: The job; it has no payload.

    Raises:
        AppError: The first failure of a task. It can also be DBAPIError or TimeoutError.
    """
    failures: list[Exception] = []
    for maintainer in (
        context.index_maintenance,
        context.index_dropper,
        context.sql_view_reconciler,
        context.backfill_recovery,
    ):
        try:
            await maintainer.scan()
        except (AppError, DBAPIError, TimeoutError) as exc:
            failures.append(exc)
    if failures:
        raise failures[0]


async def maintain_index(context: JobContext, job: ClaimedJob) -> None:
    """Maintain one search index. Payload: ``index``."""
    await context.index_maintenance.maintain(job.tenant_id, UUID(job.payload["index"]))


async def build_routing_profile(context: JobContext, job: ClaimedJob) -> None:
    """Make the routing profile of a search index. Payload: ``index``."""
    await context.resources.routing_profile_builder.refresh(job.tenant_id, UUID(job.payload["index"]))


async def reindex_knowledge_base(context: JobContext, job: ClaimedJob) -> None:
    """Build a search index for a limited time; the job continues later. Payload: ``index``."""
    db = TenantDatabase(context.resources.database, job.tenant_id)
    await context.reindexer.run_slice(db, UUID(job.payload["index"]), job.id)


async def drop_search_index(context: JobContext, job: ClaimedJob) -> None:
    """Remove a search index and the nodes that only it used. Payload: ``index``.

    The row of the search index is deleted last, so that another worker can repeat the job.
    """
    index_id = UUID(job.payload["index"])
    kb_id = await context.index_dropper.delete_chunks(job.tenant_id, index_id)
    if kb_id is not None:
        await delete_unreferenced_nodes(TenantDatabase(context.resources.database, job.tenant_id), kb_id)
        await context.index_dropper.remove(job.tenant_id, index_id)


async def send_webhook(context: JobContext, job: ClaimedJob) -> None:
    """Send a delivery to its webhook. Payload: ``delivery``, and ``replay`` if a caller asked to send it again."""
    is_last = job.attempts >= job.max_attempts
    await context.webhook_deliverer.deliver(
        job.tenant_id, UUID(job.payload["delivery"]), is_last=is_last, is_replay=bool(job.payload.get("replay"))
    )


async def reconcile_sql_view(context: JobContext, job: ClaimedJob) -> None:
    """Create, update or remove a SQL view. Payload: ``sql_view``, ``knowledge_base``."""
    ids = (UUID(job.payload[name]) for name in ("knowledge_base", "sql_view"))
    await context.sql_view_reconciler.reconcile(job.tenant_id, *ids)


HANDLERS: dict[str, JobHandler] = {
    "ingest_document": ingest_document,
    ENRICH_JOB: enrich_document,
    "purge_objects": purge_objects,
    "delete_tenant": delete_tenant,
    PURGE_KNOWLEDGE_BASE_JOB: purge_knowledge_base,
    DELETIONS_JOB: recover_deletions,
    BACKFILL_JOB: backfill_metadata,
    ATTACH_JOB: attach_files,
    RUN_EVALUATION_JOB: run_evaluation,
    EXPIRED_JOB: run_sweeper,
    OBJECTS_JOB: run_sweeper,
    RECORDS_JOB: run_sweeper,
    EVENTS_JOB: run_sweeper,
    RETRY_JOB: run_sweeper,
    MAINTAIN_INDEXES_JOB: maintain_indexes,
    MAINTAIN_INDEX_JOB: maintain_index,
    REFRESH_PROFILE_JOB: build_routing_profile,
    ROUTING_JOB: build_routing_profile,
    REINDEX_JOB: reindex_knowledge_base,
    DROP_JOB: drop_search_index,
    SEND_WEBHOOK_JOB: send_webhook,
    RECONCILE_SQL_VIEW_JOB: reconcile_sql_view,
}
