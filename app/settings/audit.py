"""Settings of the audit."""

from app.settings.group import Group, env


class AuditSettings(Group):
    """How long it is kept; the database lets nobody remove what is younger than a week."""

    retention_days: int = env("AUDIT_RETENTION_DAYS", 365, ge=7, le=36_500)
