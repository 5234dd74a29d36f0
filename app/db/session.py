"""Database connections and transactions. The first statement of each transaction sets the tenant scope."""

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

# A reused plan could be made before a table has statistics; checks of foreign keys then read all rows of a tenant.
# Transactions that only read may allow generic plans (ADR 0007). JIT compilation costs more than our queries.
SERVER_SETTINGS = {
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
    "application_name": "carrel",
    # A frozen process, or a lost machine, keeps its locks for at most this time. A transaction waits only for the
    # database.
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
# The maximum number of dead connections that a transaction takes from the pool before it gives up.
MAX_DEAD_CONNECTIONS = 200
# Maximum time that a transaction waits for its tenant's share of the pool, and then for a connection.
POOL_TIMEOUT_SECONDS = 10
POOL_EXHAUSTED_MESSAGE = (
    "This tenant uses all database connections that one tenant may use; send fewer requests at once."
)
# SQLSTATE classes of outages: connection lost, resources exhausted, server shutting down or starting up. READ_ONLY
# means a failover or a full disk. REFUSED means a wrong password or no such database.
OUTAGE_SQLSTATES = ("08", "53", "57P0")
READ_ONLY_SQLSTATE = "25006"
REFUSED_SQLSTATES = ("28", "3D")
# Errors of asyncpg when a new connection breaks during the setup of its codecs. SQLAlchemy does not translate them.
UNTRANSLATED_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)


class DatabaseUnavailable(UnavailableError):
    """The database does not answer; try again."""

    code = "database_unavailable"


class DatabaseRefused(AppError):
    """The database is not safe to serve from; check its login and schema."""

    code = "database_refused"


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Session(AsyncSession, DriverReader):
    """A SQLAlchemy session that can also send statements through asyncpg, in the same transaction.

    Statements sent through asyncpg do not see changes that the session has not flushed.
    """

    def __init__(self, connection: AsyncConnection, driver: asyncpg.Connection) -> None:
        AsyncSession.__init__(self, connection, expire_on_commit=False)
        DriverReader.__init__(self, driver)


@dataclass(frozen=True, slots=True)
class Database:
    """A pool of connections with the service's role, which owns no tables. Only this module commits.

    ``returning_tasks`` are the running tasks that return connections to the pool.
    """

    engine: AsyncEngine
    pool_shares: PoolShares
    returning_tasks: ReturningTasks = field(default_factory=set)

    @classmethod
    def connect(cls, url: str, *, pool_size: int) -> Self:
        """Create a pool without connecting. Connections open on demand.

        Args:
            url: URL with the login of the service's role, which owns no tables.
            pool_size: Number of connections that stay open. Twice as many may be open at the same time.
        """
        engine = create_async_engine(
            to_sqlalchemy_url(url),
            # This module sends BEGIN and COMMIT, so that the tenant scope is set in the same round trip as BEGIN.
            isolation_level="AUTOCOMMIT",
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=POOL_TIMEOUT_SECONDS,
            pool_use_lifo=True,  # each connection caches the catalogue: prefer the last used one
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
        """Begin a transaction scoped to a tenant, and commit at the end of the block. An error rolls back.

        Args:
            tenant_id: Tenant of the scope; None sees no tenant's rows.
            snapshot: If True, all statements read one snapshot. If it is the id of an exported snapshot, they read that
                snapshot; the exporting transaction must still be open.
            statement_timeout_seconds: Maximum time of each statement; None means the server's default.
            allow_generic_plans: Whether Postgres may reuse plans. Useful for reads by key, which cost more to plan than
                to run.
            expected_states: Expected state of each knowledge base by its id, compared in the first round trip.

        Yields:
            The session.

        Raises:
            StaleCacheError: A knowledge base is not in its expected state.
            DatabaseUnavailable: The database does not answer.
            DatabaseRefused: The login or the database does not exist.
            RowQuotaExceeded: A new row exceeds a quota of the tenant.
        """
        with _translate_errors():
            # Uncommitted work is rolled back when the connection returns to the pool, also after a cancellation.
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
        """Begin a transaction for a few reads by key, sent through asyncpg. The caller does not wait for its end.

        The arguments and errors are documented in ``Database.transaction``.

        Yields:
            The reader of the transaction.
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
        """Yield a session for one statement without a tenant: one round trip instead of three.

        The scope of an earlier transaction ended with that transaction, so no tenant's rows are visible. Raises the
        errors of ``Database.transaction``.
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
        """Yield a connection on which ``begin_sql`` has run. Dead connections of the pool are discarded.

        A connection that refuses writes is discarded too.
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
                        if _is_read_only_error(exc):  # the connection leads to a former primary, and would for ever
                            driver.terminate()
                            await connection.invalidate()
                        raise
                    return
                await connection.invalidate()
        raise DatabaseUnavailable

    async def _wait_for_share(self, tenant_id: UUID | None) -> ReleaseSlot:
        """Wait for a slot of the tenant in the pool. Raises DatabaseUnavailable."""
        try:
            return await self.pool_shares.acquire(tenant_id)
        except TimeoutError as exc:
            raise DatabaseUnavailable(POOL_EXHAUSTED_MESSAGE) from exc

    @property
    def has_idle_capacity(self) -> bool:
        """Whether at most half of the pool is in use, so that one caller may use two connections without delaying
        others.
        """
        pool = self.engine.sync_engine.pool
        assert isinstance(pool, QueuePool)
        return pool.checkedout() <= pool.size() // 2

    async def check(self) -> None:
        """Check the version of Postgres and pgvector, the rights of the role, and the schema.

        Raises:
            DatabaseRefused: The service cannot use the database; the message names the reason.
            DatabaseUnavailable: The database does not answer.
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
    """Raise DatabaseUnavailable, DatabaseRefused or RowQuotaExceeded for errors of connections and quotas.

    Other errors of statements pass unchanged. With ``read_only``, the error of a write is no outage and passes too.
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
            raise DatabaseUnavailable("The database accepts no writes at present; try again.") from exc
        if exc.connection_invalidated or state.startswith(OUTAGE_SQLSTATES):
            raise DatabaseUnavailable from exc
        if state.startswith(REFUSED_SQLSTATES):
            raise DatabaseRefused(f"CARREL_DATABASE_URL: {getattr(exc.orig, '__cause__', None)}") from exc
        raise


@dataclass(frozen=True, slots=True)
class TenantDatabase:
    """The database in the scope of one tenant.

    Every transaction compares the knowledge bases in ``expected_states`` with their expected states.
    """

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
        """Begin a transaction of this tenant: commit at the end of the block, roll back on an error.

        Args:
            snapshot: True, or the id of an exported snapshot, as in ``Database.transaction``.
            statement_timeout_seconds: Maximum time of each statement; None means the server's default.
            allow_generic_plans: Whether Postgres may reuse plans that do not depend on the values.

        Raises:
            DatabaseUnavailable: The database does not answer.
            StaleCacheError: A knowledge base is not in its expected state.
        """
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
