"""Styles of OpenDocument files: raised and hidden text, headings, fonts, and labels of lists."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.ingestion.parsers.formats.odf.names import expand_name, get_attribute, get_count, get_name
from app.ingestion.parsers.toolkit.list_numbers import format_list_number
from app.ingestion.parsers.toolkit.run_text import Position
from app.ingestion.parsers.toolkit.safe_xml import Element

_MAX_ANCESTORS = 50
MAX_LEVELS = 10
_NUMBER_FORMATS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_MAX_AFFIX = 20


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Format of a text, as its styles set it. None means that no style sets it."""

    position: Position | None = None
    is_hidden: bool | None = None
    is_struck: bool | None = None
    font: str | None = None


@dataclass(frozen=True, slots=True)
class _OdfStyle:
    name: str
    display_name: str
    parent: str
    outline_level: str
    list_style: str
    format: TextFormat


@dataclass(frozen=True, slots=True)
class _ListLevel:
    number_format: str
    prefix: str
    suffix: str
    start: int
    shown_levels: int


@dataclass(slots=True)
class ListCounters:
    """Numbers of a list by level."""

    numbers: dict[int, int] = field(default_factory=dict)


class OdfStyles:
    """Styles of a file.

    Args:
        roots: Root elements that contain styles. Styles of later roots replace styles of the same name.
    """

    def __init__(self, *roots: Element | None) -> None:
        self._styles: dict[tuple[str, str], _OdfStyle] = {}
        self._lists: dict[str, dict[int, _ListLevel]] = {}
        self._fonts: dict[str, str] = {}
        self._outline: dict[int, _ListLevel] = {}
        self._outline_counters = ListCounters()
        self._formats: dict[tuple[str, str], TextFormat] = {}
        for root in roots:
            for group in ("office:font-face-decls", "office:styles", "office:automatic-styles"):
                holder = root.find(expand_name(group)) if root is not None else None
                if holder is not None:
                    self.add_styles(holder)

    def add_styles(self, holder: Element) -> None:
        """Add the styles that are the children of an element. They replace styles of the same name."""
        for element in holder:
            self._add_style(element)

    def get_format(self, family: str, name: str) -> TextFormat:
        """Return the format of a style of the family ``text`` or ``paragraph``, with its parent styles."""
        key = family, name
        if key not in self._formats:
            self._formats[key] = self._merge_formats(family, name)
        return self._formats[key]

    def is_title(self, name: str) -> bool:
        """Return whether a paragraph style is the style of document titles."""
        return any("title" in (style.name.lower(), style.display_name.lower()) for style in self._iter_chain(name))

    def find_list_style(self, name: str) -> str:
        """Return the name of the list style of a paragraph style; empty if it has none."""
        return next((style.list_style for style in self._iter_chain(name) if style.list_style), "")

    def find_outline_level(self, name: str) -> int:
        """Return the level of a heading that a paragraph style sets, from 1; 0 if it sets none."""
        level = next((style.outline_level for style in self._iter_chain(name) if style.outline_level), "")
        return int(level) if level.isascii() and level.isdigit() and len(level) < 3 else 0

    def count_item(self, style: str, level: int, counters: ListCounters, start: int | None) -> str:
        """Count an item of a list and return its label; a hyphen for a bullet, empty for an item without a label."""
        levels = self._lists.get(style)
        definition = levels.get(level) if levels else None
        if levels is None or definition is None:
            return "-"
        return _count_label(levels, level, counters, start)

    def count_heading(self, level: int) -> str:
        """Count a heading and return its label; empty if headings have no numbers."""
        if level not in self._outline:
            return ""
        return _count_label(self._outline, level, self._outline_counters, None)

    def _add_style(self, element: Element) -> None:
        kind, name = get_name(element), get_attribute(element, "style:name")
        if kind == "style:style":
            properties = element.find(expand_name("style:text-properties"))
            self._styles[get_attribute(element, "style:family"), name] = _OdfStyle(
                name,
                get_attribute(element, "style:display-name"),
                get_attribute(element, "style:parent-style-name"),
                get_attribute(element, "style:default-outline-level"),
                get_attribute(element, "style:list-style-name"),
                TextFormat() if properties is None else self._read_format(properties),
            )
        elif kind == "style:font-face":
            self._fonts[name] = get_attribute(element, "svg:font-family").strip("'\" ")
        elif kind == "text:list-style":
            self._lists[name] = dict(_iter_levels(element))
        elif kind == "text:outline-style":
            levels = dict(_iter_levels(element))
            self._outline = {level: value for level, value in levels.items() if value.number_format}

    def _read_format(self, properties: Element) -> TextFormat:
        position = get_attribute(properties, "style:text-position").split(" ")[0]
        line = get_attribute(properties, "style:text-line-through-style") or get_attribute(
            properties, "style:text-line-through-type"
        )
        font = get_attribute(properties, "style:font-name")
        display = get_attribute(properties, "text:display")
        return TextFormat(
            _read_position(position),
            display == "none" if display else None,
            line != "none" if line else None,
            self._fonts.get(font, font) or get_attribute(properties, "fo:font-family").strip("'\" ") or None,
        )

    def _merge_formats(self, family: str, name: str) -> TextFormat:
        formats = [style.format for style in self._iter_chain(name, family)]

        def find(attribute: str) -> object:
            values = (getattr(candidate, attribute) for candidate in formats)
            return next((value for value in values if value is not None), None)

        return TextFormat(find("position"), find("is_hidden"), find("is_struck"), find("font"))  # type: ignore[arg-type]

    def _iter_chain(self, name: str, family: str = "paragraph") -> Iterator[_OdfStyle]:
        visited: set[str] = set()
        while name and name not in visited and len(visited) < _MAX_ANCESTORS:
            visited.add(name)
            style = self._styles.get((family, name))
            if style is None:
                return
            yield style
            name = style.parent


def _read_position(value: str) -> Position | None:
    if not value:
        return None
    if value == "super":
        return Position.RAISED
    if value == "sub":
        return Position.LOWERED
    try:
        height = float(value.removesuffix("%"))
    except ValueError:
        return None
    return Position.RAISED if height > 0 else Position.LOWERED if height < 0 else Position.NORMAL


def _iter_levels(style: Element) -> Iterator[tuple[int, _ListLevel]]:
    for element in style:
        kind = get_name(element)
        if kind in ("text:list-level-style-number", "text:outline-level-style"):
            yield (
                get_count(element, "text:level", MAX_LEVELS),
                _ListLevel(
                    _NUMBER_FORMATS.get(get_attribute(element, "style:num-format"), ""),
                    get_attribute(element, "style:num-prefix")[:_MAX_AFFIX],
                    get_attribute(element, "style:num-suffix")[:_MAX_AFFIX],
                    get_count(element, "text:start-value", 1 << 30),
                    get_count(element, "text:display-levels", MAX_LEVELS),
                ),
            )
        elif kind.startswith("text:list-level-style-"):
            yield get_count(element, "text:level", MAX_LEVELS), _ListLevel("bullet", "", "", 1, 1)


def _count_label(levels: dict[int, _ListLevel], level: int, counters: ListCounters, start: int | None) -> str:
    numbers, definition = counters.numbers, levels[level]
    numbers[level] = start if start is not None else numbers.get(level, definition.start - 1) + 1
    for deeper in [other for other in numbers if other > level]:
        del numbers[deeper]
    if definition.number_format in ("", "bullet"):
        return "-" if definition.number_format else (definition.prefix + definition.suffix).strip()
    first = max(1, level - definition.shown_levels + 1)
    parts = [
        format_list_number(numbers.get(other, levels[other].start), levels[other].number_format)
        for other in range(first, level + 1)
        if other in levels and levels[other].number_format not in ("", "bullet")
    ]
    return f"{definition.prefix}{'.'.join(parts)}{definition.suffix}".strip()
