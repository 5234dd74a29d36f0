"""Settings of webhooks: allowed addresses, timeout and attempts."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any

from pydantic import field_validator
from pydantic_settings import NoDecode

from app.settings.settings_group import SettingsGroup, env_field


class WebhookSettings(SettingsGroup):
    """Webhooks: allowed private addresses, timeout and attempts of deliveries."""

    allow_private: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = env_field(
        "WEBHOOK_ALLOW_PRIVATE",
        (),
        description="Private networks that webhooks may lead to, separated by commas. Plain http is allowed there "
        "too. By default only public addresses with https are allowed.",
        examples=["10.1.0.0/16,127.0.0.1/32"],
        read_by="API and worker",
    )
    timeout_seconds: float = env_field(
        "WEBHOOK_TIMEOUT_SECONDS",
        10.0,
        gt=0,
        le=60,
        unit="seconds",
        description="Maximum time of one attempt to deliver an event.",
        read_by="worker",
    )
    max_attempts: int = env_field(
        "WEBHOOK_MAX_ATTEMPTS",
        16,
        ge=1,
        le=100,
        unit="attempts",
        description="Number of attempts of one delivery before the delivery fails. 16 attempts take about 105 minutes.",
        read_by="worker",
    )
    max_consecutive_failures: int = env_field(
        "WEBHOOK_MAX_CONSECUTIVE_FAILURES",
        100,
        ge=1,
        le=100_000,
        unit="attempts",
        description="Number of consecutive failed attempts after which a webhook is disabled.",
        read_by="worker",
    )

    @field_validator("allow_private", mode="before")
    @classmethod
    def _parse_networks(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
        except ValueError:
            raise ValueError("takes networks separated by commas, such as 10.0.0.0/8,127.0.0.1/32") from None
