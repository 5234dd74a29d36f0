"""Keys that were rotated before their lines were kept: each gets the first of its line, and so do their files."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import asyncpg
import pytest

from app.db.migrate import migrate
from app.ids import new_id
from tests.db.filling import TENANT, fill
from tests.db.test_migrations import connected, upgrade
from tests.fixtures.database import MakeDatabase

OTHER = UUID(int=201)


async def add_line(owner: asyncpg.Connection, tenant: UUID, *, length: int, counted: bool = False) -> list[UUID]:
    """So many keys, of which rotation has made each of the one before."""
    keys = [new_id() for _ in range(length)]
    await owner.executemany(
        """insert into api_key (tenant_id, id, name, role, key_hash, hint, replaced_by, quota_key_id)
           values ($1, $2, 'k', 'writer', $3, 'h', $4, $5)""",
        [
            (tenant, key, key.bytes, following, keys[0] if counted else None)
            for key, following in zip(keys, [*keys[1:], None], strict=True)
        ],
    )
    return keys


async def lines(owner: asyncpg.Connection) -> Mapping[UUID, UUID | None]:
    return dict(await owner.fetch("select id, quota_key_id from api_key"))


async def test_each_line_has_its_first_key(make_empty_database: MakeDatabase) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    await upgrade(urls, "0031")
    async with connected(urls.owner) as owner:
        await fill(owner)
        await owner.execute("delete from api_key")
        await owner.execute("insert into tenant (id, name) values ($1, 'other')", OTHER)
        (alone,), (foreign,) = [await add_line(owner, tenant, length=1) for tenant in (TENANT, OTHER)]
        long, counted = await add_line(owner, TENANT, length=40), await add_line(owner, TENANT, length=3, counted=True)
        # Of another tenant: it has made nothing here.
        await owner.execute("update api_key set replaced_by = $1 where id = $2", long[20], foreign)
        await migrate(urls.owner, urls.app)
        assert await lines(owner) == {
            **dict.fromkeys((alone, foreign, long[0])),
            **dict.fromkeys(long[1:], long[0]),
            **dict.fromkeys(counted, counted[0]),
        }


@pytest.mark.parametrize("table", ["openai_file", "openai_file_batch"])
async def test_what_they_have_brought_is_their_line_s(make_empty_database: MakeDatabase, table: str) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    await upgrade(urls, "0031")
    async with connected(urls.owner) as owner:
        await fill(owner)
        (alone,), line = await add_line(owner, TENANT, length=1), await add_line(owner, TENANT, length=4)
        becomes = {alone: alone, line[0]: line[0], line[1]: line[0], line[3]: line[0], None: None}
        kept = {}
        for key in becomes:
            same = "jsonb_populate_record(t, jsonb_build_object('id', $1::uuid, 'key_id', $2::uuid))"
            kept[new_id()] = key
            await owner.execute(f"insert into {table} select ({same}).* from {table} t limit 1", [*kept][-1], key)
        await migrate(urls.owner, urls.app)
        found = dict(await owner.fetch(f"select id, key_id from {table} where id = any($1)", list(kept)))
    assert found == {one: becomes[key] for one, key in kept.items()}
