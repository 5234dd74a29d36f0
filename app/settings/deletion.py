"""Settings of deletions."""

from app.settings.settings_group import SettingsGroup, env_field


class DeletionSettings(SettingsGroup):
    """Deletions: retention of their receipts."""

    receipt_retention_days: int = env_field(
        "RECEIPT_RETENTION_DAYS",
        365,
        ge=7,
        le=36_500,
        unit="days",
        description="Time that the receipts of deletions are kept.",
        read_by="API and worker",
    )
