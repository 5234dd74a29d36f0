"""The engine and the only way to a session: a transaction whose first statement sets the tenant."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self
from uuid import UUID

import asyncpg
from pgvector.asyncpg import register_vector
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import greenlet_spawn

from app.db import fitness
from app.db.driver import OVER_QUOTA, Reader, beginning, begins
from app.db.lending import GiveBack, Returning, borrowed, ended, lent
from app.db.migrate import sqlalchemy_url
from app.db.row_quotas import RowQuotaExceeded
from app.db.shares import PoolShares
from app.errors import AppError, Unavailable

# A kept plan would be made before a table has statistics, and checks of foreign keys then read a whole tenant; reading
# transactions may ask for it (ADR 0007). JIT costs more than any of our queries.
SERVER_SETTINGS = {
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
    "application_name": "carrel",
    # A process that has frozen, or whose machine is gone, keeps what it has locked no longer than this: a transaction
    # waits for nothing but the database.
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
# Of a pool: so many can have died at once.
MOST_CONNECTIONS = 200
# How long a transaction waits for a connection, and before that for its tenant's turn.
POOL_SECONDS = 10
CROWDED = "This tenant uses all database connections that one tenant can use; send fewer requests at once."
# SQLSTATE classes: connection, resources, shutting down or starting up; one that only reads, as after a failover or
# with a full disk; password, no such database.
OUTAGES = ("08", "53", "57P0")
ONLY_READS = "25006"
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


class Session(AsyncSession, Reader):
    """A session of SQLAlchemy's, and beside it the driver's own connection for the statements that run most often.

    Both are in the same transaction. What the ORM has not flushed yet, those statements do not see.
    """

    def __init__(self, connection: AsyncConnection, driver: asyncpg.Connection) -> None:
        AsyncSession.__init__(self, connection, expire_on_commit=False)
        Reader.__init__(self, driver)


@dataclass(frozen=True, slots=True)
class Database:
    """A pool of connections as the plain role; nobody but this module commits. Some are ``returning`` to it."""

    engine: AsyncEngine
    shares: PoolShares
    returning: Returning = field(default_factory=set)

    @classmethod
    def connect(cls, url: str, *, pool_size: int) -> Self:
        """Prepare a pool; connections are made when they are needed."""
        engine = create_async_engine(
            sqlalchemy_url(url),
            # BEGIN and COMMIT are sent below: so the scope travels with BEGIN, in one round trip.
            isolation_level="AUTOCOMMIT",
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=POOL_SECONDS,
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
            driver = connection.driver_connection
            if state.asyncio_safe and not driver.is_closed() and driver.is_in_transaction():
                connection.run_async(partial(ended, ending="rollback"))

        return cls(engine, PoolShares.of(2 * pool_size, timeout_seconds=POOL_SECONDS))

    @asynccontextmanager
    async def transaction(
        self,
        tenant_id: UUID | None,
        *,
        snapshot: bool | str = False,
        seconds: float | None = None,
        kept_plans: bool = False,
        unchanged: Mapping[UUID, str] | None = None,
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
            begin = beginning(tenant_id, snapshot=snapshot, seconds=seconds, kept_plans=kept_plans, unchanged=unchanged)
            async with self._begun(begin, tenant_id) as (connection, driver):
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
    async def reading(
        self,
        tenant_id: UUID,
        *,
        snapshot: bool | str = False,
        seconds: float | None = None,
        unchanged: Mapping[UUID, str] | None = None,
    ) -> AsyncIterator[Reader]:
        """A transaction for a few statements of the driver's that only read, by keys; its end is not waited for.

        Otherwise, and raises, as ``transaction``.
        """
        begin = beginning(
            tenant_id, snapshot=snapshot, seconds=seconds, kept_plans=True, unchanged=unchanged, reads=True
        )
        with _told_as_ours(reads=True):
            for _ in range(MOST_CONNECTIONS):
                async with borrowed(self.engine, self.returning, await self._admitted(tenant_id)) as pooled:
                    driver, forget = pooled.driver_connection, partial(greenlet_spawn, pooled.invalidate)
                    if driver is not None and await begins(driver, begin, forget=forget):
                        yield Reader(driver)
                        return
                    await forget()
            raise DatabaseUnavailable

    @asynccontextmanager
    async def single_statement(self) -> AsyncIterator[Session]:
        """For one statement that needs no tenant: without a transaction around it, one round trip instead of three.

        The setting of an earlier transaction ended with it, so no tenant's rows are seen. Raises as ``transaction``.
        """
        with _told_as_ours():
            async with self._begun(None, None) as (connection, driver):
                session = Session(connection, driver)
                try:
                    yield session
                finally:
                    await session.close()

    @asynccontextmanager
    async def _begun(
        self, begin: str | None, tenant_id: UUID | None
    ) -> AsyncIterator[tuple[AsyncConnection, asyncpg.Connection]]:
        """A connection that has answered ``begin``; those that have died in the pool are left out.

        One that takes no writes does not come back to it.
        """
        for _ in range(MOST_CONNECTIONS):
            async with lent(self.engine, self.returning, await self._admitted(tenant_id)) as connection:
                driver = _driver(connection)
                if await begins(driver, begin, forget=connection.invalidate):
                    try:
                        yield connection, driver
                    except DBAPIError as exc:
                        if _only_reads(exc):  # after a failover it leads to what was the primary, and would for ever
                            driver.terminate()
                            await connection.invalidate()
                        raise
                    return
                await connection.invalidate()
        raise DatabaseUnavailable

    async def _admitted(self, tenant_id: UUID | None) -> GiveBack:
        """Wait for the tenant's turn at the pool. Raises DatabaseUnavailable."""
        try:
            return await self.shares.admit(tenant_id)
        except TimeoutError as exc:
            raise DatabaseUnavailable(CROWDED) from exc

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
            earlier=found.earlier,
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


def _only_reads(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) == ONLY_READS


@contextmanager
def _told_as_ours(*, reads: bool = False) -> Iterator[None]:
    """The driver's errors as DatabaseUnavailable and DatabaseRefused; those of a statement stay what they are.

    A row over a quota is RowQuotaExceeded.
    So does a write where only ``reads`` were to be: that is no outage.
    """
    try:
        yield
    except (OSError, InterfaceError, PoolTimeout, *UNTRANSLATED) as exc:
        raise DatabaseUnavailable from exc
    except DBAPIError as exc:
        state = str(getattr(exc.orig, "sqlstate", None) or "")
        if state == OVER_QUOTA:
            raise RowQuotaExceeded.from_database(exc) from exc
        if _only_reads(exc) and not reads:
            raise DatabaseUnavailable("The database only reads at present; try again.") from exc
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
    unchanged: Mapping[UUID, str] | None = None

    def transaction(
        self, *, snapshot: bool | str = False, seconds: float | None = None, kept_plans: bool = False
    ) -> AbstractAsyncContextManager[Session]:
        """Commit at the end, roll back on an error. Raises DatabaseUnavailable, Outdated."""
        return self.database.transaction(
            self.tenant_id, snapshot=snapshot, seconds=seconds, kept_plans=kept_plans, unchanged=self.unchanged
        )

    def reading(
        self, *, snapshot: bool | str = False, seconds: float | None = None
    ) -> AbstractAsyncContextManager[Reader]:
        """As ``Database.reading``. Raises DatabaseUnavailable, Outdated."""
        return self.database.reading(self.tenant_id, snapshot=snapshot, seconds=seconds, unchanged=self.unchanged)
