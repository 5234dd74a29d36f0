"""Isolation of a SQL view's role: it reads its view, and nothing else, whatever its queries contain."""

import asyncio

import asyncpg
import pytest

from app.db.index_ddl import OwnerDatabase, VectorIndexSpec
from app.documents.scopes import DocumentScope
from app.ids import decode_id
from harness.databases import run_sql
from harness.running_service import Service
from tests.sql_views.platform import Published, allow, publish

MINE, BESIDE, USERS, OTHERS = "Mine is the heron.", "Beside it the wren.", "A user's otter.", "Others have a fox."
# Function that would show other rows: it reports its arguments, and has no cost for the planner.
LEAK = """
create function public.leaky(jsonb) returns boolean language plpgsql cost 0.0000001 as
$f$ begin raise notice 'seen %', $1; return true; end $f$"""
TABLES = """
select c.oid::regclass::text as name, a.attname from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relnamespace not in ('pg_catalog'::regnamespace,
       'information_schema'::regnamespace, 'pg_toast'::regnamespace)"""


@pytest.fixture(scope="module")
def world(publishing: Service) -> tuple[Published, Published]:
    """A SQL view, and another tenant's."""
    mine, other = allow(publishing.create_tenant()), allow(publishing.create_tenant())
    mine.add_text(MINE)
    mine.add_text(USERS, user_id="u")
    mine.admin.post("/v1/knowledge-bases", json={"name": "beside"}).raise_for_status()
    mine.add_text(BESIDE, kb="beside")
    other.add_text(OTHERS)
    return publish(mine, collection="mine"), publish(other, collection="others")


async def refused(reader: asyncpg.Connection, sql: str) -> bool:
    """Return whether a statement was refused by the lack of a privilege."""
    try:
        await reader.execute(sql)
    except asyncpg.InsufficientPrivilegeError:
        return True
    return False


@pytest.mark.capability("sql-view-isolation")
async def test_sql_view_role_reads_only_its_view(world: tuple[Published, Published]) -> None:
    async with world[0].connected() as reader:
        columns = await reader.fetch(TABLES)
        schema = world[0].connection["user"].replace("carrel_sql_view_", "sql_view_")
        tables = {row["name"] for row in columns}
        assert {"mine", "document", "chunk", "chunk_embedding_384", "api_key", "alembic_version"} <= tables
        assert any(name.endswith(".others") for name in tables)
        readable = [(t, c) for t, c in map(tuple, columns) if not await refused(reader, f'select "{c}" from {t}')]
        assert sorted(readable) == [("mine", "id"), ("mine", "metadata"), ("mine", "vec")]
        assert await reader.fetchval("select count(*) from mine") == 1
        writing = "select has_table_privilege('mine', 'insert, update, delete, truncate, references, trigger')"
        assert not await reader.fetchval(writing)
        for statement in (
            "drop view mine",
            "create or replace view mine as select 1",
            f"create table {schema}.t ()",
            "create table public.t ()",
            "create temporary table t ()",
            "create schema s",
            "create function public.f() returns int language sql as 'select 1'",
            f"create function {schema}.f() returns int language sql as 'select 1'",
            "create function pg_temp.f() returns int language sql as 'select 1'",
            "create role r",
            "set role carrel_sql_view",
            "set role carrel_owner",
            "set role carrel_app",
            "set role carrel_search",
            "set session authorization carrel_owner",
            "copy (select 1) to '/tmp/x'",
            "copy mine to program 'true'",
            "select pg_read_file('PG_VERSION')",
        ):
            await reader.execute("set default_transaction_read_only = off")
            assert await refused(reader, statement), statement
        # Postgres only warns that nothing was granted.
        await reader.execute(f"grant select on mine to {world[1].connection['user']}")
        shared = "select has_table_privilege($1, 'mine'::regclass, 'select')"
        assert not await reader.fetchval(shared, world[1].connection["user"])


async def test_sql_view_role_cannot_use_service_functions(world: tuple[Published, Published]) -> None:
    async with world[0].connected() as reader:
        open_ones = await reader.fetch(
            "select p.proname from pg_proc p where p.pronamespace = 'public'::regnamespace"
            " and has_function_privilege(p.oid, 'execute') and not exists (select from pg_depend d"
            " where d.objid = p.oid and d.deptype = 'e')"
        )
        assert open_ones == []
        definers = await reader.fetch(
            "select oid::regprocedure::text from pg_proc where prosecdef and has_function_privilege(oid, 'execute')"
        )
        assert definers == []
        members = "select count(*) from pg_roles where pg_has_role(oid, 'member') and rolname <> current_user"
        assert await reader.fetchval(members) == 0


async def test_sql_view_role_with_other_tenant_id_sees_same_rows(
    world: tuple[Published, Published], publishing: Service
) -> None:
    other = next(one for one in publishing.operator.get("/v1/tenants").json()["items"])["id"]
    async with world[0].connected() as reader:
        await reader.execute(f"set app.tenant_id = '{decode_id('ten', other)}'")
        assert await reader.fetchval("select array_agg(metadata ->> 'content') from mine") == [MINE]


@pytest.mark.parametrize("plan", ["enable_indexscan", "enable_seqscan", "enable_nestloop", "enable_hashjoin"])
async def test_sql_view_query_function_sees_only_rows_of_view(
    world: tuple[Published, Published], publishing: Service, plan: str
) -> None:
    """The role cannot create a function; a function that existed would see only the view's rows."""
    await asyncio.to_thread(run_sql, publishing.urls.owner, LEAK)
    seen: list[str] = []
    try:
        async with world[0].connected() as reader:
            reader.add_log_listener(lambda _, message: seen.append(message.message))
            await reader.execute(f"set {plan} = off; set enable_bitmapscan = off; set enable_material = off")
            await reader.fetch("select id from mine where leaky(metadata)")
            await reader.fetch("select id from mine where leaky(to_jsonb(id)) and leaky(to_jsonb(vec::text))")
            await asyncio.sleep(0)
    finally:
        await asyncio.to_thread(run_sql, publishing.urls.owner, "drop function public.leaky")
    # Once for each column of the view's row: id, vec, and the text with its metadata.
    assert len(seen) == 3
    assert sum(MINE in one for one in seen) == 1
    assert not any(word in one for one in seen for word in (BESIDE, USERS, OTHERS))


async def test_sql_view_policies_apply_to_plain_views(world: tuple[Published, Published], publishing: Service) -> None:
    """A view of whole tables, created by the views' owner, shows a login only the rows of that login's SQL view."""
    owner = await asyncpg.connect(publishing.urls.owner)
    logins = ", ".join(published.connection["user"] for published in world)
    try:
        await owner.execute(
            "create schema bare; grant usage, create on schema bare to carrel_sql_view; set role carrel_sql_view;"
            " create view bare.texts as select content from public.chunk;"
            " create view bare.vectors as select chunk_id, scope_key from public.chunk_embedding;"
            " create view bare.documents as select id from public.document;"
            " create view bare.bases as select id from public.knowledge_base;"
            f" grant select on all tables in schema bare to {logins}; reset role;"
            f" grant usage on schema bare to {logins}"
        )
        found = []
        for published in world:
            async with published.connected() as reader:
                found.append([row[0] for row in await reader.fetch("select content from bare.texts")])
                for view in ("vectors", "documents", "bases"):
                    assert await reader.fetchval(f"select count(*) from bare.{view}") == 1
        assert found == [[MINE], [OTHERS]]
        # A role that is no login of a SQL view sees nothing, even the views' owner.
        await owner.execute("set role carrel_sql_view")
        assert await owner.fetchval("select count(*) from bare.texts") == 0
    finally:
        await owner.execute("reset role; drop schema bare cascade")
        await owner.close()


async def test_sql_view_names_reveal_nothing(world: tuple[Published, Published], publishing: Service) -> None:
    async with world[0].connected() as reader:
        schemas = await reader.fetch("select nspname from pg_namespace where nspname like 'pub\\_%'")
        assert all(len(row[0]) == 36 for row in schemas)
        defined = await reader.fetchval(
            "select string_agg(definition, '') from pg_views where schemaname like 'pub\\_%'"
        )
    for tenant in publishing.operator.get("/v1/tenants").json()["items"]:
        assert tenant["name"] == "tenant" or tenant["name"] not in defined


async def test_sql_view_session_has_limits(world: tuple[Published, Published]) -> None:
    async with world[0].connected() as reader:
        assert await reader.fetchval("show statement_timeout") == "30s"
        assert await reader.fetchval("select rolconnlimit from pg_roles where rolname = current_user") == 10


async def test_sql_view_policy_contains_tenant_level(publishing: Service) -> None:
    """The policy in the migration has it as a constant."""
    owner = await asyncpg.connect(publishing.urls.owner)
    policy = await owner.fetchval(
        "select qual from pg_policies where tablename = 'chunk_embedding' and policyname = 'sql_view'"
    )
    await owner.close()
    assert str(DocumentScope().to_key()) in policy


async def test_sql_view_search_uses_vector_index(world: tuple[Published, Published], publishing: Service) -> None:
    """A parameter of type vector, an order and a filter; the planner may not sort the few rows."""
    owner = await asyncpg.connect(publishing.urls.owner)
    index = await owner.fetchrow(
        "select p.tenant_id, p.index_id from sql_view p where 'carrel_sql_view_' || replace(p.id::text, '-', '') = $1",
        world[0].connection["user"],
    )
    await owner.close()
    async with OwnerDatabase(publishing.urls.owner).connect() as connection:
        await connection.build(VectorIndexSpec(index["tenant_id"], index["index_id"], 384), chunks=1)
    async with world[0].connected() as reader:
        await reader.execute("set enable_sort = off")
        query = "[" + ",".join(["1"] * 384) + "]"
        nearest = "select id from mine where metadata @> '{}' order by vec <=> $1::text::vector limit 3"
        plan = "\n".join(row[0] for row in await reader.fetch(f"explain {nearest}", query))
        assert f"Index Scan using hnsw_{index['index_id'].hex}" in plan
        assert len(await reader.fetch(nearest, query)) == 1
