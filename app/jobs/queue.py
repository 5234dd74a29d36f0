"""The job queue: a table in the same Postgres, so that a job is enqueued in the transaction of the row it is about.

Attempts are counted when a job is claimed, so a file that kills its worker runs out of them. Every update is fenced by
the worker's name, the attempt and ``state = 'running'``: a worker that lost its lease changes nothing any more.
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
# Larger first, within a tenant: what a conversation goes on with, what somebody waits for, what came in bulk, what
# nobody waits for.
URGENT = 20
INTERACTIVE = 10
BULK = 0
MAINTENANCE = -10
MAX_DELAY_SECONDS = 600.0
MAX_BACKOFF_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why a job failed: a stable code, a sentence for people, whether trying again can help, and how soon (seconds)."""

    code: str
    message: str
    retryable: bool
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """What becomes of a failed job."""

    dead: bool
    delay: timedelta


def decide_retry(
    failure: JobFailure, *, attempts: int, max_attempts: int | None, jitter: float, every: timedelta | None = None
) -> RetryDecision:
    """Backoff from 1 s to 10 min, at least what the failure asks for; ``jitter`` in [0, 1) spreads it by ±20 %.

    Without ``max_attempts`` it is never the end, whatever failed. What is due ``every`` so often rests no longer.
    """
    if max_attempts is not None and (not failure.retryable or attempts >= max_attempts):
        return RetryDecision(dead=True, delay=timedelta(0))
    requested_seconds = min(MAX_DELAY_SECONDS, failure.retry_after)
    backoff_seconds = 4.0 ** (min(attempts, MAX_BACKOFF_ATTEMPTS) - 1)
    delay = timedelta(seconds=max(requested_seconds, min(MAX_DELAY_SECONDS, backoff_seconds) * (0.8 + 0.4 * jitter)))
    return RetryDecision(dead=False, delay=min(delay, every or delay))


@dataclass(frozen=True, slots=True)
class JobQueue:
    """Enqueue as part of a caller's transaction; claim and settle as a worker."""

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
        """Add a job; it can be claimed when the caller's transaction commits. The payload holds ids only.

        ``concurrency_key`` is a key with a quota of jobs that run at once.
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
        """Add a job, unless one of this kind about the same thing waits or runs; a dead one is brought back."""
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
        """Let a version's waiting job run now; False when there is none, waiting or running. The caller has the row."""
        values = {"tenant": tenant_id, "document": document_id, "version": str(version)}
        return await session.fetch_row(_RUN_NOW, values) is not None

    async def resume_jobs(self, session: Session, *, tenant_id: UUID, code: str) -> None:
        """Let the jobs run now that wait because of this, an error's code."""
        await session.fetch_rows(_RESUME, {"tenant": tenant_id, "code": code})

    async def postpone(self, job: ClaimedJob, worker: str, failure: JobFailure, until: datetime) -> None:
        """Put the job back until then; its document waits with it, and says why. The attempt does not count."""
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
        """See that there is one job of this kind, first run when ``every`` has passed; any number of workers may ask.

        It is the system tenant's, and is never done: only its next time comes. Raises DatabaseUnavailable.
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
        """Claim the next job in turn, deliveries to webhooks apart; ``only_idle``: of a tenant that has none running.

        A tenant without a limit of its own has at most ``tenant_concurrency`` jobs running.
        Raises DatabaseUnavailable.
        """
        return await self.control_plane.claim_work(
            worker, lease, tenant_concurrency=tenant_concurrency, only_idle=only_idle
        )

    async def claim_delivery(self, worker: str, lease: timedelta, *, tenant_concurrency: int) -> ClaimedJob | None:
        """Claim the next delivery to a webhook in turn. Raises DatabaseUnavailable."""
        return await self.control_plane.claim_delivery(worker, lease, tenant_concurrency=tenant_concurrency)

    async def is_idle_tenant_waiting(self) -> bool:
        """Return whether a tenant without a running job has one that is due. Raises DatabaseUnavailable."""
        return await self.control_plane.is_idle_tenant_waiting()

    async def reap(self) -> list[ReapedJob]:
        """Take back the jobs of lost workers. Raises DatabaseUnavailable."""
        return await self.control_plane.reap_jobs()

    async def renew(self, job: ClaimedJob, worker: str, lease: timedelta) -> bool:
        """Extend the lease; False when the job is gone (its document was deleted) or another worker has it."""
        async with self.database.transaction(job.tenant_id) as session:
            row = await session.fetch_row(_RENEW, {**_build_fence_params(job, worker), "lease": lease})
        return row is not None

    async def complete(self, job: ClaimedJob, worker: str) -> None:
        """Remove a job that is done; a periodic one waits for its next time."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.fetch_rows(
                _COMPLETE if job.every is None else _RESCHEDULE_PERIODIC, _build_fence_params(job, worker)
            )

    async def release(self, job: ClaimedJob, worker: str) -> None:
        """Hand a job back unharmed, as at a graceful stop: the attempt does not count."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.fetch_rows(_RELEASE, _build_fence_params(job, worker))

    async def requeue(self, job: ClaimedJob, worker: str) -> None:
        """Give a job back in its old place of the tenant's queue; the attempt does not count."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.fetch_rows(_REQUEUE, _build_fence_params(job, worker))

    async def resume_jobs_of_all_tenants(self, code: str) -> int:
        """Let the jobs of all tenants run now that wait because of an error with this code; return how many."""
        return await self.control_plane.resume_jobs(code)

    async def retry_failed_documents(self, *, limit: int) -> int:
        """Queue documents again that an outage made fail; return how many. Raises DatabaseUnavailable."""
        return await self.control_plane.retry_failed_documents(limit=limit)

    async def fail(self, job: ClaimedJob, worker: str, failure: JobFailure) -> RetryDecision:
        """Put the job back for later, or declare it dead and its document failed, in one transaction."""
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
            # The document first, as whoever deletes or reindexes it does: else the two would wait for each other.
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
        """Hand a job back for another worker; False when that has gone on for longer than ``max_duration``.

        The attempt does not count.
        """
        async with self.database.transaction(job.tenant_id) as session:
            row = await session.fetch_row(_HAND_OFF, {**_build_fence_params(job, worker), "patience": max_duration})
        return row is not None

    async def listen(self, on_wake: Callable[[], None]) -> None:
        """Call ``on_wake`` whenever a job is enqueued anywhere, and after every break of the connection.

        Runs until it is cancelled. Without a connection nothing is heard, and polling alone finds the jobs.
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
