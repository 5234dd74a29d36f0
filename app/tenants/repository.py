"""Queries for tenants and their API keys."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, func, select, text, tuple_, update

from app.db.deletion_receipts import DeletedCounts
from app.db.models.control_plane import ApiKeyRow, ApiKeyUse, TenantRow
from app.db.page_counts import count_selected
from app.db.session import Session
from app.db.statements import parse_statement
from app.tenants.types import ListedKey

# Ids that are no keys of the tenant are skipped: a token's id, and a key that was deleted in between.
_RECORD_USES = parse_statement("""
insert into api_key_use as u (tenant_id, key_id, last_used_at)
select k.tenant_id, k.id, used.at
  from unnest(:ids::uuid[], :times::timestamptz[]) used(id, at)
 cross join lateral (select tenant_id, id from api_key where tenant_id = :tenant and id = used.id offset 0) k
 on conflict (tenant_id, key_id) do update set last_used_at = greatest(u.last_used_at, excluded.last_used_at)""")

# The most recently ended keys stay, so that usage by key shows their names. A key also stays while its stored documents
# are counted, or while a key that rotation created from it is valid.
_REMOVE_ENDED = parse_statement("""
delete from api_key k using (
  select e.id from api_key e
   where e.tenant_id = :tenant and (e.revoked_at is not null or e.expires_at <= now())
   order by coalesce(e.revoked_at, e.expires_at) desc offset :max_ended_keys) ended
 where k.tenant_id = :tenant and k.id = ended.id
   and not exists (select from key_usage u where u.tenant_id = k.tenant_id and u.key_id = k.id)
   and not exists (select from api_key l where l.tenant_id = k.tenant_id and l.key_lineage_id = k.id and l.id <> k.id
                      and l.revoked_at is null and (l.expires_at is null or l.expires_at > now()))""")
ENDED_KEYS = 1000

_COUNT_CONTENTS = parse_statement("""
select d.* from tenant t
 cross join lateral (
   select count(*) as documents, coalesce(sum(chunk_count), 0)::bigint as chunks,
          coalesce(sum(bytes), 0)::bigint as bytes
     from document where tenant_id = :tenant) d
 where t.id = :tenant""")


class TenantRepository:
    """Queries for one tenant's row and keys. The session's tenant scope decides which tenant can be read."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def add(self, tenant: TenantRow) -> TenantRow:
        """Insert a tenant."""
        self.session.add(tenant)
        await self.session.flush()
        await self.session.refresh(tenant)
        return tenant

    async def get(self, tenant_id: UUID) -> TenantRow | None:
        """Return the tenant, or None while it is being deleted."""
        return await self.session.scalar(
            select(TenantRow).where(TenantRow.id == tenant_id, TenantRow.deleted_at.is_(None))
        )

    async def lock(self, tenant_id: UUID) -> TenantRow | None:
        """Return the tenant and lock it against changes until the transaction ends; rows can still be added to it."""
        query = select(TenantRow).where(TenantRow.id == tenant_id, TenantRow.deleted_at.is_(None))
        return await self.session.scalar(query.with_for_update(key_share=True))

    async def count_contents(self, tenant_id: UUID) -> DeletedCounts | None:
        """Count the contents of a tenant, also while it is being deleted; None if it does not exist."""
        row = await self.session.fetch_row(_COUNT_CONTENTS, {"tenant": tenant_id})
        return None if row is None else DeletedCounts(**row)

    async def mark_deleted(self, tenant_id: UUID) -> bool:
        """Mark a tenant as deleted, so that its keys are refused.

        Args:
            tenant_id: The tenant.

        Returns:
            Whether the tenant exists. An earlier mark stays.
        """
        statement = (
            update(TenantRow)
            .where(TenantRow.id == tenant_id)
            .values(deleted_at=func.coalesce(TenantRow.deleted_at, func.now()))
        )
        return (await self.session.scalar(statement.returning(TenantRow.id))) is not None

    async def purge(self, tenant_id: UUID) -> None:
        """Delete every row of a tenant. Rows without a foreign key are deleted while locks prevent new rows.

        Args:
            tenant_id: The tenant.
        """
        for table in ("knowledge_base", "document"):
            await self.session.execute(
                text(f"select from {table} where tenant_id = :id for update"),
                {"id": tenant_id},
            )
        for table in (
            "term_document_frequency", "index_totals", "private_frequency", "entity", "private_entity_frequency"
        ):  # fmt: skip
            await self.session.execute(text(f"delete from {table} where tenant_id = :id"), {"id": tenant_id})  # noqa: S608
        await self.session.execute(delete(TenantRow).where(TenantRow.id == tenant_id))

    async def add_key(self, key: ApiKeyRow) -> ApiKeyRow:
        """Insert a key, and remove the rows of keys that ended long ago. Raises RowQuotaExceeded."""
        await self.session.fetch_rows(_REMOVE_ENDED, {"tenant": key.tenant_id, "max_ended_keys": ENDED_KEYS})
        self.session.add(key)
        await self.session.flush()
        await self.session.refresh(key)
        return key

    async def list_keys(self, tenant_id: UUID, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedKey]:
        """List keys that are not revoked, newest first.

        Args:
            tenant_id: The tenant.
            after: Creation time and id of the last key of the previous page, or None.
            limit: The maximum number of keys.

        Returns:
            The keys with the time of their last use.
        """
        used = (ApiKeyUse.tenant_id == ApiKeyRow.tenant_id) & (ApiKeyUse.key_id == ApiKeyRow.id)
        query = select(ApiKeyRow, ApiKeyUse.last_used_at).outerjoin(ApiKeyUse, used)
        query = query.where(ApiKeyRow.tenant_id == tenant_id, ApiKeyRow.revoked_at.is_(None))
        await count_selected(self.session, limit, query)
        if after is not None:
            query = query.where(tuple_(ApiKeyRow.created_at, ApiKeyRow.id) < after)
        rows = await self.session.execute(query.order_by(ApiKeyRow.created_at.desc(), ApiKeyRow.id.desc()).limit(limit))
        return [ListedKey(row, last_used_at) for row, last_used_at in rows]

    async def lock_key(self, tenant_id: UUID, key_id: UUID) -> ApiKeyRow | None:
        """Return a key that is not revoked, and lock it until the transaction ends."""
        query = select(ApiKeyRow).where(
            ApiKeyRow.tenant_id == tenant_id, ApiKeyRow.id == key_id, ApiKeyRow.revoked_at.is_(None)
        )
        return await self.session.scalar(query.with_for_update())

    async def find_key_including_revoked(self, tenant_id: UUID, key_id: UUID) -> ApiKeyRow | None:
        """Return a key, even if the key is revoked."""
        return await self.session.scalar(
            select(ApiKeyRow).where(ApiKeyRow.tenant_id == tenant_id, ApiKeyRow.id == key_id)
        )

    async def get_current_time(self) -> datetime:
        """Return the time of this transaction by the database's clock, which decides when keys expire."""
        return (await self.session.execute(select(func.now()))).scalar_one()

    async def record_uses(self, tenant_id: UUID, uses: Mapping[UUID, datetime]) -> None:
        """Store the last use of each key."""
        values = {"tenant": tenant_id, "ids": list(uses), "times": list(uses.values())}
        await self.session.fetch_rows(_RECORD_USES, values)

    async def revoke_key(self, tenant_id: UUID, key_id: UUID) -> bool:
        """Revoke a key.

        Args:
            tenant_id: The tenant.
            key_id: The key.

        Returns:
            False if the tenant has no such key, or the key was revoked before.
        """
        statement = (
            update(ApiKeyRow)
            .where(ApiKeyRow.tenant_id == tenant_id, ApiKeyRow.id == key_id, ApiKeyRow.revoked_at.is_(None))
            .values(revoked_at=func.now())
        )
        return (await self.session.scalar(statement.returning(ApiKeyRow.id))) is not None
