"""Prompts that were there before their versions were kept."""

import asyncio

from app.db.migrate import migrate
from tests.db.filling import KB, TENANT, fill
from tests.db.test_migrations import connected, upgrade
from tests.fixtures.database import MakeDatabase


async def test_they_get_the_number_1(make_empty_database: MakeDatabase) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    await upgrade(urls, "0025")
    async with connected(urls.owner) as owner:
        await fill(owner)
        await owner.execute("""update knowledge_base set retrieval = '{"rewrite_prompt": "Say van."}'""")
        await migrate(urls.owner, urls.app)
        rows = await owner.fetch("select tenant_id, kb_id, agent_id, prompt, number, text from prompt_version")
    assert [tuple(row) for row in rows] == [(TENANT, KB, None, "rewrite", 1, "Say van.")]
