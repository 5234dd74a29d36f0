"""Create and remove tenants, issue and revoke keys, and tell who is calling."""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar
from uuid import UUID

from app.access import Principal, Role
from app.db.models.base import SYSTEM_TENANT
from app.db.models.control_plane import ApiKey, Tenant
from app.db.models.control_rows import ListedTenant
from app.db.session import Database, Session, TenantDatabase
from app.db.system import SystemDatabase
from app.errors import InvalidInput, Unauthorized
from app.ids import new_id
from app.job_queue import JobQueue
from app.tenants.known_keys import KnownKeys
from app.tenants.repository import TenantRepository
from app.tenants.types import ApiKeyNotFound, TenantNotFound, key_hash, looks_like_key, new_key


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; ``secret`` is shown once and stored nowhere."""

    row: ApiKey
    secret: str


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Tells who is calling from the key alone."""

    known: KnownKeys
    operator_key_hash: bytes

    async def authenticate(self, token: str) -> Principal:
        """Raises Unauthorized for a key that is not valid now; the reason is not told."""
        digest = key_hash(token)
        if hmac.compare_digest(digest, self.operator_key_hash):
            return Principal(SYSTEM_TENANT, "system", Role.OPERATOR)
        principal = await self.known.find(digest) if looks_like_key(token) else None
        if principal is None:
            raise Unauthorized("The API key is not valid.")
        return principal


@dataclass(frozen=True, slots=True)
class TenantService:
    """What the operator can do with tenants."""

    DELETE_JOB: ClassVar[str] = "delete_tenant"

    database: Database
    system: SystemDatabase
    queue: JobQueue
    known: KnownKeys
    furnish: Callable[[Session, UUID], Awaitable[None]]

    async def create(self, name: str) -> tuple[Tenant, IssuedKey]:
        """A tenant, its first key and what ``furnish`` adds (the default knowledge base), in one transaction."""
        tenant_id = new_id()
        async with self.database.transaction(tenant_id) as session:
            repository = TenantRepository(session)
            tenant = await repository.add(Tenant(id=tenant_id, name=name))
            issued = _make_key(tenant_id, name="first key", role=Role.ADMIN)
            await repository.add_key(issued.row)
            await self.furnish(session, tenant_id)
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

    async def rename(self, tenant_id: UUID, name: str) -> Tenant:
        """Raises TenantNotFound."""
        await self.get(tenant_id)
        async with self.database.transaction(tenant_id) as session:
            tenant = await TenantRepository(session).rename(tenant_id, name)
        self.known.forget(tenant_id)
        if tenant is None:
            raise TenantNotFound
        return tenant

    async def delete(self, tenant_id: UUID) -> None:
        """Shut its keys out at once; a job of the system tenant removes rows and objects. Raises TenantNotFound."""
        if tenant_id == SYSTEM_TENANT:
            raise TenantNotFound
        async with self.database.transaction(tenant_id) as session:
            if not await TenantRepository(session).mark_deleted(tenant_id):
                raise TenantNotFound
        self.known.forget(tenant_id)
        # A crash between the two leaves a tenant that is shut out; asking again repairs it.
        async with self.database.transaction(SYSTEM_TENANT) as session:
            await self.queue.enqueue(
                session, self.DELETE_JOB, tenant_id=SYSTEM_TENANT, payload={"tenant_id": str(tenant_id)}
            )

    async def erase(self, tenant_id: UUID) -> None:
        """Remove every row of a tenant that was deleted; for the job."""
        async with self.database.transaction(tenant_id) as session:
            await TenantRepository(session).erase(tenant_id)


@dataclass(frozen=True, slots=True)
class KeyService:
    """What a tenant's admin can do with its keys."""

    db: TenantDatabase
    known: KnownKeys

    async def issue(
        self,
        name: str,
        role: Role,
        *,
        knowledge_base_ids: list[UUID] | None = None,
        user_id: str | None = None,
        expires_at: datetime | None = None,
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
        )
        async with self.db.transaction() as session:
            await TenantRepository(session).add_key(issued.row)
        return issued

    async def page(self, *, after: tuple[datetime, UUID] | None, limit: int) -> list[ApiKey]:
        """Valid and expired keys, newest first; revoked ones are gone."""
        async with self.db.transaction() as session:
            return await TenantRepository(session).list_keys(self.db.tenant_id, after=after, limit=limit)

    async def revoke(self, key_id: UUID) -> None:
        """From now on the key is refused, everywhere. Raises ApiKeyNotFound."""
        async with self.db.transaction() as session:
            if not await TenantRepository(session).revoke_key(self.db.tenant_id, key_id):
                raise ApiKeyNotFound
        self.known.forget(self.db.tenant_id)


def _make_key(
    tenant_id: UUID,
    *,
    name: str,
    role: Role,
    knowledge_base_ids: list[UUID] | None = None,
    user_id: str | None = None,
    expires_at: datetime | None = None,
) -> IssuedKey:
    secret = new_key()
    row = ApiKey(
        tenant_id=tenant_id,
        id=new_id(),
        name=name,
        role=role.value,
        key_hash=key_hash(secret),
        hint=secret[:11],
        knowledge_base_ids=knowledge_base_ids,
        user_id=user_id,
        expires_at=expires_at,
    )
    return IssuedKey(row, secret)
