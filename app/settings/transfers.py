"""Settings of exports and imports."""

from app.settings.group import Group, env


class TransferSettings(Group):
    """How many exports and imports each API process works on at a time, of all tenants and of one."""

    max_exports: int = env("MAX_EXPORTS", 4, ge=1, le=64)
    max_tenant_exports: int = env("MAX_TENANT_EXPORTS", 2, ge=1, le=64)
    max_imports: int = env("MAX_IMPORTS", 4, ge=1, le=64)
    max_tenant_imports: int = env("MAX_TENANT_IMPORTS", 2, ge=1, le=64)
    wait_seconds: float = env("TRANSFER_WAIT_SECONDS", 10.0, ge=0, le=300)
