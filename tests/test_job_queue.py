"""The job queue on a real database: turns, leases, fences, and what becomes of a job that fails."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.db.models.control_rows import ClaimedJob
from app.db.session import Database
from app.db.system import SystemDatabase
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.ids import new_id
from app.job_queue import JobFailure, JobQueue, decide_retry

LEASE = timedelta(seconds=30)
FAILURE = JobFailure("corrupt", "The file is damaged.", False)
LATER = JobFailure("embedding_unavailable", "The model is not answering.", True)


@pytest.fixture(scope="module")
async def queue(database: DatabaseUrls) -> AsyncIterator[JobQueue]:
    pool = Database.connect(database.app, pool_size=5)
    yield JobQueue(pool, SystemDatabase(pool), 3)
    await pool.close()


@pytest.fixture(scope="module")
async def owner(database: DatabaseUrls) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.owner)
    yield connection
    await connection.close()


@pytest.fixture(autouse=True)
async def empty(owner: asyncpg.Connection) -> None:
    await owner.execute("delete from tenant where id <> system_tenant(); delete from job")


async def new_tenant(owner: asyncpg.Connection) -> UUID:
    tenant = new_id()
    await owner.execute("insert into tenant (id, name) values ($1, 'x')", tenant)
    return tenant


async def new_document(owner: asyncpg.Connection, tenant: UUID, *, status: str = "parsing") -> UUID:
    kb, document = new_id(), new_id()
    await owner.execute(
        "insert into knowledge_base (tenant_id, id, name, chunking, retrieval) values ($1, $2, $3, '{}', '{}')",
        tenant, kb, str(kb),
    )  # fmt: skip
    await owner.execute(
        """insert into document (tenant_id, kb_id, id, source, media_type, bytes, sha256, scope_key, status)
           values ($1, $2, $3, 'a', 'text/plain', 1, $4, $1, $5)""",
        tenant, kb, document, document.bytes, status,
    )  # fmt: skip
    return document


async def enqueue(queue: JobQueue, tenant: UUID, *, count: int = 1, **job: Any) -> None:
    async with queue.database.transaction(tenant) as session:
        for _ in range(count):
            await queue.enqueue(session, "ingest_document", tenant_id=tenant, **job)


async def claim(queue: JobQueue, worker: str = "w", lease: timedelta = LEASE) -> ClaimedJob:
    job = await queue.claim(worker, lease)
    assert job is not None
    return job


async def terminate(server: EmbeddedPostgres, owner: asyncpg.Connection, which: str) -> int:
    """End connections to the owner's database, as a restart of Postgres does; returns how many."""
    superuser = await asyncpg.connect(server.url("postgres"))
    try:
        ended: int = await superuser.fetchval(
            f"select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1 and {which}",
            await owner.fetchval("select current_database()"),
        )
        return ended
    finally:
        await superuser.close()


async def row(owner: asyncpg.Connection, job: ClaimedJob) -> asyncpg.Record | None:
    return await owner.fetchrow("select * from job where id = $1", job.id)


@pytest.mark.parametrize(
    ("attempts", "retryable", "retry_after", "jitter", "seconds"),
    [
        (1, True, 0.0, 0.5, 1.0),
        (2, True, 0.0, 0.5, 4.0),
        (3, True, 0.0, 0.5, 16.0),
        (3, True, 0.0, 0.0, 12.8),
        (3, True, 0.0, 1.0, 19.2),
        (6, True, 0.0, 0.5, 600.0),
        (40, True, 0.0, 0.5, 600.0),
        (1, True, 30.0, 0.5, 30.0),
        (3, True, 2.0, 0.5, 16.0),
        (1, True, 1e9, 0.5, 600.0),
        (50, True, 0.0, 0.5, None),
        (1, False, 0.0, 0.5, None),
    ],
)
def test_backoff(attempts: int, retryable: bool, retry_after: float, jitter: float, seconds: float | None) -> None:
    failure = JobFailure("internal", "x", retryable, retry_after)
    decision = decide_retry(failure, attempts=attempts, max_attempts=50, jitter=jitter)
    assert decision.dead == (seconds is None)
    assert decision.delay.total_seconds() == pytest.approx(seconds or 0.0)


async def test_a_job_is_claimed_once_and_the_attempt_counted(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, payload={"version": 7})
    job = await claim(queue)
    assert (job.tenant_id, job.kind, job.payload, job.attempts, job.max_attempts) == (
        tenant, "ingest_document", {"version": 7}, 1, 3,
    )  # fmt: skip
    assert await queue.claim("w", LEASE) is None
    await queue.complete(job, "w")
    assert await row(owner, job) is None


async def test_a_job_of_a_transaction_that_fails_was_never_there(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)

    async def fail() -> None:
        async with queue.database.transaction(tenant) as session:
            await queue.enqueue(session, "ingest_document", tenant_id=tenant)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await queue.claim("w", LEASE) is None


async def test_a_small_tenant_does_not_wait_behind_a_large_one(queue: JobQueue, owner: asyncpg.Connection) -> None:
    large, small = await new_tenant(owner), await new_tenant(owner)
    await enqueue(queue, large, count=200)
    assert (await claim(queue)).tenant_id == large
    await enqueue(queue, small)
    assert (await claim(queue)).tenant_id == small
    assert (await claim(queue)).tenant_id == large


async def test_a_tenant_has_only_so_many_running(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, count=4)
    running = [await claim(queue), await claim(queue)]
    assert await queue.claim("w", LEASE) is None
    await queue.complete(running[0], "w")
    assert await queue.claim("w", LEASE) is not None
    assert await queue.claim("w", LEASE) is None


async def test_tenants_in_backoff_hold_nobody_up(queue: JobQueue, owner: asyncpg.Connection) -> None:
    for _ in range(25):
        await enqueue(queue, await new_tenant(owner))
    await owner.execute("update job set run_at = now() + interval '1 hour'")
    assert await queue.claim("w", LEASE) is None
    ready = await new_tenant(owner)
    await enqueue(queue, ready)
    assert (await claim(queue)).tenant_id == ready


async def test_workers_that_claim_at_once_never_share_a_job(queue: JobQueue, owner: asyncpg.Connection) -> None:
    for _ in range(20):
        await enqueue(queue, await new_tenant(owner), count=2)

    async def work(name: str) -> list[UUID]:
        found = []
        while (job := await queue.claim(name, LEASE)) is not None:
            found.append(job.id)
        return found

    claimed = [job for found in await asyncio.gather(*(work(f"w{n}") for n in range(8))) for job in found]
    assert len(claimed) == len(set(claimed)) == 40


async def test_priority_comes_before_age(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, payload={"n": 1})
    await enqueue(queue, tenant, payload={"n": 2}, priority=5)
    assert [(await claim(queue)).payload["n"] for _ in range(2)] == [2, 1]


async def test_a_failure_waits_and_the_last_one_fails_the_document(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant, status="embedding")
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    for attempt in (1, 2, 3):
        job = await claim(queue)
        assert job.attempts == attempt
        decision = await queue.fail(job, "w", LATER)
        assert decision.dead == (attempt == 3)
        assert await queue.claim("w", LEASE) is None
        found = await row(owner, job)
        assert found is not None
        assert found["state"] == ("dead" if attempt == 3 else "ready")
        told = await owner.fetchrow("select status, error from document where id = $1", document)
        assert told["status"] == ("failed" if attempt == 3 else "embedding")
        await owner.execute("update job set run_at = now()")
    assert await owner.fetchval(
        """select error = '{"code": "embedding_unavailable", "message": "The model is not answering.",
           "retryable": true, "stage": "embedding"}' from document where id = $1""",
        document,
    )


@pytest.mark.parametrize(
    ("version", "status", "after"), [(1, "parsing", "failed"), (9, "parsing", "parsing"), (1, "ready", "ready")]
)
async def test_only_the_version_that_failed_is_failed(
    queue: JobQueue, owner: asyncpg.Connection, version: int, status: str, after: str
) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant, status=status)
    await enqueue(queue, tenant, document_id=document, payload={"version": version})
    await queue.fail(await claim(queue), "w", FAILURE)
    assert await owner.fetchval("select status from document where id = $1", document) == after


async def test_lost_jobs_go_back_and_at_last_fail_their_document(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant)
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    for attempt in (1, 2, 3):
        job = await claim(queue, lease=timedelta(0))
        assert job.attempts == attempt
        [lost] = await queue.reap()
        assert (lost.id, lost.document_id, lost.dead) == (job.id, document, attempt == 3)
        assert await queue.reap() == []
    assert await queue.claim("w", LEASE) is None
    assert await owner.fetchval("select state from job") == "dead"
    found = await owner.fetchrow("select status, error ->> 'code' code, error ->> 'stage' stage, error from document")
    assert (found["status"], found["code"], found["stage"]) == ("failed", "internal", "parsing")
    assert '"retryable": true' in found["error"]


async def test_a_document_that_is_ready_outlives_its_job(queue: JobQueue, owner: asyncpg.Connection) -> None:
    """The worker died between storing the last attempt's result and saying so."""
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant, status="ready")
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    await owner.execute("update job set max_attempts = 1")
    await claim(queue, lease=timedelta(0))
    assert [lost.dead for lost in await queue.reap()] == [True]
    assert await owner.fetchval("select status from document") == "ready"


async def test_a_living_worker_keeps_its_job(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    job = await claim(queue, lease=timedelta(milliseconds=1))
    assert await queue.renew(job, "w", LEASE)
    assert await queue.reap() == []


@pytest.mark.parametrize("how", ["reaped", "claimed by another", "claimed again by the same", "gone"])
async def test_who_lost_the_lease_changes_nothing(queue: JobQueue, owner: asyncpg.Connection, how: str) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant)
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    job = await claim(queue, lease=timedelta(0))
    await queue.reap()
    if how == "claimed by another":
        await claim(queue, "other")
    elif how == "claimed again by the same":
        await claim(queue)
    elif how == "gone":
        await owner.execute("delete from document")
    before = await owner.fetch("select * from job"), await owner.fetch("select * from document")
    assert not await queue.renew(job, "w", LEASE)
    assert not await queue.pass_on(job, "w", LEASE)
    await queue.complete(job, "w")
    await queue.release(job, "w")
    await queue.fail(job, "w", FAILURE)
    await queue.fail(job, "w", LATER)
    assert (await owner.fetch("select * from job"), await owner.fetch("select * from document")) == before


async def test_another_tenant_s_job_cannot_be_settled(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    job = await claim(queue)
    forged = replace(job, tenant_id=await new_tenant(owner))
    await queue.complete(forged, "w")
    assert not await queue.renew(forged, "w", LEASE)
    assert await row(owner, job) is not None


async def test_a_job_handed_back_has_all_its_attempts(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    for _ in range(5):
        job = await claim(queue)
        assert job.attempts == 1
        await queue.release(job, "w")


async def test_a_job_that_fits_nobody_is_passed_on_for_a_while(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    for _ in range(4):
        job = await claim(queue)
        assert job.attempts == 1
        assert await queue.pass_on(job, "w", LEASE)
    job = await claim(queue)
    assert not await queue.pass_on(job, "w", timedelta(0))
    found = await row(owner, job)
    assert found is not None
    assert found["state"] == "running"


async def test_whoever_listens_hears_of_every_job_and_of_every_break(
    queue: JobQueue, owner: asyncpg.Connection, postgres_server: EmbeddedPostgres
) -> None:
    heard: asyncio.Queue[None] = asyncio.Queue()

    async def hears() -> None:
        async with asyncio.timeout(30):
            await heard.get()

    tenant = await new_tenant(owner)
    listening = asyncio.create_task(queue.listen(lambda: heard.put_nowait(None)))
    try:
        await hears()
        await enqueue(queue, tenant)
        await hears()
        assert heard.empty()
        assert await terminate(postgres_server, owner, "query ilike 'listen%'") == 1
        await hears()
        await enqueue(queue, tenant)
        await hears()
    finally:
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
