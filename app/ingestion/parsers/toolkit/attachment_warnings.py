"""The warning about attachments that no parser has read."""

from collections.abc import Sequence

from app.warnings import ServiceWarning, WarningCode

MAX_NAMED_ATTACHMENTS = 20
"""Maximum number of attachments that the warning names. It only counts the other attachments."""


def list_attachment_warnings(names: Sequence[str]) -> list[ServiceWarning]:
    """Return the warning about attachments that were not read; an empty list if there are none."""
    if not names:
        return []
    others = f" and {len(names) - MAX_NAMED_ATTACHMENTS} more" if len(names) > MAX_NAMED_ATTACHMENTS else ""
    count = "1 attachment was" if len(names) == 1 else f"{len(names)} attachments were"
    message = f"{count} not read: {', '.join(names[:MAX_NAMED_ATTACHMENTS])}{others}."
    return [ServiceWarning(WarningCode.ATTACHMENTS_NOT_READ, message, len(names))]
