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

from app.db import requirements
from app.db.driver import QUOTA_EXCEEDED_SQLSTATE, DriverReader, build_begin_sql, try_begin
from app.db.migrate import to_sqlalchemy_url
from app.db.pool_shares import PoolShares
from app.db.pooling import (
    ReleaseSlot,
    ReturningTasks,
    acquire_connection,
    acquire_driver_connection,
    finish_or_terminate,
)
from app.db.row_quotas import RowQuotaExceeded
from app.errors import AppError, UnavailableError

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
# The maximum number of dead connections that a transaction takes from the pool before it gives up.
MAX_DEAD_CONNECTIONS = 200
# How long a transaction waits for a connection, and before that for its tenant's turn.
POOL_TIMEOUT_SECONDS = 10
POOL_EXHAUSTED_MESSAGE = (
    "This tenant uses all database connections that one tenant can use; send fewer requests at once."
)
# SQLSTATE classes: connection, resources, shutting down or starting up; one that only reads, as after a failover or
# with a full disk; password, no such database.
OUTAGE_SQLSTATES = ("08", "53", "57P0")
READ_ONLY_SQLSTATE = "25006"
REFUSED_SQLSTATES = ("28", "3D")
# What the driver says when a new connection breaks while its codecs are set up: SQLAlchemy translates nothing there.
UNTRANSLATED_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)


class DatabaseUnavailable(UnavailableError):
    """The database is not answering; try again."""

    code = "database_unavailable"


class DatabaseRefused(AppError):
    """The database is not fit to serve from."""

    code = "database_refused"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Session(AsyncSession, DriverReader):
    """A session of SQLAlchemy, and the driver's connection for the statements that run most often.

    Both are in the same transaction. Those statements do not see what the ORM has not flushed yet.
    """

    def __init__(self, connection: AsyncConnection, driver: asyncpg.Connection) -> None:
        AsyncSession.__init__(self, connection, expire_on_commit=False)
        DriverReader.__init__(self, driver)


@dataclass(frozen=True, slots=True)
class Database:
    """A pool of connections as the plain role; only this module commits. ``returning_tasks`` hand connections back."""

    engine: AsyncEngine
    pool_shares: PoolShares
    returning_tasks: ReturningTasks = field(default_factory=set)

    @classmethod
    def connect(cls, url: str, *, pool_size: int) -> Self:
        """Prepare a pool; connections are made when they are needed."""
        engine = create_async_engine(
            to_sqlalchemy_url(url),
            # BEGIN and COMMIT are sent below: so the scope travels with BEGIN, in one round trip.
            isolation_level="AUTOCOMMIT",
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=POOL_TIMEOUT_SECONDS,
            pool_use_lifo=True,  # each keeps catalogue and functions in its own memory: the warmest first
            json_serializer=_to_json,
            hide_parameters=True,
            connect_args={"server_settings": SERVER_SETTINGS, "timeout": 5, "command_timeout": 120},
        )

        @event.listens_for(engine.sync_engine, "connect")
        def _register_codecs(connection: Any, _record: Any) -> None:
            connection.run_async(register_vector)

        @event.listens_for(engine.sync_engine, "reset")
        def _roll_back(connection: Any, _record: Any, state: Any) -> None:
            driver = connection.driver_connection
            if state.asyncio_safe and not driver.is_closed() and driver.is_in_transaction():
                connection.run_async(partial(finish_or_terminate, command="rollback"))

        return cls(engine, PoolShares.from_pool_size(2 * pool_size, timeout_seconds=POOL_TIMEOUT_SECONDS))

    @asynccontextmanager
    async def transaction(
        self,
        tenant_id: UUID | None,
        *,
        snapshot: bool | str = False,
        statement_timeout_seconds: float | None = None,
        allow_generic_plans: bool = False,
        expected_states: Mapping[UUID, str] | None = None,
    ) -> AsyncIterator[Session]:
        """One transaction scoped to the tenant; without one it sees no tenant's rows.

        With ``snapshot`` all its statements see the same moment: that of the other transaction whose
        ``export_snapshot`` it is, while that one lasts. The database gives up each that takes longer than
        ``statement_timeout_seconds``. ``allow_generic_plans`` is for reading by keys alone: such a statement costs more
        to plan than to run. ``expected_states`` are knowledge bases and the states that the transaction is to find them
        in: it begins with a look at them, in the same round trip. Raises StaleCacheError, DatabaseUnavailable, and
        DatabaseRefused for a login or a database that is not there.
        """
        with _translate_errors():
            # What is not committed is rolled back as the connection returns to the pool, also after a cancellation.
            begin_sql = build_begin_sql(
                tenant_id,
                snapshot=snapshot,
                statement_timeout_seconds=statement_timeout_seconds,
                allow_generic_plans=allow_generic_plans,
                expected_states=expected_states,
            )
            async with self._acquire_connection(begin_sql, tenant_id) as (connection, driver):
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
    async def read_transaction(
        self,
        tenant_id: UUID,
        *,
        snapshot: bool | str = False,
        statement_timeout_seconds: float | None = None,
        expected_states: Mapping[UUID, str] | None = None,
    ) -> AsyncIterator[DriverReader]:
        """A transaction for a few statements of the driver's that only read, by keys; its end is not waited for.

        Otherwise, and raises, as ``transaction``.
        """
        begin_sql = build_begin_sql(
            tenant_id,
            snapshot=snapshot,
            statement_timeout_seconds=statement_timeout_seconds,
            allow_generic_plans=True,
            expected_states=expected_states,
            read_only=True,
        )
        with _translate_errors(read_only=True):
            for _ in range(MAX_DEAD_CONNECTIONS):
                async with acquire_driver_connection(
                    self.engine, self.returning_tasks, await self._wait_for_share(tenant_id)
                ) as pooled:
                    driver, discard = pooled.driver_connection, partial(greenlet_spawn, pooled.invalidate)
                    if driver is not None and await try_begin(driver, begin_sql, discard=discard):
                        yield DriverReader(driver)
                        return
                    await discard()
            raise DatabaseUnavailable

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Session]:
        """For one statement that needs no tenant: without a transaction around it, one round trip instead of three.

        The setting of an earlier transaction ended with it, so no tenant's rows are seen. Raises as ``transaction``.
        """
        with _translate_errors():
            async with self._acquire_connection(None, None) as (connection, driver):
                session = Session(connection, driver)
                try:
                    yield session
                finally:
                    await session.close()

    @asynccontextmanager
    async def _acquire_connection(
        self, begin_sql: str | None, tenant_id: UUID | None
    ) -> AsyncIterator[tuple[AsyncConnection, asyncpg.Connection]]:
        """A connection that has answered ``begin_sql``; those that have died in the pool are left out.

        One that takes no writes does not come back to it.
        """
        for _ in range(MAX_DEAD_CONNECTIONS):
            async with acquire_connection(
                self.engine, self.returning_tasks, await self._wait_for_share(tenant_id)
            ) as connection:
                driver = _get_driver_connection(connection)
                if await try_begin(driver, begin_sql, discard=connection.invalidate):
                    try:
                        yield connection, driver
                    except DBAPIError as exc:
                        if _is_read_only_error(
                            exc
                        ):  # after a failover it leads to what was the primary, and would for ever
                            driver.terminate()
                            await connection.invalidate()
                        raise
                    return
                await connection.invalidate()
        raise DatabaseUnavailable

    async def _wait_for_share(self, tenant_id: UUID | None) -> ReleaseSlot:
        """Wait for the tenant's turn at the pool. Raises DatabaseUnavailable."""
        try:
            return await self.pool_shares.acquire(tenant_id)
        except TimeoutError as exc:
            raise DatabaseUnavailable(POOL_EXHAUSTED_MESSAGE) from exc

    @property
    def has_idle_capacity(self) -> bool:
        """Whether so few connections are lent that one caller may have two of them, and none will wait for it."""
        pool = self.engine.sync_engine.pool
        assert isinstance(pool, QueuePool)
        return pool.checkedout() <= pool.size() // 2

    async def check(self) -> None:
        """Refuse a role that no wall stops, an old server, and a schema that is not there or not whole.

        Raises DatabaseRefused, DatabaseUnavailable.
        """
        async with self.transaction(None) as session:
            row = (await session.execute(text(requirements.REQUIREMENTS_QUERY))).one()
        reason = requirements.find_unmet_requirement(
            row.role,
            version=row.version,
            pgvector=row.pgvector,
            privileged=row.privileged,
            migrated=row.migrated,
            earlier=row.earlier,
        )
        if reason is not None:
            raise DatabaseRefused(reason)

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*self.returning_tasks, return_exceptions=True)
        await self.engine.dispose()


def _get_driver_connection(connection: AsyncConnection) -> asyncpg.Connection:
    pooled = connection.sync_connection
    assert pooled is not None
    driver: asyncpg.Connection = pooled.connection.driver_connection
    return driver


def _is_read_only_error(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) == READ_ONLY_SQLSTATE


@contextmanager
def _translate_errors(*, read_only: bool = False) -> Iterator[None]:
    """The driver's errors as DatabaseUnavailable and DatabaseRefused; those of a statement stay what they are.

    A row over a quota is RowQuotaExceeded. With ``read_only`` the error of a write stays what it is: that is no outage.
    """
    try:
        yield
    except (OSError, InterfaceError, PoolTimeout, *UNTRANSLATED_ERRORS) as exc:
        raise DatabaseUnavailable from exc
    except DBAPIError as exc:
        state = str(getattr(exc.orig, "sqlstate", None) or "")
        if state == QUOTA_EXCEEDED_SQLSTATE:
            raise RowQuotaExceeded.from_database(exc) from exc
        if _is_read_only_error(exc) and not read_only:
            raise DatabaseUnavailable("The database only reads at present; try again.") from exc
        if exc.connection_invalidated or state.startswith(OUTAGE_SQLSTATES):
            raise DatabaseUnavailable from exc
        if state.startswith(REFUSED_SQLSTATES):
            raise DatabaseRefused(f"CARREL_DATABASE_URL: {getattr(exc.orig, '__cause__', None)}") from exc
        raise


@dataclass(frozen=True, slots=True)
class TenantDatabase:
    """The database as one tenant sees it; every transaction is to find what is in ``expected_states`` in that state."""

    database: Database
    tenant_id: UUID
    expected_states: Mapping[UUID, str] | None = None

    def transaction(
        self,
        *,
        snapshot: bool | str = False,
        statement_timeout_seconds: float | None = None,
        allow_generic_plans: bool = False,
    ) -> AbstractAsyncContextManager[Session]:
        """Commit at the end, roll back on an error. Raises DatabaseUnavailable, StaleCacheError."""
        return self.database.transaction(
            self.tenant_id,
            snapshot=snapshot,
            statement_timeout_seconds=statement_timeout_seconds,
            allow_generic_plans=allow_generic_plans,
            expected_states=self.expected_states,
        )

    def read_transaction(
        self, *, snapshot: bool | str = False, statement_timeout_seconds: float | None = None
    ) -> AbstractAsyncContextManager[DriverReader]:
        """Call ``Database.read_transaction`` for this tenant. Raises DatabaseUnavailable, StaleCacheError."""
        return self.database.read_transaction(
            self.tenant_id,
            snapshot=snapshot,
            statement_timeout_seconds=statement_timeout_seconds,
            expected_states=self.expected_states,
        )
