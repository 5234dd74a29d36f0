"""Settings of the audit log."""

from app.settings.settings_group import SettingsGroup, env_field


class AuditSettings(SettingsGroup):
    """Audit log: retention of its events."""

    # The database refuses to remove events that are younger than a week.
    retention_days: int = env_field(
        "AUDIT_RETENTION_DAYS",
        365,
        ge=7,
        le=36_500,
        unit="days",
        description="Time that audit events are kept.",
        read_by="worker",
    )
