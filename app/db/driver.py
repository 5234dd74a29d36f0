"""The driver's own connection inside a transaction: how one begins, and the statements that run most often."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.statements import Record, Statement, parse_statement

STALE_CACHE_SQLSTATE = "U0001"  # as require_unchanged has it
QUOTA_EXCEEDED_SQLSTATE = "U0002"  # raised by the triggers of quotas of rows
# The last is what the driver says between the server's last word on a connection and the end of its stream.
CONNECTION_LOST_ERRORS = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError, asyncpg.InternalClientError)
_EXPORT_SNAPSHOT = parse_statement("select pg_export_snapshot()")


class StaleCacheError(Exception):
    """A knowledge base has changed since it was cached."""


class DriverReader:
    """Statements of one transaction, by the driver alone."""

    def __init__(self, driver: asyncpg.Connection) -> None:
        self._driver = driver

    async def fetch_rows(self, statement: Statement, values: Mapping[str, Any]) -> list[Record]:
        """Return the rows of a statement. Raises DBAPIError, IntegrityError."""
        try:
            records: list[Record] = await self._driver.fetch(statement.sql, *statement.order_arguments(values))
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise _to_sqlalchemy_error(statement, exc) from exc
        return records

    async def fetch_row(self, statement: Statement, values: Mapping[str, Any]) -> Record | None:
        """The first row, if there is one. Raises DBAPIError, IntegrityError."""
        records = await self.fetch_rows(statement, values)
        return records[0] if records else None

    async def fetch_batches(
        self, statement: Statement, values: Mapping[str, Any], *, batch_size: int
    ) -> AsyncIterator[Sequence[Record]]:
        """Yield the answer in batches of ``batch_size`` rows: no more of it is in memory. Raises DBAPIError."""
        try:
            cursor = await self._driver.cursor(statement.sql, *statement.order_arguments(values))
            while rows := await cursor.fetch(batch_size):
                yield rows
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise _to_sqlalchemy_error(statement, exc) from exc

    async def export_snapshot(self) -> str:
        """For another transaction that is to see what this one with a snapshot sees. Raises DBAPIError."""
        return str((await self.fetch_rows(_EXPORT_SNAPSHOT, {}))[0][0])


def _to_sqlalchemy_error(statement: Statement, error: Exception) -> DBAPIError:
    """One kind of error, whichever way a statement went; without the values, which are a tenant's."""
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
    """A transaction's first message, as ``Database.transaction`` has it; nothing of it is a caller's text."""
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
    if expected_states and not isinstance(snapshot, str):  # which the other transaction has looked at
        ids, states = (
            ", ".join(f"'{item}'" for item in column) for column in zip(*expected_states.items(), strict=True)
        )
        condition = f"; select require_unchanged('{tenant_id}', array[{ids}]::uuid[], array[{states}])"
    return f"begin{isolation}; {snapshot_sql}select {scope}{timeout_sql}{plans}{condition}"


async def try_begin(
    driver: asyncpg.Connection, begin_sql: str | None, *, discard: Callable[[], Awaitable[None]]
) -> bool:
    """False where the connection turns out to be dead, as all are after a restart of the server. Raises
    StaleCacheError.

    ``discard`` keeps it from coming back to the pool.
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
        if getattr(exc, "sqlstate", None) == STALE_CACHE_SQLSTATE:  # it has: that is rolled back as any other
            raise StaleCacheError from None
        driver.terminate()  # a polite end would wait for an answer again
        await discard()
        raise
    return True
