"""Create and remove tenants; issue, rotate and revoke their keys."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from app.access import UNLIMITED, Quotas, Role
from app.audit.repository import AuditRepository
from app.audit.types import SERVICE, Action, Actor, Event
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane import ApiKey, Tenant
from app.db.models.control_rows import ListedTenant
from app.db.receipts import open_receipt
from app.db.session import Database, Session, TenantDatabase
from app.db.system import SystemDatabase
from app.errors import InvalidInput
from app.ids import derived_id, new_id
from app.job_queue import BULK, JobQueue
from app.quotas.repository import QuotaRepository
from app.quotas.service import set_quotas
from app.quotas.types import QuotaExceeded
from app.tenants.known_keys import KnownKeys
from app.tenants.repository import TenantRepository
from app.tenants.types import (
    ApiKeyExpired,
    ApiKeyNotFound,
    ApiKeyReplaced,
    IssuedKey,
    ListedKey,
    TenantNotFound,
    key_hash,
    new_key,
)


@dataclass(frozen=True, slots=True)
class TenantService:
    """What the operator can do with tenants."""

    DELETE_JOB: ClassVar[str] = "delete_tenant"

    database: Database
    system: SystemDatabase
    queue: JobQueue
    known: KnownKeys
    furnish: Callable[[Session, UUID], Awaitable[None]]
    default_quotas: Quotas = UNLIMITED

    async def create(
        self, name: str, *, quotas: Mapping[str, Any] | None = None, by: Actor = SERVICE
    ) -> tuple[Tenant, IssuedKey]:
        """A tenant, its first key and what ``furnish`` adds (the default knowledge base), in one transaction."""
        tenant_id = new_id()
        allowed = replace(self.default_quotas, **(quotas or {}))
        async with self.database.transaction(tenant_id) as session:
            repository = TenantRepository(session)
            tenant = await repository.add(Tenant(id=tenant_id, name=name, quotas=allowed.given()))
            if allowed != UNLIMITED:
                await set_quotas(session, tenant_id, allowed)
            issued = _make_key(tenant_id, name="first key", role=Role.ADMIN)
            await repository.add_key(issued.row)
            await self.furnish(session, tenant_id)
            audit = AuditRepository(session, tenant_id)
            await audit.add(Event(Action.TENANT_CREATE, [tenant_id]), by)
            await audit.add(Event(Action.KEY_CREATE, [issued.row.id]), by)
        return tenant, issued

    async def get(self, tenant_id: UUID) -> Tenant:
        """Raises TenantNotFound."""
        async with self.database.transaction(tenant_id) as session:
            tenant = await TenantRepository(session).get(tenant_id)
        if tenant is None or tenant_id == SYSTEM_TENANT:
            raise TenantNotFound
        return tenant

    async def page(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedTenant]:
        """Newest first."""
        return await self.system.list_tenants(after=after, limit=limit)

    async def update(
        self,
        tenant_id: UUID,
        *,
        name: str | None = None,
        quotas: Mapping[str, Any] | None = None,
        sql_views: bool | None = None,
        by: Actor = SERVICE,
    ) -> Tenant:
        """Another name, other quotas, those alone that are named; None is without a limit. Raises TenantNotFound.

        ``sql_views`` allows or forbids SQL views; where they are forbidden, those that exist are empty at once.
        """
        await self.get(tenant_id)
        async with self.database.transaction(tenant_id) as session:
            repository = TenantRepository(session)
            tenant = await repository.lock(tenant_id)
            if tenant is not None:
                before = tenant.name, tenant.quotas, tenant.sql_views
                tenant.name = name or tenant.name
                tenant.sql_views = tenant.sql_views if sql_views is None else sql_views
                if quotas:
                    await self._set_quotas(session, tenant, quotas)
                if (tenant.name, tenant.quotas, tenant.sql_views) != before:
                    await AuditRepository(session, tenant_id).add(Event(Action.TENANT_UPDATE, [tenant_id]), by)
        self.known.forget(tenant_id)
        if tenant is None:
            raise TenantNotFound
        return tenant

    async def _set_quotas(self, session: Session, tenant: Tenant, changes: Mapping[str, Any]) -> None:
        """What waits for another day's tokens is tried again at once: there may be more of them now."""
        allowed = replace(Quotas.stored(tenant.quotas), **changes)
        await set_quotas(session, tenant.id, allowed)
        tenant.quotas = allowed.given()
        await self.queue.resume(session, tenant_id=tenant.id, code=QuotaExceeded.code)

    async def delete(self, tenant_id: UUID, *, by: Actor = SERVICE) -> UUID:
        """Shut its keys out at once; a job of the system tenant removes all it has. Returns the deletion's id.

        Asked again before that is done, it is the same deletion. Raises TenantNotFound.
        """
        async with self.database.transaction(tenant_id) as session:
            amount = await TenantRepository(session).amount(tenant_id)
        if amount is None or tenant_id == SYSTEM_TENANT:
            raise TenantNotFound
        deletion = derived_id("deletion", tenant_id)
        # First the job: after a crash it shuts the tenant out itself.
        async with self.database.transaction(SYSTEM_TENANT) as session:
            await open_receipt(
                session, SYSTEM_TENANT, deletion, kind="tenant", object_id=tenant_id, kb_id=None, amount=amount
            )
            payload = {"tenant_id": str(tenant_id), "deletion": str(deletion)}
            await self.queue.enqueue_once(
                session, self.DELETE_JOB, about=tenant_id, tenant_id=SYSTEM_TENANT, payload=payload, priority=BULK
            )
            event = Event(Action.TENANT_DELETE, [tenant_id], deletion_id=deletion)
            await AuditRepository(session, SYSTEM_TENANT).add(event, by)
        await self.shut_out(tenant_id)
        return deletion

    async def shut_out(self, tenant_id: UUID) -> None:
        """Its keys open nothing from now on."""
        async with self.database.transaction(tenant_id) as session:
            await TenantRepository(session).mark_deleted(tenant_id)
        self.known.forget(tenant_id)

    async def erase(self, tenant_id: UUID) -> None:
        """Remove every row of a tenant that was deleted; for the job."""
        async with self.database.transaction(tenant_id) as session:
            await TenantRepository(session).erase(tenant_id)


@dataclass(frozen=True, slots=True)
class KeyService:
    """What a tenant's admin can do with its keys."""

    db: TenantDatabase
    known: KnownKeys
    by: Actor

    async def issue(
        self,
        name: str,
        role: Role,
        *,
        knowledge_base_ids: list[UUID] | None = None,
        user_id: str | None = None,
        expires_at: datetime | None = None,
        quotas: Quotas = UNLIMITED,
    ) -> IssuedKey:
        """Make a key. Raises InvalidInput for an expiry in the past."""
        if expires_at is not None and expires_at <= datetime.now(UTC):
            raise InvalidInput("expires_at lies in the past.", loc=("body", "expires_at"))
        issued = _make_key(
            self.db.tenant_id,
            name=name,
            role=role,
            knowledge_base_ids=knowledge_base_ids,
            user_id=user_id,
            expires_at=expires_at,
            quotas=quotas,
        )
        async with self.db.transaction() as session:
            await TenantRepository(session).add_key(issued.row)
            if quotas.counts_documents:
                await QuotaRepository(session, self.db.tenant_id).begin_counting_key(issued.row.id)
            await self._record(session, Action.KEY_CREATE, issued.row.id)
        return issued

    async def page(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedKey]:
        """Valid and expired keys, newest first; revoked ones are gone."""
        async with self.db.transaction() as session:
            return await TenantRepository(session).list_keys(self.db.tenant_id, after=after, limit=limit)

    async def rotate(self, key_id: UUID, *, overlap: timedelta) -> IssuedKey:
        """A key that may do what the old one may and ends when it would have; the old one ends after ``overlap``.

        Raises ApiKeyNotFound, ApiKeyReplaced, ApiKeyExpired.
        """
        async with self.db.transaction() as session:
            repository = TenantRepository(session)
            old, now = await repository.lock_key(self.db.tenant_id, key_id), await repository.now()
            if old is None:
                raise ApiKeyNotFound
            if old.replaced_by is not None:
                raise ApiKeyReplaced
            if old.expires_at is not None and old.expires_at <= now:
                raise ApiKeyExpired
            issued = _make_key(
                self.db.tenant_id,
                name=old.name,
                role=Role(old.role),
                knowledge_base_ids=old.knowledge_base_ids,
                user_id=old.user_id,
                expires_at=old.expires_at,
                quotas=Quotas.stored(old.quotas),
                line_id=old.line_id or old.id,
            )
            await repository.add_key(issued.row)
            await self._record(session, Action.KEY_ROTATE, key_id, issued.row.id)
            old.replaced_by = issued.row.id
            old.expires_at = now + overlap if old.expires_at is None else min(old.expires_at, now + overlap)
        self.known.forget(self.db.tenant_id)
        return issued

    async def revoke(self, key_id: UUID) -> None:
        """From now on the key is refused, everywhere. Raises ApiKeyNotFound."""
        async with self.db.transaction() as session:
            if not await TenantRepository(session).revoke_key(self.db.tenant_id, key_id):
                raise ApiKeyNotFound
            await self._record(session, Action.KEY_REVOKE, key_id)
        self.known.forget(self.db.tenant_id)

    async def _record(self, session: Session, action: Action, *keys: UUID) -> None:
        await AuditRepository(session, self.db.tenant_id).add(Event(action, keys), self.by)


def _make_key(
    tenant_id: UUID,
    *,
    name: str,
    role: Role,
    knowledge_base_ids: list[UUID] | None = None,
    user_id: str | None = None,
    expires_at: datetime | None = None,
    quotas: Quotas = UNLIMITED,
    line_id: UUID | None = None,
) -> IssuedKey:
    secret, key_id = new_key(), new_id()
    row = ApiKey(
        tenant_id=tenant_id,
        id=key_id,
        name=name,
        role=role.value,
        key_hash=key_hash(secret),
        hint=secret[:11],
        knowledge_base_ids=knowledge_base_ids,
        user_id=user_id,
        expires_at=expires_at,
        quotas=quotas.given(),
        line_id=line_id or key_id,
    )
    return IssuedKey(row, secret)
