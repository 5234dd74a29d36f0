"""The job queue: a table in the same Postgres, so that a job is enqueued in the transaction of the row it is about.

Attempts are counted when a job is claimed, so a file that kills its worker runs out of them. Every update is fenced by
the worker's name, the attempt and ``state = 'running'``: a worker that lost its lease changes nothing any more.
"""

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.control_rows import ClaimedJob, ReapedJob
from app.db.session import Database
from app.db.system import SystemDatabase
from app.ids import new_id

CHANNEL = "carrel_job"
LONGEST_DELAY_SECONDS = 600.0
RECONNECT_SECONDS = 1.0


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


def decide_retry(failure: JobFailure, *, attempts: int, max_attempts: int, jitter: float) -> RetryDecision:
    """Backoff from 1 s to 10 min, at least what the failure asks for; ``jitter`` in [0, 1) spreads it by ±20 %."""
    if not failure.retryable or attempts >= max_attempts:
        return RetryDecision(dead=True, delay=timedelta(0))
    asked = min(LONGEST_DELAY_SECONDS, failure.retry_after)
    seconds = min(LONGEST_DELAY_SECONDS, 4.0 ** (attempts - 1)) * (0.8 + 0.4 * jitter)
    return RetryDecision(dead=False, delay=timedelta(seconds=max(asked, seconds)))


@dataclass(frozen=True, slots=True)
class JobQueue:
    """Enqueue as part of a caller's transaction; claim and settle as a worker."""

    database: Database
    system: SystemDatabase
    max_attempts: int

    async def enqueue(
        self,
        session: AsyncSession,
        kind: str,
        *,
        tenant_id: UUID,
        document_id: UUID | None = None,
        payload: dict[str, Any] | None = None,
        priority: int = 0,
    ) -> UUID:
        """Add a job; it can be claimed when the caller's transaction commits. The payload holds ids only."""
        job_id = new_id()
        values = {
            "tenant": tenant_id,
            "id": job_id,
            "kind": kind,
            "document": document_id,
            "payload": json.dumps(payload or {}),
            "priority": priority,
            "max": self.max_attempts,
        }
        await session.execute(text(_ENQUEUE), values)
        return job_id

    async def claim(self, worker: str, lease: timedelta) -> ClaimedJob | None:
        """The next job in turn. Raises DatabaseUnavailable."""
        return await self.system.claim_job(worker, lease)

    async def reap(self) -> list[ReapedJob]:
        """Take back the jobs of lost workers. Raises DatabaseUnavailable."""
        return await self.system.reap_jobs()

    async def renew(self, job: ClaimedJob, worker: str, lease: timedelta) -> bool:
        """Extend the lease; False when the job is gone (its document was deleted) or another worker has it."""
        async with self.database.transaction(job.tenant_id) as session:
            row = await session.execute(text(_RENEW), {**_fence(job, worker), "lease": lease})
        return row.one_or_none() is not None

    async def complete(self, job: ClaimedJob, worker: str) -> None:
        """Remove a job that is done."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.execute(text(_COMPLETE), _fence(job, worker))

    async def release(self, job: ClaimedJob, worker: str) -> None:
        """Hand a job back unharmed, as at a graceful stop: the attempt does not count."""
        async with self.database.transaction(job.tenant_id) as session:
            await session.execute(text(_RELEASE), _fence(job, worker))

    async def fail(self, job: ClaimedJob, worker: str, failure: JobFailure) -> RetryDecision:
        """Put the job back for later, or declare it dead and its document failed, in one transaction."""
        jitter = random.random()  # noqa: S311  (spreads retries, guards nothing)
        decision = decide_retry(failure, attempts=job.attempts, max_attempts=job.max_attempts, jitter=jitter)
        values = {
            **_fence(job, worker),
            "state": "dead" if decision.dead else "ready",
            "delay": decision.delay,
            "error": json.dumps({"code": failure.code, "message": failure.message}),
        }
        async with self.database.transaction(job.tenant_id) as session:
            fenced = (await session.execute(text(_FAIL), values)).one_or_none()
            if fenced is not None and decision.dead and job.document_id is not None:
                error = {"code": failure.code, "message": failure.message, "retryable": failure.retryable}
                await session.execute(
                    text(_FAIL_DOCUMENT),
                    {
                        "tenant": job.tenant_id,
                        "document": job.document_id,
                        "version": job.payload.get("version"),
                        "error": json.dumps(error),
                    },
                )
        return decision

    async def pass_on(self, job: ClaimedJob, worker: str, patience: timedelta) -> bool:
        """Hand a job back for another worker; False when that has gone on for longer than ``patience``.

        The attempt does not count.
        """
        async with self.database.transaction(job.tenant_id) as session:
            row = await session.execute(text(_PASS_ON), {**_fence(job, worker), "patience": patience})
        return row.one_or_none() is not None

    async def listen(self, on_wake: Callable[[], None]) -> None:
        """Call ``on_wake`` whenever a job is enqueued anywhere, and after every break of the connection.

        Runs until it is cancelled. Without a connection nothing is heard, and polling alone finds the jobs.
        """
        while True:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await self._listen_once(on_wake)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen_once(self, on_wake: Callable[[], None]) -> None:
        engine = self.database.engine
        _, options = engine.dialect.create_connect_args(engine.url)
        connection = await asyncpg.connect(**options, timeout=5)
        ended = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(CHANNEL, lambda *_: on_wake())
            on_wake()
            await ended.wait()
        finally:
            connection.terminate()


def _fence(job: ClaimedJob, worker: str) -> dict[str, Any]:
    return {"tenant": job.tenant_id, "id": job.id, "worker": worker, "attempts": job.attempts}


_FENCE = "where tenant_id = :tenant and id = :id and worker = :worker and attempts = :attempts and state = 'running'"
_ENQUEUE = f"""
with added as (
  insert into job (tenant_id, id, kind, document_id, payload, priority, max_attempts)
  values (:tenant, :id, :kind, :document, cast(:payload as jsonb), :priority, :max) returning 1
) select pg_notify('{CHANNEL}', '') from added"""  # noqa: S608  (constants)
_RENEW = f"update job set lease_until = clock_timestamp() + :lease {_FENCE} returning 1"  # noqa: S608  (constants)
_COMPLETE = f"delete from job {_FENCE}"  # noqa: S608  (constants)
_RELEASE = f"""
with released as (
  update job set state = 'ready', worker = null, lease_until = null, attempts = attempts - 1, run_at = now() {_FENCE}
  returning 1
) select pg_notify('{CHANNEL}', '') from released"""  # noqa: S608  (constants)
_PASS_ON = f"""
with passed as (
  update job set state = 'ready', worker = null, lease_until = null, attempts = attempts - 1, run_at = now(),
         error = jsonb_build_object('code', 'index_mismatch', 'since',
           coalesce(error ->> 'since', clock_timestamp()::text)) {_FENCE}
     and coalesce((error ->> 'since')::timestamptz, clock_timestamp()) > clock_timestamp() - cast(:patience as interval)
  returning 1
) select pg_notify('{CHANNEL}', '') from passed"""  # noqa: S608  (constants)
_FAIL = f"""
update job set state = :state, worker = null, lease_until = null, error = cast(:error as jsonb),
       run_at = clock_timestamp() + :delay {_FENCE} returning 1"""  # noqa: S608  (constants)
_FAIL_DOCUMENT = """
update document set status = 'failed', progress = null, updated_at = now(),
       error = cast(:error as jsonb) || jsonb_build_object('stage', status)
 where tenant_id = :tenant and id = :document and version = :version and status <> 'ready'"""
