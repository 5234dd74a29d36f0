"""The warning about images that no parser has read."""

from app.warnings import ServiceWarning, WarningCode


def list_image_warnings(count: int) -> list[ServiceWarning]:
    """Return the warning about images that were not read; an empty list if ``count`` is 0."""
    if not count:
        return []
    message = f"{count} images were not read." if count > 1 else "1 image was not read."
    return [ServiceWarning(WarningCode.IMAGES_NOT_READ, message, count)]
