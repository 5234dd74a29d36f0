"""Office Open XML: the parts of a package and how they hang together, each read when it is asked for, none fetched."""

import lzma
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.types import CorruptFile

Element = Any
"""An lxml element: the library has no types."""

_SCHEMAS = "http://schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
_PREFIXES = {
    f"{_SCHEMAS}/wordprocessingml/2006/main": "w",
    f"{_STRICT}/wordprocessingml/main": "w",
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
    "urn:schemas-microsoft-com:vml": "v",
}
UNREADABLE_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, etree.LxmlError, KeyError, ValueError, NotImplementedError,
    RuntimeError, EOFError, OSError,
)  # fmt: skip
"""What reading and parsing a member of a damaged archive may raise."""


@dataclass(frozen=True, slots=True)
class Relationship:
    """A part's link to another part: ``kind`` is the last word of its type, ``target`` the other part's name."""

    id: str
    kind: str
    target: str


class Package:
    """The parts of an open archive by name: ``/word/document.xml``; capitals make no difference. ``damaged_count``
    counts.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = {_normalize_part_name(member.filename): member for member in archive.infolist()}
        self.damaged_count = 0

    def list_relationships(self, part: str = "/") -> list[Relationship]:
        """The links of a part, of the package without one; what lies outside the package is left out."""
        folder, name = posixpath.split(part)
        root = self.parse_optional_part(f"{folder.rstrip('/')}/_rels/{name}.rels")
        relationships = []
        for element in iter_children(root):
            target = get_attribute(element, "Target")
            if target and get_attribute(element, "TargetMode").lower() != "external":
                kind = get_attribute(element, "Type").rpartition("/")[2]
                relationships.append(
                    Relationship(
                        get_attribute(element, "Id"), kind, _normalize_part_name(posixpath.join(folder, target))
                    )
                )
        return relationships

    def read_part(self, part: str) -> bytes:
        """The bytes of a part. Raises CorruptFile where it is missing or damaged."""
        try:
            return self._archive.read(self._members[_normalize_part_name(part)])
        except UNREADABLE_ERRORS as exc:
            raise CorruptFile from exc

    def parse_part(self, part: str) -> Element:
        """The root element of a part. Raises CorruptFile where it is missing, damaged or no XML."""
        return parse_xml(self.read_part(part))

    def parse_optional_part(self, part: str | None) -> Element | None:
        """``parse_part`` for what a document can do without: None where it is missing or damaged; what is damaged
        counts.
        """
        if part is None or _normalize_part_name(part) not in self._members:
            return None
        try:
            return self.parse_part(part)
        except CorruptFile:
            self.damaged_count += 1
            return None


def parse_xml(data: bytes) -> Element:
    """The root element; entities stay unexpanded, nothing is loaded. Raises CorruptFile."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(data, parser)
    except UNREADABLE_ERRORS as exc:
        # lxml says it like a fault of the document.
        if getattr(exc, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from exc
        raise CorruptFile from exc


def _normalize_part_name(path: str) -> str:
    """Names begin at the root of the package, whatever ``..`` says."""
    return posixpath.normpath("/" + path.replace("\\", "/").lstrip("/")).lower()


def get_tag(element: Element) -> str:
    """The element's name with the customary prefix, ``w:p``, in the strict dialect too; of others the bare name."""
    tag = element.tag
    return _add_prefix(tag) if isinstance(tag, str) else ""


@lru_cache(maxsize=4096)
def _add_prefix(tag: str) -> str:
    namespace, _, local = tag.removeprefix("{").rpartition("}")
    prefix = _PREFIXES.get(namespace)
    return f"{prefix}:{local}" if prefix else local


def get_attribute(element: Element | None, local_name: str) -> str:
    """The value of an attribute by its bare name, whatever its namespace; empty where there is none."""
    if element is not None:
        for key, value in element.items():
            if key == local_name or key.endswith("}" + local_name):
                return str(value)
    return ""


def get_int_attribute(element: Element | None, local_name: str) -> int | None:
    """An attribute as a whole number of at most nine digits; None for anything else."""
    text = get_attribute(element, local_name)
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 9 else None


def iter_children(element: Element | None, *tags: str) -> Iterator[Element]:
    """The direct children of these names, all of them without names; none of None."""
    for item in element if element is not None else ():
        if not tags or get_tag(item) in tags:
            yield item


def find_child(element: Element | None, *tags: str) -> Element | None:
    """The first child of the first name, its first child of the second, and so on; None where one is missing."""
    for tag in tags:
        element = next(iter_children(element, tag), None)
    return element


def is_switched_on(element: Element | None) -> bool:
    """Whether a switch such as ``w:vanish`` is there and not turned off."""
    return element is not None and get_attribute(element, "val") not in ("0", "false", "off")


def iter_texts(element: Element | None, *tags: str) -> Iterator[str]:
    """The text of every descendant of these names, in document order."""
    for item in element.iter() if element is not None else ():
        if get_tag(item) in tags and item.text:
            yield str(item.text)
