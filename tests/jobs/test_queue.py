"""The job queue on a real database: turns, leases, fences, and jobs that fail."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.db.control_plane import ControlPlaneDatabase
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane_rows import ClaimedJob
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.ids import generate_id
from app.jobs.queue import BULK, INTERACTIVE, MAINTENANCE, JobFailure, JobQueue, decide_retry

LEASE = timedelta(seconds=30)
FAILURE = JobFailure("corrupt", "The file is damaged.", False)
LATER = JobFailure("embedding_unavailable", "The model is not answering.", True)


@pytest.fixture(scope="module")
async def queue(database: DatabaseUrls) -> AsyncIterator[JobQueue]:
    pool = Database.connect(database.app, pool_size=5)
    yield JobQueue(pool, ControlPlaneDatabase(pool), 3)
    await pool.close()


@pytest.fixture(autouse=True)
async def empty(owner: asyncpg.Connection) -> None:
    await owner.execute("delete from tenant where id <> system_tenant(); delete from job")


async def new_tenant(owner: asyncpg.Connection) -> UUID:
    tenant = generate_id()
    await owner.execute("insert into tenant (id, name) values ($1, 'x')", tenant)
    return tenant


async def new_document(owner: asyncpg.Connection, tenant: UUID, *, status: str = "parsing") -> UUID:
    kb, document = generate_id(), generate_id()
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


async def next_job(
    queue: JobQueue, worker: str = "w", lease: timedelta = LEASE, *, tenant_concurrency: int = 2
) -> ClaimedJob | None:
    return await queue.claim(worker, lease, tenant_concurrency=tenant_concurrency)


async def claim(queue: JobQueue, worker: str = "w", lease: timedelta = LEASE) -> ClaimedJob:
    job = await next_job(queue, worker, lease)
    assert job is not None
    return job


async def terminate(server: EmbeddedPostgres, owner: asyncpg.Connection, which: str) -> int:
    """End connections to the owner's database, as a restart of Postgres does; return how many."""
    superuser = await asyncpg.connect(server.build_url("postgres"))
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
        (10_000, True, 0.0, 0.5, None),
    ],
)
def test_decide_retry_delay_grows_with_attempts(
    attempts: int, retryable: bool, retry_after: float, jitter: float, seconds: float | None
) -> None:
    failure = JobFailure("internal", "x", retryable, retry_after)
    decision = decide_retry(failure, attempts=attempts, max_attempts=50, jitter=jitter)
    assert decision.dead == (seconds is None)
    assert decision.delay.total_seconds() == pytest.approx(seconds or 0.0)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1.0), (50, 600.0), (100_000, 600.0)])
def test_decide_retry_without_limit_never_gives_up(attempts: int, seconds: float) -> None:
    decision = decide_retry(FAILURE, attempts=attempts, max_attempts=None, jitter=0.5)
    assert not decision.dead
    assert decision.delay.total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1.0), (4, 60.0), (100, 60.0)])
def test_decide_retry_of_periodic_job_waits_at_most_its_period(attempts: int, seconds: float) -> None:
    every = timedelta(minutes=1)
    decision = decide_retry(FAILURE, attempts=attempts, max_attempts=None, jitter=0.5, every=every)
    assert decision.delay.total_seconds() == pytest.approx(seconds)


async def test_claim_returns_job_once_and_counts_attempt(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, payload={"version": 7})
    job = await claim(queue)
    assert (job.tenant_id, job.kind, job.payload, job.attempts, job.max_attempts) == (
        tenant, "ingest_document", {"version": 7}, 1, 3,
    )  # fmt: skip
    assert await next_job(queue) is None
    await queue.complete(job, "w")
    assert await row(owner, job) is None


async def test_job_of_failed_transaction_does_not_exist(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)

    async def fail() -> None:
        async with queue.database.transaction(tenant) as session:
            await queue.enqueue(session, "ingest_document", tenant_id=tenant)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await next_job(queue) is None


@pytest.mark.capability("fair-jobs")
async def test_claim_small_tenant_does_not_wait_behind_large_one(queue: JobQueue, owner: asyncpg.Connection) -> None:
    large, small = await new_tenant(owner), await new_tenant(owner)
    await enqueue(queue, large, count=200)
    assert (await claim(queue)).tenant_id == large
    await enqueue(queue, small)
    assert (await claim(queue)).tenant_id == small
    assert (await claim(queue)).tenant_id == large


async def test_claim_order_follows_running_jobs_then_waiting_time(queue: JobQueue, owner: asyncpg.Connection) -> None:
    large, small, late = [await new_tenant(owner) for _ in range(3)]
    names = {large: "large", small: "small", late: "late"}
    await enqueue(queue, large, count=300)
    await enqueue(queue, small, count=3)
    order = []
    for turn in range(9):
        if turn == 4:
            await enqueue(queue, late, count=2, priority=BULK)
        job = await claim(queue)
        order.append(names[job.tenant_id])
        await queue.complete(job, "w")
    assert order[:2] in (["large", "small"], ["small", "large"])
    assert order[2:4] == order[:2]
    assert order[4] == "late"
    assert order[5:8] == [*order[:2], "late"]
    # Running jobs count more than the turn of a tenant.
    running = [await claim(queue), await claim(queue)]
    assert {names[job.tenant_id] for job in running} == {"large"}
    await enqueue(queue, small)
    assert names[(await claim(queue)).tenant_id] == "small"


async def test_concurrent_claims_give_small_tenant_first_free_slot(queue: JobQueue, owner: asyncpg.Connection) -> None:
    large, small = await new_tenant(owner), await new_tenant(owner)
    await enqueue(queue, large, count=100)
    first = [await claim(queue, f"w{n}") for n in range(2)]
    await enqueue(queue, small)
    claimed = await asyncio.gather(*(next_job(queue, f"v{n}") for n in range(6)))
    assert [job.tenant_id for job in claimed if job is not None] == [small]
    for job in first:
        await queue.complete(job, job_worker(first, job))
    claimed = await asyncio.gather(*(next_job(queue, f"u{n}") for n in range(6)))
    assert [job.tenant_id for job in claimed if job is not None] == [large, large]


def job_worker(claimed: list[ClaimedJob], job: ClaimedJob) -> str:
    return f"w{claimed.index(job)}"


@pytest.mark.parametrize(("own", "usual", "running"), [(None, 1, 1), (None, 3, 3), (4, 1, 4), (1, 3, 1), (0, 3, 0)])
async def test_tenant_limit_overrides_default_limit(
    queue: JobQueue, owner: asyncpg.Connection, own: int | None, usual: int, running: int
) -> None:
    tenant, other = await new_tenant(owner), await new_tenant(owner)
    await enqueue(queue, tenant, count=6)
    await owner.execute("insert into tenant_queue (tenant_id, max_running) values ($1, $2)", tenant, own)
    claimed = [await next_job(queue, tenant_concurrency=usual) for _ in range(6)]
    assert sum(job is not None for job in claimed) == running
    await enqueue(queue, other)
    job = await next_job(queue, tenant_concurrency=usual)
    assert job is not None
    assert job.tenant_id == other


async def test_jobs_of_lost_worker_count_until_reaped(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner), count=4)
    for _ in range(2):
        await claim(queue, "lost", timedelta(0))
    assert await next_job(queue) is None
    assert len(await queue.reap()) == 2
    assert [await next_job(queue) is not None for _ in range(3)] == [True, True, False]


async def test_claim_limits_running_jobs_of_tenant(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, count=4)
    running = [await claim(queue), await claim(queue)]
    assert await next_job(queue) is None
    await queue.complete(running[0], "w")
    assert await next_job(queue) is not None
    assert await next_job(queue) is None


async def test_tenants_in_backoff_do_not_block_others(queue: JobQueue, owner: asyncpg.Connection) -> None:
    for _ in range(25):
        await enqueue(queue, await new_tenant(owner))
    await owner.execute("update job set run_at = now() + interval '1 hour'")
    assert await next_job(queue) is None
    ready = await new_tenant(owner)
    await enqueue(queue, ready)
    assert (await claim(queue)).tenant_id == ready


async def test_concurrent_workers_never_claim_same_job(queue: JobQueue, owner: asyncpg.Connection) -> None:
    for _ in range(20):
        await enqueue(queue, await new_tenant(owner), count=2)

    async def work(name: str) -> list[UUID]:
        found = []
        while (job := await next_job(queue, name)) is not None:
            found.append(job.id)
        return found

    claimed = [job for found in await asyncio.gather(*(work(f"w{n}") for n in range(8))) for job in found]
    assert len(claimed) == len(set(claimed)) == 40


async def test_claim_priority_precedes_age(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, payload={"n": 1})
    await enqueue(queue, tenant, payload={"n": 2}, priority=5)
    assert [(await claim(queue)).payload["n"] for _ in range(2)] == [2, 1]


async def test_priority_applies_inside_tenant_only(queue: JobQueue, owner: asyncpg.Connection) -> None:
    loud, quiet = await new_tenant(owner), await new_tenant(owner)
    await enqueue(queue, loud, count=3, priority=INTERACTIVE)
    await enqueue(queue, quiet, count=2, priority=MAINTENANCE)
    assert {(await claim(queue)).tenant_id for _ in range(2)} == {loud, quiet}
    assert {(await claim(queue)).tenant_id for _ in range(2)} == {loud, quiet}


async def test_postponed_job_does_not_block_lower_priority(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, count=3, priority=INTERACTIVE)
    await owner.execute("update job set run_at = now() + interval '1 hour'")
    await enqueue(queue, tenant, payload={"n": 1})
    assert (await claim(queue)).payload == {"n": 1}


async def test_failed_job_waits_and_last_failure_fails_document(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant, status="embedding")
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    for attempt in (1, 2, 3):
        job = await claim(queue)
        assert job.attempts == attempt
        decision = await queue.fail(job, "w", LATER)
        assert decision.dead == (attempt == 3)
        assert await next_job(queue) is None
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
async def test_failure_affects_only_its_version(
    queue: JobQueue, owner: asyncpg.Connection, version: int, status: str, after: str
) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant, status=status)
    await enqueue(queue, tenant, document_id=document, payload={"version": version})
    await queue.fail(await claim(queue), "w", FAILURE)
    assert await owner.fetchval("select status from document where id = $1", document) == after


async def test_reap_lost_jobs_are_retried_and_finally_fail_document(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant)
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    for attempt in (1, 2, 3):
        job = await claim(queue, lease=timedelta(0))
        assert job.attempts == attempt
        [lost] = await queue.reap()
        assert (lost.id, lost.document_id, lost.dead) == (job.id, document, attempt == 3)
        assert await queue.reap() == []
    assert await next_job(queue) is None
    assert await owner.fetchval("select state from job") == "dead"
    found = await owner.fetchrow("select status, error ->> 'code' code, error ->> 'stage' stage, error from document")
    assert (found["status"], found["code"], found["stage"]) == ("failed", "internal", "parsing")
    assert '"retryable": true' in found["error"]


@pytest.mark.parametrize("version", [1, 9])
async def test_reap_lost_job_fails_only_its_version(queue: JobQueue, owner: asyncpg.Connection, version: int) -> None:
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant)
    await enqueue(queue, tenant, document_id=document, payload={"version": version})
    await owner.execute("update job set max_attempts = 1")
    await claim(queue, lease=timedelta(0))
    assert [lost.dead for lost in await queue.reap()] == [True]
    told = await owner.fetchrow("select status, error from document where id = $1", document)
    assert (told["status"], told["error"] is None) == (("failed", False) if version == 1 else ("parsing", True))
    letter = await owner.fetchrow("select state, worker, error ->> 'code' code from job")
    assert tuple(letter) == ("dead", None, "internal")


async def test_reap_lost_job_waits_during_deletion_of_document(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    held, free = await new_document(owner, tenant), await new_document(owner, tenant)
    for document in (held, free):
        await enqueue(queue, tenant, document_id=document, payload={"version": 1})
        await claim(queue, lease=timedelta(0))
    async with owner.transaction():
        await owner.execute("select from document where id = $1 for update", held)
        assert [lost.document_id for lost in await queue.reap()] == [free]
    assert [lost.document_id for lost in await queue.reap()] == [held]


async def test_reap_job_of_ready_document_leaves_document(queue: JobQueue, owner: asyncpg.Connection) -> None:
    """The worker died after it stored the result of the last attempt, and before it finished the job."""
    tenant = await new_tenant(owner)
    document = await new_document(owner, tenant, status="ready")
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    await owner.execute("update job set max_attempts = 1")
    await claim(queue, lease=timedelta(0))
    assert [lost.dead for lost in await queue.reap()] == [True]
    assert await owner.fetchval("select status from document") == "ready"


async def test_renewed_lease_is_not_reaped(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    job = await claim(queue, lease=timedelta(milliseconds=1))
    assert await queue.renew(job, "w", LEASE)
    assert await queue.reap() == []


@pytest.mark.parametrize("how", ["reaped", "claimed by another", "claimed again by the same", "gone"])
async def test_worker_without_lease_changes_nothing(queue: JobQueue, owner: asyncpg.Connection, how: str) -> None:
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
    assert not await queue.hand_off(job, "w", LEASE)
    await queue.complete(job, "w")
    await queue.release(job, "w")
    await queue.fail(job, "w", FAILURE)
    await queue.fail(job, "w", LATER)
    await queue.postpone(job, "w", LATER, datetime.now(UTC))
    assert (await owner.fetch("select * from job"), await owner.fetch("select * from document")) == before


async def test_job_of_another_tenant_cannot_be_settled(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    job = await claim(queue)
    forged = replace(job, tenant_id=await new_tenant(owner))
    await queue.complete(forged, "w")
    assert not await queue.renew(forged, "w", LEASE)
    assert await row(owner, job) is not None


async def test_released_job_has_all_attempts(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    for _ in range(5):
        job = await claim(queue)
        assert job.attempts == 1
        await queue.release(job, "w")


async def test_postponed_job_is_resumed_with_all_attempts(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant, stranger = await new_tenant(owner), await new_tenant(owner)
    document = await new_document(owner, tenant)
    await enqueue(queue, tenant, document_id=document, payload={"version": 1})
    until = datetime.now(UTC) + timedelta(hours=5)
    for _ in range(4):
        job = await claim(queue)
        assert job.attempts == 1
        await queue.postpone(job, "w", LATER, until)
        found = await row(owner, job)
        assert found is not None
        assert (found["state"], found["run_at"], found["worker"]) == ("ready", until, None)
        told = await owner.fetchrow("select status, warnings, error from document where id = $1", document)
        assert tuple(told) == ("queued", json.dumps([{"code": "processing_postponed", "message": LATER.message}]), None)
        for other, code in ((stranger, LATER.code), (tenant, "another")):
            async with queue.database.transaction(other) as session:
                await queue.resume_jobs(session, tenant_id=other, code=code)
        assert await next_job(queue) is None
        async with queue.database.transaction(tenant) as session:
            await queue.resume_jobs(session, tenant_id=tenant, code=LATER.code)


async def test_job_that_no_worker_can_run_is_passed_on(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, await new_tenant(owner))
    for _ in range(4):
        job = await claim(queue)
        assert job.attempts == 1
        assert await queue.hand_off(job, "w", LEASE)
    job = await claim(queue)
    assert not await queue.hand_off(job, "w", timedelta(0))
    found = await row(owner, job)
    assert found is not None
    assert found["state"] == "running"


async def test_listener_is_notified_of_jobs_and_reconnects(
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


async def test_unique_job_exists_once(queue: JobQueue, owner: asyncpg.Connection) -> None:
    """A job about one object exists once while it waits or runs; a failed one runs again."""
    tenant = await new_tenant(owner)
    one, other = UUID(int=1), UUID(int=2)

    async def ask(about: UUID) -> None:
        async with queue.database.transaction(tenant) as session:
            await queue.enqueue_unique(
                session, "look_after", subject_id=about, tenant_id=tenant, payload={"about": str(about)}, priority=BULK
            )

    await asyncio.gather(*(ask(one) for _ in range(4)), ask(other))
    assert await owner.fetchval("select count(*) from job") == 2
    first, second = await claim(queue), await claim(queue)
    assert {first.payload["about"], second.payload["about"]} == {str(one), str(other)}
    await queue.complete(second, "w")
    await ask(one)
    await ask(other)
    left = await owner.fetch("select id, state from job")
    assert {tuple(row) for row in left} == {(first.id, "running"), (second.id, "ready")}
    await owner.execute("update job set state = 'dead', attempts = 3, error = '{}' where id = $1", first.id)
    await ask(UUID(first.payload["about"]))
    again = await row(owner, first)
    assert again is not None
    assert (again["state"], again["attempts"], again["error"]) == ("ready", 0, None)


HOUR = timedelta(hours=1)


async def periodic(queue: JobQueue, owner: asyncpg.Connection, *kinds: str) -> None:
    """Create periodic jobs that are due."""
    for kind in kinds:
        await queue.ensure_periodic_job(kind, HOUR)
    await owner.execute("update job set run_at = now() where every is not null")


async def test_periodic_job_exists_once_and_first_waits(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await asyncio.gather(*(queue.ensure_periodic_job("sweep", HOUR) for _ in range(4)))
    await queue.ensure_periodic_job("other", HOUR)
    found = await owner.fetch("select tenant_id, kind, every, run_at > now() + interval '59 min' later from job")
    assert sorted(tuple(row) for row in found) == [
        (SYSTEM_TENANT, "other", HOUR, True),
        (SYSTEM_TENANT, "sweep", HOUR, True),
    ]
    assert await next_job(queue) is None
    await queue.ensure_periodic_job("sweep", timedelta(minutes=1))
    found = await owner.fetchrow("select every, run_at < now() + interval '61 s' soon from job where kind = 'sweep'")
    assert tuple(found) == (timedelta(minutes=1), True)


async def test_periodic_job_done_waits_for_next_time(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await periodic(queue, owner, "sweep")
    await queue.fail(await claim(queue), "w", LATER)
    await owner.execute("update job set run_at = now()")
    job = await claim(queue)
    assert (job.kind, job.every, job.attempts) == ("sweep", HOUR, 2)
    await queue.complete(job, "w")
    found = await row(owner, job)
    assert found is not None
    assert (found["state"], found["worker"], found["attempts"], found["error"]) == ("ready", None, 0, None)
    assert await owner.fetchval("select run_at between now() + interval '59 min' and now() + interval '1 h' from job")
    assert await next_job(queue) is None


@pytest.mark.parametrize("how", ["fails", "fails for good", "is lost"])
async def test_periodic_job_failure_never_ends_it(queue: JobQueue, owner: asyncpg.Connection, how: str) -> None:
    await periodic(queue, owner, "sweep")
    for attempt in range(1, 9):
        job = await claim(queue, lease=timedelta(0) if how == "is lost" else LEASE)
        assert job.attempts == attempt
        if how == "is lost":
            assert [lost.dead for lost in await queue.reap()] == [False]
        else:
            assert not (await queue.fail(job, "w", LATER if how == "fails" else FAILURE)).dead
        found = await owner.fetchrow("select state, run_at - now() wait, error is not null failed from job")
        assert (found["state"], found["failed"]) == ("ready", True)
        assert timedelta(0) < found["wait"] <= timedelta(minutes=12)
        assert await next_job(queue) is None
        await owner.execute("update job set run_at = now()")


async def test_periodic_jobs_run_one_at_a_time(queue: JobQueue, owner: asyncpg.Connection) -> None:
    await enqueue(queue, SYSTEM_TENANT, count=3)
    ordinary = [await claim(queue), await claim(queue)]
    assert await next_job(queue) is None  # the limit
    await periodic(queue, owner, "one", "two")
    first = await claim(queue)
    assert first.every == HOUR
    assert await next_job(queue) is None
    await queue.complete(ordinary[0], "w")
    assert (await claim(queue)).every is None
    await queue.complete(first, "w")
    second = await claim(queue)
    assert {first.kind, second.kind} == {"one", "two"}
    assert await next_job(queue) is None


async def test_periodic_job_waits_for_unserved_tenants(queue: JobQueue, owner: asyncpg.Connection) -> None:
    """Many tenants with endless jobs: a periodic job waits for those that were not served since it became due."""
    tenants = [await new_tenant(owner) for _ in range(4)]
    for tenant in tenants:
        await enqueue(queue, tenant, count=10)
    served = []
    for _ in range(2):
        job = await claim(queue)
        served.append(job.tenant_id)
        await queue.complete(job, "w")
    await periodic(queue, owner, "sweep")
    order = []
    for _ in range(4):
        job = await claim(queue)
        order.append(job.tenant_id)
        await queue.complete(job, "w")
    assert set(order[:2]) == set(tenants) - set(served)
    # The two tenants that were served before it became due come first, then the periodic job.
    assert order[2:] == served
    assert (await claim(queue)).kind == "sweep"


async def new_key(owner: asyncpg.Connection, tenant: UUID, at_once: int) -> UUID:
    key = generate_id()
    await owner.execute(
        """insert into api_key (tenant_id, id, name, role, key_hash, hint, quotas, key_lineage_id)
           values ($1, $2, 'k', 'writer', $3, 'h', jsonb_build_object('concurrent_ingestions', $4::int), $2)""",
        tenant, key, key.bytes, at_once,
    )  # fmt: skip
    return key


@pytest.mark.parametrize("at_once", [1, 3])
async def test_claim_limits_running_jobs_of_key(queue: JobQueue, owner: asyncpg.Connection, at_once: int) -> None:
    tenant = await new_tenant(owner)
    key, other = [await new_key(owner, tenant, at_once) for _ in range(2)]
    await enqueue(queue, tenant, count=5, concurrency_key=key)
    running = [await next_job(queue, tenant_concurrency=20) for _ in range(at_once + 1)]
    assert [job is not None for job in running] == [True] * at_once + [False]
    # Jobs of other keys, or of none, do not wait behind these.
    await enqueue(queue, tenant, count=2)
    await enqueue(queue, tenant, concurrency_key=other)
    assert [await next_job(queue, tenant_concurrency=20) is not None for _ in range(4)] == [True, True, True, False]
    assert running[0] is not None
    await queue.complete(running[0], "w")
    assert [await next_job(queue, tenant_concurrency=20) is not None for _ in range(2)] == [True, False]


async def test_tenant_limit_applies_to_all_keys(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    for key in [await new_key(owner, tenant, 2) for _ in range(3)]:
        await enqueue(queue, tenant, count=2, concurrency_key=key)
    assert [await next_job(queue, tenant_concurrency=3) is not None for _ in range(4)] == [True, True, True, False]


async def test_priority_and_age_order_jobs_across_keys(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    key, other = [await new_key(owner, tenant, 9) for _ in range(2)]
    for number, (limited_by, priority) in enumerate(
        [(key, BULK), (None, BULK), (other, BULK), (None, INTERACTIVE), (key, INTERACTIVE), (other, MAINTENANCE)]
    ):
        await enqueue(queue, tenant, concurrency_key=limited_by, priority=priority, payload={"number": number})
    claimed = [await next_job(queue, tenant_concurrency=9) for _ in range(6)]
    assert [job.payload["number"] for job in claimed if job is not None] == [3, 4, 0, 1, 2, 5]


async def test_key_with_postponed_jobs_does_not_block_others(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant, other = await new_tenant(owner), await new_tenant(owner)
    await enqueue(queue, tenant, count=3, concurrency_key=await new_key(owner, tenant, 1))
    await owner.execute("update job set run_at = now() + interval '1 hour'")
    assert await next_job(queue) is None
    await enqueue(queue, tenant)
    await enqueue(queue, other)
    assert {(await claim(queue)).tenant_id for _ in range(2)} == {tenant, other}


async def test_jobs_of_revoked_key_continue_under_its_limit(queue: JobQueue, owner: asyncpg.Connection) -> None:
    tenant = await new_tenant(owner)
    await enqueue(queue, tenant, count=3, concurrency_key=await new_key(owner, tenant, 1))
    await owner.execute("update api_key set revoked_at = now() where tenant_id = $1", tenant)
    job = await claim(queue)
    assert await next_job(queue) is None
    await queue.complete(job, "w")
    assert await next_job(queue) is not None
