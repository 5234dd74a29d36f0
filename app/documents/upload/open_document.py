"""Recognition of OpenDocument files: the media type is a member of the archive, or an attribute of the XML file."""

import re

_PREFIX = "application/vnd.oasis.opendocument."
ODT, ODS, ODP = f"{_PREFIX}text", f"{_PREFIX}spreadsheet", f"{_PREFIX}presentation"
MANIFEST = "meta-inf/manifest.xml"
"""Name of the member with the media types of the other members, in lower case."""

MANIFEST_BYTES = 64 * 1024
"""Number of bytes of the manifest that ``find_manifest_type`` needs."""

_SUFFIXES = re.compile(r"(?:-template|-master|-web|-flat-xml)+\Z")
_ROOT_ENTRY = re.compile(r"<[^<>]*\bfull-path\s*+=\s*+[\"']/[\"'][^<>]*>", re.DOTALL)
_MEDIA_TYPE = re.compile(r"\bmedia-type\s*+=\s*+[\"'](application/vnd\.oasis\.opendocument\.[a-z-]{1,60})[\"']")
_FLAT_TYPE = re.compile(
    rb"<(?:[\w-]+:)?document\b[^<>]*\bmimetype\s*+=\s*+[\"'](application/vnd\.oasis\.opendocument\.[a-z-]{1,60})[\"']"
)


def normalize_type(media_type: str) -> str:
    """Return the media type of a document for the media type of a template, a master document or a flat file."""
    return _SUFFIXES.sub("", media_type) if media_type.startswith(_PREFIX) else media_type


def find_manifest_type(manifest: str) -> str:
    """Return the media type that the manifest of an archive has for the whole archive; empty if it has none."""
    entry = _ROOT_ENTRY.search(manifest)
    match = _MEDIA_TYPE.search(entry[0]) if entry else None
    return match[1] if match else ""


def find_flat_type(head: bytes) -> str | None:
    """Return the media type of an OpenDocument file that is one XML file; None if it is another file."""
    match = _FLAT_TYPE.search(head)
    return normalize_type(match[1].decode("ascii")) if match else None
