"""Styles and numbering of a Word document: heading levels of paragraphs, and labels of list items."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.ingestion.parsers.toolkit.list_numbers import format_list_number
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_int_attribute,
    is_switched_on,
    iter_children,
)

_MAX_LEVELS = 9
"""Number of levels of headings and of lists, which Word counts from 0. Ordinary text has the outline level 9."""

_HEADING_NAME = re.compile(r"heading ?([1-9])", re.IGNORECASE)
_MAX_ANCESTORS = 50
_BULLET = "-"
_LABEL_PART = re.compile(r"%([1-9])")
_MAX_LABEL = 40


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    based_on: str
    properties: Element | None


class Styles:
    """Paragraph styles of a document; empty if the document has no styles part."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, _Style] = {}
        self._default = ""
        self._levels: dict[str, int] = {}
        self._numberings: dict[str, tuple[int | None, int | None, str]] = {}
        for element in iter_children(root, "w:style"):
            identifier = get_attribute(element, "styleId")
            name, based_on = (get_attribute(find_child(element, tag), "val") for tag in ("w:name", "w:basedOn"))
            self._styles[identifier] = _Style(name, based_on, find_child(element, "w:pPr"))
            if get_attribute(element, "type") == "paragraph" and get_attribute(element, "default") in (
                "1",
                "true",
                "on",
            ):
                self._default = identifier

    def get_heading_level(self, properties: Element | None) -> int:
        """Return the level of a heading from 1, or 0 for ordinary text.

        The level is the outline level of the paragraph, else of the paragraph's style, else of the nearest style on
        which that style is based. A style without an outline level can be a heading by its name: built-in styles have
        English names in Word of every language.
        """
        outline = get_int_attribute(find_child(properties, "w:outlineLvl"), "val")
        if outline is None:
            style = self._get_identifier(properties)
            if style not in self._levels:
                self._levels[style] = next(self._iter_outline_levels(style), _MAX_LEVELS)
            outline = self._levels[style]
        return outline + 1 if 0 <= outline < _MAX_LEVELS else 0

    def get_name(self, properties: Element | None) -> str:
        """Return the name of the style of a paragraph, which is English for built-in styles; else its id."""
        identifier = self._get_identifier(properties)
        style = self._styles.get(identifier)
        return style.name or identifier if style is not None else identifier

    def find_numbering(self, properties: Element | None) -> tuple[int | None, int | None, str]:
        """Find the numbering of a paragraph, from the paragraph itself or its styles.

        Args:
            properties: Properties of the paragraph, the element ``w:pPr``; None if it has none.

        Returns:
            The id and the level of the numbering, and the id of the style that sets it. The level is None if none is
            set, and the style is empty if the paragraph itself sets the numbering. Without a numbering the id is None.
        """
        numbering_properties = find_child(properties, "w:numPr")
        number, level = (
            get_int_attribute(find_child(numbering_properties, "w:numId"), "val"),
            get_int_attribute(find_child(numbering_properties, "w:ilvl"), "val"),
        )
        if number is not None:
            return number, level, ""
        style = self._get_identifier(properties)
        if style not in self._numberings:
            self._numberings[style] = self._find_style_numbering(style)
        number, inherited_level, identifier = self._numberings[style]
        if number is None:
            return None, None, ""
        return number, inherited_level if level is None else level, identifier

    def _find_style_numbering(self, paragraph_style: str) -> tuple[int | None, int | None, str]:
        for identifier, style in self._iter_style_chain(paragraph_style):
            numbering = find_child(style.properties, "w:numPr")
            number = get_int_attribute(find_child(numbering, "w:numId"), "val")
            if number is not None:
                return number, get_int_attribute(find_child(numbering, "w:ilvl"), "val"), identifier
        return None, None, ""

    def _get_identifier(self, properties: Element | None) -> str:
        return get_attribute(find_child(properties, "w:pStyle"), "val") or self._default

    def _iter_outline_levels(self, paragraph_style: str) -> Iterator[int]:
        for identifier, style in self._iter_style_chain(paragraph_style):
            outline = get_int_attribute(find_child(style.properties, "w:outlineLvl"), "val")
            if outline is not None:
                yield outline
            elif match := _HEADING_NAME.fullmatch(style.name or identifier):
                yield int(match[1]) - 1
            elif style.name.lower() == "title":
                yield 0

    def _iter_style_chain(self, identifier: str) -> Iterator[tuple[str, _Style]]:
        """Yield a style and the styles that it is based on. Circular and very long chains end."""
        visited: set[str] = set()
        while identifier and identifier not in visited and len(visited) < _MAX_ANCESTORS:
            visited.add(identifier)
            # Some programs write no styles part. The name of a missing style still shows that it is a heading.
            style = self._styles.get(identifier) or _Style(identifier, "", None)
            yield identifier, style
            identifier = style.based_on


@dataclass(frozen=True, slots=True)
class _NumberingLevel:
    start: int
    number_format: str
    text: str
    style: str
    is_legal: bool
    can_restart: bool


@dataclass(slots=True)
class _AbstractNumbering:
    """Abstract numbering with its counters, by level. All numberings that refer to it share the counters."""

    levels: dict[int, _NumberingLevel]
    counters: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Labels of list items and numbered headings, counted in reading order.

    Without a numbering part, paragraphs have no labels.
    """

    def __init__(self, root: Element | None) -> None:
        lists = {
            get_attribute(definition, "abstractNumId"): _AbstractNumbering(_read_levels(definition))
            for definition in iter_children(root, "w:abstractNum")
        }
        links = _resolve_style_links(root)
        self._lists: dict[int, _AbstractNumbering] = {}
        self._overrides: dict[int, dict[int, int]] = {}
        for element in iter_children(root, "w:num"):
            number = get_int_attribute(element, "numId")
            abstract = get_attribute(find_child(element, "w:abstractNumId"), "val")
            numbering = lists.get(links.get(abstract, abstract))
            if number is not None and numbering is not None:
                self._lists[number] = numbering
                self._overrides[number] = _read_overrides(element)

    def count_paragraph(self, number: int | None, level: int | None, style: str) -> str | None:
        """Count a paragraph and return its label.

        Args:
            number: Id of the numbering; None for a paragraph without one.
            level: Level from 0; None for the level that belongs to ``style``, or 0 if no level does.
            style: Id of the style that sets the numbering; may be empty.

        Returns:
            A label such as ``2.1``, or ``-`` for a bullet. An empty string for a list without labels, and None for a
            paragraph outside of lists.
        """
        numbering = self._lists.get(number) if number else None
        if number is None or numbering is None:
            return None
        if level is None:
            level = next(
                (index for index, candidate in numbering.levels.items() if style and candidate.style == style), 0
            )
        definition = numbering.levels.get(level)
        if definition is None:
            return _BULLET
        self._advance_counter(number, numbering, level)
        if definition.number_format == "bullet":
            return _BULLET
        return _format_label(numbering, definition)

    def _advance_counter(self, number: int, numbering: _AbstractNumbering, level: int) -> None:
        counters = numbering.counters
        # A restart applies only to the first paragraph of its numbering.
        restart = self._overrides[number].pop(level, None)
        if restart is not None:
            counters[level] = restart
        elif level in counters:
            counters[level] += 1
        else:
            counters[level] = numbering.levels[level].start
        for deeper in [index for index in counters if index > level and numbering.levels[index].can_restart]:
            del counters[deeper]


def _read_levels(abstract: Element) -> dict[int, _NumberingLevel]:
    levels = {}
    for element in iter_children(abstract, "w:lvl"):
        index = get_int_attribute(element, "ilvl")
        if index is not None and 0 <= index < _MAX_LEVELS:
            start = get_int_attribute(find_child(element, "w:start"), "val")
            levels[index] = _NumberingLevel(
                start=1 if start is None else start,
                number_format=get_attribute(find_child(element, "w:numFmt"), "val") or "decimal",
                text=get_attribute(find_child(element, "w:lvlText"), "val")[:_MAX_LABEL],
                style=get_attribute(find_child(element, "w:pStyle"), "val"),
                is_legal=is_switched_on(find_child(element, "w:isLgl")),
                can_restart=get_int_attribute(find_child(element, "w:lvlRestart"), "val") != 0,
            )
    return levels


def _resolve_style_links(root: Element | None) -> dict[str, str]:
    """Map each abstract numbering without levels to the abstract numbering that defines its levels.

    Both name the same numbering style.
    """
    owners: dict[str, str] = {}
    style_links: dict[str, str] = {}
    for element in iter_children(root, "w:abstractNum"):
        identifier = get_attribute(element, "abstractNumId")
        if owned_style := get_attribute(find_child(element, "w:styleLink"), "val"):
            owners[owned_style] = identifier
        if linked_style := get_attribute(find_child(element, "w:numStyleLink"), "val"):
            style_links[identifier] = linked_style
    return {identifier: owners[style] for identifier, style in style_links.items() if style in owners}


def _read_overrides(element: Element) -> dict[int, int]:
    restarts = {}
    for override in iter_children(element, "w:lvlOverride"):
        index, start = (
            get_int_attribute(override, "ilvl"),
            get_int_attribute(find_child(override, "w:startOverride"), "val"),
        )
        if index is not None and start is not None:
            restarts[index] = start
    return restarts


def _format_label(numbering: _AbstractNumbering, definition: _NumberingLevel) -> str:
    def format_part(match: re.Match[str]) -> str:
        index = int(match[1]) - 1
        level = numbering.levels.get(index)
        if level is None:
            return ""
        number_format = "decimal" if definition.is_legal else level.number_format
        return format_list_number(numbering.counters.setdefault(index, level.start), number_format)

    return "" if definition.number_format == "none" else _LABEL_PART.sub(format_part, definition.text).strip()
