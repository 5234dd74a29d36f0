"""Opens what tells who is calling, as it is configured.

The library that reads tokens is imported where an issuer is named: it is an extra that others need not install.
"""

from app.db.session import Database
from app.db.system import SystemDatabase
from app.settings import IdentitySettings
from app.tenants.authentication import Authenticator, TokenReader
from app.tenants.failed_sign_ins import FailedSignIns
from app.tenants.key_uses import KeyUses
from app.tenants.known_keys import KnownKeys
from app.tenants.types import TokensMissing, key_hash


def open_authenticator(settings: IdentitySettings, database: Database, operator_key: str) -> Authenticator:
    """Knows nobody yet; close it. Raises TokensMissing."""
    return Authenticator(
        known=KnownKeys(SystemDatabase(database)),
        operator_key_hash=key_hash(operator_key),
        uses=KeyUses(database),
        failures=FailedSignIns(settings.failed_sign_ins),
        tokens=open_tokens(settings),
    )


def open_tokens(settings: IdentitySettings) -> TokenReader | None:
    """What reads an identity provider's tokens, where one is configured. Raises TokensMissing."""
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return None
    try:
        from app.tenants.oidc import OidcTokens
        from app.tenants.signing_keys import SigningKeys
    except ImportError as exc:
        raise TokensMissing from exc
    keys = SigningKeys(settings.oidc_issuer, settings.oidc_jwks_url)
    return OidcTokens(settings, settings.oidc_issuer, settings.oidc_audience, keys)
