"""The worker loop: it finishes every job, survives failures around it, and stops on request."""

import asyncio
import errno
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.db.index_ddl import OwnerDatabase
from app.db.session import DatabaseUnavailable
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.errors import AppError, UnavailableError
from app.inference.embedding import EmbeddingMismatch, EmbeddingRejected, EmbeddingUnavailable
from app.ingestion.parsers import PARSERS, ParserSpec
from app.ingestion.types import CorruptFile, ParserCrashed
from app.jobs.queue import JobFailure
from app.knowledge_bases.reindex_service import REINDEX_JOB
from app.knowledge_bases.types import IndexMismatch, ReindexOptions
from app.temp_files import TempDiskFull
from app.worker.failures import describe_failure
from app.worker.loop import Worker, generate_worker_name
from harness.running_service import NEVER_SECONDS
from tests.ingestion.workshop import Workshop, add_text, open_workshop, until

# Long enough for a worker of a busy machine to renew in time.
LEASE_SECONDS = 60
SHORT_LEASE_SECONDS = 4
MISBEHAVING = {**PARSERS, "text/plain": ParserSpec("text/plain", ("txt",), "tests.ingestion.parsers.misbehaving")}


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    async with open_workshop(database, tmp_path_factory.mktemp("data"), lease_timeout_seconds=LEASE_SECONDS) as opened:
        yield opened


@pytest.fixture(autouse=True)
async def calm(workshop: Workshop) -> AsyncIterator[None]:
    yield
    workshop.endpoint.reset()
    workshop.endpoint.latency_seconds = 0.0
    await workshop.owner.execute(
        "delete from tenant where id <> system_tenant(); delete from term_document_frequency;"
        " delete from index_totals; delete from entity"
    )


async def jobs(workshop: Workshop) -> list[asyncpg.Record]:
    """Return all jobs except for the periodic ones."""
    return list(await workshop.owner.fetch("select * from job where every is null order by id"))


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (CorruptFile(), JobFailure("corrupt", CorruptFile().message, False)),
        (ParserCrashed(), JobFailure(ParserCrashed.code, ParserCrashed().message, ParserCrashed.retryable)),
        (EmbeddingUnavailable("down", retry_after=9.0), JobFailure("embedding_unavailable", "down", True, 9.0)),
        (EmbeddingMismatch("x"), JobFailure("embedding_unavailable", "x", False)),
        (EmbeddingRejected("x"), JobFailure("embedding_unavailable", "x", False)),
        (CorruptFile("not \0 stored \ud800"), JobFailure("corrupt", "not  stored ?", False)),
        (IndexMismatch("x"), JobFailure("embedding_unavailable", "x", False)),
        (TempDiskFull(), JobFailure("temp_disk_full", TempDiskFull().message, True, 2.0)),
        (UnavailableError("x"), JobFailure("internal", "x", True, 2.0)),
        (AppError("x"), JobFailure("internal", "x", False)),
        (ValueError("the document says"), JobFailure("internal", "Something went wrong inside Carrel.", True)),
    ],
)
def test_describe_failure_returns_code_stage_and_retry(error: Exception, failure: JobFailure) -> None:
    assert describe_failure(error) == failure


def test_worker_names_of_one_process_differ() -> None:
    assert generate_worker_name() != generate_worker_name()


async def test_worker_is_woken_by_notification(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    async with workshop.working(poll_seconds=NEVER_SECONDS):
        for number in range(3):
            await asyncio.sleep(0.2)  # asleep again
            document = await add_text(services, f"Number {number}.")
            assert await workshop.settled(document.id) == "ready"


async def is_status(workshop: Workshop, document_id: object, status: str) -> bool:
    return bool(await workshop.owner.fetchval("select status = $2 from document where id = $1", document_id, status))


async def no_jobs(workshop: Workshop) -> bool:
    return not await jobs(workshop)


async def test_worker_renews_lease_of_long_job(workshop: Workshop) -> None:
    settings = workshop.resources.settings
    short = settings.worker.model_copy(update={"lease_timeout_seconds": SHORT_LEASE_SECONDS})
    resources = replace(workshop.resources, settings=settings.model_copy(update={"worker": short}))
    hasty = replace(workshop, resources=resources)
    document = await add_text(await workshop.new_tenant(), "A slow one.")
    workshop.endpoint.reset()
    workshop.endpoint.fail(429, retry_after=str(SHORT_LEASE_SECONDS + 1))
    async with hasty.working(), hasty.working():
        seen = set()
        while not await is_status(workshop, document.id, "ready"):
            seen |= {(job["worker"], job["attempts"]) for job in await jobs(workshop) if job["state"] == "running"}
            await asyncio.sleep(0.05)
    assert len(seen) == 1
    assert workshop.endpoint.request_count == 2


async def test_worker_ends_job_of_deleted_document(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    document = await add_text(services, "Soon gone.")
    workshop.endpoint.fail(429, times=None, retry_after="25")
    async with workshop.working():
        await until(lambda: is_status(workshop, document.id, "embedding"))
        await services.deletions.delete("default", document.id)
        await until(lambda: no_jobs(workshop))
        started = time.monotonic()
        await until(idle)
        assert time.monotonic() - started < 20  # it did not wait for the endpoint
    assert await workshop.inconsistencies() == {}


async def idle() -> bool:
    return not [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") == "Worker._work"]


async def test_worker_stop_releases_unfinished_job(workshop: Workshop) -> None:
    document = await add_text(await workshop.new_tenant(), "Interrupted.")
    workshop.endpoint.fail(429, times=None, retry_after="25")
    async with workshop.working():
        await until(lambda: is_status(workshop, document.id, "embedding"))
    [job] = await jobs(workshop)
    assert (job["state"], job["attempts"], job["worker"]) == ("ready", 0, None)
    workshop.endpoint.reset()
    async with workshop.working():
        await until(lambda: is_status(workshop, document.id, "ready"))


async def test_worker_stop_leaves_job_to_another_worker(workshop: Workshop) -> None:
    document = await add_text(await workshop.new_tenant(), "Handed over.")
    workshop.endpoint.fail(429, times=None, retry_after="25")
    async with workshop.working() as second, workshop.working(grace_seconds=0.2) as first:
        await until(lambda: is_status(workshop, document.id, "embedding"))
        [job] = await jobs(workshop)
        leaving, staying = (first, second) if job["worker"] == first.name else (second, first)
        leaving.stop()
        await until(lambda: is_running_at(workshop, staying.name))
        # Released, not lost: the job did not wait for its lease, and the attempt did not count.
        [job] = await jobs(workshop)
        assert (job["worker"], job["attempts"], job["error"]) == (staying.name, 1, None)
        workshop.endpoint.reset()
    assert await workshop.inconsistencies() == {}


async def is_running_at(workshop: Workshop, worker: str) -> bool:
    return [job["worker"] for job in await jobs(workshop)] == [worker]


async def test_worker_stop_lets_short_job_finish(workshop: Workshop) -> None:
    document = await add_text(await workshop.new_tenant(), "Nearly done.")
    workshop.endpoint.latency_seconds = 0.5
    async with workshop.working(grace_seconds=30):
        await until(lambda: is_status(workshop, document.id, "embedding"))
    assert await is_status(workshop, document.id, "ready")
    assert await jobs(workshop) == []


async def test_worker_retries_transient_failure(workshop: Workshop) -> None:
    document = await add_text(await workshop.new_tenant(), "Second time lucky.")
    workshop.endpoint.fail(503, times=1, retry_after="60")  # longer than the embedder waits
    async with workshop.working():
        await until(lambda: has_failed_once(workshop))
        [job] = await jobs(workshop)
        assert (job["state"], job["attempts"]) == ("ready", 1)
        assert await workshop.owner.fetchval("select run_at > now() + interval '50 s' from job where every is null")
        assert await workshop.status(document.id) == "embedding"
        await workshop.owner.execute("update job set run_at = now()")
        assert await workshop.settled(document.id) == "ready"


async def has_failed_once(workshop: Workshop) -> bool:
    return bool(await workshop.owner.fetchval("select count(*) from job where error is not null and state = 'ready'"))


async def test_worker_continues_after_unknown_job_kind(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    tenant = services.principal.tenant_id
    async with workshop.working():
        await workshop.owner.execute(
            "insert into job (tenant_id, id, kind, max_attempts) values ($1, $2, 'from_the_future', 1)", tenant, uuid4()
        )
        document = await add_text(services, "Business as usual.")
        assert await workshop.settled(document.id) == "ready"
        await until(lambda: is_dead(workshop))
    [job] = await jobs(workshop)
    assert (job["kind"], job["state"]) == ("from_the_future", "dead")
    assert "update the worker" in job["error"]


async def is_dead(workshop: Workshop) -> bool:
    return bool(await workshop.owner.fetchval("select bool_and(state = 'dead') from job where every is null"))


async def test_worker_continues_after_invalid_payload(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    document = await add_text(services, "With a damaged job.")
    await workshop.owner.execute("update job set payload = '{}', max_attempts = 1")
    async with workshop.working():
        await until(lambda: is_dead(workshop))
        other = await add_text(services, "Business as usual.")
        assert await workshop.settled(other.id) == "ready"
    assert await workshop.status(document.id) == "queued"


async def terminate(server: EmbeddedPostgres, workshop: Workshop) -> int:
    """End every connection of the service, as a restart of Postgres does; return how many."""
    superuser = await asyncpg.connect(server.build_url("postgres"))
    ended: int = await superuser.fetchval(
        """select count(pg_terminate_backend(pid)) from pg_stat_activity
           where datname = $1 and usename = 'carrel_runtime'""",
        await workshop.owner.fetchval("select current_database()"),
    )
    await superuser.close()
    return ended


async def test_worker_survives_database_restart(workshop: Workshop, postgres_server: EmbeddedPostgres) -> None:
    services = await workshop.new_tenant()
    first = await add_text(services, "Before the restart.")
    workshop.endpoint.latency_seconds = 0.3
    async with workshop.working():
        await until(lambda: is_status(workshop, first.id, "embedding"))
        assert await terminate(postgres_server, workshop) > 0
        await asyncio.sleep(0.3)
        await terminate(postgres_server, workshop)
        assert await workshop.settled(first.id) == "ready"
        workshop.endpoint.latency_seconds = 0.0
        with suppress(DatabaseUnavailable):  # an unused connection of the pool
            await services.knowledge_bases.find("default")
        second = await add_text(services, "After it.")
        assert await workshop.settled(second.id) == "ready"
    assert await workshop.inconsistencies() == {}


async def test_worker_file_that_kills_parser_fails_alone(
    workshop: Workshop, database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with open_workshop(database, tmp_path_factory.mktemp("data"), parsers=MISBEHAVING) as hostile:
        services = await hostile.new_tenant()
        documents = [await add_text(services, text) for text in ("crash", "killed", "attempt nothing")]
        async with hostile.working():
            crash, killed, harmless = (document.id for document in documents)
            assert [await hostile.settled(crash), await hostile.settled(harmless)] == ["failed", "ready"]
            # A process may be killed for the memory of others: the document is tried again, and fails after the
            # last attempt.
            await until(lambda: has_been_tried(hostile, killed, 2))
            await hostile.owner.execute("update job set run_at = now(), attempts = max_attempts - 1")
            assert await hostile.settled(killed) == "failed"
        told = await hostile.owner.fetch(
            "select error ->> 'code' code, error ->> 'stage' stage from document where status = 'failed' order by id"
        )
        assert [tuple(row) for row in told] == [("corrupt", "parsing"), ("parser_memory", "parsing")]


async def has_been_tried(workshop: Workshop, document: UUID, times: int) -> bool:
    found = await workshop.owner.fetchval("select attempts from job where document_id = $1", document)
    return (found or 0) >= times


async def test_worker_stop_during_settlement_releases_job(workshop: Workshop, database: DatabaseUrls) -> None:
    services = await workshop.new_tenant()
    workshop.endpoint.latency_seconds = 0.5
    document = await add_text(services, "Nearly done.")
    lock = await asyncpg.connect(database.owner)
    try:
        async with workshop.working() as worker:
            await until(lambda: is_status(workshop, document.id, "embedding"))
            async with lock.transaction():
                await lock.execute("select from job where document_id = $1 for update", document.id)
                await until(lambda: is_status(workshop, document.id, "ready"))
                worker.stop(immediately=True)
                await asyncio.sleep(0.3)  # the worker has cancelled the job, and the release waits for the row
    finally:
        await lock.close()
    assert [job["state"] for job in await jobs(workshop) if job["document_id"] == document.id] == []


async def test_worker_creates_and_runs_periodic_jobs(
    workshop: Workshop, database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with workshop.working(), workshop.working():
        await until(lambda: has_periodic(workshop, 7))
    every = dict(
        await workshop.owner.fetch("select kind, extract(epoch from every)::int from job where every is not null")
    )
    assert every == {
        "sweep_expired": 60,
        "sweep_objects": 3600,
        "sweep_records": 3600,
        "sweep_audit_events": 3600,
        "sweep_deletions": 60,
        "retry_failed_documents": 60,
        "maintain_indexes": NEVER_SECONDS,
    }
    async with open_workshop(
        database, tmp_path_factory.mktemp("data"), expiry_interval_seconds=1, sweep_interval_seconds=1
    ) as hasty:
        document = await add_text(await hasty.new_tenant(), "Soon over.")
        await hasty.owner.execute("update document set expires_at = now()")
        async with hasty.working():
            await until(lambda: is_deleted(hasty, document.id))
            await until(lambda: no_jobs(hasty))
        assert await hasty.inconsistencies() == {}


async def test_worker_creates_periodic_jobs_with_full_temporary_directory(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    await workshop.owner.execute("delete from job where every is not null")
    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    async with workshop.working():
        await until(lambda: has_periodic(workshop, 7))


async def has_periodic(workshop: Workshop, count: int) -> bool:
    return bool(await workshop.owner.fetchval("select count(*) = $1 from job where every is not null", count))


async def is_deleted(workshop: Workshop, document_id: object) -> bool:
    return not await workshop.owner.fetchval("select count(*) from document where id = $1", document_id)


async def test_worker_reindex_waiting_for_another_build_uses_no_slot(workshop: Workshop) -> None:
    """The reindexing waits without an attempt and without a place, so that an upload runs before it."""
    services = await workshop.new_tenant()
    for bird in ("heron", "gull", "wren"):
        await workshop.ingest(await add_text(services, f"A {bird}."))
    await workshop.drop_jobs()
    settings = workshop.resources.settings
    busy = settings.worker.model_copy(update={"hnsw_threshold": 1, "concurrency": 1})
    resources = replace(workshop.resources, settings=settings.model_copy(update={"worker": busy}))
    owner = OwnerDatabase(workshop.urls.owner)
    worker = Worker(resources, workshop.pipeline, owner)
    async with owner.connect() as other:
        assert await other.try_lock()
        await services.reindexing.start("default", ReindexOptions())
        running = asyncio.create_task(worker.run(shutdown_timeout_seconds=0))
        await until(lambda: is_postponed(workshop))
        document = await add_text(services, "A late owl.")
        assert await workshop.settled(document.id) == "ready"
        waits = (await services.knowledge_bases.find_with_counts("default")).reindex_progress
        assert waits is not None
        assert (waits.state, (waits.last_error or {})["code"]) == ("building", "build_in_progress")
    await until(lambda: no_jobs(workshop))
    assert (await services.knowledge_bases.find_with_counts("default")).reindex_progress is None
    worker.stop()
    await running


async def test_worker_reindex_waits_for_maintenance_of_its_index(workshop: Workshop) -> None:
    """A recomputation of weights may take minutes, longer than five attempts."""
    services = await workshop.new_tenant()
    await workshop.drop_jobs()
    await services.reindexing.start("default", ReindexOptions())
    worker = Worker(workshop.resources, workshop.pipeline)
    async with workshop.owner.transaction():
        await workshop.owner.execute("select from search_index where state = 'building' for update")
        running = asyncio.create_task(worker.run(shutdown_timeout_seconds=0))
        await until(lambda: is_postponed(workshop))
        waits = (await services.knowledge_bases.find_with_counts("default")).reindex_progress
        assert waits is not None
        assert (waits.state, (waits.last_error or {})["code"]) == ("building", "index_busy")
    await until(lambda: no_jobs(workshop))
    assert (await services.knowledge_bases.find_with_counts("default")).reindex_progress is None
    worker.stop()
    await running


async def is_postponed(workshop: Workshop) -> bool:
    return [(job["kind"], job["state"], job["attempts"]) for job in await jobs(workshop) if job["error"]] == [
        (REINDEX_JOB, "ready", 0)
    ]
