"""Formats of runs of a Word document that change the text: position, symbol fonts, hidden, struck and bold text."""

from dataclasses import dataclass
from typing import Any

from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    is_switched_on,
    iter_children,
)
from app.ingestion.parsers.toolkit.run_text import Position

_MAX_ANCESTORS = 50
_NOTE_STYLES = frozenset({"footnote reference", "endnote reference"})
_SWITCHES = {"w:vanish": "is_hidden", "w:strike": "is_struck", "w:dstrike": "is_doubly_struck", "w:b": "is_bold"}
_FORMAT_TAGS = frozenset({*_SWITCHES, "w:vertAlign", "w:position", "w:rFonts", "w:sz", "w:rStyle"})
_MAX_CACHED = 10_000
_POSITIONS = {"superscript": Position.RAISED, "subscript": Position.LOWERED}


@dataclass(frozen=True, slots=True)
class RunFormat:
    """Format of a run.

    Attributes:
        position: Position of the text relative to the base line.
        offset: Distance of the text above the base line, in half points.
        font: Font of ASCII characters; empty if none is set.
        high_font: Font of other Latin characters; empty if none is set.
        is_hidden: Whether Word does not show the text.
        is_struck: Whether a line strikes through the text.
        is_doubly_struck: Whether two lines strike through the text.
        is_bold: Whether the text is bold.
        size: Size of the font in half points; 0 if none is set.
        is_note_mark: Whether the character style is the style of the marks of notes.
    """

    position: Position = Position.NORMAL
    offset: int = 0
    font: str = ""
    high_font: str = ""
    is_hidden: bool = False
    is_struck: bool = False
    is_doubly_struck: bool = False
    is_bold: bool = False
    size: int = 0
    is_note_mark: bool = False


class RunFormats:
    """Formats of runs, from their own properties, their character style and the style of their paragraph."""

    def __init__(self, root: Element | None) -> None:
        self._styles = {get_attribute(element, "styleId"): element for element in iter_children(root, "w:style")}
        self._defaults = _read_properties(find_child(root, "w:docDefaults", "w:rPrDefault", "w:rPr"))
        self._default_style = next(
            (
                identifier
                for identifier, element in self._styles.items()
                if get_attribute(element, "type") == "paragraph"
                and get_attribute(element, "default") in ("1", "true", "on")
            ),
            "",
        )
        self._by_style: dict[str, dict[str, Any]] = {}
        self._plain: dict[str, RunFormat] = {}
        self._cached: dict[tuple[object, ...], RunFormat] = {}

    def read_format(self, run_properties: Element | None, paragraph_style: str) -> RunFormat:
        """Return the format of a run.

        Args:
            run_properties: The element ``w:rPr``; None if the run has none.
            paragraph_style: Id of the style of its paragraph; empty for the default style.
        """
        paragraph_style = paragraph_style or self._default_style
        if run_properties is None or len(run_properties) == 0:
            plain = self._plain.get(paragraph_style)
            if plain is None:
                plain = self._plain[paragraph_style] = RunFormat(**self._read_paragraph_style(paragraph_style))
            return plain
        key = (paragraph_style, *_list_format_keys(run_properties))
        cached = self._cached.get(key)
        if cached is None:
            own = _read_properties(run_properties)
            style = own.pop("style", "")
            cached = RunFormat(**{**self._read_paragraph_style(paragraph_style), **self._read_style(style), **own})
            if len(self._cached) < _MAX_CACHED:
                self._cached[key] = cached
        return cached

    def _read_paragraph_style(self, identifier: str) -> dict[str, Any]:
        return {**self._defaults, **self._read_style(identifier)}

    def _read_style(self, identifier: str) -> dict[str, Any]:
        """Return the properties of a style and of the styles that it is based on. Circular chains end."""
        cached = self._by_style.get(identifier)
        if cached is not None:
            return cached
        chain: list[Element] = []
        current = identifier
        visited: set[str] = set()
        while current and current not in visited and len(visited) < _MAX_ANCESTORS:
            visited.add(current)
            element = self._styles.get(current)
            chain.append(find_child(element, "w:rPr"))
            current = get_attribute(find_child(element, "w:basedOn"), "val")
        merged: dict[str, Any] = {}
        for properties in reversed(chain):
            merged.update(_read_properties(properties))
        merged.pop("style", None)
        name = get_attribute(find_child(self._styles.get(identifier), "w:name"), "val")
        if name.lower() in _NOTE_STYLES:
            merged["is_note_mark"] = True
        self._by_style[identifier] = merged
        return merged


def _list_format_keys(properties: Element) -> list[tuple[object, ...]]:
    """Return the tag and the attributes of each property that is a part of the format."""
    return [(element.tag, *element.items()) for element in properties if get_tag(element) in _FORMAT_TAGS]


def _read_properties(properties: Element | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for element in properties if properties is not None else ():
        tag = get_tag(element)
        if tag in _SWITCHES:
            values[_SWITCHES[tag]] = is_switched_on(element)
        elif tag == "w:vertAlign":
            values["position"] = _POSITIONS.get(get_attribute(element, "val"), Position.NORMAL)
        elif tag == "w:position":
            values["offset"] = get_int_attribute(element, "val") or 0
        elif tag == "w:rFonts":
            fonts = {"font": get_attribute(element, "ascii"), "high_font": get_attribute(element, "hAnsi")}
            values.update({key: font for key, font in fonts.items() if font})
        elif tag == "w:sz":
            values["size"] = get_int_attribute(element, "val") or 0
        elif tag == "w:rStyle":
            values["style"] = get_attribute(element, "val")
    return values
