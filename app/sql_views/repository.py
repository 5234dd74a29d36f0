"""Queries for SQL views of one tenant, with the rights of the application's role."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement
from app.sql_views.types import StoredSqlView


class SqlViewRepository:
    """Queries for the SQL views of one knowledge base."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self._params: dict[str, Any] = {"tenant": tenant_id, "kb": kb_id}

    async def add(self, sql_view_id: UUID, *, collection: str, content_key: str, verifier: str) -> bool:
        """Insert a SQL view. Return False if the knowledge base has one already."""
        values = {"id": sql_view_id, "collection": collection, "content_key": content_key, "verifier": verifier}
        return await self.session.fetch_row(_ADD, {**self._params, **values}) is not None

    async def is_keyword(self, word: str) -> bool:
        """Return whether a view with this name would need quotes in SQL."""
        return await self.session.fetch_row(_IS_KEYWORD, {"word": word}) is not None

    async def find(self) -> StoredSqlView | None:
        """Return the SQL view that is not revoked, or None."""
        row = await self.session.fetch_row(_FIND, self._params)
        return None if row is None else StoredSqlView(**row)

    async def revoke(self) -> UUID | None:
        """Revoke the SQL view, so that it is empty from now on. Return its id, or None if no view exists."""
        row = await self.session.fetch_row(_REVOKE, self._params)
        return None if row is None else row["id"]

    async def list_ids(self) -> list[UUID]:
        """Return the ids of all SQL views, including revoked SQL views that are not dropped yet."""
        return [row["id"] for row in await self.session.fetch_rows(_LIST_IDS, self._params)]

    async def set_skip_reason(self, sql_view_id: UUID, reason: str) -> None:
        """Record the reason why a view is not created."""
        await self.session.fetch_rows(_SET_SKIP_REASON, {**self._params, "id": sql_view_id, "reason": reason})

    async def delete_revoked(self, sql_view_ids: Sequence[UUID]) -> None:
        """Delete the rows of revoked SQL views. Their views and roles may still exist."""
        await self.session.fetch_rows(_DELETE_REVOKED, {**self._params, "ids": list(sql_view_ids)})

    async def is_allowed(self) -> bool:
        """Return whether the operator allows the tenant to create SQL views."""
        return await self.session.fetch_row(_IS_ALLOWED, {"tenant": self._params["tenant"]}) is not None

    async def remove_uncreated(self, sql_view_id: UUID) -> bool:
        """Delete a SQL view that was revoked before it was created. Return True if its row no longer exists."""
        await self.session.fetch_rows(_REMOVE_UNCREATED, {**self._params, "id": sql_view_id})
        return sql_view_id not in await self.list_ids()


async def count_roles(session: Session, logins: Sequence[str]) -> int:
    """Return the number of the login roles that exist in the database."""
    row = await session.fetch_row(_COUNT_ROLES, {"logins": list(logins)})
    return 0 if row is None else int(row["roles"])


_COUNT_ROLES = parse_statement("select count(*) as roles from pg_roles where rolname = any(:logins::text[])")
_IS_ALLOWED = parse_statement("select 1 from tenant where id = :tenant and sql_views")
_DELETE_REVOKED = parse_statement("""
delete from sql_view
 where tenant_id = :tenant and kb_id = :kb and id = any(:ids::uuid[]) and removed_at is not null""")
_IS_KEYWORD = parse_statement("select 1 from pg_get_keywords() where word = :word::text and catcode in ('R', 'T')")
_ADD = parse_statement("""
insert into sql_view (tenant_id, id, kb_id, collection, content_key, verifier)
values (:tenant, :id, :kb, :collection, :content_key, :verifier)
on conflict (tenant_id, kb_id) where removed_at is null do nothing returning 1""")
_FIND = parse_statement("""
select id, kb_id, collection, content_key, index_id is not null as is_ready, blocked_reason, created_at
  from sql_view where tenant_id = :tenant and kb_id = :kb and removed_at is null""")
_REVOKE = parse_statement("""
update sql_view set removed_at = now(), updated_at = now()
 where tenant_id = :tenant and kb_id = :kb and removed_at is null returning id""")
_LIST_IDS = parse_statement("select id from sql_view where tenant_id = :tenant and kb_id = :kb order by id")
_SET_SKIP_REASON = parse_statement("""
update sql_view set blocked_reason = :reason, updated_at = now()
 where tenant_id = :tenant and kb_id = :kb and id = :id and index_id is null""")
_REMOVE_UNCREATED = parse_statement("""
delete from sql_view
 where tenant_id = :tenant and kb_id = :kb and id = :id and removed_at is not null and index_id is null""")
