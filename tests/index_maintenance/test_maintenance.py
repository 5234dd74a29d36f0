"""Maintenance finds its work in the tables, so that work missed once is done at the next scan."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy.exc import DBAPIError

from app.db.index_ddl import MaintenanceFailed, OwnerDatabase
from app.db.models.control_plane_rows import OutdatedIndex
from app.index_maintenance.service import MAINTAIN_INDEX_JOB, REFRESH_PROFILE_JOB
from harness.databases import DatabaseFactory
from tests.index_maintenance.maintained_database import FilledIndex, MaintainedDatabase, open_maintained_database

NOBODY = "postgresql://nobody:secret@127.0.0.1:1/nothing"


@pytest.fixture(scope="module")
async def world(make_database: DatabaseFactory) -> AsyncIterator[MaintainedDatabase]:
    async with open_maintained_database(await asyncio.to_thread(make_database), threshold=10_000) as opened:
        yield opened


@pytest.fixture
async def index(world: MaintainedDatabase) -> FilledIndex:
    await world.owner.execute("delete from job; delete from tenant where id <> system_tenant()")
    made = await world.new_index(4)
    await made.add(100)
    return made


async def _never(**_: float) -> list[OutdatedIndex]:
    raise TimeoutError


async def wanted(world: MaintainedDatabase) -> set[str]:
    return {job["kind"] for job in await world.owner.fetch("select kind from job where state = 'ready'")}


async def weigh_with(index: FilledIndex, avgdl: float) -> None:
    await index.world.owner.execute("update search_index set avgdl = $2 where id = $1", index.id, avgdl)


async def route_by(index: FilledIndex, chunks: int | None, *, changed: int = 0) -> None:
    await index.world.owner.execute("delete from routing_profile where index_id = $1", index.id)
    if chunks is not None:
        await index.world.owner.execute(
            "insert into routing_profile (tenant_id, index_id, chunks, changed_chunks) values ($1, $2, $3, $4)",
            index.tenant, index.id, chunks, changed,
        )  # fmt: skip


async def test_maintenance_without_owner_creates_jobs_that_need_none(
    world: MaintainedDatabase, index: FilledIndex
) -> None:
    await weigh_with(index, 100)
    with pytest.raises(MaintenanceFailed):
        await replace(world.maintenance, owner_database=OwnerDatabase(NOBODY)).scan()
    assert await wanted(world) == {MAINTAIN_INDEX_JOB, REFRESH_PROFILE_JOB}


async def test_maintenance_job_lost_with_worker_is_created_again(world: MaintainedDatabase, index: FilledIndex) -> None:
    await weigh_with(index, 100)
    await world.maintenance.scan()
    await world.owner.execute("delete from job")  # as if the process had been killed before it created the jobs
    await world.maintenance.scan()
    assert await wanted(world) == {MAINTAIN_INDEX_JOB, REFRESH_PROFILE_JOB}
    await world.maintenance.maintain(index.tenant, index.id)
    await route_by(index, 100)
    await world.owner.execute("delete from job")
    await world.maintenance.scan()
    assert await wanted(world) == set()


async def test_maintenance_change_during_job_creates_job_afterwards(
    world: MaintainedDatabase, index: FilledIndex
) -> None:
    await world.maintenance.scan()
    await world.owner.execute("update job set state = 'running'")
    await weigh_with(index, 100)
    await index.add(20)
    await world.maintenance.scan()
    assert await wanted(world) == {MAINTAIN_INDEX_JOB}
    await world.owner.execute("delete from job")
    await world.maintenance.scan()
    assert await wanted(world) == {MAINTAIN_INDEX_JOB, REFRESH_PROFILE_JOB}


@pytest.mark.parametrize(
    ("avgdl", "is_drifted"), [(1, False), (1.04, False), (0.96, False), (1.06, True), (0.94, True), (100, True)]
)
async def test_maintenance_drift_above_a_twentieth_creates_job(
    world: MaintainedDatabase, index: FilledIndex, avgdl: float, is_drifted: bool
) -> None:
    await weigh_with(index, avgdl)
    await world.maintenance.scan()
    assert (MAINTAIN_INDEX_JOB in await wanted(world)) is is_drifted


@pytest.mark.parametrize(
    ("routed", "changed", "is_wanted"),
    [
        (None, 0, True),
        (100, 0, False),
        (9, 1, True),
        (0, 1, True),
        (100, 10, False),
        (100, 11, True),
        (100_000, 999, False),
        (100_000, 1000, True),
    ],
)
async def test_maintenance_refreshes_profile_after_enough_changes(
    world: MaintainedDatabase, index: FilledIndex, routed: int | None, changed: int, is_wanted: bool
) -> None:
    await world.maintenance.scan()
    await world.owner.execute("delete from job")
    await route_by(index, routed, changed=changed)
    await world.maintenance.scan()
    assert await wanted(world) == ({REFRESH_PROFILE_JOB} if is_wanted else set())


async def test_maintenance_removes_profile_of_empty_index(world: MaintainedDatabase, index: FilledIndex) -> None:
    await route_by(index, 100)
    await index.remove(100)
    await world.maintenance.scan()
    assert await wanted(world) == {REFRESH_PROFILE_JOB}


@pytest.mark.parametrize("state", ["retired", "building", "deleted"])
async def test_maintenance_ignores_profile_of_unsearchable_index(
    world: MaintainedDatabase, index: FilledIndex, state: str
) -> None:
    if state == "deleted":
        await world.owner.execute("update knowledge_base set deleted_at = now() where id = $1", index.kb)
    else:
        await world.owner.execute("update search_index set state = $2 where id = $1", index.id, state)
    await world.maintenance.scan()
    assert await wanted(world) == set()


async def test_maintenance_failed_job_is_created_again_after_pause(
    world: MaintainedDatabase, index: FilledIndex
) -> None:
    await weigh_with(index, 100)
    await world.maintenance.scan()
    for state, run_at, is_asked in (("running", "-1 h", False), ("dead", "-5 min", False), ("dead", "-11 min", True)):
        await world.owner.execute("update job set state = $1, run_at = now() + $2::text::interval", state, run_at)
        await world.maintenance.scan()
        assert await wanted(world) == ({MAINTAIN_INDEX_JOB, REFRESH_PROFILE_JOB} if is_asked else set())


async def test_maintenance_change_creates_job_for_next_step(world: MaintainedDatabase, index: FilledIndex) -> None:
    """Maintenance without the owner's connection learns only by a change that a search index needs a vector index."""
    small = replace(world.maintenance, owner_database=None, threshold=5)
    await route_by(index, 100)
    with pytest.raises(TimeoutError):
        await replace(small, find_outdated=_never).scan()
    assert await wanted(world) == {MAINTAIN_INDEX_JOB}


async def test_maintenance_blocked_index_does_not_block_others(world: MaintainedDatabase, index: FilledIndex) -> None:
    other = await world.new_index(4)
    await other.add(10)
    for one in (index, other):
        await weigh_with(one, 100)
    broken = "create function stop() returns trigger language plpgsql as $$ begin raise 'stopped'; end $$"
    await world.owner.execute(broken)
    await world.owner.execute(
        "create trigger stop before delete on index_totals for each row when (old.index_id = "
        f"'{index.id}') execute function stop()"
    )
    try:
        with pytest.raises(DBAPIError, match="stopped"):
            await world.maintenance.scan()
    finally:
        await world.owner.execute("drop trigger stop on index_totals; drop function stop()")
    jobs = await world.owner.fetch("select payload from job where kind = $1", MAINTAIN_INDEX_JOB)
    assert {json.loads(job["payload"])["index"] for job in jobs} == {str(index.id), str(other.id)}
    assert await world.owner.fetchval("select bool_and(merged) from index_totals where index_id = $1", other.id)
