"""Settings of exports and imports."""

from app.settings.settings_group import SettingsGroup, env_field


class TransferSettings(SettingsGroup):
    """Exports and imports: how many of them each API process runs at the same time."""

    max_exports: int = env_field(
        "MAX_EXPORTS",
        4,
        ge=1,
        le=64,
        unit="exports",
        description="Maximum number of exports that one API process runs at the same time. A further export waits, "
        "and is then refused with status 503.",
        read_by="API",
    )
    max_tenant_exports: int = env_field(
        "MAX_TENANT_EXPORTS",
        2,
        ge=1,
        le=64,
        unit="exports",
        description="Maximum number of exports of one tenant in one API process. A further export waits, and is then "
        "refused with status 429.",
        read_by="API",
    )
    max_imports: int = env_field(
        "MAX_IMPORTS",
        4,
        ge=1,
        le=64,
        unit="imports",
        description="Maximum number of imports that one API process runs at the same time. A further import waits, "
        "and is then refused with status 503.",
        read_by="API",
    )
    max_tenant_imports: int = env_field(
        "MAX_TENANT_IMPORTS",
        2,
        ge=1,
        le=64,
        unit="imports",
        description="Maximum number of imports of one tenant in one API process. A further import waits, and is then "
        "refused with status 429.",
        read_by="API",
    )
    wait_timeout_seconds: float = env_field(
        "TRANSFER_WAIT_TIMEOUT_SECONDS",
        10.0,
        ge=0,
        le=300,
        unit="seconds",
        description="Time that an export or import waits before it is refused.",
        read_by="API",
    )
