"""No definer function reads a caller's object in place of one of the service's.

A role with temporary objects can name them like the service's tables, types and functions. If ``pg_temp`` is not last
in a function's ``search_path``, these objects come first. The application role may create temporary objects only in the
database of this test.
"""

import re
import uuid
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from tests.architecture.test_schema import OURS, PATH
from tests.isolation.sql import acting, attempt

OWN_TYPES = {"halfvec": "public.halfvec", "halfvec[]": "public.halfvec[]", "sparsevec": "public.sparsevec"}
# An argument of every parameter type, chosen so that the functions run completely.
ARGUMENTS = {
    "uuid": f"'{uuid.UUID(int=7)}'", "bytea": r"'\x00'", "integer": "384", "bigint": "1", "text": "'x'", "real": "0.5",
    "double precision": "1", "boolean": "true", "interval": "'1 s'",
    "timestamp with time zone": "now()",
    "uuid[]": f"array['{uuid.UUID(int=7)}']", "integer[]": "'{1}'", "real[]": "'{1}'",
    "double precision[]": "'{1}'", "text[]": "'{x}'",
    "halfvec": "array_fill(0.5::real, array[384])", "halfvec[]": "array['[1]'::public.halfvec]",
    "jsonb": "'{}'", "jsonpath": "'$.a == 1'", "date": "now()",
}  # fmt: skip
SHADOWED = """
select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and c.relname <> 'alembic_version' order by 1"""
TYPES = "select typname from pg_type where typnamespace = 'public'::regnamespace and typtype = 'b' and typelem = 0"
DEFINERS = f"""
select o.* from ({OURS}) o join pg_proc p on p.oid = o.oid
 where p.prosecdef and p.prorettype <> 'trigger'::regtype order by o.proname"""
CALLER = uuid.UUID(int=7)
# A read-only view and a type without dimensions are other signs that a shadow object was used.
MET = re.compile(r"read the shadow|cannot (insert into|update|delete from) view|type modifier is not allowed")
SAYS = "begin raise exception 'read the shadow'; end"


@dataclass(frozen=True)
class Ground:
    """Database in which the application role may create temporary objects and call all functions of the service."""

    app: str
    superuser: str
    functions: list[Any]
    definers: list[Any]


@pytest.fixture(scope="module")
async def ground(database: DatabaseUrls, postgres_server: EmbeddedPostgres) -> Ground:
    name = database.app.rpartition("/")[2]
    superuser = postgres_server.build_url(name)
    connection = await asyncpg.connect(superuser)
    await connection.execute(f"grant temporary on database {name} to carrel_runtime")
    await connection.execute("grant execute on all functions in schema public to carrel_runtime")
    functions, definers = await connection.fetch(OURS), await connection.fetch(DEFINERS)
    await connection.close()
    return Ground(database.app, superuser, functions, definers)


async def shadow(connection: asyncpg.Connection) -> int:
    """Create views, types and functions with the service's names, which report a read; return their number."""
    await connection.execute(f"create function pg_temp.say() returns boolean language plpgsql as $${SAYS}$$")
    tables = [row[0] for row in await connection.fetch(SHADOWED)]
    for table in tables:
        await connection.execute(
            f"create function pg_temp.read_{table}() returns setof public.{table} language plpgsql as $${SAYS}$$;"
            f"create temporary view {table} as select * from pg_temp.read_{table}();"
            f"grant all on pg_temp.{table} to public"
        )
    types = [row[0] for row in await connection.fetch(TYPES)]
    for name in types:
        await connection.execute(f"create domain pg_temp.{name} as text check (pg_temp.say())")
    functions = await connection.fetch(OURS)
    for function in functions:
        arguments = ", ".join(
            f"public.{kind}" if kind.removesuffix("[]") in types else kind for kind in function["types"]
        )
        await connection.execute(
            f"create function pg_temp.{function['proname']}({arguments}) returns boolean language sql"
            " as 'select pg_temp.say()'"
        )
    return len(tables) + len(types) + len(functions)


def call_of(function: Any) -> str:
    arguments = ", ".join(f"{ARGUMENTS[kind]}::{OWN_TYPES.get(kind, kind)}" for kind in function["types"])
    return f"select * from public.{function['proname']}({arguments})"


async def outcomes(ground: Ground, *, shadowed: bool) -> dict[str, str]:
    """Return the command tag or the error of each function."""
    async with acting(ground.app, CALLER) as caller:
        if shadowed:
            assert await shadow(caller) > 40
        return {one["proname"]: str(await attempt(caller, call_of(one))) for one in ground.definers}


async def test_definer_functions_read_service_objects_only(ground: Ground) -> None:
    plain = await outcomes(ground, shadowed=False)
    assert len(plain) >= 15
    assert {name: outcome for name, outcome in plain.items() if not outcome.startswith("SELECT")} == {}
    assert await outcomes(ground, shadowed=True) == plain


async def test_search_path_without_pg_temp_last_is_detected(ground: Ground) -> None:
    """Each function is changed to a path without ``pg_temp`` at its end, so that the caller's objects come first."""
    superuser = await asyncpg.connect(ground.superuser)

    async def lead(path: str) -> None:
        for one in ground.functions:  # definer functions call other functions of the service
            signature = f"public.{one['proname']}({', '.join(OWN_TYPES.get(kind, kind) for kind in one['types'])})"
            if PATH in one["config"]:
                await superuser.execute(f"alter function {signature} set {path}")

    await lead("search_path = pg_catalog, public")
    try:
        led = await outcomes(ground, shadowed=True)
    finally:
        await lead(PATH)
        await superuser.close()
    assert {name: outcome for name, outcome in led.items() if not MET.search(outcome)} == {}
