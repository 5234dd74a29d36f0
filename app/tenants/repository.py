"""Tenant and key queries."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, func, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.control_plane import ApiKey, Tenant


class TenantRepository:
    """One tenant's own row and keys; the session's scope decides which tenant that is."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session

    async def add(self, tenant: Tenant) -> Tenant:
        """Insert a tenant."""
        self.session.add(tenant)
        await self.session.flush()
        await self.session.refresh(tenant)
        return tenant

    async def get(self, tenant_id: UUID) -> Tenant | None:
        """The tenant, unless it is being deleted."""
        return await self.session.scalar(select(Tenant).where(Tenant.id == tenant_id, Tenant.deleted_at.is_(None)))

    async def rename(self, tenant_id: UUID, name: str) -> Tenant | None:
        """Give it another name."""
        statement = update(Tenant).where(Tenant.id == tenant_id, Tenant.deleted_at.is_(None)).values(name=name)
        return await self.session.scalar(statement.returning(Tenant))

    async def mark_deleted(self, tenant_id: UUID) -> bool:
        """Shut its keys out; True also when that was done before."""
        statement = (
            update(Tenant).where(Tenant.id == tenant_id).values(deleted_at=func.coalesce(Tenant.deleted_at, func.now()))
        )
        return (await self.session.scalar(statement.returning(Tenant.id))) is not None

    async def erase(self, tenant_id: UUID) -> None:
        """Remove every row of the tenant; what has no foreign key first, when nobody can add to it any more."""
        for table in ("knowledge_base", "document"):
            await self.session.execute(
                text(f"select from {table} where tenant_id = :id for update"),
                {"id": tenant_id},
            )
        for table in ("lex_df", "lex_totals"):
            await self.session.execute(text(f"delete from {table} where tenant_id = :id"), {"id": tenant_id})  # noqa: S608
        await self.session.execute(delete(Tenant).where(Tenant.id == tenant_id))

    async def add_key(self, key: ApiKey) -> ApiKey:
        """Insert a key."""
        self.session.add(key)
        await self.session.flush()
        await self.session.refresh(key)
        return key

    async def list_keys(self, tenant_id: UUID, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ApiKey]:
        """Keys that are not revoked, newest first."""
        statement = select(ApiKey).where(ApiKey.tenant_id == tenant_id, ApiKey.revoked_at.is_(None))
        if after is not None:
            statement = statement.where(tuple_(ApiKey.created_at, ApiKey.id) < after)
        statement = statement.order_by(ApiKey.created_at.desc(), ApiKey.id.desc()).limit(limit)
        return list(await self.session.scalars(statement))

    async def revoke_key(self, tenant_id: UUID, key_id: UUID) -> bool:
        """Make a key invalid from now on; False when there is no such valid key."""
        statement = (
            update(ApiKey)
            .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
            .values(revoked_at=func.now())
        )
        return (await self.session.scalar(statement.returning(ApiKey.id))) is not None
