"""Reading of XML without external entities, document type definitions, network access and huge trees."""

import html
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.parsers.toolkit.character_decoding import DecodedText, decode_text
from app.ingestion.types import CorruptFile

Element: TypeAlias = Any  # as lxml ships no types
_ENCODING_DECLARATION = re.compile(rb"\A[^<]{0,16}<\?xml\b[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})")
# A declaration that can be read as ASCII cannot be in one of these encodings, so their names are ignored.
_WIDE_ENCODINGS = ("utf-16", "utf-32", "ucs-2", "ucs-4", "iso-10646")


def decode_xml(data: bytes, *, encoding: str | None) -> DecodedText:
    """Decode the bytes of an XML file, with the encoding of the XML declaration.

    Args:
        data: Bytes of the file.
        encoding: Encoding as the uploader declared it; None if the uploader declared none.

    Returns:
        The decoded text, as ``decode_text`` returns it.
    """
    match = _ENCODING_DECLARATION.match(data)
    declared = match[1].decode("ascii", "replace").lower() if match else None
    return decode_text(
        data,
        encoding=encoding,
        declared_encoding=None if declared and declared.startswith(_WIDE_ENCODINGS) else declared,
    )


def read_xml(text: str) -> Element:
    """Parse XML. Entities are not resolved; comments and processing instructions are removed.

    Args:
        text: The XML document.

    Returns:
        The root element, an lxml element.

    Raises:
        CorruptFile: The document is not well-formed, or too large.
    """
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        load_dtd=False,
        dtd_validation=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return etree.fromstring(text.strip().encode(), parser)
    except (etree.XMLSyntaxError, ValueError) as exc:
        raise CorruptFile("The XML in this file is not well-formed, or a part of it is too large.") from exc


def get_local_name(element: Element) -> str:
    """Return the tag without its namespace; empty for a node that is not an element, such as an entity."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def get_own_text(element: Element) -> str:
    """Return the text that is directly in the element, outside of its children.

    An entity of HTML becomes its character. Any other entity stays a reference.
    """
    parts = [element.text or ""]
    for child in element:
        parts += ["" if isinstance(child.tag, str) else html.unescape(child.text or ""), child.tail or ""]
    return "".join(parts)


def iter_texts(element: Element) -> Iterator[str]:
    """Yield the text inside the element in document order.

    An entity of HTML, such as ``&nbsp;``, becomes its character. Any other entity stays a reference.
    """
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if event == "start":
            yield (node.text or "") if isinstance(node.tag, str) else html.unescape(node.text or "")
        elif node is not element:
            yield node.tail or ""
