"""Tokens of an OpenID Connect provider: check of signature, issuer, audience and times, and conversion of claims."""

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import jwt

from app.ids import decode_id, derive_id
from app.logging import get_logger
from app.principal import Role
from app.settings.identity import IdentitySettings
from app.tenants.auth.authentication import TokenClaims
from app.tenants.auth.jwks import JwksClient

logger = get_logger(__name__)

MAX_TOKEN_CHARACTERS = 8192
MAX_CLAIM_CHARACTERS = 256
MAX_KNOWLEDGE_BASES = 100
LEEWAY_SECONDS = 30
MAX_EXPIRY = 2**40
# Without an expiry, a token could not be revoked.
REQUIRED_CLAIMS = ["exp", "iss", "aud", "sub"]
ROLES = {role.value: role for role in (Role.READER, Role.WRITER, Role.ADMIN)}


class InvalidClaims(Exception):
    """A valid token lacks a claim that the service requires."""


@dataclass(frozen=True, slots=True)
class OidcTokenReader:
    """Reader of the configured issuer's tokens. A token never gives the role operator."""

    settings: IdentitySettings
    issuer: str
    audience: str
    jwks_client: JwksClient

    async def read(self, token: str) -> TokenClaims | None:
        """Return the claims of a token.

        Args:
            token: The token from the request.

        Returns:
            The claims, or None if the token is not valid.

        Raises:
            IssuerUnavailable: The identity provider's keys were never fetched.
        """
        if len(token) > MAX_TOKEN_CHARACTERS or token.count(".") != 2:
            return None
        try:
            return self._to_token_claims(await self._verify(token))
        except (jwt.PyJWTError, InvalidClaims, RecursionError) as error:
            logger.info("token.rejected", reason=type(error).__name__)
            return None

    async def close(self) -> None:
        """Close connections."""
        await self.jwks_client.client.aclose()

    async def _verify(self, token: str) -> dict[str, Any]:
        kid = jwt.get_unverified_header(token).get("kid")
        key = await self.jwks_client.find(kid) if isinstance(kid, str) else None
        if key is None:
            raise jwt.InvalidKeyError
        # The key decides the algorithm, not the token's header.
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=self.audience,
            issuer=self.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": REQUIRED_CLAIMS, "enforce_minimum_key_length": True},
        )
        return claims

    def _to_token_claims(self, claims: dict[str, Any]) -> TokenClaims:
        settings = self.settings
        tenant_id = decode_id("ten", _read_text_claim(claims, settings.oidc_tenant_claim))
        role = ROLES.get(_read_text_claim(claims, settings.oidc_role_claim))
        if tenant_id is None or role is None:
            raise InvalidClaims
        subject = _read_text_claim(claims, "sub")
        user_claim, knowledge_bases_claim = settings.oidc_user_claim, settings.oidc_knowledge_bases_claim
        return TokenClaims(
            tenant_id=tenant_id,
            role=role,
            subject=subject,
            key_id=derive_id("token", self.issuer, subject),
            knowledge_base_ids=None
            if knowledge_bases_claim is None
            else _parse_knowledge_base_ids(claims.get(knowledge_bases_claim)),
            user_id=None if user_claim is None else _read_text_claim(claims, user_claim),
            remaining_seconds=min(int(claims["exp"]), MAX_EXPIRY) - time.time(),
        )


def _read_text_claim(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_CLAIM_CHARACTERS or not value.isprintable():
        raise InvalidClaims
    return value


def _parse_knowledge_base_ids(value: Any) -> frozenset[UUID]:
    """Parse the claim of knowledge bases.

    If a setting names the claim, it must exist, or the token would be unrestricted.
    """
    if not isinstance(value, list) or not 0 < len(value) <= MAX_KNOWLEDGE_BASES:
        raise InvalidClaims
    ids = {decode_id("kb", text) if isinstance(text, str) else None for text in value}
    if None in ids:
        raise InvalidClaims
    return frozenset(kb_id for kb_id in ids if kb_id is not None)
