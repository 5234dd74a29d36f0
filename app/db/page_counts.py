"""Count of all rows that a list has. All lists of the REST API count here.

The count runs in the transaction of the page and from the query of the page. Filters, scopes and row-level security
are therefore the same. Its time is bounded: if the count takes longer, the list has no total.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, func, literal, select
from sqlalchemy.exc import DBAPIError

from app.db.driver import DriverReader
from app.db.page_limits import PageLimit
from app.db.session import Session
from app.db.statements import Record, Statement

COUNT_TIMEOUT_SECONDS = 2.0
# SQLSTATE of a statement that was cancelled at its timeout.
_QUERY_CANCELED = "57014"
# A count needs neither the order nor the limit of the page.
_PAGE_END = re.compile(r"\border by [^()']*\blimit \$\d+\s*\Z")
# Parameters of the position at which a page begins. A count begins at the first row.
_POSITION_NAMES = frozenset({"after_time", "after_id", "at", "last_id"})


async def fetch_page(session: DriverReader, statement: Statement, values: Mapping[str, Any]) -> Sequence[Record]:
    """Return the rows of one page, and count all rows of the list if the limit requests it.

    Args:
        session: The transaction.
        statement: Query of the page; it ends with ``order by`` and ``limit :limit``.
        values: Values of its parameters; ``limit`` may be a ``PageLimit``.
    """
    limit = values["limit"]
    if isinstance(limit, PageLimit) and limit.needs_count:
        sql, removed = _PAGE_END.subn("", statement.sql)
        assert removed, statement.sql
        # Postgres must know the type of each parameter, also of the one that was removed.
        has_limit = f"${_find_number(statement, 'limit')}::bigint is not null"
        counted = f"select count(*) as total from ({sql}) counted where {has_limit}"  # noqa: S608  (constants)
        first = {**values, **dict.fromkeys(_POSITION_NAMES & values.keys())}
        limit.total = await _count(session, Statement(counted, statement.parameter_names), first)
    return await session.fetch_rows(statement, values)


async def count_rows(session: DriverReader, limit: int, statement: Statement, values: Mapping[str, Any]) -> None:
    """Set the total of a page's limit, if it requests a count.

    Args:
        session: The transaction.
        limit: Limit of the page.
        statement: Query with the column ``total``.
        values: Values of its parameters.
    """
    if isinstance(limit, PageLimit) and limit.needs_count:
        limit.total = await _count(session, statement, values)


async def count_selected(session: Session, limit: int, query: Select[*tuple[Any, ...]]) -> None:
    """Set the total of a page's limit, if it requests a count.

    Args:
        session: The transaction.
        limit: Limit of the page.
        query: Query of the list, without position, order and limit.
    """
    if not isinstance(limit, PageLimit) or not limit.needs_count:
        return
    rows = query.with_only_columns(literal(1), maintain_column_froms=True).order_by(None).subquery()
    try:
        async with session.savepoint(statement_timeout_seconds=COUNT_TIMEOUT_SECONDS):
            limit.total = int(await session.scalar(select(func.count()).select_from(rows)) or 0)
    except DBAPIError as exc:
        _raise_unless_canceled(exc)


async def _count(session: DriverReader, statement: Statement, values: Mapping[str, Any]) -> int | None:
    try:
        async with session.savepoint(statement_timeout_seconds=COUNT_TIMEOUT_SECONDS):
            row = await session.fetch_row(statement, values)
    except DBAPIError as exc:
        _raise_unless_canceled(exc)
        return None
    assert row is not None
    return int(row["total"])


def _raise_unless_canceled(error: DBAPIError) -> None:
    """Raise an error that is no timeout of a statement. Raises DBAPIError."""
    if getattr(error.orig, "sqlstate", None) != _QUERY_CANCELED:
        raise error


def _find_number(statement: Statement, name: str) -> int:
    """Return the number of a parameter in the SQL of a statement."""
    return statement.parameter_names.index(name) + 1
