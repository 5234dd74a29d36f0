"""The job queue: a table of the same Postgres. The transaction that changes an object also enqueues its job.

A claim counts an attempt, so a file that kills its worker has a limited number of attempts. Every update compares the
worker's name, the attempt and ``state = 'running'``: a worker that lost its lease changes nothing.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from app.db.control_plane import ControlPlaneDatabase
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import ClaimedJob, ReapedJob
from app.db.notifications import listen
from app.db.session import Database, Session
from app.db.statements import parse_statement
from app.ids import derive_id, generate_id
from app.warnings import ServiceWarning, WarningCode

CHANNEL = "carrel_job"
# Priorities within a tenant; the largest comes first. URGENT: a conversation needs the job. INTERACTIVE: a user waits.
# BULK: bulk uploads. MAINTENANCE: no user waits.
URGENT = 20
INTERACTIVE = 10
BULK = 0
MAINTENANCE = -10
MAX_DELAY_SECONDS = 600.0
MAX_BACKOFF_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class JobFailure:
    """The reason of a failed job.

    Attributes:
        code: Stable error code.
        message: Error message for the caller, one sentence.
        retryable: Whether another attempt can succeed.
        retry_after: Minimum time until the next attempt, in seconds.
    """

    code: str
    message: str
    retryable: bool
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """The consequence of a failure: the job is dead, or due again after ``delay``."""

    dead: bool
    delay: timedelta


def decide_retry(
    failure: JobFailure, *, attempts: int, max_attempts: int | None, jitter: float, every: timedelta | None = None
) -> RetryDecision:
    """Decide whether and when a failed job is tried again. The delay grows exponentially from 1 second to 10 minutes.

    Args:
        failure: The reason. Its ``retry_after`` is the minimum delay.
        attempts: Number of attempts so far.
        max_attempts: Number of attempts after which the job is dead; None means never.
        jitter: Number in [0, 1) that changes the delay by up to 20 %.
        every: Interval of a periodic job, which is the maximum delay.
    """
    if max_attempts is not None and (not failure.retryable or attempts >= max_attempts):
        return RetryDecision(dead=True, delay=timedelta(0))
    requested_seconds = min(MAX_DELAY_SECONDS, failure.retry_after)
    backoff_seconds = 4.0 ** (min(attempts, MAX_BACKOFF_ATTEMPTS) - 1)
    delay = timedelta(seconds=max(requested_seconds, min(MAX_DELAY_SECONDS, backoff_seconds) * (0.8 + 0.4 * jitter)))
    return RetryDecision(dead=False, delay=min(delay, every or delay))


@dataclass(frozen=True, slots=True)
class JobQueue:
    """The job queue. Callers enqueue in their transaction; workers claim jobs and record outcomes."""

    database: Database
    control_plane: ControlPlaneDatabase
    max_attempts: int

    async def enqueue(
        self,
        session: Session,
        kind: str,
        *,
        tenant_id: UUID,
        document_id: UUID | None = None,
        payload: dict[str, Any] | None = None,
        priority: int = BULK,
        concurrency_key: UUID | None = None,
    ) -> UUID:
        """Add a job. It can be claimed when the caller's transaction commits.

        Args:
            session: The caller's transaction.
            kind: Kind of the job.
            tenant_id: Tenant of the job.
            document_id: Document of the job. If the document is deleted, so is the job.
            payload: Arguments of the handler. They hold ids only, no content.
            priority: One of the priorities of this module.
            concurrency_key: API key whose quota limits the number of running jobs.

        Returns:
            The id of the job.
        """
        job_id = generate_id()
        values = {
            "tenant": tenant_id,
            "id": job_id,
            "kind": kind,
            "document": document_id,
            "payload": json.dumps(payload or {}),
            "priority": priority,
            "max": self.max_attempts,
            "key": concurrency_key,
        }
        await session.fetch_rows(_ENQUEUE, values)
        return job_id

    async def enqueue_unique(
        self,
        session: Session,
        kind: str,
        *,
        subject_id: UUID,
        tenant_id: UUID,
        payload: dict[str, Any],
        priority: int,
    ) -> None:
        """Add a job, unless a job of this kind and subject waits or runs. A dead job is made ready again.

        Args:
            session: The caller's transaction.
            kind: Kind of the job.
            subject_id: Subject of the job, from which its id is derived.
            tenant_id: Tenant of the job.
            payload: Arguments of the handler. They hold ids only, no content.
            priority: One of the priorities of this module.
        """
        values = {
            "tenant": tenant_id,
            "id": derive_id(kind, subject_id),
            "kind": kind,
            "payload": json.dumps(payload),
            "priority": priority,
            "max": self.max_attempts,
        }
        await session.fetch_rows(_ENQUEUE_UNIQUE, values)

    async def run_now(self, session: Session, *, tenant_id: UUID, document_id: UUID, version: int) -> bool:
        """Make the waiting job of a document's version due now. The caller has locked the document.

        Return False if no job of the version waits or runs.
        """
        values = {"tenant": tenant_id, "document": document_id, "version": str(version)}
        return await session.fetch_row(_RUN_NOW, values) is not None

    async def resume_jobs(self, session: Session, *, tenant_id: UUID, code: str) -> None:
        """Make postponed jobs of one tenant due now, if they were postponed with this error code."""
        await session.fetch_rows(_RESUME, {"tenant": tenant_id, "code": code})

    async def postpone(self, job: ClaimedJob, worker: str, failure: JobFailure, until: datetime) -> None:
        """Postpone a job without counting the attempt. Its document is queued again, with the reason as a warning.

        Args:
            job: The job.
            worker: Name of the worker that holds it.
            failure: The reason.
            until: Time at which the job is due again.
        """
        document = {"tenant": job.tenant_id, "document": job.document_id}
        error = json.dumps({"code": failure.code, "message": failure.message})
        async with self.database.transaction(job.tenant_id) as session:
            await session.fetch_rows(_LOCK_DOCUMENT, document)
            fenced = await session.fetch_row(
                _POSTPONE, {**_build_fence_params(job, worker), "error": error, "until": until}
            )
            if fenced is not None and job.document_id is not None:
                warnings = json.dumps([ServiceWarning(WarningCode.PROCESSING_POSTPONED, failure.message).to_json()])
                version = {"version": job.payload.get("version"), "warnings": warnings}
                await session.fetch_rows(_POSTPONE_DOCUMENT, {**document, **version})

    async def ensure_periodic_job(self, kind: str, every: timedelta) -> None:
        """Create the periodic job of a kind, or change its interval. All workers may call this at the same time.

        The job belongs to the system tenant and is never removed.

        Args:
            kind: Kind of the job.
            every: Interval of the job, and time until its first run.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        values = {
            "tenant": SYSTEM_TENANT,
            "id": derive_id("periodic", kind),
            "kind": kind,
            "every": every,
            "priority": MAINTENANCE,
            "max": self.max_attempts,
        }
        async with self.database.transaction(SYSTEM_TENANT) as session:
            await session.fetch_rows(_ENSURE_PERIODIC, values)

    async def claim(
        self, worker: str, lease: timedelta, *, tenant_concurrency: int, only_idle: bool = False
    ) -> ClaimedJob | None:
        """Claim the next due job, except webhook deliveries. Tenants take turns.

        Args:
            worker: Name of the worker.
            lease: Time until the claim expires, unless the worker renews it.
            tenant_concurrency: Maximum number of running jobs of a tenant without a separate limit.
            only_idle: Whether only tenants without a running job are considered.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        return await self.control_plane.claim_work(
            worker, lease, tenant_concurrency=tenant_concurrency, only_idle=only_idle
        )

    async def claim_delivery(self, worker: str, lease: timedelta, *, tenant_concurrency: int) -> ClaimedJob | None:
        """Claim the next due webhook delivery. Tenants take turns. Raises DatabaseUnavailable."""
        return await self.control_plane.claim_delivery(worker, lease, tenant_concurrency=tenant_concurrency)

    async def is_idle_tenant_waiting(self) -> bool:
        """Return whether a tenant without a running job has a job that is due. Raises DatabaseUnavailable."""
        return await self.control_plane.is_idle_tenant_waiting()

    async def reap(self) -> list[ReapedJob]:
        """Release the jobs whose lease has expired, and return them. Raises DatabaseUnavailable."""
        return await self.control_plane.reap_jobs()

    async def renew(self, job: ClaimedJob, worker: str, lease: timedelta) -> bool:
        """Renew the lease of a job. Return False if its document was deleted or another worker has the job."""
        async with self.database.transaction(job.tenant_id) as session:
            row = await session.fetch_row(_RENEW, {**_build_fence_params(job, worker), "lease": lease})
        return row is not None

    async def complete(self, job: ClaimedJob, worker: str) -> None:
        """Remove a finished job. A periodic job waits for its next time."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.fetch_rows(
                _COMPLETE if job.every is None else _RESCHEDULE_PERIODIC, _build_fence_params(job, worker)
            )

    async def release(self, job: ClaimedJob, worker: str) -> None:
        """Put a job back into the queue, due now, for example at a graceful stop. The attempt does not count."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.fetch_rows(_RELEASE, _build_fence_params(job, worker))

    async def requeue(self, job: ClaimedJob, worker: str) -> None:
        """Put a job back at its former position in the tenant's queue. The attempt does not count."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.fetch_rows(_REQUEUE, _build_fence_params(job, worker))

    async def resume_jobs_of_all_tenants(self, code: str) -> int:
        """Make all tenants' jobs due now that were postponed with this error code, and return the number of jobs."""
        return await self.control_plane.resume_jobs(code)

    async def retry_failed_documents(self, *, limit: int) -> int:
        """Enqueue documents again that failed because of an outage, and return their number. Raises
        DatabaseUnavailable.
        """
        return await self.control_plane.retry_failed_documents(limit=limit)

    async def fail(self, job: ClaimedJob, worker: str, failure: JobFailure) -> RetryDecision:
        """Record a failed attempt: the job is due again later, or the job is dead and its document has failed.

        Args:
            job: The job.
            worker: Name of the worker that holds it.
            failure: The reason.

        Returns:
            Whether the job is dead, or when it is due again.
        """
        jitter = random.random()  # noqa: S311  (spreads retries, guards nothing)
        limit = job.max_attempts if job.every is None else None
        decision = decide_retry(failure, attempts=job.attempts, max_attempts=limit, jitter=jitter, every=job.every)
        values = {
            **_build_fence_params(job, worker),
            "state": "dead" if decision.dead else "ready",
            "delay": decision.delay,
            "error": json.dumps({"code": failure.code, "message": failure.message}),
        }
        async with self.database.transaction(job.tenant_id) as session:
            # Lock the document before the job: deletions and reindexing use the same order, so no deadlock occurs.
            await session.fetch_rows(_LOCK_DOCUMENT, {"tenant": job.tenant_id, "document": job.document_id})
            fenced = await session.fetch_row(_FAIL, values)
            if fenced is not None and decision.dead and job.document_id is not None:
                error = {"code": failure.code, "message": failure.message, "retryable": failure.retryable}
                await session.fetch_rows(
                    _FAIL_DOCUMENT,
                    {
                        "tenant": job.tenant_id,
                        "document": job.document_id,
                        "version": job.payload.get("version"),
                        "error": json.dumps(error),
                    },
                )
        return decision

    async def hand_off(self, job: ClaimedJob, worker: str, max_duration: timedelta) -> bool:
        """Put a job back for another worker, without counting the attempt.

        Return False if the job has been handed off for longer than ``max_duration``.
        """
        async with self.database.transaction(job.tenant_id) as session:
            row = await session.fetch_row(_HAND_OFF, {**_build_fence_params(job, worker), "patience": max_duration})
        return row is not None

    async def listen(self, on_wake: Callable[[], None]) -> None:
        """Call ``on_wake`` whenever a job is enqueued, and after each reconnect, until the task is cancelled.

        Without a connection there are no notifications: workers then find jobs by polling.
        """
        await listen(self.database, CHANNEL, lambda _: on_wake(), lambda _: on_wake())


def _build_fence_params(job: ClaimedJob, worker: str) -> dict[str, Any]:
    return {"tenant": job.tenant_id, "id": job.id, "worker": worker, "attempts": job.attempts}


_FENCE = "where tenant_id = :tenant and id = :id and worker = :worker and attempts = :attempts and state = 'running'"
_ENQUEUE = parse_statement(f"""
with added as (
  insert into job (tenant_id, id, kind, document_id, payload, priority, max_attempts, quota_key_id)
  values (:tenant, :id, :kind, :document, :payload::jsonb, :priority, :max, :key) returning 1
) select pg_notify('{CHANNEL}', '') from added""")  # noqa: S608  (constants)
_ENQUEUE_UNIQUE = parse_statement(f"""
with added as (
  insert into job (tenant_id, id, kind, payload, priority, max_attempts)
  values (:tenant, :id, :kind, :payload::jsonb, :priority, :max)
  on conflict (tenant_id, id) do update set state = 'ready', attempts = 0, error = null, run_at = now()
   where job.state = 'dead' returning 1
) select pg_notify('{CHANNEL}', '') from added""")  # noqa: S608  (constants)
_RENEW = parse_statement(
    f"update job set lease_until = clock_timestamp() + :lease::interval {_FENCE} returning 1"  # noqa: S608  (constants)
)
_COMPLETE = parse_statement(f"delete from job {_FENCE}")  # noqa: S608  (constants)
_RESCHEDULE_PERIODIC = parse_statement(f"""
update job set state = 'ready', worker = null, lease_until = null, attempts = 0, error = null, run_at = now() + every
{_FENCE}""")  # noqa: S608  (constants)
_ENSURE_PERIODIC = parse_statement("""
insert into job (tenant_id, id, kind, every, priority, max_attempts, run_at)
values (:tenant, :id, :kind, :every::interval, :priority, :max, now() + :every::interval)
on conflict (tenant_id, id) do update set every = excluded.every, run_at = least(job.run_at, excluded.run_at)
 where job.every is distinct from excluded.every""")
_RELEASE = parse_statement(f"""
with released as (
  update job set state = 'ready', worker = null, lease_until = null, attempts = attempts - 1, run_at = now() {_FENCE}
  returning 1
) select pg_notify('{CHANNEL}', '') from released""")  # noqa: S608  (constants)
_REQUEUE = parse_statement(f"""
with released as (
  update job set state = 'ready', worker = null, lease_until = null, attempts = attempts - 1 {_FENCE} returning 1
) select pg_notify('{CHANNEL}', '') from released""")  # noqa: S608  (constants)
_HAND_OFF = parse_statement(f"""
with passed as (
  update job set state = 'ready', worker = null, lease_until = null, attempts = attempts - 1, run_at = now(),
         error = jsonb_build_object('code', 'index_mismatch', 'since',
           coalesce(error ->> 'since', clock_timestamp()::text)) {_FENCE}
     and coalesce((error ->> 'since')::timestamptz, clock_timestamp()) > clock_timestamp() - :patience::interval
  returning 1
) select pg_notify('{CHANNEL}', '') from passed""")  # noqa: S608  (constants)
_FAIL = parse_statement(f"""
update job set state = :state, worker = null, lease_until = null, error = :error::jsonb,
       run_at = clock_timestamp() + :delay::interval {_FENCE} returning 1""")  # noqa: S608  (constants)
_POSTPONE = parse_statement(f"""
update job set state = 'ready', worker = null, lease_until = null, attempts = attempts - 1, error = :error::jsonb,
       run_at = :until {_FENCE} returning 1""")  # noqa: S608  (constants)
_POSTPONE_DOCUMENT = parse_statement("""
update document set status = 'queued', progress = null, warnings = :warnings::jsonb, updated_at = now()
 where tenant_id = :tenant and id = :document and version = :version and status not in ('ready', 'failed')""")
_RESUME = parse_statement(f"""
with resumed as (
  update job set run_at = now()
   where tenant_id = :tenant and state = 'ready' and run_at > now() and error ->> 'code' = :code returning 1
) select pg_notify('{CHANNEL}', '') from resumed limit 1""")  # noqa: S608  (constants)
_RUN_NOW = parse_statement(f"""
with found as (
  update job set run_at = least(run_at, now())
   where tenant_id = :tenant and document_id = :document and payload ->> 'version' = :version and state <> 'dead'
  returning 1
) select pg_notify('{CHANNEL}', '') from found""")  # noqa: S608  (constants)
_LOCK_DOCUMENT = parse_statement("select 1 from document where tenant_id = :tenant and id = :document for update")
_FAIL_DOCUMENT = parse_statement("""
update document set status = 'failed', progress = null, updated_at = now(),
       error = :error::jsonb || jsonb_build_object('stage', status)
 where tenant_id = :tenant and id = :document and version = :version and status <> 'ready'""")
