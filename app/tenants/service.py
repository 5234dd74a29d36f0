"""Use cases that create, change and delete tenants, and that issue, rotate and revoke their keys."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import SERVICE_ACTOR, Actor, AuditAction, AuditEvent
from app.db.control_plane import ControlPlaneDatabase
from app.db.deletion_receipts import open_receipt
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane import ApiKeyRow, TenantRow
from app.db.models.control_plane_rows import ListedTenant
from app.db.session import Database, Session, TenantDatabase
from app.errors import InvalidInputError
from app.ids import derive_id, generate_id
from app.jobs.queue import BULK, JobQueue
from app.principal import UNLIMITED, Quotas, Role
from app.quotas.repository import QuotaRepository
from app.quotas.service import set_quotas
from app.quotas.types import QuotaExceeded
from app.tenants.auth.credential_cache import CredentialCache
from app.tenants.repository import TenantRepository
from app.tenants.types import (
    ApiKeyExpired,
    ApiKeyNotFound,
    ApiKeyReplaced,
    IssuedKey,
    ListedKey,
    TenantNotFound,
    generate_key,
    hash_key,
)


@dataclass(frozen=True, slots=True)
class TenantService:
    """Use cases of the operator for tenants.

    ``provision_tenant`` adds the initial contents of a new tenant, the default knowledge base.
    """

    DELETE_JOB: ClassVar[str] = "delete_tenant"

    database: Database
    control_plane: ControlPlaneDatabase
    queue: JobQueue
    credential_cache: CredentialCache
    provision_tenant: Callable[[Session, UUID], Awaitable[None]]
    default_quotas: Quotas = UNLIMITED

    async def create(
        self, name: str, *, quotas: Mapping[str, Any] | None = None, actor: Actor = SERVICE_ACTOR
    ) -> tuple[TenantRow, IssuedKey]:
        """Create a tenant with its first API key and its initial contents.

        Args:
            name: The name.
            quotas: Quotas that replace the default quotas, by name.
            actor: The author of the audit event.

        Returns:
            The tenant, and its first key with the role admin.
        """
        tenant_id = generate_id()
        effective_quotas = replace(self.default_quotas, **(quotas or {}))
        async with self.database.transaction(tenant_id) as session:
            repository = TenantRepository(session)
            tenant = await repository.add(TenantRow(id=tenant_id, name=name, quotas=effective_quotas.to_json()))
            if effective_quotas != UNLIMITED:
                await set_quotas(session, tenant_id, effective_quotas)
            issued = _create_key(tenant_id, name="first key", role=Role.ADMIN)
            await repository.add_key(issued.row)
            await self.provision_tenant(session, tenant_id)
            audit = AuditRepository(session, tenant_id)
            await audit.add(AuditEvent(AuditAction.TENANT_CREATE, [tenant_id]), actor)
            await audit.add(AuditEvent(AuditAction.KEY_CREATE, [issued.row.id]), actor)
        return tenant, issued

    async def get(self, tenant_id: UUID) -> TenantRow:
        """Return a tenant. Raises TenantNotFound."""
        async with self.database.transaction(tenant_id) as session:
            tenant = await TenantRepository(session).get(tenant_id)
        if tenant is None or tenant_id == SYSTEM_TENANT:
            raise TenantNotFound
        return tenant

    async def list_tenants(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedTenant]:
        """Return the tenants, newest first."""
        return await self.control_plane.list_tenants(after=after, limit=limit)

    async def update(
        self,
        tenant_id: UUID,
        *,
        name: str | None = None,
        quotas: Mapping[str, Any] | None = None,
        sql_views: bool | None = None,
        actor: Actor = SERVICE_ACTOR,
        check: Callable[[TenantRow], None] | None = None,
    ) -> TenantRow:
        """Change a tenant. None leaves a field unchanged.

        Args:
            tenant_id: The tenant.
            name: The new name.
            quotas: New quotas by name. A quota of None removes the limit.
            sql_views: Whether SQL views are allowed. If they are forbidden, existing SQL views are empty immediately.
            actor: The author of the audit event.
            check: Check of the stored tenant under its lock, before the change; None without one.

        Returns:
            The changed tenant.

        Raises:
            TenantNotFound: The tenant does not exist or is being deleted.
        """
        await self.get(tenant_id)
        async with self.database.transaction(tenant_id) as session:
            repository = TenantRepository(session)
            tenant = await repository.lock(tenant_id)
            if tenant is not None:
                if check is not None:
                    check(tenant)
                before = tenant.name, tenant.quotas, tenant.sql_views
                tenant.name = name or tenant.name
                tenant.sql_views = tenant.sql_views if sql_views is None else sql_views
                if quotas:
                    await self._set_quotas(session, tenant, quotas)
                if (tenant.name, tenant.quotas, tenant.sql_views) != before:
                    await AuditRepository(session, tenant_id).add(
                        AuditEvent(AuditAction.TENANT_UPDATE, [tenant_id]), actor
                    )
        self.credential_cache.invalidate(tenant_id)
        if tenant is None:
            raise TenantNotFound
        return tenant

    async def _set_quotas(self, session: Session, tenant: TenantRow, changes: Mapping[str, Any]) -> None:
        """Set quotas, and resume jobs that wait for a new token budget, because it may be larger now."""
        effective_quotas = replace(Quotas.from_json(tenant.quotas), **changes)
        await set_quotas(session, tenant.id, effective_quotas)
        tenant.quotas = effective_quotas.to_json()
        await self.queue.resume_jobs(session, tenant_id=tenant.id, code=QuotaExceeded.code)

    async def delete(self, tenant_id: UUID, *, actor: Actor = SERVICE_ACTOR) -> UUID:
        """Delete a tenant. Its keys are refused immediately, and a job of the system tenant removes its data.

        A repeated call returns the same deletion.

        Args:
            tenant_id: The tenant.
            actor: The author of the audit event.

        Returns:
            The id of the deletion.

        Raises:
            TenantNotFound: The tenant does not exist.
        """
        async with self.database.transaction(tenant_id) as session:
            counts = await TenantRepository(session).count_contents(tenant_id)
        if counts is None or tenant_id == SYSTEM_TENANT:
            raise TenantNotFound
        deletion = derive_id("deletion", tenant_id)
        # The job is enqueued first. If this process crashes after it, the job disables the tenant itself.
        async with self.database.transaction(SYSTEM_TENANT) as session:
            await open_receipt(
                session, SYSTEM_TENANT, deletion, kind="tenant", object_id=tenant_id, kb_id=None, counts=counts
            )
            payload = {"tenant_id": str(tenant_id), "deletion": str(deletion)}
            await self.queue.enqueue_unique(
                session, self.DELETE_JOB, subject_id=tenant_id, tenant_id=SYSTEM_TENANT, payload=payload, priority=BULK
            )
            event = AuditEvent(AuditAction.TENANT_DELETE, [tenant_id], deletion_id=deletion)
            await AuditRepository(session, SYSTEM_TENANT).add(event, actor)
        await self.disable(tenant_id)
        return deletion

    async def disable(self, tenant_id: UUID) -> None:
        """Refuse the tenant's keys from now on."""
        async with self.database.transaction(tenant_id) as session:
            await TenantRepository(session).mark_deleted(tenant_id)
        self.credential_cache.invalidate(tenant_id)

    async def purge(self, tenant_id: UUID) -> None:
        """Delete every row of a deleted tenant. The purge job calls this method."""
        async with self.database.transaction(tenant_id) as session:
            await TenantRepository(session).purge(tenant_id)


@dataclass(frozen=True, slots=True)
class KeyService:
    """Use cases of a tenant's admin for API keys."""

    db: TenantDatabase
    credential_cache: CredentialCache
    actor: Actor

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
        """Create an API key.

        Args:
            name: The name.
            role: The role.
            knowledge_base_ids: The knowledge bases that the key is restricted to. None allows all.
            user_id: The user that the key is restricted to, or None.
            expires_at: The end of its validity. None never expires.
            quotas: The quotas of the key.

        Returns:
            The key with its secret.

        Raises:
            InvalidInputError: ``expires_at`` is in the past.
        """
        if expires_at is not None and expires_at <= datetime.now(UTC):
            raise InvalidInputError("expires_at is in the past. Choose a later time.", loc=("body", "expires_at"))
        issued = _create_key(
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
            if quotas.has_storage_limit:
                await QuotaRepository(session, self.db.tenant_id).start_counting_key_storage(issued.row.id)
            await self._record(session, AuditAction.KEY_CREATE, issued.row.id)
        return issued

    async def list_keys(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ListedKey]:
        """Return keys that are valid or expired, newest first, without revoked keys."""
        async with self.db.transaction() as session:
            return await TenantRepository(session).list_keys(self.db.tenant_id, after=after, limit=limit)

    async def rotate(self, key_id: UUID, *, overlap: timedelta) -> IssuedKey:
        """Create a replacement of an API key with the same settings. The old key expires after ``overlap``.

        Args:
            key_id: The key to replace.
            overlap: The remaining validity of the old key, unless it expires earlier.

        Returns:
            The replacement with its secret.

        Raises:
            ApiKeyNotFound: The key does not exist or is revoked.
            ApiKeyReplaced: The key was rotated before.
            ApiKeyExpired: The key has expired.
        """
        async with self.db.transaction() as session:
            repository = TenantRepository(session)
            old, now = await repository.lock_key(self.db.tenant_id, key_id), await repository.get_current_time()
            if old is None:
                raise ApiKeyNotFound
            if old.replaced_by is not None:
                raise ApiKeyReplaced
            if old.expires_at is not None and old.expires_at <= now:
                raise ApiKeyExpired
            issued = _create_key(
                self.db.tenant_id,
                name=old.name,
                role=Role(old.role),
                knowledge_base_ids=old.knowledge_base_ids,
                user_id=old.user_id,
                expires_at=old.expires_at,
                quotas=Quotas.from_json(old.quotas),
                key_lineage_id=old.key_lineage_id or old.id,
            )
            await repository.add_key(issued.row)
            await self._record(session, AuditAction.KEY_ROTATE, key_id, issued.row.id)
            old.replaced_by = issued.row.id
            old.expires_at = now + overlap if old.expires_at is None else min(old.expires_at, now + overlap)
        self.credential_cache.invalidate(self.db.tenant_id)
        return issued

    async def revoke(self, key_id: UUID) -> None:
        """Revoke an API key. Every process refuses it from now on. Raises ApiKeyNotFound."""
        async with self.db.transaction() as session:
            if not await TenantRepository(session).revoke_key(self.db.tenant_id, key_id):
                raise ApiKeyNotFound
            await self._record(session, AuditAction.KEY_REVOKE, key_id)
        self.credential_cache.invalidate(self.db.tenant_id)

    async def _record(self, session: Session, action: AuditAction, *keys: UUID) -> None:
        await AuditRepository(session, self.db.tenant_id).add(AuditEvent(action, keys), self.actor)


def _create_key(
    tenant_id: UUID,
    *,
    name: str,
    role: Role,
    knowledge_base_ids: list[UUID] | None = None,
    user_id: str | None = None,
    expires_at: datetime | None = None,
    quotas: Quotas = UNLIMITED,
    key_lineage_id: UUID | None = None,
) -> IssuedKey:
    secret, key_id = generate_key(), generate_id()
    row = ApiKeyRow(
        tenant_id=tenant_id,
        id=key_id,
        name=name,
        role=role.value,
        key_hash=hash_key(secret),
        hint=secret[:11],
        knowledge_base_ids=knowledge_base_ids,
        user_id=user_id,
        expires_at=expires_at,
        quotas=quotas.to_json(),
        key_lineage_id=key_lineage_id or key_id,
    )
    return IssuedKey(row, secret)
