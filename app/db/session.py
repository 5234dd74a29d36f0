"""The engine and the only way to a session: a transaction whose first statement sets the tenant."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

import asyncpg
from pgvector.asyncpg import register_vector
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from app.db.migrate import sqlalchemy_url
from app.errors import AppError, Unavailable

# A generic plan would ignore the partial indexes of promoted knowledge bases; JIT costs more than any of our queries.
SERVER_SETTINGS = {"plan_cache_mode": "force_custom_plan", "jit": "off", "application_name": "carrel"}
MINIMUM_POSTGRES = 160000
MINIMUM_PGVECTOR = [0, 8]
# SQLSTATE classes: connection, resources, shutting down or starting up; password, no such database.
OUTAGES = ("08", "53", "57P0")
REFUSALS = ("28", "3D")
# What the driver says when a new connection breaks while its codecs are set up: SQLAlchemy translates nothing there.
UNTRANSLATED = (asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)


class DatabaseUnavailable(Unavailable):
    """The database is not answering; try again."""

    code = "database_unavailable"


class DatabaseRefused(AppError):
    """The database is not fit to serve from."""

    code = "database_refused"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Database:
    """A pool of connections as the plain role; nobody but this module commits."""

    engine: AsyncEngine
    sessions: async_sessionmaker[AsyncSession]

    @classmethod
    def connect(cls, url: str, *, pool_size: int) -> Self:
        """Prepare a pool; connections are made when they are needed."""
        engine = create_async_engine(
            sqlalchemy_url(url),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=10,
            pool_pre_ping=False,
            json_serializer=_json,
            connect_args={"server_settings": SERVER_SETTINGS, "timeout": 5, "command_timeout": 120},
        )

        @event.listens_for(engine.sync_engine, "connect")
        def _codecs(connection: Any, _record: Any) -> None:
            connection.run_async(register_vector)

        return cls(engine, async_sessionmaker(engine, expire_on_commit=False))

    @asynccontextmanager
    async def transaction(self, tenant_id: UUID | None, *, snapshot: bool = False) -> AsyncIterator[AsyncSession]:
        """One transaction scoped to the tenant; without one it sees no tenant's rows.

        With ``snapshot`` all its statements see the same moment.
        Raises DatabaseUnavailable, and DatabaseRefused for a login or a database that is not there.
        """
        with _told_as_ours():
            async with self.sessions.begin() as session:
                if snapshot:
                    await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
                await session.execute(
                    text("select set_config('app.tenant_id', :tenant, true)"), {"tenant": str(tenant_id or "")}
                )
                yield session

    @asynccontextmanager
    async def single_statement(self) -> AsyncIterator[AsyncSession]:
        """For one statement that needs no tenant: without a transaction around it, one round trip instead of four.

        The setting of an earlier transaction ended with it, so no tenant's rows are seen. Raises as ``transaction``.
        """
        with _told_as_ours():
            async with self.sessions() as session:
                await session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
                yield session

    async def check(self) -> None:
        """Refuse a role that no wall stops, an old server, and a schema that is not there or not whole.

        Raises DatabaseRefused, DatabaseUnavailable.
        """
        async with self.transaction(None) as session:
            found = (await session.execute(text(_CHECK))).one()
        reason = refusal(
            found.role,
            version=found.version,
            pgvector=found.pgvector,
            privileged=found.privileged,
            migrated=found.migrated,
        )
        if reason is not None:
            raise DatabaseRefused(reason)

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()


@contextmanager
def _told_as_ours() -> Iterator[None]:
    """The driver's errors as DatabaseUnavailable and DatabaseRefused; those of a statement stay what they are."""
    try:
        yield
    except (OSError, InterfaceError, PoolTimeout, *UNTRANSLATED) as exc:
        raise DatabaseUnavailable from exc
    except DBAPIError as exc:
        state = str(getattr(exc.orig, "sqlstate", None) or "")
        if exc.connection_invalidated or state.startswith(OUTAGES):
            raise DatabaseUnavailable from exc
        if state.startswith(REFUSALS):
            raise DatabaseRefused(f"CARREL_DATABASE_URL: {getattr(exc.orig, '__cause__', None)}") from exc
        raise


# Privileged is also who may `set role` to one that is; asked of pg_roles, because pg_has_role raises for unknown names.
# The last revision's functions stand for the whole schema, of which the plain role cannot read the version.
_CHECK = """
select current_setting('server_version_num')::int as version, current_user as role,
       exists (select from pg_roles r where pg_has_role(r.oid, 'member') and (
         r.rolsuper or r.rolbypassrls or r.rolname in ('carrel_search', 'carrel_control')
         or exists (select from pg_class c where c.relowner = r.oid and c.relkind in ('r', 'p')))) as privileged,
       coalesce((select string_to_array(extversion, '.')::int[] from pg_extension where extname = 'vector'), '{0}')
         as pgvector,
       to_regclass('public.picture_description') is not null and to_regproc('public.pause_provider') is not null
         and exists (select from pg_roles r where r.rolname = 'carrel_app' and pg_has_role(r.oid, 'usage')) as migrated
"""


def refusal(role: str, *, version: int, pgvector: list[int], privileged: bool, migrated: bool) -> str | None:
    """Why a database is not fit to serve from, as a sentence; None when it is. ``version`` as in server_version_num."""
    if version < MINIMUM_POSTGRES:
        return f"Postgres {MINIMUM_POSTGRES // 10000} or newer is needed; this one is {version // 10000}"
    if privileged:
        return (
            f"CARREL_DATABASE_URL: role {role} is, or may become, a superuser, one that bypasses row-level security, "
            "or the owner of tables; use the plain role"
        )
    if pgvector < MINIMUM_PGVECTOR:
        return "pgvector 0.8 or newer is needed: create or update the extension `vector` in the database"
    if not migrated:
        return "the schema is missing or CARREL_DATABASE_URL's role may not use it: run carrel migrate"
    return None


@dataclass(frozen=True, slots=True)
class TenantDatabase:
    """The database as one tenant sees it."""

    database: Database
    tenant_id: UUID

    @asynccontextmanager
    async def transaction(self, *, snapshot: bool = False) -> AsyncIterator[AsyncSession]:
        """Commit at the end, roll back on an error. Raises DatabaseUnavailable."""
        async with self.database.transaction(self.tenant_id, snapshot=snapshot) as session:
            yield session
