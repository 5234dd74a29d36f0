"""Maintenance of generations that are not live."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from app.db.control_plane import ControlPlaneDatabase
from app.embedded_postgres import DatabaseUrls
from app.index_maintenance.index_drop import DROP_JOB, IndexDropper
from app.index_maintenance.types import IndexBusy, IndexMaintenanceStep, decide_next_step
from tests.index_maintenance.maintained_database import FilledIndex, MaintainedDatabase, open_maintained_database
from tests.index_maintenance.test_types import PLAIN


@pytest.fixture(scope="module")
async def world(database: DatabaseUrls) -> AsyncIterator[MaintainedDatabase]:
    async with open_maintained_database(database, threshold=10) as opened:
        yield opened


@pytest.mark.parametrize(
    ("building", "vector_index", "now", "once_live"),
    [
        (True, "exact", IndexMaintenanceStep.NOTHING, IndexMaintenanceStep.PROMOTE),
        (True, "building", IndexMaintenanceStep.NOTHING, IndexMaintenanceStep.PROMOTE),
        (True, "hnsw", IndexMaintenanceStep.NOTHING, IndexMaintenanceStep.NOTHING),
        (False, "exact", IndexMaintenanceStep.NOTHING, IndexMaintenanceStep.PROMOTE),
        (False, "hnsw", IndexMaintenanceStep.DEMOTE, IndexMaintenanceStep.NOTHING),
    ],
)
def test_next_step_of_generation_depends_on_state(
    building: bool, vector_index: str, now: IndexMaintenanceStep, once_live: IndexMaintenanceStep
) -> None:
    large = replace(PLAIN, live=False, chunks=50_000, vector_index=vector_index, built_chunks=50_000)
    figures = replace(large, building=building)
    assert decide_next_step(figures, threshold=20_000) is now
    assert decide_next_step(figures.as_live(), threshold=20_000) is once_live


def dropping(world: MaintainedDatabase, *, undo: timedelta, owner: bool = True) -> IndexDropper:
    maintenance = world.maintenance
    find_expired = partial(
        ControlPlaneDatabase(maintenance.database).find_expired_indexes, rollback_period=undo, limit=100
    )
    return IndexDropper(maintenance.database, maintenance.queue, find_expired, world.owner_database if owner else None)


async def retired(world: MaintainedDatabase, *, ago: str | None) -> FilledIndex:
    index = await world.new_index(8)
    await index.add(30)
    await world.owner.execute(
        "update search_index set state = 'retired', retired_at = now() - $2::text::interval where id = $1",
        index.id, ago,
    )  # fmt: skip
    return index


@pytest.mark.parametrize(
    ("ago", "undo", "goes"),
    [
        (None, timedelta(days=1), True),
        ("23 hours", timedelta(days=1), False),
        ("25 hours", timedelta(days=1), True),
        ("30 seconds", timedelta(0), False),
        ("90 seconds", timedelta(0), True),
    ],
)
async def test_retired_generation_expires_after_its_period(
    world: MaintainedDatabase, ago: str | None, undo: timedelta, goes: bool
) -> None:
    """Searches that began before the retirement read it for a moment longer, whatever the setting."""
    index = await retired(world, ago=ago)
    found = await dropping(world, undo=undo).find_expired()
    assert (index.id in {one.index_id for one in found}) is goes


async def test_live_and_building_generations_are_never_dropped(world: MaintainedDatabase) -> None:
    for state in ("live", "building"):
        index = await world.new_index(8)
        await index.add(5)
        await world.owner.execute("update search_index set state = $2 where id = $1", index.id, state)
        assert await dropping(world, undo=timedelta(0)).delete_chunks(index.tenant, index.id) is None
        await dropping(world, undo=timedelta(0)).remove(index.tenant, index.id)
        assert len(await index.search(next(iter(index.vectors.values())), k=5)) == 5


async def test_expired_generation_is_dropped_with_all_rows(world: MaintainedDatabase) -> None:
    index = await world.new_index(8)
    await index.add(100)
    await index.maintain()
    assert await index.names() != set()
    await world.owner.execute("update search_index set state = 'retired' where id = $1", index.id)
    ours = dropping(world, undo=timedelta(days=1))
    await world.owner.execute("delete from job")
    await ours.scan()
    await ours.scan()
    jobs = [job for job in await world.jobs() if job["tenant_id"] == index.tenant]
    assert [(job["kind"], job["payload"]) for job in jobs] == [(DROP_JOB, f'{{"index": "{index.id}"}}')]
    # While another process builds, nothing is dropped, but a rollback is already impossible.
    async with world.owner_database.connect() as other:
        assert await other.try_lock()
        with pytest.raises(IndexBusy):
            await ours.delete_chunks(index.tenant, index.id)
    assert await ours.delete_chunks(index.tenant, index.id) == index.kb
    assert await index.names() == set()
    for table in ("chunk", "chunk_embedding", "chunk_lexical"):
        assert await world.owner.fetchval(f"select count(*) from {table} where index_id = $1", index.id) == 0
    await ours.remove(index.tenant, index.id)
    assert await index.row() is None
    assert await world.owner.fetchval("select count(*) from index_totals where index_id = $1", index.id) == 0


async def test_returning_generation_gets_vector_index_before_it_is_live(world: MaintainedDatabase) -> None:
    """The vector index of a retired generation was dropped as a stray, but its row still says that there is one."""
    index = await world.new_index(8)
    await index.add(100)
    await index.maintain()
    whole = await index.names()
    await world.owner.execute("update search_index set state = 'retired', retired_at = now() where id = $1", index.id)
    await world.maintenance.scan()
    assert await index.names() == set()
    await world.owner.execute("update search_index set state = 'building' where id = $1", index.id)
    async with world.owner_database.connect() as other:
        assert await other.try_lock()
        assert not await world.maintenance.prepare(index.tenant, index.id)
    assert await world.maintenance.prepare(index.tenant, index.id)
    assert (await index.names(), await index.state()) == (whole, "hnsw")


@asynccontextmanager
async def dropping_strays(world: MaintainedDatabase) -> AsyncIterator[tuple[FilledIndex, FilledIndex]]:
    """Yield two retired search indexes, of which the first one's index is dropped during the block."""
    await world.maintenance.scan()
    pair = [await world.new_index(8) for _ in range(2)]
    for index in pair:
        await index.add(100)
        await index.maintain()
    for index in pair:
        await set_state(world, index, "retired")
    async with asyncio.TaskGroup() as group, world.owner_database.connect() as reader, reader.driver.transaction():
        # Each drop waits for the end of this transaction.
        await reader.driver.execute("lock table chunk_embedding, chunk_lexical in access share mode")
        group.create_task(world.maintenance.scan())
        await world.until("select exists (select from pg_index where not indisvalid)")
        begun = ["(invalid)" in "".join(await index.names()) for index in pair]
        assert sorted(begun) == [False, True]
        yield pair[begun.index(True)], pair[begun.index(False)]


async def set_state(world: MaintainedDatabase, index: FilledIndex, state: str) -> None:
    await world.owner.execute("update search_index set state = $2 where id = $1", index.id, state)


async def test_generation_that_is_live_again_preserves_its_indexes(world: MaintainedDatabase) -> None:
    async with dropping_strays(world) as (dropped, other):
        whole = await other.names()
        assert len(whole) == 5
        await set_state(world, other, "building")
        assert await world.maintenance.prepare(other.tenant, other.id)
        await set_state(world, other, "live")
    assert (await dropped.names(), await other.names()) == (set(), whole)


async def test_generation_returning_during_drop_is_rebuilt_before_it_is_live(
    world: MaintainedDatabase,
) -> None:
    async with dropping_strays(world) as (dropped, other):
        await set_state(world, dropped, "building")
        async with asyncio.timeout(20):  # without the lock it would build, and wait for the reader
            assert not await world.maintenance.prepare(dropped.tenant, dropped.id)
    left = await dropped.names()
    assert (len(left), await other.names()) == (4, set())
    assert await world.maintenance.prepare(dropped.tenant, dropped.id)
    assert len(await dropped.names()) == 5


async def test_long_reader_delays_only_index_drops(world: MaintainedDatabase) -> None:
    """A backup reads for hours. During that time maintenance folds changes, and drops indexes after the backup."""
    index = await world.new_index(8)
    await index.add(100)
    await index.maintain()
    await set_state(world, index, "retired")
    async with world.owner_database.connect() as reader, reader.driver.transaction():
        await reader.driver.execute("lock table chunk_embedding, chunk_lexical in access share mode")
        async with asyncio.timeout(20):
            await world.maintenance.scan()
        assert len(await index.names()) == 5
    await world.maintenance.scan()
    assert await index.names() == set()
