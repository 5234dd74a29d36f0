"""Factory of the configured authentication.

The library that reads tokens is imported only if an issuer is configured, because it is an optional dependency (``pip
install carrel[oidc]``).
"""

from app.db.control_plane import ControlPlaneDatabase
from app.db.session import Database
from app.settings import IdentitySettings
from app.tenants.auth.authentication import Authenticator, TokenReader
from app.tenants.auth.credential_cache import CredentialCache
from app.tenants.auth.key_usage import KeyUsageRecorder
from app.tenants.auth.sign_in_throttle import SignInThrottle
from app.tenants.types import OidcExtraMissing, hash_key


def create_authenticator(settings: IdentitySettings, database: Database, operator_key: str) -> Authenticator:
    """Create an authenticator with an empty cache. The caller closes it.

    Args:
        settings: The identity settings.
        database: The database.
        operator_key: The key of the operator.

    Returns:
        The authenticator.

    Raises:
        OidcExtraMissing: An issuer is configured, but the optional dependency is not installed.
    """
    return Authenticator(
        credential_cache=CredentialCache(ControlPlaneDatabase(database)),
        operator_key_hash=hash_key(operator_key),
        usage_recorder=KeyUsageRecorder(database),
        sign_in_throttle=SignInThrottle(settings.auth_failures_per_minute),
        token_reader=create_token_reader(settings),
    )


def create_token_reader(settings: IdentitySettings) -> TokenReader | None:
    """Create the reader of an identity provider's tokens.

    Args:
        settings: The identity settings.

    Returns:
        The reader, or None if no issuer is configured.

    Raises:
        OidcExtraMissing: An issuer is configured, but the optional dependency is not installed.
    """
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return None
    try:
        from app.tenants.auth.jwks import JwksClient
        from app.tenants.auth.oidc import OidcTokenReader
    except ImportError as exc:
        raise OidcExtraMissing from exc
    jwks_client = JwksClient(settings.oidc_issuer, settings.oidc_jwks_url)
    return OidcTokenReader(settings, settings.oidc_issuer, settings.oidc_audience, jwks_client)
