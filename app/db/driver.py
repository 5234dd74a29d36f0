"""Statements that run on the asyncpg connection of a transaction, and the SQL that begins a transaction."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.statements import Record, Statement, parse_statement

STALE_CACHE_SQLSTATE = "U0001"  # raised by the SQL function require_unchanged
QUOTA_EXCEEDED_SQLSTATE = "U0002"  # raised by the triggers of row quotas
# asyncpg raises InternalClientError if the server closes a connection between its last message and the end of the
# stream.
CONNECTION_LOST_ERRORS = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError, asyncpg.InternalClientError)
# The rollback also restores the time limit of statements.
_END_ATTEMPT = "rollback to savepoint attempt; release savepoint attempt"
_EXPORT_SNAPSHOT = parse_statement("select pg_export_snapshot()")


class StaleCacheError(Exception):
    """A knowledge base has changed since it was cached; read it again."""


class DriverReader:
    """Statements of one transaction, sent by asyncpg without SQLAlchemy."""

    def __init__(self, driver: asyncpg.Connection) -> None:
        self._driver = driver

    async def fetch_rows(self, statement: Statement, values: Mapping[str, Any]) -> list[Record]:
        """Return all rows of a statement.

        Raises:
            DBAPIError: The statement failed.
            IntegrityError: The statement violates a constraint.
        """
        try:
            records: list[Record] = await self._driver.fetch(statement.sql, *statement.order_arguments(values))
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise _to_sqlalchemy_error(statement, exc) from exc
        return records

    async def fetch_row(self, statement: Statement, values: Mapping[str, Any]) -> Record | None:
        """Return the first row of a statement, or None. Raises DBAPIError, IntegrityError."""
        records = await self.fetch_rows(statement, values)
        return records[0] if records else None

    async def fetch_batches(
        self, statement: Statement, values: Mapping[str, Any], *, batch_size: int
    ) -> AsyncIterator[Sequence[Record]]:
        """Yield the rows of a statement in batches, so that only one batch is in memory.

        Args:
            statement: The parsed SQL.
            values: Values of its parameters by name.
            batch_size: Maximum number of rows of a batch.

        Raises:
            DBAPIError: The statement failed.
        """
        try:
            cursor = await self._driver.cursor(statement.sql, *statement.order_arguments(values))
            while rows := await cursor.fetch(batch_size):
                yield rows
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise _to_sqlalchemy_error(statement, exc) from exc

    @asynccontextmanager
    async def savepoint(self, *, statement_timeout_seconds: float) -> AsyncIterator[None]:
        """Run reading statements that may fail without ending the transaction.

        If a statement fails, the transaction goes on, and the error is raised.

        Args:
            statement_timeout_seconds: Maximum time of each statement in the block.
        """
        timeout_ms = max(1, int(statement_timeout_seconds * 1000))
        await self._execute(f"savepoint attempt; set local statement_timeout = {timeout_ms}")
        try:
            yield
        except DBAPIError:
            await self._execute(_END_ATTEMPT)
            raise
        await self._execute(_END_ATTEMPT)

    async def _execute(self, sql: str) -> None:
        """Run constant statements without a result."""
        try:
            await self._driver.execute(sql)
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise DBAPIError(sql, None, exc, hide_parameters=True) from exc

    async def export_snapshot(self) -> str:
        """Return the id of this transaction's snapshot, with which another transaction sees the same data.

        Raises DBAPIError.
        """
        return str((await self.fetch_rows(_EXPORT_SNAPSHOT, {}))[0][0])


def _to_sqlalchemy_error(statement: Statement, error: Exception) -> DBAPIError:
    """Return SQLAlchemy's error for an error of asyncpg, without the values, because they belong to a tenant."""
    error_type = IntegrityError if isinstance(error, asyncpg.IntegrityConstraintViolationError) else DBAPIError
    return error_type(statement.sql, None, error, hide_parameters=True)


def build_begin_sql(
    tenant_id: UUID | None,
    *,
    snapshot: bool | str = False,
    statement_timeout_seconds: float | None = None,
    allow_generic_plans: bool = False,
    expected_states: Mapping[UUID, str] | None = None,
    read_only: bool = False,
) -> str:
    """Return the first message of a transaction: BEGIN, the tenant scope and the settings, in one round trip.

    The message contains only UUIDs, numbers and states, never text from a request.

    Args:
        tenant_id: Tenant of the scope; None sees no tenant's rows.
        snapshot: True for the isolation level repeatable read, or the id of an exported snapshot to use.
        statement_timeout_seconds: Maximum time of each statement; None means the server's default.
        allow_generic_plans: Whether Postgres may reuse plans that do not depend on the values.
        expected_states: Expected state of each knowledge base by its id. The transaction fails if one differs. If
            ``snapshot`` is an id, states are not compared: the exporting transaction has compared them.
        read_only: Whether the transaction refuses writes.
    """
    isolation = (" isolation level repeatable read" if snapshot else "") + (" read only" if read_only else "")
    scope = f"set_config('app.tenant_id', '{tenant_id or ''}', true)"
    timeout_sql = (
        ""
        if statement_timeout_seconds is None
        else f", set_config('statement_timeout', '{max(1, int(statement_timeout_seconds * 1000))}', true)"
    )
    plans = ", set_config('plan_cache_mode', 'auto', true)" if allow_generic_plans else ""
    snapshot_sql = f"set transaction snapshot '{snapshot}'; " if isinstance(snapshot, str) else ""
    condition = ""
    if expected_states and not isinstance(snapshot, str):  # the other transaction has compared them
        ids, states = (
            ", ".join(f"'{item}'" for item in column) for column in zip(*expected_states.items(), strict=True)
        )
        condition = f"; select require_unchanged('{tenant_id}', array[{ids}]::uuid[], array[{states}])"
    return f"begin{isolation}; {snapshot_sql}select {scope}{timeout_sql}{plans}{condition}"


async def try_begin(
    driver: asyncpg.Connection, begin_sql: str | None, *, discard: Callable[[], Awaitable[None]]
) -> bool:
    """Begin a transaction on a pooled connection.

    Args:
        driver: The connection.
        begin_sql: The text of ``build_begin_sql``; None begins no transaction.
        discard: Function that removes the connection from the pool.

    Returns:
        False if the connection is dead, for example after a restart of the server.

    Raises:
        StaleCacheError: A knowledge base is not in its expected state.
    """
    if driver.is_closed():
        return False
    if begin_sql is None:
        return True
    try:
        await driver.execute(begin_sql)
    except CONNECTION_LOST_ERRORS:
        return False
    except BaseException as exc:  # the transaction may have begun
        if getattr(exc, "sqlstate", None) == STALE_CACHE_SQLSTATE:  # it has begun: the caller rolls back
            raise StaleCacheError from None
        driver.terminate()  # an orderly close would wait for the server again
        await discard()
        raise
    return True
