"""Settings of webhooks."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any

from pydantic import field_validator
from pydantic_settings import NoDecode

from app.settings.settings_group import SettingsGroup, env_field


class WebhookSettings(SettingsGroup):
    """Allowed addresses, timeout and attempts of webhooks."""

    allow_private: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = env_field("WEBHOOK_ALLOW_PRIVATE", ())
    timeout_seconds: float = env_field("WEBHOOK_TIMEOUT_SECONDS", 10.0, gt=0, le=60)
    max_attempts: int = env_field("WEBHOOK_MAX_ATTEMPTS", 16, ge=1, le=100)
    max_consecutive_failures: int = env_field("WEBHOOK_MAX_CONSECUTIVE_FAILURES", 100, ge=1, le=100_000)

    @field_validator("allow_private", mode="before")
    @classmethod
    def _parse_networks(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
        except ValueError:
            raise ValueError("takes networks separated by commas, such as 10.0.0.0/8,127.0.0.1/32") from None
