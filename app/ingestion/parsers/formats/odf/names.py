"""Names of elements and attributes of OpenDocument with the usual prefixes, such as ``text:p``."""

from functools import lru_cache

from app.ingestion.parsers.toolkit.safe_xml import Element

_NAMESPACES = {
    "chart": "urn:oasis:names:tc:opendocument:xmlns:chart:1.0",
    "config": "urn:oasis:names:tc:opendocument:xmlns:config:1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
    "draw": "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0",
    "field": "urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0",
    "fo": "urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0",
    "form": "urn:oasis:names:tc:opendocument:xmlns:form:1.0",
    "manifest": "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0",
    "math": "http://www.w3.org/1998/Math/MathML",
    "meta": "urn:oasis:names:tc:opendocument:xmlns:meta:1.0",
    "number": "urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0",
    "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
    "presentation": "urn:oasis:names:tc:opendocument:xmlns:presentation:1.0",
    "style": "urn:oasis:names:tc:opendocument:xmlns:style:1.0",
    "svg": "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0",
    "table": "urn:oasis:names:tc:opendocument:xmlns:table:1.0",
    "text": "urn:oasis:names:tc:opendocument:xmlns:text:1.0",
    "xlink": "http://www.w3.org/1999/xlink",
    "xml": "http://www.w3.org/XML/1998/namespace",
}
_PREFIXES = {address: prefix for prefix, address in _NAMESPACES.items()}


@lru_cache(maxsize=4096)
def expand_name(name: str) -> str:
    """Return the name of an element or attribute as lxml has it."""
    prefix, _, local = name.partition(":")
    return f"{{{_NAMESPACES[prefix]}}}{local}"


@lru_cache(maxsize=4096)
def _shorten_name(tag: str) -> str:
    address, _, local = tag.removeprefix("{").rpartition("}")
    prefix = _PREFIXES.get(address)
    return f"{prefix}:{local}" if prefix else local


def get_name(element: Element) -> str:
    """Return the name of an element with its prefix; empty for a node that is not an element."""
    return _shorten_name(element.tag) if isinstance(element.tag, str) else ""


def get_attribute(element: Element, name: str) -> str:
    """Return an attribute; empty if the element has none."""
    return str(element.get(expand_name(name)) or "")


def get_count(element: Element, name: str, limit: int) -> int:
    """Return an attribute that counts something: at least 1, at most ``limit``; 1 if it is no number."""
    value = element.get(expand_name(name))
    if value is None or not value.isascii() or not value.isdigit():
        return 1
    return max(1, min(int(value[:9]), limit))
