"""SQL as the application role in the scope of one tenant, for the tests of row-level security."""

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

SYSTEM = uuid.UUID(int=1)
SECRET = "Quetzalcoatlus"
TABLES = """select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and c.relispartition = $1 and (c.relname = 'tenant' or exists (
     select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id')) order by 1"""
# Tables without a tenant: the application role has no right to the first three, and only reads the last.
CLOSED, READ_ONLY = ("alembic_version", "claim_lock", "index_build_lock"), "notification_secret"
REFUSED = asyncpg.InsufficientPrivilegeError
tried: Counter[str] = Counter()
# Calls of hybrid_search with both retrievers and with one of them.
SEARCHES = ("hybrid", "dense", "lexical")


@dataclass(frozen=True)
class TenantPair:
    """Tenants A and B of the running service, and the search index of A's knowledge base."""

    url: str
    superuser: str
    a: uuid.UUID
    b: uuid.UUID
    index: uuid.UUID
    kb: uuid.UUID
    job: uuid.UUID


@asynccontextmanager
async def acting(url: str, tenant: uuid.UUID | None) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection in a transaction of this tenant, which is rolled back at the end."""
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("select set_config('app.tenant_id', $1, true)", str(tenant or ""))
    try:
        yield connection
    finally:
        if not connection.is_closed():
            await transaction.rollback()
            await connection.close()


async def attempt(connection: asyncpg.Connection, sql: str, *values: object) -> object:
    """Run a statement in a savepoint that is rolled back; return its command tag or its error."""
    tried["statements"] += 1
    savepoint = connection.transaction()
    await savepoint.start()
    try:
        statement = await connection.prepare(sql)
        await statement.fetch(*values)
        return str(statement.get_statusmsg())
    except asyncpg.PostgresError as exc:
        return exc
    finally:
        if not connection.is_closed():
            await savepoint.rollback()


async def tables(connection: asyncpg.Connection, *, partitions: bool = False) -> list[str]:
    return [row[0] for row in await connection.fetch(TABLES, partitions)]


def key(table: str) -> str:
    return "id" if table == "tenant" else "tenant_id"


def call(search: str) -> str:
    query = "array_fill(0.5::real, array[384])::halfvec"
    calls = {
        "hybrid": f"hybrid_search($1, $2, {query}, 384, '{{1}}', '{{1}}', $3, null, null, 100, 100)",
        "dense": f"hybrid_search($1, $2, {query}, 384, '{{}}', '{{}}', $3, null, null, 100, 0)",
        "lexical": "hybrid_search($1, $2, null, null, '{1}', '{1}', $3, null, null, 0, 100)",
        "plan": "search_plan($1, $2, $3, null, null, 100)",
    }
    return f"select * from {calls[search]}"


async def scopes_of(pair: TenantPair) -> list[uuid.UUID]:
    async with acting(pair.url, pair.a) as a:
        return [row[0] for row in await a.fetch("select distinct scope_key from document where tenant_id = $1", pair.a)]
