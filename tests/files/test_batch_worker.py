"""The job of a batch of files: it resumes at any point, a refusal affects one file, and quotas and names hold."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.db.models.files import StoredFile
from app.db.statements import parse_statement
from app.files.batches import ATTACH_JOB, FileBatchFiles
from app.files.service import FileFields
from app.jobs.queue import JobFailure
from app.object_store import ObjectMissing, ObjectStoreUnavailable
from app.principal import Principal, RequestOrigin, Role
from tests.ingestion.workshop import Workshop, until

DOCUMENTS = parse_statement("select count(*) as documents from document where tenant_id = :t")
ARCHIVE = "PK\x05\x06" + "\0" * 18
LEASE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
async def alone(workshop: Workshop) -> AsyncIterator[None]:
    yield
    await workshop.drop_jobs()


async def keep(services: TenantServices, text: str, name: str = "a.txt") -> StoredFile:
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'

    async def body() -> AsyncIterator[bytes]:
        yield f"{head}{text}\r\n--b--\r\n".encode()

    return await services.files.store(body(), b"b", lambda _: FileFields("assistants"))


async def batch_of(services: TenantServices, files: Sequence[StoredFile]) -> UUID:
    return (await services.file_batches.create("default", [(file.id, {"n": 1}) for file in files])).batch.id


async def many(services: TenantServices, count: int) -> UUID:
    return await batch_of(services, [await keep(services, f"Text {number}.") for number in range(count)])


async def seen(services: TenantServices, batch_id: UUID) -> FileBatchFiles:
    return await services.file_batches.list_files("default", batch_id)


async def states(services: TenantServices, batch_id: UUID) -> list[str]:
    """Return the states of a batch's files: attached, refused or waiting."""
    files = (await seen(services, batch_id)).files
    return ["attached" if file.document else "refused" if file.error else "waits" for file in files]


async def documents(services: TenantServices) -> int:
    async with services.db.transaction() as session:
        row = await session.fetch_row(DOCUMENTS, {"t": services.db.tenant_id})
    assert row is not None
    return int(row["documents"])


async def grown(services: TenantServices, count: int, task: asyncio.Task[int]) -> bool:
    return task.done() or await documents(services) > count


async def test_batch_job_attaches_files_of_request(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    batch = await many(services, 5)
    assert await states(services, batch) == ["waits"] * 5
    assert (await services.vector_stores.get("default")).status_counts == {"queued": 5}
    assert await workshop.run_jobs(ATTACH_JOB) == 1
    assert (await services.vector_stores.get("default")).status_counts == {"queued": 5}  # five documents
    async with workshop.working():
        for file in (await seen(services, batch)).files:
            assert file.document is not None
            assert file.document.attributes == {"n": 1}
            assert await workshop.settled(file.document.id) == "ready"
    assert (await services.vector_stores.get("default")).status_counts == {"ready": 5}


async def test_batch_job_killed_anywhere_continues(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    batch = await many(services, 24)
    for _ in range(3):
        running = asyncio.create_task(workshop.run_jobs(ATTACH_JOB))
        await until(partial(grown, services, await documents(services), running))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    await workshop.run_jobs(ATTACH_JOB)
    found = await seen(services, batch)
    made = {file.document.id for file in found.files if file.document is not None}
    assert len(made) == 24 == await documents(services)
    told = await workshop.owner.fetch(
        "select object_ids from audit_event where tenant_id = $1 and action = 'document.create'", services.db.tenant_id
    )
    assert sorted(one for row in told for one in row["object_ids"]) == sorted(made)


async def test_batch_job_refusal_affects_one_file(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    files = [await keep(services, "First."), await keep(services, ARCHIVE, "a.zip"), await keep(services, "Gone.")]
    files.append(await keep(services, "Last."))
    batch = await batch_of(services, files)
    await services.files.delete(files[2].id)
    await workshop.run_jobs(ATTACH_JOB)
    errors = [file.error and file.error["code"] for file in (await seen(services, batch)).files]
    assert errors == [None, "unsupported_media_type", "file_not_found", None]
    assert await states(services, batch) == ["attached", "refused", "refused", "attached"]
    assert await documents(services) == 2


async def test_batch_job_missing_original_waits_alone(workshop: Workshop, data_dir: Path) -> None:
    services = await workshop.new_tenant()
    files = [await keep(services, f"Number {number}.") for number in range(6)]
    batch = await batch_of(services, files)
    original = data_dir / "objects" / files[1].key
    away = original.rename(original.with_name("away"))
    with pytest.raises(ObjectMissing):
        await workshop.run_jobs(ATTACH_JOB)
    assert await states(services, batch) == ["attached", "waits", *["attached"] * 4]
    away.rename(original)
    await workshop.run_jobs(ATTACH_JOB)
    assert await documents(services) == 6


async def test_batch_job_outage_fails_no_file(workshop: Workshop, data_dir: Path) -> None:
    services = await workshop.new_tenant()
    files = [await keep(services, f"Number {number}.") for number in range(6)]
    batch = await batch_of(services, files)
    original = data_dir / "objects" / files[0].key
    away = original.rename(original.with_name("away"))
    original.symlink_to(original)  # exists, and cannot be read
    with pytest.raises(ObjectStoreUnavailable):
        await workshop.run_jobs(ATTACH_JOB)
    assert (await states(services, batch))[4:] == ["waits"] * 2  # the job did not continue
    assert "refused" not in await states(services, batch)
    original.unlink()
    away.rename(original)
    await workshop.run_jobs(ATTACH_JOB)
    assert await documents(services) == 6


async def test_batch_job_that_fails_for_good_fails_remaining_files(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    batch = await many(services, 3)
    queue = workshop.resources.queue
    job = await queue.claim("a worker", LEASE, tenant_concurrency=1)
    assert job is not None
    assert job.kind == ATTACH_JOB
    failure = JobFailure("object_store_unavailable", "The object store is not answering. Try again.", False)
    assert (await queue.fail(job, "a worker", failure)).dead
    found = await seen(services, batch)
    assert [file.error for file in found.files] == [{"code": failure.code, "message": failure.message}] * 3
    assert (await services.file_batches.get("default", batch)).status_counts == {"failed": 3}
    assert (await services.vector_stores.get("default")).status_counts == {}


async def test_batch_job_cancelled_attaches_nothing_more(workshop: Workshop) -> None:
    """A running job attaches a file completely and removes it again, or does not attach it."""
    services = await workshop.new_tenant()
    batch = await many(services, 24)
    running = asyncio.create_task(workshop.run_jobs(ATTACH_JOB))
    await until(partial(grown, services, 0, running))
    cancelled = await services.file_batches.cancel("default", batch)
    await running
    assert (cancelled.batch.cancelled, sum(cancelled.status_counts.values())) == (24, 0)
    assert (await documents(services), await states(services, batch)) == (0, [])


async def test_batch_job_acts_as_caller_after_key_is_deleted(workshop: Workshop) -> None:
    admin = await workshop.new_tenant()
    issued = await admin.keys.issue(name="scribe", role=Role.WRITER, user_id="u")
    kb = (await admin.knowledge_bases.find("default")).row.id
    caller = Principal(
        admin.db.tenant_id, "a tenant", Role.WRITER, issued.row.id, "scribe", frozenset({kb}), "u",
        origin=RequestOrigin("req_1", "192.0.2.7"), key_lineage_id=issued.row.id,
    )  # fmt: skip
    services = TenantServices(caller, workshop.resources)
    batch = await batch_of(services, [await keep(services, "Mine.")])
    await admin.keys.revoke(issued.row.id)
    await workshop.run_jobs(ATTACH_JOB)
    [file] = (await seen(services, batch)).files
    assert file.document is not None
    assert (file.document.scope_level, file.document.user_id) == ("user", "u")
    event = await workshop.owner.fetchrow(
        "select * from audit_event where tenant_id = $1 and action = 'document.create'", admin.db.tenant_id
    )
    told = (event["actor"], event["actor_id"], event["actor_name"], event["request_id"], str(event["address"]))
    assert told == ("key", issued.row.id, "scribe", "req_1", "192.0.2.7")


async def test_batch_job_applies_quotas_of_its_time(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    batch = await many(services, 6)
    await workshop.resources.tenants.update(services.db.tenant_id, quotas={"documents": 4})
    await workshop.run_jobs(ATTACH_JOB)
    errors = [file.error["code"] for file in (await seen(services, batch)).files if file.error is not None]
    assert errors == ["quota_exceeded"] * 2
    assert await documents(services) == 4


async def test_batch_job_ends_with_deleted_knowledge_base(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    await many(services, 3)
    await services.knowledge_bases.delete("default")
    assert await workshop.run_jobs(ATTACH_JOB) == 1
    assert await documents(services) == 0
