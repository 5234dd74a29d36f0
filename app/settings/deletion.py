"""Settings of deletions."""

from app.settings.group import Group, env


class DeletionSettings(Group):
    """How long what was deleted can be proven."""

    receipt_retention_days: int = env("RECEIPT_RETENTION_DAYS", 365, ge=7, le=36_500)
