"""Times that a row was given before they were limited: clamped, so that lists, searches and exports can read them."""

import asyncio
from datetime import UTC, datetime

import pytest

from app.db.migrate import migrate
from tests.db.filling import fill
from tests.db.test_migrations import connected, upgrade
from tests.fixtures.database import MakeDatabase

FIRST, LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 59, 59, 999999, UTC)


@pytest.mark.parametrize(("stored", "read"), [("-infinity", FIRST), ("infinity", LAST), ("9999-12-31 23:00+00", LAST)])
async def test_migrate_time_out_of_range_is_clamped(
    make_empty_database: MakeDatabase, stored: str, read: datetime
) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    await upgrade(urls, "0048")
    async with connected(urls.owner) as owner:
        await fill(owner)
        await owner.execute(
            "update document set created_at = $1::text::timestamptz, source_created_at = $1::text::timestamptz", stored
        )
        await owner.execute("update api_key set expires_at = $1::text::timestamptz", stored)
        await migrate(urls.owner, urls.app)
        row = await owner.fetchrow("select created_at, source_created_at, expires_at from document")
        assert tuple(row) == (read, read, None)
        assert await owner.fetchval("select expires_at from api_key") == read
