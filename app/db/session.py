"""The engine and the only way to a session: a transaction whose first statement sets the tenant."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self
from uuid import UUID

import asyncpg
from pgvector.asyncpg import register_vector
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import QueuePool

from app.db import fitness
from app.db.lending import lent, rolled_back
from app.db.migrate import sqlalchemy_url
from app.db.statements import Record, Statement, statement
from app.errors import AppError, Unavailable

# A kept plan would be made before a table has statistics, and checks of foreign keys then read a whole tenant; reading
# transactions may ask for it (ADR 0007). JIT costs more than any of our queries.
SERVER_SETTINGS = {"plan_cache_mode": "force_custom_plan", "jit": "off", "application_name": "carrel"}
# Of a pool: so many can have died at once.
MOST_CONNECTIONS = 200
# SQLSTATE classes: connection, resources, shutting down or starting up; password, no such database.
OUTAGES = ("08", "53", "57P0")
REFUSALS = ("28", "3D")
OUTDATED = "U0001"  # as require_unchanged has it
NOTHING: Mapping[UUID, str] = MappingProxyType({})
_NAME_SNAPSHOT = statement("select pg_export_snapshot()")
# What the driver says when a new connection breaks while its codecs are set up: SQLAlchemy translates nothing there.
UNTRANSLATED = (asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)


class DatabaseUnavailable(Unavailable):
    """The database is not answering; try again."""

    code = "database_unavailable"


class Outdated(Exception):
    """What a transaction was to find unchanged is another by now."""


class DatabaseRefused(AppError):
    """The database is not fit to serve from."""

    code = "database_refused"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Session(AsyncSession):
    """A session of SQLAlchemy's, and beside it the driver's own connection for the statements that run most often.

    Both are in the same transaction. What the ORM has not flushed yet, those statements do not see.
    """

    def __init__(self, connection: AsyncConnection, driver: asyncpg.Connection) -> None:
        super().__init__(connection, expire_on_commit=False)
        self._driver = driver

    async def rows(self, statement: Statement, values: Mapping[str, Any]) -> list[Record]:
        """What a statement answers. Raises DBAPIError, IntegrityError."""
        try:
            found: list[Record] = await self._driver.fetch(statement.sql, *statement.arguments(values))
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise _as_sqlalchemy(statement, exc) from exc
        return found

    async def name_snapshot(self) -> str:
        """For another transaction that is to see what this one with a snapshot sees. Raises DBAPIError."""
        return str((await self.rows(_NAME_SNAPSHOT, {}))[0][0])

    async def row(self, statement: Statement, values: Mapping[str, Any]) -> Record | None:
        """The first row, if there is one. Raises DBAPIError, IntegrityError."""
        found = await self.rows(statement, values)
        return found[0] if found else None


def _as_sqlalchemy(statement: Statement, error: Exception) -> DBAPIError:
    """One kind of error, whichever way a statement went; without the values, which are a tenant's."""
    kind = IntegrityError if isinstance(error, asyncpg.IntegrityConstraintViolationError) else DBAPIError
    return kind(statement.sql, None, error, hide_parameters=True)


@dataclass(frozen=True, slots=True)
class Database:
    """A pool of connections as the plain role; nobody but this module commits. Some are ``returning`` to it."""

    engine: AsyncEngine
    returning: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    def connect(cls, url: str, *, pool_size: int) -> Self:
        """Prepare a pool; connections are made when they are needed."""
        engine = create_async_engine(
            sqlalchemy_url(url),
            # BEGIN and COMMIT are sent below: so the scope travels with BEGIN, in one round trip.
            isolation_level="AUTOCOMMIT",
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=10,
            pool_use_lifo=True,  # each keeps catalogue and functions in its own memory: the warmest first
            json_serializer=_json,
            hide_parameters=True,
            connect_args={"server_settings": SERVER_SETTINGS, "timeout": 5, "command_timeout": 120},
        )

        @event.listens_for(engine.sync_engine, "connect")
        def _codecs(connection: Any, _record: Any) -> None:
            connection.run_async(register_vector)

        @event.listens_for(engine.sync_engine, "reset")
        def _roll_back(connection: Any, _record: Any, state: Any) -> None:
            if state.asyncio_safe and connection.driver_connection.is_in_transaction():
                connection.run_async(rolled_back)

        return cls(engine)

    @asynccontextmanager
    async def transaction(
        self,
        tenant_id: UUID | None,
        *,
        snapshot: bool | str = False,
        seconds: float | None = None,
        kept_plans: bool = False,
        unchanged: Mapping[UUID, str] = NOTHING,
    ) -> AsyncIterator[Session]:
        """One transaction scoped to the tenant; without one it sees no tenant's rows.

        With ``snapshot`` all its statements see the same moment: that of the other transaction whose ``name_snapshot``
        it is, while that one lasts. The database gives up each that takes longer than ``seconds``. ``kept_plans`` is
        for reading by keys alone: such a statement costs more to plan than to run. ``unchanged`` are knowledge bases
        and the states that the transaction is to find them in: it begins with a look at them, in the same round trip.
        Raises Outdated, DatabaseUnavailable, and DatabaseRefused for a login or a database that is not there.
        """
        with _told_as_ours():
            # What is not committed is rolled back as the connection returns to the pool, also after a cancellation.
            async with self._begun(_begin(tenant_id, snapshot, seconds, kept_plans, unchanged)) as (connection, driver):
                session = Session(connection, driver)
                try:
                    yield session
                    if session.new or session.dirty or session.deleted:
                        await session.flush()
                    await driver.execute("commit")
                finally:
                    if session.in_transaction():
                        await session.close()

    @asynccontextmanager
    async def single_statement(self) -> AsyncIterator[Session]:
        """For one statement that needs no tenant: without a transaction around it, one round trip instead of three.

        The setting of an earlier transaction ended with it, so no tenant's rows are seen. Raises as ``transaction``.
        """
        with _told_as_ours():
            async with self._begun(None) as (connection, driver):
                session = Session(connection, driver)
                try:
                    yield session
                finally:
                    await session.close()

    @asynccontextmanager
    async def _begun(self, begin: str | None) -> AsyncIterator[tuple[AsyncConnection, asyncpg.Connection]]:
        """A connection that has answered ``begin``; those that have died in the pool are left out."""
        for _ in range(MOST_CONNECTIONS):
            async with lent(self.engine, self.returning) as connection:
                driver = _driver(connection)
                if not driver.is_closed() and await _begins(connection, driver, begin):
                    yield connection, driver
                    return
                await connection.invalidate()
        raise DatabaseUnavailable

    @property
    def is_at_leisure(self) -> bool:
        """Whether so few connections are lent that one caller may have two of them, and none will wait for it."""
        pool = self.engine.sync_engine.pool
        assert isinstance(pool, QueuePool)
        return pool.checkedout() <= pool.size() // 2

    async def check(self) -> None:
        """Refuse a role that no wall stops, an old server, and a schema that is not there or not whole.

        Raises DatabaseRefused, DatabaseUnavailable.
        """
        async with self.transaction(None) as session:
            found = (await session.execute(text(fitness.CHECK))).one()
        reason = fitness.refusal(
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
        await asyncio.gather(*self.returning, return_exceptions=True)
        await self.engine.dispose()


def _driver(connection: AsyncConnection) -> asyncpg.Connection:
    pooled = connection.sync_connection
    assert pooled is not None
    found: asyncpg.Connection = pooled.connection.driver_connection
    return found


def _begin(
    tenant_id: UUID | None,
    snapshot: bool | str,
    seconds: float | None,
    kept_plans: bool,
    unchanged: Mapping[UUID, str],
) -> str:
    """In one message; nothing of it is a caller's text."""
    isolation = " isolation level repeatable read" if snapshot else ""
    scope = f"set_config('app.tenant_id', '{tenant_id or ''}', true)"
    limit = "" if seconds is None else f", set_config('statement_timeout', '{max(1, int(seconds * 1000))}', true)"
    plans = ", set_config('plan_cache_mode', 'auto', true)" if kept_plans else ""
    moment = f"set transaction snapshot '{snapshot}'; " if isinstance(snapshot, str) else ""
    condition = ""
    if unchanged and not isinstance(snapshot, str):  # which the other transaction has looked at
        ids, states = (", ".join(f"'{one}'" for one in column) for column in zip(*unchanged.items(), strict=True))
        condition = f"; select require_unchanged('{tenant_id}', array[{ids}]::uuid[], array[{states}])"
    return f"begin{isolation}; {moment}select {scope}{limit}{plans}{condition}"


async def _begins(connection: AsyncConnection, driver: asyncpg.Connection, begin: str | None) -> bool:
    """False where the connection turns out to be dead, as all are after a restart of the server."""
    if begin is None:
        return True
    try:
        await driver.execute(begin)
    except (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError):
        return False
    except BaseException as exc:  # it may have begun, and nobody would know
        if getattr(exc, "sqlstate", None) == OUTDATED:  # it has: that is rolled back as any other
            raise Outdated from None
        driver.terminate()  # a polite end would wait for an answer again
        await connection.invalidate()
        raise
    return True


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


@dataclass(frozen=True, slots=True)
class TenantDatabase:
    """The database as one tenant sees it; every transaction is to find what is in ``unchanged`` in that state."""

    database: Database
    tenant_id: UUID
    unchanged: Mapping[UUID, str] = field(default_factory=dict)

    @asynccontextmanager
    async def transaction(
        self, *, snapshot: bool | str = False, seconds: float | None = None, kept_plans: bool = False
    ) -> AsyncIterator[Session]:
        """Commit at the end, roll back on an error. Raises DatabaseUnavailable, Outdated."""
        opened = self.database.transaction(
            self.tenant_id, snapshot=snapshot, seconds=seconds, kept_plans=kept_plans, unchanged=self.unchanged
        )
        async with opened as session:
            yield session
