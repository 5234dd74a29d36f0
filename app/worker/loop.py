"""The worker's loop: claim a job, run its handler, record the outcome, until the worker is stopped."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from app.bootstrap import Resources
from app.cleanup.sweeper import get_sweep_intervals, sweep_temp_files_forever
from app.db.index_ddl import OwnerDatabase
from app.db.models.control_plane_rows import ClaimedJob, WorkerConfinement
from app.errors import AppError, JobPostponed
from app.evaluations.types import RUN_EVALUATION_JOB
from app.files.batches import ATTACH_JOB
from app.index_maintenance.service import MAINTAIN_INDEXES_JOB
from app.ingestion.pipeline import IngestionPipeline
from app.ingestion.time_slice import JobPreempted, PreemptionTimer
from app.knowledge_bases.service import BACKFILL_JOB, PURGE_KNOWLEDGE_BASE_JOB
from app.knowledge_bases.types import IndexMismatch
from app.logging import bind_context, get_logger
from app.quotas.types import DailyTokenLimitReached
from app.worker.failures import UnknownJobKind, describe_failure
from app.worker.handlers import HANDLERS, JobContext
from app.worker.outages import OutageMonitor, get_next_check_time
from app.worker.slots import POLL_INTERVAL_SECONDS, JobSlots, RunningJob

logger = get_logger(__name__)

SHUTDOWN_TIMEOUT_SECONDS = 20.0
# If this worker lacks the embedding model of the job's knowledge base, it hands the job to other workers for this time:
# while one model replaces another, another worker may have the model. After a hand-off the worker pauses its claims for
# this delay. Otherwise it might claim the same job again.
MODEL_MISMATCH_MAX_DURATION = timedelta(minutes=10)
MODEL_MISMATCH_DELAY_SECONDS = 0.5


def generate_worker_name() -> str:
    """Return a name that no other worker has or had, because leases name their worker. A process id would not be
    unique.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


# Deletions, metadata backfills and attachments resume where they were interrupted. The worker interrupts a job of these
# kinds after this time if another tenant waits for a slot. Ingestion yields its slot between slices.
PREEMPTIBLE_KINDS = frozenset({PURGE_KNOWLEDGE_BASE_JOB, BACKFILL_JOB, ATTACH_JOB, RUN_EVALUATION_JOB, "delete_tenant"})
PREEMPT_AFTER_SECONDS = 30.0
HEARTBEAT_INTERVAL_SECONDS = 5.0


@dataclass(slots=True)
class Worker:
    """A worker that runs up to ``concurrency`` jobs at the same time.

    It has a few extra slots for tenants without a running job, so that no tenant waits for the long documents of
    others. If the extra slots are also in use and such a tenant waits, long jobs yield their slots. Webhook deliveries
    have separate slots.
    """

    resources: Resources
    pipeline: IngestionPipeline
    owner_database: OwnerDatabase | None = None
    poll_interval_seconds: float = POLL_INTERVAL_SECONDS
    name: str = field(default_factory=generate_worker_name)
    outage_monitor: OutageMonitor = field(init=False)
    _stopping: bool = False
    _stops_immediately: bool = False
    _paused_until: float = 0.0
    _is_idle_tenant_waiting: bool = False
    _work_slots: JobSlots = field(init=False)
    _delivery_slots: JobSlots = field(init=False)

    def __post_init__(self) -> None:
        settings = self.resources.settings.worker
        resources = self.resources
        self.outage_monitor = OutageMonitor(
            resources.embedders, resources.objects, resources.queue.resume_jobs_of_all_tenants
        )
        self._work_slots = JobSlots(settings.concurrency, settings.extra_jobs)
        self._delivery_slots = JobSlots(settings.webhook_concurrency, wakes_immediately=False)

    @property
    def lease(self) -> timedelta:
        """Time after which a job can be claimed again if its worker does not renew the lease."""
        return timedelta(seconds=self.resources.settings.worker.lease_timeout_seconds)

    def stop(self, *, immediately: bool = False) -> None:
        """Claim no more jobs. ``run`` returns when the running jobs have ended, or after the shutdown timeout.

        Unfinished jobs go back to the queue.

        Args:
            immediately: Whether running jobs are interrupted immediately, without a shutdown timeout.
        """
        self._stopping = True
        self._stops_immediately = self._stops_immediately or immediately
        for slots in (self._work_slots, self._delivery_slots):
            slots.interrupt_wait()

    async def run(self, *, shutdown_timeout_seconds: float = SHUTDOWN_TIMEOUT_SECONDS) -> None:
        """Run jobs until ``stop``. Then wait for running jobs, and put unfinished ones back into the queue.

        Args:
            shutdown_timeout_seconds: Maximum time to wait for running jobs.
        """
        background_tasks = [
            asyncio.create_task(self._ensure_periodic_jobs()),
            asyncio.create_task(self._reap_lost_jobs()),
            asyncio.create_task(self._send_heartbeats()),
            asyncio.create_task(sweep_temp_files_forever()),
            asyncio.create_task(self.outage_monitor.watch()),
            asyncio.create_task(self.resources.queue.listen(self._wake_slots)),
        ]
        try:
            await asyncio.gather(
                self._fill_slots(self._work_slots, self._claim_work),
                self._fill_slots(self._delivery_slots, self._claim_delivery),
            )
        finally:
            for background_task in background_tasks:
                background_task.cancel()
            await self._finish_running_jobs(0.0 if self._stops_immediately else shutdown_timeout_seconds)
            await asyncio.gather(*background_tasks, return_exceptions=True)
            with suppress(AppError):  # otherwise the worker is reported as killed
                await self.resources.control_plane.delete_worker(self.name)

    def _wake_slots(self) -> None:
        for slots in (self._work_slots, self._delivery_slots):
            slots.wake()

    async def _finish_running_jobs(self, shutdown_timeout_seconds: float) -> None:
        running_jobs = self._work_slots.running_jobs | self._delivery_slots.running_jobs
        if tasks := [running_job.task for running_job in running_jobs if running_job.task is not None]:
            _, unfinished = await asyncio.wait(tasks, timeout=shutdown_timeout_seconds)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    async def _fill_slots(self, slots: JobSlots, claim: Callable[[], Awaitable[ClaimedJob | None]]) -> None:
        """Start a job whenever a slot is free and a job is due, until the worker stops."""
        while not self._stopping:
            try:
                job = await claim()
            except Exception as exc:  # the worker survives all errors of the database
                logger.warning("worker.claim_failed", error=exc)
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
                continue
            if job is None:
                await slots.wait_for_work(self.poll_interval_seconds)
                continue
            running_job = RunningJob(job)
            running_job.task = asyncio.create_task(self._run_job(running_job))
            slots.running_jobs.add(running_job)
            running_job.task.add_done_callback(partial(slots.release, running_job))
            if not slots.has_free_slot:
                await slots.wait_for_slot()

    async def _claim_work(self) -> ClaimedJob | None:
        self._is_idle_tenant_waiting = False
        if time.monotonic() < self._paused_until:
            return None
        queue, slots = self.resources.queue, self._work_slots
        if slots.has_free_extra_slot:
            return await queue.claim(
                self.name,
                self.lease,
                tenant_concurrency=self.resources.settings.worker.tenant_concurrency,
                only_idle=not slots.has_free_slot,
            )
        self._is_idle_tenant_waiting = await queue.is_idle_tenant_waiting()
        if self._is_idle_tenant_waiting:
            self._preempt_long_job()
        return None

    async def _claim_delivery(self) -> ClaimedJob | None:
        if not self._delivery_slots.has_free_slot:
            return None
        limit = self.resources.settings.worker.tenant_concurrency
        return await self.resources.queue.claim_delivery(self.name, self.lease, tenant_concurrency=limit)

    def _preempt_long_job(self) -> None:
        """Interrupt the job that has run longest, among jobs of resumable kinds, if it has run for the minimum time."""
        preemptible = [
            running_job
            for running_job in self._work_slots.running_jobs
            if running_job.job.kind in PREEMPTIBLE_KINDS
            and running_job.elapsed_seconds > PREEMPT_AFTER_SECONDS
            and not running_job.is_preempted
        ]
        if preemptible:
            max(preemptible, key=lambda running_job: running_job.elapsed_seconds).preempt()

    async def _run_job(self, running_job: RunningJob) -> None:
        job = running_job.job
        with bind_context(tenant_id=job.tenant_id, job_id=job.id):
            running_job.work = work = asyncio.create_task(self._handle(job))
            heartbeat = asyncio.create_task(self._renew_lease(job, work))
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:  # the shutdown timeout is over: the job goes back to the queue
                work.cancel()
                await asyncio.wait({work})
            lost = heartbeat.done()
            heartbeat.cancel()
            recording = asyncio.create_task(self._record_outcome(running_job, work, lost=lost))
            while not recording.done():
                with suppress(asyncio.CancelledError):  # without it, the job stays claimed until its lease ends
                    await asyncio.wait({recording})
            if (error := recording.exception()) is not None:  # the job can be claimed again when its lease expires
                logger.warning("worker.settle_failed", error=error)

    async def _handle(self, job: ClaimedJob) -> None:
        handler = HANDLERS.get(job.kind)
        if handler is None:
            raise UnknownJobKind
        preemption = PreemptionTimer(lambda: self._is_idle_tenant_waiting)
        await handler(JobContext(self.resources, self.pipeline, self.owner_database, preemption), job)

    async def _record_outcome(self, running_job: RunningJob, work: asyncio.Task[None], *, lost: bool) -> None:
        queue, job = self.resources.queue, running_job.job
        if work.cancelled():
            if lost:
                logger.info("job.lost", kind=job.kind)
            elif self._stopping:
                await queue.release(job, self.name)
                logger.info("job.released", kind=job.kind)
            elif running_job.is_preempted:
                await self._requeue(job)
            else:
                await self._handle_failure(job, asyncio.CancelledError())
        elif (error := work.exception()) is not None:
            await self._handle_failure(job, error)
        else:
            await queue.complete(job, self.name)
            logger.info("job.done", kind=job.kind, attempts=job.attempts)

    async def _requeue(self, job: ClaimedJob) -> None:
        self._is_idle_tenant_waiting = False  # the waiting tenant needs one slot; the next claim finds other tenants
        await self.resources.queue.requeue(job, self.name)
        logger.info("job.preempted", kind=job.kind)

    async def _handle_failure(self, job: ClaimedJob, error: BaseException) -> None:
        queue = self.resources.queue
        if isinstance(error, JobPreempted):
            await self._requeue(job)
            return
        if isinstance(error, IndexMismatch):
            self._paused_until = time.monotonic() + MODEL_MISMATCH_DELAY_SECONDS
            if await queue.hand_off(job, self.name, MODEL_MISMATCH_MAX_DURATION):
                logger.info("job.handed_off", kind=job.kind)
                return
        failure = describe_failure(error)
        if isinstance(error, DailyTokenLimitReached | JobPostponed):
            await queue.postpone(job, self.name, failure, error.until)
            logger.info("job.postponed", kind=job.kind, code=failure.code)
            return
        if (code := await self.outage_monitor.find_outage_code(error)) is not None:
            await queue.postpone(job, self.name, replace(failure, code=code), get_next_check_time())
            logger.info("job.postponed", kind=job.kind, code=code)
            return
        decision = await queue.fail(job, self.name, failure)
        logger.warning(
            "job.failed", kind=job.kind, attempts=job.attempts, dead=decision.dead, code=failure.code, error=error
        )

    async def _renew_lease(self, job: ClaimedJob, work: asyncio.Task[None]) -> None:
        """Renew the lease of a job. When the lease is lost, cancel the work and return.

        When the job's document is deleted, its job is deleted too, so the lease is checked immediately.
        """
        interval = self.lease.total_seconds() / 3
        next_renewal_at = time.monotonic() + interval
        async with self.resources.change_feed.subscribe(job.tenant_id, job.document_id or job.id) as change:
            while True:
                await change.wait(next_renewal_at - time.monotonic())
                if not change.is_deleted and time.monotonic() < next_renewal_at:
                    continue
                next_renewal_at = time.monotonic() + interval
                try:
                    if await self.resources.queue.renew(job, self.name, self.lease):
                        continue
                except Exception as exc:  # without further renewals, the job would be lost
                    logger.warning("job.renewal_failed", error=exc)
                    continue
                work.cancel()
                return

    async def _ensure_periodic_jobs(self) -> None:
        """Create the periodic jobs. Try again until the database answers."""
        settings = self.resources.settings.worker
        pending = {
            **get_sweep_intervals(settings),
            MAINTAIN_INDEXES_JOB: timedelta(seconds=settings.maintenance_interval_seconds),
        }
        while pending:
            kind = next(iter(pending))
            try:
                await self.resources.queue.ensure_periodic_job(kind, pending[kind])
                del pending[kind]
            except Exception as exc:  # the database will answer again
                logger.warning("worker.prepare_failed", error=exc)
                await asyncio.sleep(POLL_INTERVAL_SECONDS)

    def _get_confinement(self) -> WorkerConfinement | None:
        """Return the confinement of this worker's parser processes; None before the first one starts."""
        confinement = self.pipeline.parser.pool.confinement
        return None if confinement is None else WorkerConfinement(confinement.level, confinement.describe())

    async def _send_heartbeats(self) -> None:
        """Store a heartbeat every few seconds. If the event loop is blocked, the heartbeats stop."""
        while True:
            try:
                await self.resources.control_plane.record_heartbeat(
                    self.name, sorted(self.outage_monitor.active_outages), self._get_confinement()
                )
            except Exception as exc:  # the database will answer again
                logger.warning("worker.heartbeat_failed", error=exc)
            await asyncio.sleep(HEARTBEAT_INTERVAL_SECONDS)

    async def _reap_lost_jobs(self) -> None:
        while True:
            try:
                for lost in await self.resources.queue.reap():
                    logger.warning("job.reaped", kind=lost.kind, dead=lost.dead, job=str(lost.id))
                    self._wake_slots()
            except Exception as exc:  # without this task, the jobs of lost workers would never be released
                logger.warning("worker.reap_failed", error=exc)
            await asyncio.sleep(self.lease.total_seconds() / 2)
