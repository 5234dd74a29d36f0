"""Settings of the audit."""

from app.settings.settings_group import SettingsGroup, env_field


class AuditSettings(SettingsGroup):
    """Retention of audit events; the database refuses to remove events that are younger than a week."""

    retention_days: int = env_field("AUDIT_RETENTION_DAYS", 365, ge=7, le=36_500)
