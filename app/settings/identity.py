"""Settings of authentication: tokens of an identity provider, and the limit on failed sign-ins."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from app.settings.settings_group import PREFIX, HttpUrl, SettingsGroup, env_field


def _check_issuer(value: str) -> str:
    """Check the issuer and return it unchanged, as tokens have it: some end with a slash."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ValueError("must be an http or https URL without a query")
    return value


Claim = Annotated[str, Field(min_length=1, max_length=200)]


class IdentitySettings(SettingsGroup):
    """API keys always; tokens as well where an issuer is named."""

    required_together = ("oidc_issuer", "oidc_audience")
    auth_failures_per_minute: int = env_field("AUTH_FAILURES_PER_MINUTE", 20, ge=1, le=1_000_000)
    oidc_issuer: Annotated[str, AfterValidator(_check_issuer)] | None = env_field("OIDC_ISSUER", None)
    oidc_audience: str | None = env_field("OIDC_AUDIENCE", None)
    oidc_jwks_url: HttpUrl | None = env_field("OIDC_JWKS_URL", None)
    oidc_tenant_claim: Claim = env_field("OIDC_TENANT_CLAIM", "carrel_tenant")
    oidc_role_claim: Claim = env_field("OIDC_ROLE_CLAIM", "carrel_role")
    oidc_user_claim: Claim | None = env_field("OIDC_USER_CLAIM", None)
    oidc_knowledge_bases_claim: Claim | None = env_field("OIDC_KNOWLEDGE_BASES_CLAIM", None)

    @model_validator(mode="after")
    def _require_issuer(self) -> Self:
        for name in ("jwks_url", "user_claim", "knowledge_bases_claim"):
            if self.oidc_issuer is None and getattr(self, f"oidc_{name}") is not None:
                raise ValueError(f"{PREFIX}OIDC_{name.upper()} needs {PREFIX}OIDC_ISSUER")
        return self
