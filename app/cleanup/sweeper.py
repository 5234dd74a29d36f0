"""Sweepers: periodic removal of expired data and of remains of crashes and earlier versions."""

import asyncio
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from app.cleanup.purge import DELETIONS_JOB
from app.cleanup.sweep_repository import SweepRepository
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import ExpiredDocument
from app.db.session import Database
from app.documents.expiry import remove_expired_documents
from app.documents.page_image_keys import parse_original_key
from app.documents.types import PARSE_RESULT_SUFFIX
from app.jobs.queue import JobQueue
from app.logging import get_logger
from app.object_store import ObjectStore, StoredObject
from app.settings import WorkerSettings
from app.settings.environment import find_temporary_directory
from app.temp_files import DIRECTORY_PREFIXES, is_abandoned
from app.tenants.service import TenantService

logger = get_logger(__name__)

EXPIRED_JOB = "sweep_expired"
OBJECTS_JOB = "sweep_objects"
RECORDS_JOB = "sweep_records"
EVENTS_JOB = "sweep_audit_events"
RETRY_JOB = "retry_failed_documents"
RETRY_BATCH_SIZE = 200
OBJECT_BATCH_SIZE = 500
TENANT_PAGE_SIZE = 200
MAX_TEMP_FILE_AGE = timedelta(days=1)
# The age at which a cached page image is deleted. The next request draws the page again.
MAX_PAGE_IMAGE_AGE = timedelta(days=7)
TEMP_SWEEP_INTERVAL_SECONDS = 5.0


def get_sweep_intervals(settings: WorkerSettings) -> dict[str, timedelta]:
    """Return the interval of each periodic job by its name."""
    return {
        EXPIRED_JOB: timedelta(seconds=settings.expiry_interval_seconds),
        OBJECTS_JOB: timedelta(seconds=settings.sweep_interval_seconds),
        RECORDS_JOB: timedelta(seconds=settings.sweep_interval_seconds),
        EVENTS_JOB: timedelta(seconds=settings.sweep_interval_seconds),
        DELETIONS_JOB: timedelta(seconds=settings.expiry_interval_seconds),
        RETRY_JOB: timedelta(seconds=settings.expiry_interval_seconds),
    }


@dataclass(frozen=True, slots=True)
class ObjectSweepResult:
    """Counts of a sweep of the object store.

    ``unknown`` counts keys that belong to no known tenant and were left alone.
    """

    listed: int
    orphans: int
    unfinished: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Sweepers: periodic jobs that remove expired and orphaned data of all tenants.

    Each sweeper works in one tenant's transaction at a time and logs the number of removed items.
    """

    database: Database
    objects: ObjectStore
    queue: JobQueue
    tenants: TenantService
    find_expired: Callable[[], Awaitable[Sequence[ExpiredDocument]]]
    remove_old_events: Callable[[], Awaitable[int]]
    orphan_age: timedelta

    async def run_job(self, job: str) -> None:
        """Run the sweep of a periodic job.

        Args:
            job: The name of the job.
        """
        sweeps: Mapping[str, Callable[[], Awaitable[object]]] = {
            EXPIRED_JOB: self.delete_expired,
            OBJECTS_JOB: self.delete_orphans,
            RECORDS_JOB: self.delete_old_records,
            EVENTS_JOB: self.delete_old_audit_events,
            RETRY_JOB: self.retry_failed,
        }
        await sweeps[job]()

    async def delete_expired(self) -> int:
        """Delete documents whose ``expires_at`` has passed.

        Returns:
            The number of deleted documents.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        removed = 0
        while expired_documents := await self.find_expired():
            documents_by_kb: dict[tuple[UUID, UUID], list[UUID]] = {}
            for expired in expired_documents:
                documents_by_kb.setdefault((expired.tenant_id, expired.kb_id), []).append(expired.document_id)
            removed_counts = [
                await self._remove_documents(*kb_key, documents) for kb_key, documents in documents_by_kb.items()
            ]
            removed += sum(removed_counts)
            if not any(removed_counts):
                break
        logger.info("sweep.expired", documents=removed)
        return removed

    async def _remove_documents(self, tenant_id: UUID, kb_id: UUID, documents: Collection[UUID]) -> int:
        async with self.database.transaction(tenant_id) as session:
            return await remove_expired_documents(session, self.queue, tenant_id, kb_id, documents)

    async def delete_orphans(self) -> ObjectSweepResult:
        """Delete stored objects that no database row names, and abort incomplete uploads.

        A page image is named by the row of its original. Page images older than ``MAX_PAGE_IMAGE_AGE`` are deleted too.
        Objects younger than ``orphan_age`` may belong to a running upload and stay. Objects of unknown tenants may
        belong to another database and stay as well.

        Returns:
            The counts.

        Raises:
            DatabaseUnavailable: The database does not answer.
            ObjectStoreUnavailable: The object store does not answer.
        """
        listed = orphans = unfinished = unknown = 0
        limit = datetime.now(UTC) - self.orphan_age
        tenants = {tenant_id async for tenant_id in self._iter_tenants()}
        async for batch in _iter_batches(self.objects.list_objects()):
            listed += len(batch)
            owned_objects = [
                stored_object
                for stored_object in batch
                if (owner := _parse_owner(stored_object.key)) and owner[0] in tenants
            ]
            unknown += len(batch) - len(owned_objects)
            old_page_images = _list_old_page_images(owned_objects)
            for tenant_id, documents in _group_by_tenant(owned_objects, limit).items():
                async with self.database.transaction(tenant_id) as session:
                    existing_keys = await SweepRepository(session, tenant_id).find_existing_keys(
                        set(documents.values())
                    )
                for key in documents:
                    if not _is_needed(key, existing_keys) or key in old_page_images:
                        await self.objects.delete(key)
                        orphans += 1
        for tenant_id in tenants:
            unfinished += await self.objects.abort_incomplete_uploads(f"{tenant_id}/", before=limit)
        result = ObjectSweepResult(listed, orphans, unfinished, unknown)
        logger.info("sweep.objects", **asdict(result))
        return result

    async def delete_old_records(self) -> tuple[int, int, int]:
        """Delete old stored responses, embedding checkpoints and webhook deliveries, and expired stored files.

        Returns:
            The numbers of responses, checkpoints and deliveries.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        responses = checkpoints = deliveries = files = 0
        async for tenant_id in self._iter_tenants():
            async with self.database.transaction(tenant_id) as session:
                repository = SweepRepository(session, tenant_id)
                responses += await repository.remove_old_responses()
                checkpoints += await repository.remove_old_checkpoints()
                deliveries += await repository.remove_old_deliveries()
                files += await repository.remove_expired_files()
        logger.info("sweep.records", responses=responses, checkpoints=checkpoints, deliveries=deliveries, files=files)
        return responses, checkpoints, deliveries

    async def delete_old_audit_events(self) -> int:
        """Delete audit events after their retention time, also those of deleted tenants. Return their number."""
        removed = 0
        while batch := await self.remove_old_events():
            removed += batch
        logger.info("sweep.audit_events", removed=removed)
        return removed

    async def retry_failed(self) -> int:
        """Requeue documents that failed because of an outage, and return their number. Raises DatabaseUnavailable."""
        retried = await self.queue.retry_failed_documents(limit=RETRY_BATCH_SIZE)
        logger.info("sweep.failed_documents", retried=retried)
        return retried

    async def _iter_tenants(self) -> AsyncIterator[UUID]:
        yield SYSTEM_TENANT
        after = None
        while page := await self.tenants.list_tenants(after=after, limit=TENANT_PAGE_SIZE):
            for tenant in page:
                yield tenant.id
            after = (page[-1].created_at, page[-1].id)


def _group_by_tenant(batch: Iterable[StoredObject], limit: datetime) -> dict[UUID, dict[str, UUID]]:
    """Return the document ids by object key of old objects, grouped by tenant."""
    documents_by_tenant: dict[UUID, dict[str, UUID]] = {}
    for stored_object in batch:
        owner = _parse_owner(stored_object.key)
        if owner is not None and stored_object.modified < limit:
            documents_by_tenant.setdefault(owner[0], {})[stored_object.key] = owner[1]
    return documents_by_tenant


def _list_old_page_images(batch: Iterable[StoredObject]) -> set[str]:
    limit = datetime.now(UTC) - MAX_PAGE_IMAGE_AGE
    return {item.key for item in batch if item.modified < limit and parse_original_key(item.key) is not None}


def _is_needed(key: str, existing_keys: Collection[str]) -> bool:
    """Return whether a row names an object, or the original of a page image."""
    return (parse_original_key(key) or key) in existing_keys


def _parse_owner(key: str) -> tuple[UUID, UUID] | None:
    """Return tenant and document of an object key, or None if the key has another form."""
    parts = (parse_original_key(key) or key.removesuffix(PARSE_RESULT_SUFFIX)).split("/")
    if len(parts) != 3:
        return None
    with suppress(ValueError):
        ids = [UUID(part) for part in parts]
        if [str(parsed_id) for parsed_id in ids] == parts:
            return ids[0], ids[1]
    return None


async def _iter_batches(objects: AsyncIterator[StoredObject]) -> AsyncIterator[list[StoredObject]]:
    batch: list[StoredObject] = []
    async for stored_object in objects:
        batch.append(stored_object)
        if len(batch) == OBJECT_BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch


@asynccontextmanager
async def run_temp_file_sweeper() -> AsyncIterator[None]:
    """Sweep the temporary directory immediately, and then at intervals while the block runs."""
    task = asyncio.create_task(sweep_temp_files_forever())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def sweep_temp_files_forever() -> None:
    """Sweep the temporary directory at intervals, without end."""
    while True:
        with suppress(OSError):  # a missing temporary directory needs no sweep
            await asyncio.to_thread(sweep_temp_files, find_temporary_directory())
        await asyncio.sleep(TEMP_SWEEP_INTERVAL_SECONDS)


def sweep_temp_files(directory: Path, *, older_than: timedelta = MAX_TEMP_FILE_AGE) -> int:
    """Remove files and directories that killed processes of this user left behind. The function blocks.

    A directory is removed as soon as the process that locked it has ended. Other items are removed by age. Links are
    neither followed nor removed, because other users can write to the directory.

    Args:
        directory: The temporary directory.
        older_than: The age at which items are removed, 1 day by default.

    Returns:
        The number of removed items.
    """
    limit = time.time() - older_than.total_seconds()
    removed = sum(_remove_temp_file(path, limit) for path in _list_temp_files(directory))
    if removed:
        logger.info("sweep.temp_files", removed=removed)
    return removed


def _list_temp_files(directory: Path) -> Iterable[Path]:
    try:
        return [path for path in directory.iterdir() if path.name.startswith(DIRECTORY_PREFIXES)]
    except OSError as exc:  # an error must not keep the worker from starting
        logger.warning("sweep.temp_files_failed", error=exc)
        return []


def _remove_temp_file(path: Path, limit: float) -> bool:
    with suppress(OSError):
        status = path.lstat()
        if status.st_uid != os.getuid() or (status.st_mtime > limit and not is_abandoned(path)):
            return False
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path)
            return True
        if stat.S_ISREG(status.st_mode):
            path.unlink()
            return True
    return False
