"""The warning about images that no parser has read."""

from app.warnings import ServiceWarning, WarningCode


def list_image_warnings(count: int) -> list[ServiceWarning]:
    """Return the warning about pictures that were not read; none if there are none."""
    if not count:
        return []
    message = f"{count} pictures were not read." if count > 1 else "1 picture was not read."
    return [ServiceWarning(WarningCode.IMAGES_NOT_READ, message)]
