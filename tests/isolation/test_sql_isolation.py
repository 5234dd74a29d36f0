"""SQL as the application role in the scope of one tenant: it cannot read or change another tenant's rows.

Known and not tested: ``set_config`` to another tenant is the service's own way, so no API runs a caller's SQL.
LOCK TABLE, long statements and large objects can disturb, but show nothing. The catalogue and EXPLAIN show other
tenants' index ids and estimates of row counts, never a value.
"""

import io
import uuid

import asyncpg
import pytest

from tests.architecture.test_schema import APPEND_ONLY, CALLABLE, OURS
from tests.isolation.sql import (
    CLOSED,
    READ_ONLY,
    REFUSED,
    SEARCHES,
    SECRET,
    SYSTEM,
    TenantPair,
    acting,
    attempt,
    call,
    key,
    scopes_of,
    tables,
)

# Tables of the system tenant that a tenant reads, with the rows it sees: search data, and facts about
# documents.
SHARED = {
    "knowledge_base", "search_index", "document", "document_object", "document_text", "document_page",
    "document_image", "node", "chunk", "chunk_embedding", "chunk_lexical", "term_document_frequency", "index_totals",
    "routing_profile", "routing_vector", "chunk_entity", "entity", "entity_alias", "relation", "node_enrichment",
}  # fmt: skip


def nothing_done(table: str, changed: object, removed: object) -> bool:
    """Return whether no row was changed or deleted; without a right to the table, both must be refused."""
    if table in APPEND_ONLY:
        return isinstance(changed, REFUSED) and isinstance(removed, REFUSED)
    return (changed, removed) == ("UPDATE 0", "DELETE 0")


@pytest.mark.capability("isolation-sql")
async def test_every_statement_on_every_table_is_isolated(pair: TenantPair) -> None:
    cases = 0
    async with acting(pair.url, pair.a) as a, acting(pair.url, pair.b) as b:
        for table in await tables(b):
            row = await a.fetchval(f"select t::text from {table} t where {key(table)} = $1 limit 1", pair.a)
            assert row is not None, f"{table}: tenant A has nothing there, so nothing would be proven"
            assert await b.fetchval(f"select count(*) from {table} where {key(table)} = $1", pair.a) == 0
            assert (
                await b.fetchval(f"select count(*) from {table} where {key(table)} not in ($1, $2)", pair.b, SYSTEM)
                == 0
            )
            changed = await attempt(
                b, f"update {table} set {key(table)} = {key(table)} where {key(table)} = $1", pair.a
            )
            removed = await attempt(b, f"delete from {table} where {key(table)} = $1", pair.a)
            assert nothing_done(table, changed, removed)
            for statement in (
                f"insert into {table} select ($1::text::{table}).*",
                f"insert into {table} select ($1::text::{table}).* on conflict do nothing",
            ):
                outcome = await attempt(b, statement, row)
                assert isinstance(outcome, REFUSED), (table, statement, outcome)
            moved = await attempt(b, f"update {table} set {key(table)} = $1", pair.a)
            assert isinstance(moved, REFUSED) or moved == "UPDATE 0", (table, moved)
            assert isinstance(await attempt(b, f"truncate {table}"), REFUSED)
            cases += 8
    print(f"{cases} statements on tables")
    assert cases >= 8 * 14


async def test_partitions_and_alembic_table_are_closed(pair: TenantPair) -> None:
    async with acting(pair.url, pair.b) as b:
        names = await tables(b, partitions=True)
        assert len(names) >= 8
        for table in [*names, *CLOSED]:
            for statement in (
                f"select * from {table}",
                f"select count(*) from {table}",
                f"delete from {table}",
                f"insert into {table} default values",
                f"truncate {table}",
            ):
                assert isinstance(await attempt(b, statement), REFUSED), statement
        for statement in ("delete from {}", "update {} set secret = ''", "insert into {} values ('')", "truncate {}"):
            assert isinstance(await attempt(b, statement.format(READ_ONLY)), REFUSED), statement


@pytest.mark.parametrize("search", SEARCHES)
async def test_search_functions_refuse_another_tenant(pair: TenantPair, search: str) -> None:
    scopes = await scopes_of(pair)
    async with acting(pair.url, pair.a) as a:
        if search != "lexical":
            assert len(await a.fetch(call(search), pair.a, pair.index, scopes)) > 0
    for tenant in (pair.b, None):
        async with acting(pair.url, tenant) as b:
            for named in (pair.a, None, uuid.uuid4()):
                assert isinstance(await attempt(b, call(search), named, pair.index, scopes), REFUSED)
    async with acting(pair.url, pair.b) as b:
        for named in (pair.b, SYSTEM):
            assert await b.fetch(call(search), named, pair.index, scopes) == []


async def test_search_plan_of_another_tenant_is_empty(pair: TenantPair) -> None:
    scopes = await scopes_of(pair)
    async with acting(pair.url, pair.a) as a:
        assert (await a.fetchrow(call("plan"), pair.a, pair.index, scopes))["chunks"] > 0
    for tenant in (pair.b, None):
        async with acting(pair.url, tenant) as b:
            for named in (pair.a, None, uuid.uuid4()):
                assert isinstance(await attempt(b, call("plan"), named, pair.index, scopes), REFUSED)
    async with acting(pair.url, pair.b) as b:
        for named in (pair.b, SYSTEM):
            row = await b.fetchrow(call("plan"), named, pair.index, scopes)
            assert tuple(row) == (0, 1.0, "exact", "all")


async def test_every_function_is_listed_and_helpers_are_closed(pair: TenantPair) -> None:
    """A new function is closed, or is one of these whose callers are listed here."""
    async with acting(pair.url, pair.b) as b:
        for function in await b.fetch(OURS):
            name, types = function["proname"], function["types"]
            arguments = ", ".join(f"null::{kind}" for kind in types)
            outcome = await attempt(b, f"select * from {name}({arguments})")
            if "return type trigger" in str(outcome):  # it cannot be called
                continue
            if name in CALLABLE - {"hybrid_search", "search_plan", "graph_walk"}:
                assert isinstance(outcome, str), (name, outcome)
            else:
                assert isinstance(outcome, REFUSED), (name, outcome)


async def test_control_functions_show_no_content(pair: TenantPair) -> None:
    """The control functions return keys, tenants and jobs, without A's texts, titles and user ids."""
    async with acting(pair.url, pair.b) as b:
        assert await b.fetch("select * from find_key($1)", bytes(32)) == []
        listed = await b.fetch("select * from list_tenants(null, null, 200)")
        assert {column for row in listed for column in row.keys()} == {"id", "name", "created_at", "deleted_at"}  # noqa: SIM118  # a Record iterates over its values
        assert SECRET not in str(listed)


async def test_copy_obeys_row_level_security(pair: TenantPair) -> None:
    async with acting(pair.url, pair.b) as b:
        for table in await tables(b):
            if table == "chunk_embedding":  # COPY reads no partitioned table, only a query over it
                continue
            out = io.BytesIO()
            await b.copy_from_query(f"select * from {table}", output=out)
            await b.copy_from_table(table, output=out)
            assert str(pair.a) not in out.getvalue().decode()
            assert SECRET not in out.getvalue().decode()
    for statement in (
        "copy document to '/tmp/stolen'",
        "copy document to program 'cat'",
        "copy document from '/etc/passwd'",
    ):
        async with acting(pair.url, pair.b) as b:
            assert isinstance(await attempt(b, statement), REFUSED), statement
    async with acting(pair.url, pair.b) as b:
        with pytest.raises(asyncpg.FeatureNotSupportedError):
            await b.copy_records_to_table(
                "term_document_frequency",
                records=[(pair.a, pair.index, 1, 1)],
                columns=["tenant_id", "index_id", "key", "df"],
            )


async def test_query_functions_obey_row_level_security(pair: TenantPair) -> None:
    """Postgres functions that run a text, and blocks of code, run it as the caller."""
    async with acting(pair.url, pair.b) as b:
        words = await b.fetch("select word from ts_stat('select to_tsvector(''simple'', content) from chunk')")
        assert "ordinary" in {row[0] for row in words}
        assert SECRET.lower() not in {row[0] for row in words}
        exists = f"exists (select from chunk where tenant_id = '{pair.a}')"
        await b.execute(f"do $$ begin if {exists} then raise 'seen'; end if; end $$")


async def test_statistics_show_no_values(pair: TenantPair) -> None:
    superuser = await asyncpg.connect(pair.superuser)
    await superuser.execute("analyze document, chunk, node")
    values = "select count(*) from pg_stats where schemaname = 'public' and tablename in ('document', 'chunk', 'node')"
    assert await superuser.fetchval(values) > 10
    await superuser.close()
    async with acting(pair.url, pair.b) as b:
        assert await b.fetchval(values) == 0
        assert await b.fetchval("select count(*) from pg_stats_ext where schemaname = 'public'") == 0
        plan = await b.fetch("explain (analyze, verbose) select * from document where tenant_id = $1", pair.a)
        assert "rows=0" in str(plan).replace(".00", "")
        assert SECRET not in str(plan)


async def test_errors_quote_no_row_of_another_tenant(pair: TenantPair) -> None:
    """Functions that are not leakproof are called after the policy, never before it."""
    async with acting(pair.url, pair.b) as b:
        for statement in (
            "select * from chunk where content::int = 1 and tenant_id = $1",
            "select * from document where (title || source || coalesce(user_id, ''))::int = 1 and tenant_id = $1",
            "select count(*) from chunk where 1 / (length(content) * 0) = 1 and tenant_id = $1",
        ):
            outcome = await attempt(b, statement, pair.a)
            assert isinstance(outcome, str), outcome
    async with acting(pair.url, pair.b) as b:
        outcome = await attempt(b, "select * from chunk where content::int = 1")
        assert SECRET not in str(outcome)


async def test_shared_level_is_readable_and_not_writable(pair: TenantPair) -> None:
    """Other rows of the system tenant (keys, jobs, usage, receipts) are invisible, like another tenant's rows."""
    async with acting(pair.url, SYSTEM) as system, acting(pair.url, pair.b) as b:
        for table in await tables(b):
            row = await system.fetchval(f"select t::text from {table} t where {key(table)} = $1 limit 1", SYSTEM)
            assert row is not None, f"{table}: the system tenant has nothing there, so nothing would be proven"
            seen = await b.fetchval(f"select count(*) from {table} where {key(table)} = $1", SYSTEM)
            assert (seen > 0) == (table in SHARED), table
            changed = f"update {table} set {key(table)} = {key(table)} where {key(table)} = $1"
            removed = f"delete from {table} where {key(table)} = $1"
            assert nothing_done(table, await attempt(b, changed, SYSTEM), await attempt(b, removed, SYSTEM))
            assert isinstance(await attempt(b, f"insert into {table} select ($1::text::{table}).*", row), REFUSED)
            moved = await attempt(b, f"update {table} set {key(table)} = $1", SYSTEM)
            assert isinstance(moved, REFUSED) or moved == "UPDATE 0", (table, moved)
    async with acting(pair.url, None) as nobody:
        for table in await tables(nobody):
            assert await nobody.fetchval(f"select count(*) from {table}") == 0, table
