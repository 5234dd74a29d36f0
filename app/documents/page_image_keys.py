"""Keys of cached page images in the object store.

The key of an image is ``tenant/document/pages/<upload>-<renderer>-<page>-<scale>.png``. It is below the document, so
the deletion of a document also deletes and counts its images. ``upload`` is the last part of the key of the original.
Each stored original has another one, so documents never share images.
"""

from uuid import UUID

PAGES_FOLDER = "pages"
RENDERER_VERSION = 1
"""Number to raise if pages are drawn in another way."""


def format_image_key(original_key: str, *, page: int, scale: float) -> str:
    """Return the key of the image of a page.

    Args:
        original_key: Key of the original, ``tenant/document/upload``.
        page: Page number from 1.
        scale: Pixels for each point, with at most two decimals.
    """
    upload = original_key.rpartition("/")[2]
    return f"{format_image_prefix(original_key)}{upload}-{RENDERER_VERSION}-{page}-{round(100 * scale)}.png"


def format_image_prefix(original_key: str) -> str:
    """Return the prefix of the keys of all images of a document.

    Args:
        original_key: Key of the original, ``tenant/document/upload``.
    """
    return f"{original_key.rpartition('/')[0]}/{PAGES_FOLDER}/"


def parse_original_key(image_key: str) -> str | None:
    """Return the key of the original of a cached image, or None if the key is not that of an image.

    Args:
        image_key: Key of an object, which another program may have written.
    """
    parts = image_key.split("/")
    if len(parts) != 4 or parts[2] != PAGES_FOLDER:
        return None
    ids = [parts[0], parts[1], parts[3][:36]]
    try:
        is_canonical = [str(UUID(part)) for part in ids] == ids
    except ValueError:
        return None
    return "/".join(ids) if is_canonical else None
