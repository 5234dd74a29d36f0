"""Who is calling: from an API key, the operator's key, or a token of the identity provider."""

import hmac
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from app.access import Principal, Quotas, Role
from app.db.models.base import SYSTEM_TENANT
from app.errors import Unauthorized
from app.tenants.failed_sign_ins import FailedSignIns
from app.tenants.key_uses import KeyUses
from app.tenants.known_keys import Found, KnownKeys
from app.tenants.repository import TenantRepository
from app.tenants.types import key_hash, looks_like_key


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a valid token says; ``key_id`` stands for its issuer and subject."""

    tenant_id: UUID
    role: Role
    subject: str
    key_id: UUID
    knowledge_base_ids: frozenset[UUID] | None
    user_id: str | None
    seconds_left: float


class TokenReader(Protocol):
    """Reads the tokens of one identity provider."""

    async def read(self, token: str) -> TokenClaims | None:
        """What the token says; None for one that is not valid. Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Tells who is calling from the credential alone."""

    known: KnownKeys
    operator_key_hash: bytes
    uses: KeyUses
    failures: FailedSignIns
    tokens: TokenReader | None = None

    async def authenticate(self, token: str, *, address: str | None = None) -> Principal:
        """The credential is looked at first: whatever others do at an address, a valid one is never refused.

        Raises Unauthorized for one that is not valid now, the reason is not told; TooManyFailures; Unavailable.
        """
        principal = await self._find(token)
        if principal is None:
            if address is not None:
                self.failures.count(address)
            raise Unauthorized("The API key is not valid.")
        if principal.key_id is not None and principal.subject is None:
            self.uses.note(principal.tenant_id, principal.key_id)
        return principal

    async def close(self) -> None:
        """Stop listening and write what is left."""
        await self.known.close()
        await self.uses.close()
        if self.tokens is not None:
            await self.tokens.close()

    async def _find(self, token: str) -> Principal | None:
        digest = key_hash(token)
        if hmac.compare_digest(digest, self.operator_key_hash):
            return Principal(SYSTEM_TENANT, "system", Role.OPERATOR)
        if looks_like_key(token):
            return await self.known.find(digest)
        if self.tokens is None:
            return None
        return await self.known.find_by(digest, lambda: self._read(token))

    async def _read(self, token: str) -> Found | None:
        assert self.tokens is not None
        claims = await self.tokens.read(token)
        # The shared level is the operator's, whose key is no token.
        if claims is None or claims.tenant_id == SYSTEM_TENANT:
            return None
        async with self.known.system.database.transaction(claims.tenant_id) as session:
            tenant = await TenantRepository(session).get(claims.tenant_id)
        if tenant is None:
            return None
        principal = Principal(
            tenant_id=tenant.id,
            tenant_name=tenant.name,
            role=claims.role,
            key_id=claims.key_id,
            key_name=claims.subject,
            knowledge_base_ids=claims.knowledge_base_ids,
            user_id=claims.user_id,
            subject=claims.subject,
            line_id=claims.key_id,
            quotas=Quotas.stored(tenant.quotas),
        )
        return Found(principal, claims.seconds_left)
