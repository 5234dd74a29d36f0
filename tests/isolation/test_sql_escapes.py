"""Ways around row-level security with SQL as the application role: other roles, settings, names, privileges."""

from typing import Any

import asyncpg
import pytest

from tests.isolation.sql import REFUSED, SEARCHES, TenantPair, acting, attempt, call, tables


async def test_other_roles_cannot_be_assumed(pair: TenantPair) -> None:
    async with acting(pair.url, pair.b) as b:
        roles = dict(await b.fetch("select rolname, quote_ident(rolname) from pg_roles"))
        assert {"carrel_owner", "carrel_search", "carrel_control", "pg_read_all_data"} < roles.keys()
        taken = set()
        for role, quoted in roles.items():
            for statement in (f"set local role {quoted}", f"set local session authorization {quoted}"):
                if not isinstance(await attempt(b, statement), Exception):
                    taken.add(role)
            refusal = await attempt(b, f"grant {quoted} to carrel_runtime")
            assert isinstance(refusal, REFUSED | asyncpg.FeatureNotSupportedError), (role, refusal)
    assert taken == {"carrel_runtime", "carrel_app"}


async def test_assumable_role_sees_no_more(pair: TenantPair) -> None:
    async with acting(pair.url, pair.b) as b:
        await b.execute("set local role carrel_app")
        assert await b.fetchval("select count(*) from document where tenant_id = $1", pair.a) == 0


def candidates(setting: Any) -> list[str]:
    """Return values of a setting to try. A timeout of a millisecond would only end the connection."""
    match setting["vartype"]:
        case "bool":
            return ["on", "off"]
        case "enum":
            return list(setting["enumvals"])
        case "string":
            return ["", "off", "public", "pg_temp, public", "C"]
    extremes = [setting["max_val"], setting["boot_val"]]
    return extremes if "timeout" in setting["name"] else [setting["min_val"], *extremes]


async def seen_under(b: asyncpg.Connection, pair: TenantPair, name: str, value: str) -> tuple[bool, list[str]]:
    """Return whether the setting could be changed, and the rows of A that were visible under it."""
    if isinstance(await attempt_in(b, "select set_config($1, $2, true)", name, value), Exception):
        return False, []
    seen = []
    for table in ("document", "chunk", "api_key"):
        if (
            await attempt(b, f"select count(*) from {table} where tenant_id = $1 having count(*) > 0", pair.a)
            == "SELECT 1"
        ):
            seen.append(table)
    for search in SEARCHES:
        if not isinstance(await attempt(b, call(search), pair.a, pair.index, [pair.a]), Exception):
            seen.append(search)
    return True, seen


async def attempt_in(connection: asyncpg.Connection, sql: str, *values: object) -> object:
    """Run a statement like ``attempt``, but in the open transaction."""
    try:
        return await connection.fetchval(sql, *values)
    except asyncpg.PostgresError as exc:
        return exc


async def test_no_setting_shows_another_tenant(pair: TenantPair) -> None:
    """Every setting of pg_settings is tried with every value of its type, except for app.tenant_id."""
    async with acting(pair.url, pair.a) as a:
        settings = await a.fetch("select * from pg_settings")
        assert await seen_under(a, pair, "jit", "off") == (True, ["document", "chunk", "api_key", *SEARCHES])
    accepted, opened = 0, {}
    connection = await asyncpg.connect(pair.url)
    for setting in settings:
        for value in candidates(setting):
            if connection.is_closed():
                connection = await asyncpg.connect(pair.url)
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("select set_config('app.tenant_id', $1, true)", str(pair.b))
            try:
                made, seen = await seen_under(connection, pair, setting["name"], value)
            except (asyncpg.InterfaceError, OSError, UnicodeError):
                connection.terminate()  # a setting that breaks the client's connection shows no rows either
                continue
            accepted += made
            if seen:
                opened[setting["name"], value] = seen
            await transaction.rollback()
    await connection.close()
    print(f"{len(settings)} settings, {accepted} values accepted")
    assert opened == {}
    assert len(settings) > 300
    assert accepted > 200


async def test_disabling_row_security_raises(pair: TenantPair) -> None:
    async with acting(pair.url, pair.b) as b:
        await b.execute("set local row_security = off")
        for table in await tables(b):
            assert isinstance(await attempt(b, f"select * from {table}"), REFUSED), table
        for search in SEARCHES:
            assert isinstance(await attempt(b, call(search), pair.b, pair.index, [pair.a]), REFUSED)


@pytest.mark.parametrize(
    "path", ["pg_temp, public", "", '"$user"', "public, pg_catalog", "information_schema", "pg_temp"]
)
@pytest.mark.parametrize("search", SEARCHES)
async def test_search_path_changes_no_function(pair: TenantPair, search: str, path: str) -> None:
    async with acting(pair.url, pair.b) as b:
        await b.execute("select set_config('search_path', $1, true)", path)
        qualified = (
            call(search).replace("hybrid_search", "public.hybrid_search").replace("::halfvec", "::public.halfvec")
        )
        assert isinstance(await attempt(b, qualified, pair.a, pair.index, [pair.a]), REFUSED)


@pytest.mark.parametrize(
    "statement",
    [
        "create temporary table document (id int)",
        "create temporary view document as select 1",
        "create temporary sequence document",
        "create function pg_temp.current_tenant() returns uuid language sql as 'select null::uuid'",
        "create schema mine",
        "create schema authorization carrel_runtime",
        "create table public.mine (id int)",
        "create view public.mine as select 1",
        "create function public.check_tenant(text) returns void language sql as 'select'",
        "create or replace function public.check_tenant(p_tenant uuid) returns void language sql as 'select'",
        "create operator public.= (leftarg = uuid, rightarg = text, function = texteq)",
        "create cast (text as uuid) with inout as implicit",
        "create type public.mine as (id int)",
        "create domain public.mine as int",
        "create extension dblink",
        "create extension file_fdw",
        "create server there foreign data wrapper postgres_fdw",
        "create publication mine for all tables",
        "create event trigger mine on ddl_command_start execute function suppress_redundant_updates_trigger()",
        "create policy mine on document using (true)",
        "create trigger mine before update on document execute function suppress_redundant_updates_trigger()",
        "create rule mine as on select to document do instead select 1",
        "create index on document (title)",
        "create role mine",
        "alter table document disable row level security",
        "alter table document no force row level security",
        "alter table document owner to carrel_runtime",
        "alter policy read on document using (true)",
        "alter function check_tenant(uuid) owner to carrel_runtime",
        "alter role carrel_runtime bypassrls",
        "alter role carrel_search login",
        "alter database postgres set row_security = off",
        "drop policy read on document",
        "drop table document",
        "grant carrel_search to carrel_runtime",
        "security label on table document is 'x'",
        "load 'auto_explain'",
        "vacuum document",
        "checkpoint",
        "select pg_read_file('postgresql.conf')",
        "select pg_read_binary_file('postgresql.conf')",
        "select pg_ls_dir('.')",
        "select pg_stat_file('postgresql.conf')",
        "select lo_import('/etc/passwd')",
        "select lo_export(1, '/tmp/stolen')",
        "select count(*) from pg_statistic",
        "select count(*) from pg_authid",
        "select subconninfo from pg_subscription",
        "select pg_reload_conf()",
        "select pg_logical_slot_get_changes('x', null, null)",
    ],
)
async def test_statements_that_bypass_isolation_are_refused(pair: TenantPair, statement: str) -> None:
    async with acting(pair.url, pair.b) as b:
        refusal = await attempt(b, statement)
    assert isinstance(refusal, Exception), f"{statement} went through: {refusal}"
    gone = (
        asyncpg.UndefinedObjectError,
        asyncpg.UndefinedFunctionError,
        asyncpg.UndefinedFileError,
        asyncpg.FeatureNotSupportedError,
    )
    assert isinstance(
        refusal, (REFUSED, asyncpg.ActiveSQLTransactionError, asyncpg.InvalidParameterValueError, *gone)
    ), refusal
