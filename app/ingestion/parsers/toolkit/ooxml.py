"""Packages of Office Open XML files: parts and their relationships.

Parts are read on demand, and nothing outside of the file is loaded.
"""

import lzma
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.types import CorruptFile

Element = Any
"""Element of lxml, a library without type annotations."""

_SCHEMAS = "http://schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
_PREFIXES = {
    f"{_SCHEMAS}/wordprocessingml/2006/main": "w",
    f"{_STRICT}/wordprocessingml/main": "w",
    f"{_SCHEMAS}/spreadsheetml/2006/main": "x",
    f"{_STRICT}/spreadsheetml/main": "x",
    f"{_SCHEMAS}/presentationml/2006/main": "p",
    f"{_SCHEMAS}/drawingml/2006/main": "a",
    f"{_STRICT}/drawingml/main": "a",
    f"{_SCHEMAS}/drawingml/2006/picture": "pic",
    f"{_STRICT}/drawingml/picture": "pic",
    f"{_SCHEMAS}/drawingml/2006/chart": "c",
    f"{_STRICT}/drawingml/chart": "c",
    f"{_SCHEMAS}/drawingml/2006/diagram": "dgm",
    f"{_STRICT}/drawingml/diagram": "dgm",
    f"{_SCHEMAS}/officeDocument/2006/math": "m",
    f"{_STRICT}/officeDocument/math": "m",
    f"{_SCHEMAS}/markup-compatibility/2006": "mc",
    "http://schemas.microsoft.com/office/drawing/2014/chartex": "cx",
    "http://schemas.microsoft.com/office/powerpoint/2018/8/main": "p188",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://schemas.microsoft.com/office/drawing/2010/main": "a14",
    "http://schemas.microsoft.com/office/word/2010/wordml": "w14",
    f"{_SCHEMAS}/drawingml/2006/wordprocessingDrawing": "wp",
    f"{_STRICT}/drawingml/wordprocessingDrawing": "wp",
    f"{_STRICT}/presentationml/main": "p",
    "urn:schemas-microsoft-com:office:office": "o",
    "urn:schemas-microsoft-com:vml": "v",
}
UNREADABLE_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, etree.LxmlError, KeyError, ValueError, NotImplementedError,
    RuntimeError, EOFError, OSError,
)  # fmt: skip
"""Exceptions that reading and parsing a member of a damaged archive may raise."""


@dataclass(frozen=True, slots=True)
class Relationship:
    """Link from one part to another part.

    Attributes:
        id: Id of the relationship, unique for the linking part.
        kind: Last segment of the relationship type, such as ``image``.
        target: Name of the other part.
    """

    id: str
    kind: str
    target: str


class Package:
    """Parts of an open archive, by name, such as ``/word/document.xml``. Names are not case-sensitive.

    Attributes:
        damaged_count: Number of damaged parts that ``parse_optional_part`` has left out.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = {_normalize_part_name(member.filename): member for member in archive.infolist()}
        self.damaged_count = 0
        self._related_part = ""
        self._relationship_elements: list[Element] = []

    def list_relationships(self, part: str = "/") -> list[Relationship]:
        """Return the relationships of a part to other parts of the package.

        Args:
            part: Name of the part; ``/`` for the relationships of the package itself.

        Returns:
            The relationships. Links to targets outside of the package are left out.
        """
        folder = posixpath.dirname(part)
        return [
            Relationship(
                get_attribute(element, "Id"),
                get_attribute(element, "Type").rpartition("/")[2],
                _normalize_part_name(posixpath.join(folder, get_attribute(element, "Target"))),
            )
            for element in self._list_relationship_elements(part)
            if get_attribute(element, "Target") and get_attribute(element, "TargetMode").lower() != "external"
        ]

    def find_main_part(self) -> str:
        """Return the name of the part with the document. Raises CorruptFile if the package has none."""
        main = self._find_related_part("officeDocument")
        if main is None:
            raise CorruptFile
        return main

    def read_title(self) -> str | None:
        """Return the title in the properties of the package; None if there is none."""
        element = find_child(self.parse_optional_part(self._find_related_part("core-properties")), "dc:title")
        return None if element is None else element.text

    def _find_related_part(self, kind: str) -> str | None:
        """Return the last part of a kind that the package itself refers to."""
        targets = {relationship.kind: relationship.target for relationship in self.list_relationships()}
        return targets.get(kind)

    def list_external_targets(self, part: str) -> dict[str, str]:
        """Return the targets of a part that are outside of the package, such as web pages, by relationship id.

        Args:
            part: Name of the part.

        Returns:
            The targets. They are addresses as the file has them, and nothing loads them.
        """
        return {
            get_attribute(element, "Id"): get_attribute(element, "Target")
            for element in self._list_relationship_elements(part)
            if get_attribute(element, "TargetMode").lower() == "external"
        }

    def _list_relationship_elements(self, part: str) -> list[Element]:
        """Return the elements of the relationships of a part. The elements of the last part are cached."""
        if part != self._related_part:
            folder, name = posixpath.split(part)
            root = self.parse_optional_part(f"{folder.rstrip('/')}/_rels/{name}.rels")
            self._related_part, self._relationship_elements = part, list(iter_children(root))
        return self._relationship_elements

    def list_parts(self, folder: str) -> list[str]:
        """Return the names of the parts directly in a folder, in lower case.

        Args:
            folder: Name of the folder in lower case, with slashes at both ends.
        """
        return [name for name in self._members if posixpath.dirname(name) == folder.rstrip("/")]

    def read_part(self, part: str) -> bytes:
        """Return the bytes of a part. Raises CorruptFile if it is missing or damaged."""
        try:
            return self._archive.read(self._members[_normalize_part_name(part)])
        except UNREADABLE_ERRORS as exc:
            raise CorruptFile from exc

    def open_part(self, part: str) -> IO[bytes]:
        """Open a part for reading in pieces. Raises CorruptFile if it is missing or damaged."""
        try:
            return self._archive.open(self._members[_normalize_part_name(part)])
        except UNREADABLE_ERRORS as exc:
            raise CorruptFile from exc

    def parse_part(self, part: str) -> Element:
        """Return the root element of a part. Raises CorruptFile if the part is missing, damaged or not XML."""
        return parse_xml(self.read_part(part))

    def parse_optional_part(self, part: str | None) -> Element | None:
        """Return the root element of a part that the document can do without.

        Args:
            part: Name of the part; None counts as a missing part.

        Returns:
            The root element; None if the part is missing or damaged. A damaged part increases ``damaged_count``.
        """
        if part is None or _normalize_part_name(part) not in self._members:
            return None
        try:
            return self.parse_part(part)
        except CorruptFile:
            self.damaged_count += 1
            return None


def parse_xml(data: bytes) -> Element:
    """Parse XML. Entities are not expanded, and nothing is loaded from outside.

    Args:
        data: The XML document.

    Returns:
        The root element.

    Raises:
        CorruptFile: The document is not well-formed.
        MemoryError: The process has reached its memory limit.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(data, parser)
    except UNREADABLE_ERRORS as exc:
        # lxml reports a lack of memory as a syntax error of the document.
        if getattr(exc, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from exc
        raise CorruptFile from exc


def _normalize_part_name(path: str) -> str:
    """Return the absolute name of a part in lowercase; ``..`` cannot leave the root of the package."""
    return posixpath.normpath("/" + path.replace("\\", "/").lstrip("/")).lower()


def get_tag(element: Element) -> str:
    """Return the name of an element with its usual prefix, such as ``w:p``.

    The prefix is the same for the transitional and the strict dialect of Office Open XML. An element of an unknown
    namespace has no prefix. A node that is not an element has an empty name.
    """
    return _TAG_NAMES[element.tag]


class _TagNames(dict[Any, str]):
    """Names of tags with their usual prefix, found once for each tag."""

    def __missing__(self, tag: Any) -> str:
        namespace, _, local = tag.removeprefix("{").rpartition("}") if isinstance(tag, str) else ("", "", "")
        prefix = _PREFIXES.get(namespace)
        name = f"{prefix}:{local}" if prefix else local
        if len(self) < _MAX_TAG_NAMES:
            self[tag] = name
        return name


_MAX_TAG_NAMES = 4096
_TAG_NAMES = _TagNames()


def get_attribute(element: Element | None, local_name: str) -> str:
    """Return the value of an attribute by its name without namespace; empty if the element has no such attribute."""
    if element is not None:
        for key, value in element.items():
            if key == local_name or key.endswith("}" + local_name):
                return str(value)
    return ""


def get_int_attribute(element: Element | None, local_name: str) -> int | None:
    """Return an attribute as an integer of at most nine digits; None for any other value."""
    text = get_attribute(element, local_name)
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 9 else None


def iter_children(element: Element | None, *tags: str) -> Iterator[Element]:
    """Yield the children with these tags, or all children if no tag is given. None has no children."""
    for item in element if element is not None else ():
        if not tags or get_tag(item) in tags:
            yield item


def find_child(element: Element | None, *tags: str) -> Element | None:
    """Return the element at the end of a path of tags; None if an element of the path is missing.

    Each step goes to the first child with the next tag.
    """
    for tag in tags:
        if element is None:
            return None
        for item in element:
            if _TAG_NAMES[item.tag] == tag:
                element = item
                break
        else:
            return None
    return element


def is_switched_on(element: Element | None) -> bool:
    """Return whether an element that is a switch, such as ``w:vanish``, exists and is not turned off."""
    return element is not None and get_attribute(element, "val") not in ("0", "false", "off")


def iter_texts(element: Element | None, *tags: str) -> Iterator[str]:
    """Yield the text of the element and its descendants that have one of these tags, in document order."""
    for item in element.iter() if element is not None else ():
        if get_tag(item) in tags and item.text:
            yield str(item.text)
