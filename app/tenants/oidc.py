"""Tokens of an OpenID Connect provider: signature, issuer, audience and times checked; claims to what they allow."""

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import jwt

from app.access import Role
from app.ids import decode_id, derived_id
from app.logging import get_logger
from app.settings.identity import IdentitySettings
from app.tenants.authentication import TokenClaims
from app.tenants.signing_keys import SigningKeys

logger = get_logger(__name__)

MOST_CHARACTERS = 8192
MOST_SUBJECT = 256
MOST_KNOWLEDGE_BASES = 100
LEEWAY_SECONDS = 30
LATEST = 2**40
# A token that never ends is one that nobody can take back.
REQUIRED = ["exp", "iss", "aud", "sub"]
ROLES = {role.value: role for role in (Role.READER, Role.WRITER, Role.ADMIN)}


class UnfitClaims(Exception):
    """A valid token does not say what it must say to be let in here."""


@dataclass(frozen=True, slots=True)
class OidcTokens:
    """Reads the tokens of the configured issuer; they never make an operator."""

    settings: IdentitySettings
    issuer: str
    audience: str
    keys: SigningKeys

    async def read(self, token: str) -> TokenClaims | None:
        """What the token says; None for one that is not valid. Raises IssuerUnavailable."""
        if len(token) > MOST_CHARACTERS or token.count(".") != 2:
            return None
        try:
            return self._claims(await self._verified(token))
        except (jwt.PyJWTError, UnfitClaims, RecursionError) as error:
            logger.info("token.refused", reason=type(error).__name__)
            return None

    async def close(self) -> None:
        """Close connections."""
        await self.keys.client.aclose()

    async def _verified(self, token: str) -> dict[str, Any]:
        kid = jwt.get_unverified_header(token).get("kid")
        key = await self.keys.find(kid) if isinstance(kid, str) else None
        if key is None:
            raise jwt.InvalidKeyError
        # The algorithm is the key's, whatever the token says of itself.
        found: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=self.audience,
            issuer=self.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": REQUIRED, "enforce_minimum_key_length": True},
        )
        return found

    def _claims(self, said: dict[str, Any]) -> TokenClaims:
        settings = self.settings
        tenant_id = decode_id("ten", _word(said, settings.oidc_tenant_claim))
        role = ROLES.get(_word(said, settings.oidc_role_claim))
        if tenant_id is None or role is None:
            raise UnfitClaims
        subject = _word(said, "sub")
        user, bases = settings.oidc_user_claim, settings.oidc_knowledge_bases_claim
        return TokenClaims(
            tenant_id=tenant_id,
            role=role,
            subject=subject,
            key_id=derived_id("token", self.issuer, subject),
            knowledge_base_ids=None if bases is None else _knowledge_bases(said.get(bases)),
            user_id=None if user is None else _word(said, user),
            seconds_left=min(int(said["exp"]), LATEST) - time.time(),
        )


def _word(said: dict[str, Any], claim: str) -> str:
    found = said.get(claim)
    if not isinstance(found, str) or not 0 < len(found) <= MOST_SUBJECT or not found.isprintable():
        raise UnfitClaims
    return found


def _knowledge_bases(found: Any) -> frozenset[UUID]:
    """A claim that a setting names must be there: a token that lacks it would reach further than one that has it."""
    if not isinstance(found, list) or not 0 < len(found) <= MOST_KNOWLEDGE_BASES:
        raise UnfitClaims
    ids = {decode_id("kb", text) if isinstance(text, str) else None for text in found}
    if None in ids:
        raise UnfitClaims
    return frozenset(one for one in ids if one is not None)
