"""Markers of list items: bullets, numbers, letters and Roman numerals."""

from selectolax.lexbor import LexborNode

from app.ingestion.parsers.formats.html.elements import Attributes, list_children
from app.ingestion.parsers.toolkit.list_numbers import format_list_number

_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


class ListCounter:
    """Number of the items of an ordered list."""

    def __init__(self, node: LexborNode) -> None:
        attributes = node.attributes
        self._number_format = _FORMATS.get(attributes.get("type") or "", "decimal")
        self._number = read_number(attributes.get("start"), 1)
        self._step = 1
        if "reversed" in attributes:
            self._step = -1
            if attributes.get("start") is None:
                self._number = sum(1 for child in list_children(node) if child.tag == "li")

    def advance(self, attributes: Attributes) -> str:
        """Return the marker of the next item."""
        number = read_number(attributes.get("value"), self._number)
        self._number = number + self._step
        return f"{format_list_number(number, self._number_format)}. "


def read_number(value: str | None, default: int) -> int:
    """Return the number in an attribute; the default if it has none or is too long."""
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default
