"""The worker: claim → handle → settle, until it is told to stop."""

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
from app.db.maintenance import OwnerDatabase
from app.db.models.control_rows import ClaimedJob, WorkerConfinement
from app.documents.file_batches import ATTACH_JOB
from app.documents.sweeping import keep_sweeping_temporary, sweep_periods
from app.errors import AppError, Postponed
from app.indexing.service import PERIODIC_JOB
from app.ingestion.pipeline import IngestionPipeline
from app.ingestion.stint import HandedBack, Stint
from app.job_failures import UnknownJob, describe_failure
from app.job_handlers import HANDLERS, JobContext
from app.knowledge_bases.service import ERASE_JOB, RESTAMP_JOB
from app.knowledge_bases.types import IndexMismatch
from app.logging import bind, get_logger
from app.outages import Outages, next_look
from app.places import POLL_SECONDS, Held, Places
from app.quotas.types import TokensSpent

logger = get_logger(__name__)

GRACE_SECONDS = 20.0
# How long a job is offered round when this worker's embedding model is not its knowledge base's: where two models are
# in use, as while one replaces the other, some worker has the right one. Whoever passes a job on claims nothing for a
# moment, or it might get the same one again.
MISFIT_PATIENCE = timedelta(minutes=10)
MISFIT_REST_SECONDS = 0.5


def new_name() -> str:
    """A name that no other worker has or had: leases are told apart by it, and process ids come round again."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


# Deletions, new stamps and attachments go on where they were ended. A job of these kinds that has had its place for so
# long is ended when another tenant waits for a place in vain; ingestion hands its place back between slices.
ENDED_KINDS = frozenset({ERASE_JOB, RESTAMP_JOB, ATTACH_JOB, "delete_tenant"})
ENDED_AFTER_SECONDS = 30.0
BEAT_SECONDS = 5.0


@dataclass(slots=True)
class Worker:
    """Works through the queue with as many jobs at once as the settings say.

    Beyond its ``concurrency`` it takes a few extra jobs of tenants that have none running anywhere, so that no tenant
    waits for the end of others' long documents. When the extra places are taken too and such a tenant waits, long jobs
    hand their places back. Deliveries to webhooks have places of their own.
    """

    resources: Resources
    pipeline: IngestionPipeline
    owner: OwnerDatabase | None = None
    poll_seconds: float = POLL_SECONDS
    name: str = field(default_factory=new_name)
    outages: Outages = field(init=False)
    _stopping: bool = False
    _at_once: bool = False
    _resting_until: float = 0.0
    _is_crowded: bool = False
    _work_places: Places = field(init=False)
    _delivery_places: Places = field(init=False)

    def __post_init__(self) -> None:
        settings = self.resources.settings.worker
        resources = self.resources
        self.outages = Outages(resources.embedders, resources.objects, resources.queue.resume_everywhere)
        self._work_places = Places(settings.concurrency, settings.extra_jobs)
        self._delivery_places = Places(settings.webhook_concurrency, hurries=False)

    @property
    def lease(self) -> timedelta:
        """How long a job is ours without a sign of life."""
        return timedelta(seconds=self.resources.settings.worker.lease_seconds)

    def stop(self, *, at_once: bool = False) -> None:
        """Claim nothing more; ``run`` returns when what is running has ended, or is handed back after the grace time.

        ``at_once`` leaves no such time.
        """
        self._stopping = True
        self._at_once = self._at_once or at_once
        for places in (self._work_places, self._delivery_places):
            places.stir()

    async def run(self, *, grace_seconds: float = GRACE_SECONDS) -> None:
        """Work until ``stop``; then finish, or hand back, what is running."""
        helpers = [
            asyncio.create_task(self._prepare()),
            asyncio.create_task(self._reap()),
            asyncio.create_task(self._tell_alive()),
            asyncio.create_task(keep_sweeping_temporary()),
            asyncio.create_task(self.outages.watch()),
            asyncio.create_task(self.resources.queue.listen(self._wake)),
        ]
        try:
            await asyncio.gather(
                self._fill(self._work_places, self._claim_work),
                self._fill(self._delivery_places, self._claim_delivery),
            )
        finally:
            for helper in helpers:
                helper.cancel()
            await self._finish(0.0 if self._at_once else grace_seconds)
            await asyncio.gather(*helpers, return_exceptions=True)
            with suppress(AppError):  # the row then tells of a worker that was killed
                await self.resources.system.forget_worker(self.name)

    def _wake(self) -> None:
        for places in (self._work_places, self._delivery_places):
            places.wake()

    async def _finish(self, grace_seconds: float) -> None:
        held = self._work_places.held | self._delivery_places.held
        if tasks := [one.task for one in held if one.task is not None]:
            _, unfinished = await asyncio.wait(tasks, timeout=grace_seconds)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    async def _fill(self, places: Places, claim: Callable[[], Awaitable[ClaimedJob | None]]) -> None:
        """Start a job whenever there is a place and a job for it, until the worker stops."""
        while not self._stopping:
            try:
                job = await claim()
            except Exception as exc:  # the worker outlives whatever is wrong with the database
                logger.warning("worker.claim_failed", error=exc)
                await asyncio.sleep(POLL_SECONDS)
                continue
            if job is None:
                await places.rest(self.poll_seconds)
                continue
            held = Held(job)
            held.task = asyncio.create_task(self._work(held))
            places.held.add(held)
            held.task.add_done_callback(partial(places.free, held))
            if not places.has_room:
                await places.wait_for_room()

    async def _claim_work(self) -> ClaimedJob | None:
        self._is_crowded = False
        if time.monotonic() < self._resting_until:
            return None
        queue, places = self.resources.queue, self._work_places
        if places.has_extra_room:
            return await queue.claim(
                self.name,
                self.lease,
                tenant_concurrency=self.resources.settings.worker.tenant_concurrency,
                only_idle=not places.has_room,
            )
        self._is_crowded = await queue.is_idle_tenant_waiting()
        if self._is_crowded:
            self._end_long_jobs()
        return None

    async def _claim_delivery(self) -> ClaimedJob | None:
        if not self._delivery_places.has_room:
            return None
        limit = self.resources.settings.worker.tenant_concurrency
        return await self.resources.queue.claim_delivery(self.name, self.lease, tenant_concurrency=limit)

    def _end_long_jobs(self) -> None:
        """End one job that has had its place for long, of a kind that goes on where it was ended."""
        endable = [
            held
            for held in self._work_places.held
            if held.job.kind in ENDED_KINDS and held.seconds > ENDED_AFTER_SECONDS and not held.is_ended
        ]
        if endable:
            max(endable, key=lambda held: held.seconds).end()

    async def _work(self, held: Held) -> None:
        job = held.job
        with bind(tenant_id=job.tenant_id, job_id=job.id):
            held.work = work = asyncio.create_task(self._handle(job))
            heart = asyncio.create_task(self._beat(job, work))
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:  # the grace time is over; what is left is to hand the job back
                work.cancel()
                await asyncio.wait({work})
            lost = heart.done()
            heart.cancel()
            settling = asyncio.create_task(self._settle(held, work, lost=lost))
            while not settling.done():
                with suppress(asyncio.CancelledError):  # cut short, it would leave the job ours until its lease ends
                    await asyncio.wait({settling})
            if (error := settling.exception()) is not None:  # repaired by the end of the lease
                logger.warning("worker.settle_failed", error=error)

    async def _handle(self, job: ClaimedJob) -> None:
        handler = HANDLERS.get(job.kind)
        if handler is None:
            raise UnknownJob
        stint = Stint(lambda: self._is_crowded)
        await handler(JobContext(self.resources, self.pipeline, self.owner, stint), job)

    async def _settle(self, held: Held, work: asyncio.Task[None], *, lost: bool) -> None:
        queue, job = self.resources.queue, held.job
        if work.cancelled():
            if lost:
                logger.info("job.lost", kind=job.kind)
            elif self._stopping:
                await queue.release(job, self.name)
                logger.info("job.released", kind=job.kind)
            elif held.is_ended:
                await self._hand_back(job)
            else:
                await self._failed(job, asyncio.CancelledError())
        elif (error := work.exception()) is not None:
            await self._failed(job, error)
        else:
            await queue.complete(job, self.name)
            logger.info("job.done", kind=job.kind, attempts=job.attempts)

    async def _hand_back(self, job: ClaimedJob) -> None:
        self._is_crowded = False  # one place is enough for the tenant that waits; the next look tells of others
        await self.resources.queue.hand_back(job, self.name)
        logger.info("job.handed_back", kind=job.kind)

    async def _failed(self, job: ClaimedJob, error: BaseException) -> None:
        queue = self.resources.queue
        if isinstance(error, HandedBack):
            await self._hand_back(job)
            return
        if isinstance(error, IndexMismatch):
            self._resting_until = time.monotonic() + MISFIT_REST_SECONDS
            if await queue.pass_on(job, self.name, MISFIT_PATIENCE):
                logger.info("job.passed_on", kind=job.kind)
                return
        failure = describe_failure(error)
        if isinstance(error, TokensSpent | Postponed):
            await queue.postpone(job, self.name, failure, error.until)
            logger.info("job.postponed", kind=job.kind, code=failure.code)
            return
        if (code := await self.outages.code_of(error)) is not None:
            await queue.postpone(job, self.name, replace(failure, code=code), next_look())
            logger.info("job.postponed", kind=job.kind, code=code)
            return
        decision = await queue.fail(job, self.name, failure)
        logger.warning(
            "job.failed", kind=job.kind, attempts=job.attempts, dead=decision.dead, code=failure.code, error=error
        )

    async def _beat(self, job: ClaimedJob, work: asyncio.Task[None]) -> None:
        """Renew the lease; return, with the work cancelled, when the job is not ours any more.

        That is looked at once more as soon as the job's document is deleted, for its job goes with it.
        """
        interval = self.lease.total_seconds() / 3
        due = time.monotonic() + interval
        async with self.resources.watch.changes(job.tenant_id, job.document_id or job.id) as change:
            while True:
                await change.wait(due - time.monotonic())
                if not change.deleted and time.monotonic() < due:
                    continue
                due = time.monotonic() + interval
                try:
                    if await self.resources.queue.renew(job, self.name, self.lease):
                        continue
                except Exception as exc:  # a heart that stopped would give the job away
                    logger.warning("worker.heartbeat_failed", error=exc)
                    continue
                work.cancel()
                return

    async def _prepare(self) -> None:
        """See that the periodic jobs are there."""
        settings = self.resources.settings.worker
        waiting = {**sweep_periods(settings), PERIODIC_JOB: timedelta(seconds=settings.maintenance_seconds)}
        while waiting:
            kind = next(iter(waiting))
            try:
                await self.resources.queue.ensure_periodic(kind, waiting[kind])
                del waiting[kind]
            except Exception as exc:  # the database will be back
                logger.warning("worker.prepare_failed", error=exc)
                await asyncio.sleep(POLL_SECONDS)

    def _confinement(self) -> WorkerConfinement | None:
        """How far the kernel let this worker's own parser processes be confined; None before the first one."""
        found = self.pipeline.parsers.confinement
        return None if found is None else WorkerConfinement(found.level, found.describe())

    async def _tell_alive(self) -> None:
        """Write a sign of life every few seconds.

        What has frozen this event loop, writes none.
        """
        while True:
            try:
                await self.resources.system.beat(self.name, sorted(self.outages.known), self._confinement())
            except Exception as exc:  # the database will be back
                logger.warning("worker.beat_failed", error=exc)
            await asyncio.sleep(BEAT_SECONDS)

    async def _reap(self) -> None:
        while True:
            try:
                for lost in await self.resources.queue.reap():
                    logger.warning("job.reaped", kind=lost.kind, dead=lost.dead, job=str(lost.id))
                    self._wake()
            except Exception as exc:  # without it, jobs of lost workers would stay theirs for ever
                logger.warning("worker.reap_failed", error=exc)
            await asyncio.sleep(self.lease.total_seconds() / 2)
