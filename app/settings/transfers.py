"""Settings of exports and imports."""

from app.settings.settings_group import SettingsGroup, env_field


class TransferSettings(SettingsGroup):
    """How many exports and imports each API process works on at a time, of all tenants and of one."""

    max_exports: int = env_field("MAX_EXPORTS", 4, ge=1, le=64)
    max_tenant_exports: int = env_field("MAX_TENANT_EXPORTS", 2, ge=1, le=64)
    max_imports: int = env_field("MAX_IMPORTS", 4, ge=1, le=64)
    max_tenant_imports: int = env_field("MAX_TENANT_IMPORTS", 2, ge=1, le=64)
    wait_timeout_seconds: float = env_field("TRANSFER_WAIT_TIMEOUT_SECONDS", 10.0, ge=0, le=300)
