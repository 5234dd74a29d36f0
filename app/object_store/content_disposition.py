"""Content-Disposition header of a download (RFC 6266, with the encoding of RFC 8187 for names beyond ASCII)."""

import re
import unicodedata
from pathlib import PurePosixPath
from urllib.parse import quote

MAX_NAME_LENGTH = 200
MAX_SUFFIX_LENGTH = 20

# The characters of attr-char in RFC 8187, except letters and digits, which ``quote`` never escapes.
_ATTRIBUTE_CHARACTERS = "!#$&+-.^_`|~"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 !#$&'()+,\-.;=@\[\]^_`{}~]")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(; ?charset=[A-Za-z0-9._-]+)?")


def format_content_disposition(filename: str, *, inline: bool) -> str:
    """Return a header value of printable ASCII, without quotes, separators or line breaks from the filename.

    Old clients read ``filename``, in which ``_`` replaces unsafe characters. New clients read ``filename*``.

    Args:
        filename: Any name. It is shortened to 200 characters with its extension.
        inline: Whether browsers show the file in place.

    Returns:
        The value of the header.
    """
    kind = "inline" if inline else "attachment"
    name = "".join("_" if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "/\\" else c for c in filename)
    name = name.strip(" .") or "download"
    if len(name) > MAX_NAME_LENGTH:
        suffix = PurePosixPath(name).suffix
        suffix = suffix if len(suffix) <= MAX_SUFFIX_LENGTH else ""
        name = name[: MAX_NAME_LENGTH - len(suffix)] + suffix
    return (
        f"{kind}; filename=\"{_NOT_PLAIN.sub('_', name)}\"; filename*=UTF-8''{quote(name, safe=_ATTRIBUTE_CHARACTERS)}"
    )


def sanitize_media_type(media_type: str) -> str:
    """Return ``media_type`` if it is valid, otherwise ``application/octet-stream``."""
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
