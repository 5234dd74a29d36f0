"""Sweepers: the objects that they remove, and the objects that they leave."""

import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.bootstrap import TenantServices
from app.cleanup.sweeper import ObjectSweepResult, Sweeper, sweep_temp_files
from app.db.models.control_plane_rows import ExpiredDocument
from app.documents.batch_size import MAX_BATCH_CHUNKS
from app.documents.page_image_keys import format_image_key
from app.knowledge_bases.service import PURGE_JOB
from app.worker.handlers import JobContext
from tests.ingestion.workshop import Workshop, add_text, until

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
async def empty(workshop: Workshop) -> None:
    await workshop.owner.execute(
        "delete from tenant where id <> system_tenant(); delete from job; delete from deletion; "
        "delete from term_document_frequency; delete from index_totals; delete from entity"
    )
    for key in await stored(workshop):
        await workshop.resources.objects.delete(key)


@pytest.fixture
def sweeper(workshop: Workshop) -> Sweeper:
    return JobContext(workshop.resources, workshop.pipeline).sweeper


async def stored(workshop: Workshop) -> set[str]:
    return {found.key async for found in workshop.resources.objects.list_objects()}


def put(data_dir: Path, key: str, *, age: timedelta) -> None:
    """Write an object of a certain age."""
    path = data_dir / "objects" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    then = time.time() - age.total_seconds()
    os.utime(path, (then, then))


async def expire(owner: asyncpg.Connection, document: UUID, after: str) -> None:
    await owner.execute("update document set expires_at = now() + $2::text::interval where id = $1", document, after)


async def titles(services: TenantServices, workshop: Workshop) -> set[str]:
    rows = await workshop.owner.fetch("select title from document where tenant_id = $1", services.principal.tenant_id)
    return {row["title"] for row in rows}


async def test_expired_documents_with_many_chunks_are_deleted_in_small_batches(
    workshop: Workshop, sweeper: Sweeper
) -> None:
    services = await workshop.new_tenant()
    for number in range(5):
        document = await add_text(services, f"A text {number}.")
        await workshop.ingest(document)
        await expire(workshop.owner, document.id, "-1 s")
    await workshop.owner.execute("update document set chunk_count = $1", MAX_BATCH_CHUNKS * 2 // 3)
    await workshop.drop_jobs()
    assert await sweeper.delete_expired() == 5
    assert await titles(services, workshop) == set()
    assert await workshop.owner.fetchval("select count(*) from job where kind = $1", PURGE_JOB) == 3


async def test_expired_documents_of_all_tenants_are_deleted_with_receipts(workshop: Workshop, sweeper: Sweeper) -> None:
    one, two = await workshop.new_tenant(), await workshop.new_tenant()
    for services in (one, two):
        for title, after in (("past", "-1 s"), ("future", "1 h"), ("never", None)):
            document = await add_text(services, f"A text called {title}.", title=title)
            await workshop.ingest(document)
            if after is not None:
                await expire(workshop.owner, document.id, after)
    await workshop.drop_jobs()
    assert await sweeper.delete_expired() == 2
    assert await titles(one, workshop) == await titles(two, workshop) == {"future", "never"}
    assert await workshop.inconsistencies() == {}
    purges = await workshop.owner.fetch("select tenant_id, kind, payload from job")
    assert {row["kind"] for row in purges} == {"purge_objects"}
    receipts = await workshop.owner.fetch("select tenant_id, documents, chunks, finished_at from deletion")
    tenants = {services.principal.tenant_id for services in (one, two)}
    assert {tuple(row) for row in receipts} == {(tenant, 1, 1, None) for tenant in tenants}
    async with workshop.working():
        await until(lambda: no_jobs(workshop))
    assert len(await stored(workshop)) == 8  # an original and its parse result for each document
    assert await workshop.owner.fetchval("select bool_and(finished_at is not null) from deletion")
    assert await sweeper.delete_expired() == 0


async def no_jobs(workshop: Workshop) -> bool:
    return not await workshop.owner.fetchval("select count(*) from job where every is null")


async def test_expired_documents_above_batch_size_are_all_deleted(workshop: Workshop, sweeper: Sweeper) -> None:
    services = await workshop.new_tenant()
    tenant = services.principal.tenant_id
    await workshop.owner.execute(
        """insert into document (tenant_id, kb_id, id, source, media_type, bytes, sha256, scope_key, external_id,
                                 expires_at)
           select tenant_id, id, gen_random_uuid(), 'a', 'text/plain', 1, 'x', tenant_id, n::text, now()
             from knowledge_base, generate_series(1, 220) n where tenant_id = $1""",
        tenant,
    )
    assert await sweeper.delete_expired() == 220
    purged = "select sum(jsonb_array_length(payload -> 'prefixes')) from job where kind = 'purge_objects'"
    assert await workshop.owner.fetchval(purged) == 220


async def test_expired_document_under_ingestion_is_deleted(workshop: Workshop, sweeper: Sweeper) -> None:
    services = await workshop.new_tenant()
    document = await add_text(services, "Never searched.")
    await expire(workshop.owner, document.id, "0 s")
    assert await sweeper.delete_expired() == 1
    await workshop.ingest(document)
    assert await workshop.inconsistencies() == {}
    assert [row["kind"] for row in await workshop.owner.fetch("select kind from job")] == ["purge_objects"]


async def test_expiry_extended_at_last_moment_is_respected(workshop: Workshop, sweeper: Sweeper) -> None:
    services = await workshop.new_tenant()
    document = await add_text(services, "Kept.")
    await expire(workshop.owner, document.id, "-1 s")
    found = await workshop.resources.control_plane.find_expired_documents(limit=10)
    assert [one.document_id for one in found] == [document.id]
    await expire(workshop.owner, document.id, "1 h")

    async def find() -> list[ExpiredDocument]:
        return found

    assert await replace(sweeper, find_expired=find).delete_expired() == 0
    assert await workshop.status(document.id) == "queued"


async def test_orphaned_objects_only_are_removed(workshop: Workshop, sweeper: Sweeper, data_dir: Path) -> None:
    one, two = await workshop.new_tenant(), await workshop.new_tenant()
    kept, page_images = set(), set()
    for services in (one, two):
        document = await add_text(services, "Kept.")
        [key] = await workshop.owner.fetchrow("select key from document_object where document_id = $1", document.id)
        put(data_dir, key, age=10 * HOUR)
        kept.add(key)
        page_image = format_image_key(key, page=1, scale=1.0)
        put(data_dir, page_image, age=10 * HOUR)
        page_images.add(page_image)
    kept |= page_images
    tenant = one.principal.tenant_id
    [mine] = [key for key in kept - page_images if key.startswith(str(tenant))]
    [theirs] = kept - page_images - {mine}
    orphans = [
        f"{tenant}/{uuid4()}/{uuid4()}",
        f"{mine.rpartition('/')[0]}/{uuid4()}",  # an earlier version of an existing document
        f"{tenant}/{theirs.partition('/')[2]}",  # a row of another tenant does not protect it
        format_image_key(f"{tenant}/{uuid4()}/{uuid4()}", page=1, scale=1.0),
        format_image_key(f"{mine.rpartition('/')[0]}/{uuid4()}", page=1, scale=1.0),
        format_image_key(f"{tenant}/{theirs.partition('/')[2]}", page=1, scale=1.0),
    ]
    for key in orphans:
        put(data_dir, key, age=2 * HOUR)
    young = f"{tenant}/{uuid4()}/{uuid4()}"
    put(data_dir, young, age=HOUR / 2)
    old_page_image = format_image_key(mine, page=2, scale=1.0)
    put(data_dir, old_page_image, age=timedelta(days=8))
    orphans.append(old_page_image)
    unknown = {
        "readme",
        "backup/2026/11",
        f"{tenant}/logo",
        f"{tenant}/{uuid4()}/images/{uuid4()}",
        f"{tenant}/{uuid4()}/pages/{uuid4().hex}.png",
        f"{tenant}/{uuid4()}/pages",
        f"{tenant}/{str(uuid4()).upper()}/{uuid4()}",
        f"{tenant}/{uuid4().hex}/{uuid4()}",
        f"{uuid4()}/{uuid4()}/{uuid4()}",  # a tenant of another database
        "ours? No/way/here",
    }
    for key in unknown:
        put(data_dir, key, age=100 * HOUR)
    put(data_dir, f"{tenant}/{uuid4()}/~half", age=2 * HOUR)
    listed = len(orphans) + len(kept) + len(unknown) + 1
    assert await sweeper.delete_orphans() == ObjectSweepResult(listed, len(orphans), 1, len(unknown))
    for key in unknown:
        assert (data_dir / "objects" / key).exists()
        (data_dir / "objects" / key).unlink()
    assert await stored(workshop) == {*kept, young}
    assert await sweeper.delete_orphans() == ObjectSweepResult(5, 0, 0, 0)


async def test_expired_bookkeeping_rows_are_removed(workshop: Workshop, sweeper: Sweeper) -> None:
    everyone = [await workshop.new_tenant() for _ in range(2)]
    for services in everyone:
        tenant = services.principal.tenant_id
        await workshop.owner.execute(
            """insert into idempotency_key (tenant_id, api_key_id, route, key, created_at, locked_until)
               select $1, $1, 'r', n::text, now() - n * interval '23 h', now() from generate_series(1, 3) n""",
            tenant,
        )
        document = await add_text(services, "Half embedded.")
        await workshop.owner.execute(
            """insert into embedding_checkpoint (tenant_id, identity, content_hash, document_id, embedding, created_at)
               select $1, $1, n::text::bytea, $2, '[1]', now() - n * interval '6 d' from generate_series(1, 3) n""",
            tenant, document.id,
        )  # fmt: skip
    assert await sweeper.delete_old_records() == (4, 4, 0)
    for table in ("idempotency_key", "embedding_checkpoint"):
        left = await workshop.owner.fetch(f"select tenant_id from {table}")
        assert {row["tenant_id"] for row in left} == {services.principal.tenant_id for services in everyone}
        assert len(left) == 2


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    place = tmp_path / "tmp"
    place.mkdir()
    (place / "carrel-ingest-old").mkdir()
    (place / "carrel-ingest-old" / "original").write_text("x")
    (place / "carrel-ingest-old" / "link").symlink_to(outside)
    (place / "carrel-upload-old").write_text("x")
    (place / "carrel-import-old").mkdir()
    (place / "carrel-import-old" / "original").write_text("x")
    (place / "carrel-ingest-link").symlink_to(outside)
    (place / "carrel-upload-link").symlink_to(outside / "precious")
    (place / "other-old").write_text("x")
    os.mkfifo(place / "carrel-upload-fifo")
    then = time.time() - 2 * 24 * 3600
    for path in place.iterdir():
        os.utime(path, (then, then), follow_symlinks=False)
    (place / "carrel-upload-new").write_text("x")
    assert sweep_temp_files(place) == 3
    assert {path.name for path in place.iterdir()} == {
        "carrel-ingest-link",
        "carrel-upload-link",
        "carrel-upload-fifo",
        "carrel-upload-new",
        "other-old",
    }
    assert (outside / "precious").exists()


def test_unreadable_temporary_directory_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert sweep_temp_files(tmp_path / "nowhere") == 0
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == ["sweep.temp_files_failed"]


@pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")
def test_temporary_files_of_other_users_stay(tmp_path: Path) -> None:
    path = tmp_path / "carrel-upload-theirs"
    path.write_text("x")
    os.utime(path, (0, 0))
    os.chown(path, 65534, 65534)
    assert sweep_temp_files(tmp_path) == 0
    assert path.exists()
