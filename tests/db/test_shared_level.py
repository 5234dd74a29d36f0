"""What the operator had uploaded before it was shared: it becomes so, and other tenants' documents stay as they are."""

import asyncio

import asyncpg

from app.db.migrate import migrate
from app.db.models.base import SYSTEM_TENANT
from app.documents.scopes import SHARED, Scope
from tests.db.filling import TENANT, fill
from tests.db.test_migrations import connected, upgrade
from tests.fixtures.database import MakeDatabase

TABLES = ("knowledge_base", "search_index", "document", "chunk", "chunk_embedding", "chunk_lexical")
SCOPED = ("document", "chunk_embedding", "chunk_lexical")


async def copy_to_the_system_tenant(owner: asyncpg.Connection) -> None:
    system = f'{{"tenant_id": "{SYSTEM_TENANT}"}}'
    for table in TABLES:
        columns = f"(jsonb_populate_record(t, '{system}')).*"
        await owner.execute(f"insert into {table} select {columns} from {table} t where tenant_id = $1", TENANT)


async def keys(owner: asyncpg.Connection, tenant: object) -> set[object]:
    return {
        key for table in SCOPED
        for (key,) in await owner.fetch(f"select scope_key from {table} where tenant_id = $1", tenant)
    }  # fmt: skip


async def test_what_the_operator_has_becomes_shared(make_empty_database: MakeDatabase) -> None:
    for scope, becomes in ((Scope(), SHARED), (Scope("u"), Scope("u"))):
        urls = await asyncio.to_thread(make_empty_database)
        await upgrade(urls, "0015")
        async with connected(urls.owner) as owner:
            await fill(owner)
            for table in SCOPED:
                await owner.execute(f"update {table} set scope_key = $1", scope.key())
            await copy_to_the_system_tenant(owner)
            await migrate(urls.owner, urls.app)
            assert await keys(owner, SYSTEM_TENANT) == {becomes.key()}
            assert await keys(owner, TENANT) == {scope.key()}
            levels = dict(await owner.fetch("select tenant_id, scope_level from document"))
            assert levels[TENANT] == "tenant"
            assert levels[SYSTEM_TENANT] == ("shared" if becomes == SHARED else "tenant")
