"""Authentication of callers by an API key, the operator's key, or a token of the identity provider."""

import hmac
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from app.db.models.base import SYSTEM_TENANT
from app.errors import UnauthorizedError
from app.principal import Principal, Quotas, Role
from app.tenants.auth.credential_cache import CredentialCache, CredentialLookup
from app.tenants.auth.key_usage import KeyUsageRecorder
from app.tenants.auth.sign_in_throttle import SignInThrottle
from app.tenants.repository import TenantRepository
from app.tenants.types import has_key_format, hash_key


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """Claims of a valid token. ``key_id`` is derived from the issuer and the subject."""

    tenant_id: UUID
    role: Role
    subject: str
    key_id: UUID
    knowledge_base_ids: frozenset[UUID] | None
    user_id: str | None
    remaining_seconds: float


class TokenReader(Protocol):
    """Reader of the tokens of one identity provider."""

    async def read(self, token: str) -> TokenClaims | None:
        """Return the claims of a token, or None if it is not valid. Raises UnavailableError."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authentication of callers. The credential alone determines the tenant and the rights."""

    credential_cache: CredentialCache
    operator_key_hash: bytes
    usage_recorder: KeyUsageRecorder
    sign_in_throttle: SignInThrottle
    token_reader: TokenReader | None = None

    async def authenticate(self, token: str, *, address: str | None = None) -> Principal:
        """Authenticate a caller.

        The credential is checked before the address is throttled, so a valid credential is never refused.

        Args:
            token: The credential from the request.
            address: The caller's address, or None if failures are not throttled.

        Returns:
            The caller.

        Raises:
            UnauthorizedError: The credential is not valid. The error does not name the reason.
            TooManyFailedSignIns: Too many sign-ins from the address have failed.
            UnavailableError: The database or the identity provider does not answer.
        """
        principal = await self._find_principal(token)
        if principal is None:
            if address is not None:
                self.sign_in_throttle.record_failure(address)
            raise UnauthorizedError("The API key is not valid. Send a valid API key.")
        if principal.key_id is not None and principal.subject is None:
            self.usage_recorder.record(principal.tenant_id, principal.key_id)
        return principal

    async def close(self) -> None:
        """Stop listening and write pending data."""
        await self.credential_cache.close()
        await self.usage_recorder.close()
        if self.token_reader is not None:
            await self.token_reader.close()

    async def _find_principal(self, token: str) -> Principal | None:
        digest = hash_key(token)
        if hmac.compare_digest(digest, self.operator_key_hash):
            return Principal(SYSTEM_TENANT, "system", Role.OPERATOR)
        if has_key_format(token):
            return await self.credential_cache.find(digest)
        if self.token_reader is None:
            return None
        return await self.credential_cache.resolve(digest, lambda: self._read_token(token))

    async def _read_token(self, token: str) -> CredentialLookup | None:
        assert self.token_reader is not None
        claims = await self.token_reader.read(token)
        # Only the operator's key reaches the system tenant, and this key is not a token.
        if claims is None or claims.tenant_id == SYSTEM_TENANT:
            return None
        async with self.credential_cache.control_plane.database.transaction(claims.tenant_id) as session:
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
            key_lineage_id=claims.key_id,
            quotas=Quotas.from_json(tenant.quotas),
        )
        return CredentialLookup(principal, claims.remaining_seconds)
