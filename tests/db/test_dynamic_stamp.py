"""Documents that were dynamic before the lanes knew of it."""

import asyncio
import json

from app.db.migrate import migrate
from tests.db.filling import fill
from tests.db.test_migrations import connected, upgrade
from tests.fixtures.database import MakeDatabase

STAMPED = {"$dynamic": True}


async def test_they_are_stamped_and_others_are_not(make_empty_database: MakeDatabase) -> None:
    for dynamic in (True, False):
        urls = await asyncio.to_thread(make_empty_database)
        await upgrade(urls, "0012")
        async with connected(urls.owner) as owner:
            await fill(owner)
            await owner.execute("update document set dynamic = $1", dynamic)
            await migrate(urls.owner, urls.app)
            for sql in (
                "select filterable from document",
                "select metadata from chunk_embedding",
                "select metadata from chunk_lexical",
            ):
                assert json.loads(await owner.fetchval(sql)) == (STAMPED if dynamic else {}), sql
