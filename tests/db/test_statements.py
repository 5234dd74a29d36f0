"""Every statement of the service names existing tables, columns and functions."""

import importlib
import pkgutil
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import asyncpg
import pytest
from pgvector.asyncpg import register_vector

import app
from app.db.statements import Statement, parse_statement
from app.embedded_postgres import DatabaseUrls

# Modules that run as the tables' owner pass text to the driver.
OWNER_MODULES = ("app.db.index_ddl", "app.db.sql_view_ddl")
SQL = re.compile(r"\s*(select|with|insert into|update|delete from)\s")


@pytest.fixture
async def owner(database: DatabaseUrls) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.owner)
    await register_vector(connection)
    yield connection
    await connection.close()


def statements_in(value: Any) -> Iterator[Statement]:
    """Yield the statements in a module's constant: a statement, a sequence or a mapping."""
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, Mapping):
        yield from (found for item in value.values() for found in statements_in(item))
    elif isinstance(value, list | tuple):
        yield from (found for item in value for found in statements_in(item))


def all_statements() -> dict[str, Statement]:
    """Return the statements of all modules, by the name of the module and of the constant."""
    found = {}
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if module.name in OWNER_MODULES and isinstance(value, str) and SQL.match(value):
                found[f"{module.name}.{name}"] = Statement(value, ())
            for number, statement in enumerate(statements_in(value)):
                found[f"{module.name}.{name}[{number}]"] = statement
    return found


async def failures(connection: asyncpg.Connection, statements: Mapping[str, Statement]) -> dict[str, str]:
    """Return the statements that cannot be prepared, with the errors."""
    found = {}
    for name, statement in statements.items():
        try:
            await connection.prepare(statement.sql)
        except asyncpg.PostgresError as exc:
            found[name] = str(exc)
    return found


async def test_every_statement_can_be_prepared(owner: asyncpg.Connection) -> None:
    statements = all_statements()
    assert len(statements) > 200
    assert await failures(owner, statements) == {}


async def test_missing_column_is_detected(owner: asyncpg.Connection) -> None:
    broken = {"broken": parse_statement("select d.missing from document d where d.id = :id")}
    assert set(await failures(owner, broken)) == {"broken"}
