"""The driver's own connection inside a transaction: how one begins, and the statements that run most often."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.statements import Record, Statement, statement

OUTDATED = "U0001"  # as require_unchanged has it
OVER_QUOTA = "U0002"  # raised by the triggers of quotas of rows
# The last is what the driver says between the server's last word on a connection and the end of its stream.
DEAD = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError, asyncpg.InternalClientError)
_NAME_SNAPSHOT = statement("select pg_export_snapshot()")


class Outdated(Exception):
    """What a transaction was to find unchanged is another by now."""


class Reader:
    """Statements of one transaction, by the driver alone."""

    def __init__(self, driver: asyncpg.Connection) -> None:
        self._driver = driver

    async def rows(self, statement: Statement, values: Mapping[str, Any]) -> list[Record]:
        """What a statement answers. Raises DBAPIError, IntegrityError."""
        try:
            found: list[Record] = await self._driver.fetch(statement.sql, *statement.arguments(values))
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise _as_sqlalchemy(statement, exc) from exc
        return found

    async def row(self, statement: Statement, values: Mapping[str, Any]) -> Record | None:
        """The first row, if there is one. Raises DBAPIError, IntegrityError."""
        found = await self.rows(statement, values)
        return found[0] if found else None

    async def batches(
        self, statement: Statement, values: Mapping[str, Any], *, most: int
    ) -> AsyncIterator[Sequence[Record]]:
        """Yield the answer in batches of ``most`` rows: no more of it is in memory. Raises DBAPIError."""
        try:
            cursor = await self._driver.cursor(statement.sql, *statement.arguments(values))
            while rows := await cursor.fetch(most):
                yield rows
        except (asyncpg.PostgresError, asyncpg.DataError) as exc:
            raise _as_sqlalchemy(statement, exc) from exc

    async def name_snapshot(self) -> str:
        """For another transaction that is to see what this one with a snapshot sees. Raises DBAPIError."""
        return str((await self.rows(_NAME_SNAPSHOT, {}))[0][0])


def _as_sqlalchemy(statement: Statement, error: Exception) -> DBAPIError:
    """One kind of error, whichever way a statement went; without the values, which are a tenant's."""
    kind = IntegrityError if isinstance(error, asyncpg.IntegrityConstraintViolationError) else DBAPIError
    return kind(statement.sql, None, error, hide_parameters=True)


def beginning(
    tenant_id: UUID | None,
    *,
    snapshot: bool | str = False,
    seconds: float | None = None,
    kept_plans: bool = False,
    unchanged: Mapping[UUID, str] | None = None,
    reads: bool = False,
) -> str:
    """A transaction's first message, as ``Database.transaction`` has it; nothing of it is a caller's text."""
    isolation = (" isolation level repeatable read" if snapshot else "") + (" read only" if reads else "")
    scope = f"set_config('app.tenant_id', '{tenant_id or ''}', true)"
    limit = "" if seconds is None else f", set_config('statement_timeout', '{max(1, int(seconds * 1000))}', true)"
    plans = ", set_config('plan_cache_mode', 'auto', true)" if kept_plans else ""
    moment = f"set transaction snapshot '{snapshot}'; " if isinstance(snapshot, str) else ""
    condition = ""
    if unchanged and not isinstance(snapshot, str):  # which the other transaction has looked at
        ids, states = (", ".join(f"'{one}'" for one in column) for column in zip(*unchanged.items(), strict=True))
        condition = f"; select require_unchanged('{tenant_id}', array[{ids}]::uuid[], array[{states}])"
    return f"begin{isolation}; {moment}select {scope}{limit}{plans}{condition}"


async def begins(driver: asyncpg.Connection, begin: str | None, *, forget: Callable[[], Awaitable[None]]) -> bool:
    """False where the connection turns out to be dead, as all are after a restart of the server. Raises Outdated.

    ``forget`` keeps it from coming back to the pool.
    """
    if driver.is_closed():
        return False
    if begin is None:
        return True
    try:
        await driver.execute(begin)
    except DEAD:
        return False
    except BaseException as exc:  # it may have begun, and nobody would know
        if getattr(exc, "sqlstate", None) == OUTDATED:  # it has: that is rolled back as any other
            raise Outdated from None
        driver.terminate()  # a polite end would wait for an answer again
        await forget()
        raise
    return True
