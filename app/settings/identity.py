"""Settings of authentication: tokens of an identity provider, and the limit on failed sign-ins."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field


def _check_issuer(value: str) -> str:
    """Check the issuer, and return it unchanged: tokens must contain exactly this text, and some issuers end with a
    slash.
    """
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ValueError("must be an http or https URL without a query and a fragment")
    return value


Claim = Annotated[str, Field(min_length=1, max_length=200)]


class IdentitySettings(SettingsGroup):
    """Authentication: API keys, and tokens of an OpenID Connect provider if an issuer is set."""

    required_together = ("oidc_issuer", "oidc_audience")
    auth_failures_per_minute: int = env_field(
        "AUTH_FAILURES_PER_MINUTE",
        20,
        ge=1,
        le=1_000_000,
        unit="failures per minute",
        description="Number of failed sign-ins from one IP address that each process answers. Further sign-ins are "
        "refused with status 429.",
        read_by="API",
    )
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] | None = env_field(
        "OIDC_ISSUER",
        None,
        description="URL of the OpenID Connect issuer, exactly as the claim `iss` of its tokens. It needs the extra "
        "`oidc` of the package.",
        read_by="API",
    )
    oidc_audience: str | None = env_field(
        "OIDC_AUDIENCE",
        None,
        description="Required audience (claim `aud`) of the tokens: the name of this service at the issuer. "
        "Required with CARREL_OIDC_ISSUER.",
        read_by="API",
    )
    oidc_jwks_url: HttpUrl | None = env_field(
        "OIDC_JWKS_URL",
        None,
        description="URL of the issuer's public keys. If it is not set, the service reads it from the issuer's "
        "/.well-known/openid-configuration.",
        read_by="API",
    )
    oidc_tenant_claim: Claim = env_field(
        "OIDC_TENANT_CLAIM",
        "carrel_tenant",
        description="Claim that holds the tenant's ID (ten_…).",
        read_by="API",
    )
    oidc_role_claim: Claim = env_field(
        "OIDC_ROLE_CLAIM",
        "carrel_role",
        description="Claim that holds the role: reader, writer or admin.",
        read_by="API",
    )
    oidc_user_claim: Claim | None = env_field(
        "OIDC_USER_CLAIM",
        None,
        description="Claim that holds the user, for example sub; each token is then restricted to its user. "
        "If it is not set, tokens are not restricted to users.",
        read_by="API",
    )
    oidc_knowledge_bases_claim: Claim | None = env_field(
        "OIDC_KNOWLEDGE_BASES_CLAIM",
        None,
        description="Claim that holds a list of knowledge base IDs (kb_…); each token is then restricted to them. "
        "If it is not set, tokens reach every knowledge base of their tenant.",
        read_by="API",
    )

    @model_validator(mode="after")
    def _require_issuer(self) -> Self:
        for name in ("jwks_url", "user_claim", "knowledge_bases_claim"):
            if self.oidc_issuer is None and getattr(self, f"oidc_{name}") is not None:
                raise ValueError(f"{PREFIX}OIDC_{name.upper()} needs {PREFIX}OIDC_ISSUER")
        return self
