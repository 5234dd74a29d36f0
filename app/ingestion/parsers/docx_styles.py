"""What a Word document's styles and numbering say of a paragraph: its heading level, and the label of a list item."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.ingestion.parsers.ooxml import Element, attribute, child, children, integer, is_on

_LEVELS = 9
"""Word counts nine levels from 0, of headings and of lists alike; ordinary text has the outline level 9."""

_HEADING = re.compile(r"heading ?([1-9])", re.IGNORECASE)
_MAX_ANCESTORS = 50
_BULLET = "-"
_LABEL_PART = re.compile(r"%([1-9])")
_MAX_LABEL = 40
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_MAX_ROMAN, _MAX_LETTERS = 3999, 26 * 4


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    based_on: str
    properties: Element | None


class Styles:
    """The paragraph styles of a document, empty without a styles part."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, _Style] = {}
        self._default = ""
        for element in children(root, "w:style"):
            identifier = attribute(element, "styleId")
            name, based_on = (attribute(child(element, word), "val") for word in ("w:name", "w:basedOn"))
            self._styles[identifier] = _Style(name, based_on, child(element, "w:pPr"))
            if attribute(element, "type") == "paragraph" and attribute(element, "default") in ("1", "true", "on"):
                self._default = identifier

    def heading_level(self, properties: Element | None) -> int:
        """The level of the heading from 1, 0 for ordinary text: the nearest outline level, else the style's name.

        Built-in styles have their English names in every language's Word.
        """
        outline = integer(child(properties, "w:outlineLvl"), "val")
        if outline is None:
            outline = next(self._outlines(properties), _LEVELS)
        return outline + 1 if 0 <= outline < _LEVELS else 0

    def numbering(self, properties: Element | None) -> tuple[int | None, int | None, str]:
        """The number and level that the paragraph or its style asks for, and the style that did."""
        found = child(properties, "w:numPr")
        number, level = integer(child(found, "w:numId"), "val"), integer(child(found, "w:ilvl"), "val")
        if number is not None:
            return number, level, ""
        for identifier, style in self._chain(properties):
            inherited = child(style.properties, "w:numPr")
            number = integer(child(inherited, "w:numId"), "val")
            if number is not None:
                level = integer(child(inherited, "w:ilvl"), "val") if level is None else level
                return number, level, identifier
        return None, None, ""

    def _outlines(self, properties: Element | None) -> Iterator[int]:
        for identifier, style in self._chain(properties):
            outline = integer(child(style.properties, "w:outlineLvl"), "val")
            if outline is not None:
                yield outline
            elif found := _HEADING.fullmatch(style.name or identifier):
                yield int(found[1]) - 1
            elif style.name.lower() == "title":
                yield 0

    def _chain(self, properties: Element | None) -> Iterator[tuple[str, _Style]]:
        """The paragraph's style and those it is based on; a circle ends, and so does an endless line."""
        identifier = attribute(child(properties, "w:pStyle"), "val") or self._default
        seen: set[str] = set()
        while identifier and identifier not in seen and len(seen) < _MAX_ANCESTORS:
            seen.add(identifier)
            # A style that is only named, as by a generator without a styles part, still says what it is.
            style = self._styles.get(identifier) or _Style(identifier, "", None)
            yield identifier, style
            identifier = style.based_on


@dataclass(frozen=True, slots=True)
class _Level:
    start: int
    number_format: str
    text: str
    style: str
    legal: bool
    restarts: bool


@dataclass(slots=True)
class _List:
    """An abstract numbering and how far it has counted; all numberings that refer to it count on together."""

    levels: dict[int, _Level]
    counters: dict[int, int] = field(default_factory=dict)


class Numbering:
    """The labels of list items and numbered headings, counted in reading order; none without a numbering part."""

    def __init__(self, root: Element | None) -> None:
        lists = {attribute(one, "abstractNumId"): _List(_levels(one)) for one in children(root, "w:abstractNum")}
        links = _links(root)
        self._lists: dict[int, _List] = {}
        self._overrides: dict[int, dict[int, int]] = {}
        for element in children(root, "w:num"):
            number = integer(element, "numId")
            abstract = attribute(child(element, "w:abstractNumId"), "val")
            found = lists.get(links.get(abstract, abstract))
            if number is not None and found is not None:
                self._lists[number] = found
                self._overrides[number] = _overrides(element)

    def label(self, number: int | None, level: int | None, style: str) -> str | None:
        """Count one paragraph: ``-`` for a bullet, ``2.1`` for a number, empty for a list without; None for no list.

        ``level`` None means the level that belongs to ``style``, else the first.
        """
        found = self._lists.get(number) if number else None
        if number is None or found is None:
            return None
        if level is None:
            level = next((at for at, one in found.levels.items() if style and one.style == style), 0)
        definition = found.levels.get(level)
        if definition is None:
            return _BULLET
        self._count(number, found, level)
        if definition.number_format == "bullet":
            return _BULLET
        return _label(found, definition)

    def _count(self, number: int, found: _List, level: int) -> None:
        counters = found.counters
        # A restart holds for the first paragraph of its numbering alone.
        restart = self._overrides[number].pop(level, None)
        if restart is not None:
            counters[level] = restart
        elif level in counters:
            counters[level] += 1
        else:
            counters[level] = found.levels[level].start
        for deeper in [at for at in counters if at > level and found.levels[at].restarts]:
            del counters[deeper]


def _levels(abstract: Element) -> dict[int, _Level]:
    levels = {}
    for element in children(abstract, "w:lvl"):
        at = integer(element, "ilvl")
        if at is not None and 0 <= at < _LEVELS:
            start = integer(child(element, "w:start"), "val")
            levels[at] = _Level(
                start=1 if start is None else start,
                number_format=attribute(child(element, "w:numFmt"), "val") or "decimal",
                text=attribute(child(element, "w:lvlText"), "val")[:_MAX_LABEL],
                style=attribute(child(element, "w:pStyle"), "val"),
                legal=is_on(child(element, "w:isLgl")),
                restarts=integer(child(element, "w:lvlRestart"), "val") != 0,
            )
    return levels


def _links(root: Element | None) -> dict[str, str]:
    """Abstract numberings without levels of their own → the one that has them: both name the same numbering style."""
    owners: dict[str, str] = {}
    borrowers: dict[str, str] = {}
    for element in children(root, "w:abstractNum"):
        identifier = attribute(element, "abstractNumId")
        if owned := attribute(child(element, "w:styleLink"), "val"):
            owners[owned] = identifier
        if borrowed := attribute(child(element, "w:numStyleLink"), "val"):
            borrowers[identifier] = borrowed
    return {identifier: owners[style] for identifier, style in borrowers.items() if style in owners}


def _overrides(element: Element) -> dict[int, int]:
    restarts = {}
    for override in children(element, "w:lvlOverride"):
        at, start = integer(override, "ilvl"), integer(child(override, "w:startOverride"), "val")
        if at is not None and start is not None:
            restarts[at] = start
    return restarts


def _label(found: _List, definition: _Level) -> str:
    def part(match: re.Match[str]) -> str:
        at = int(match[1]) - 1
        level = found.levels.get(at)
        if level is None:
            return ""
        number_format = "decimal" if definition.legal else level.number_format
        return _number(found.counters.setdefault(at, level.start), number_format)

    return "" if definition.number_format == "none" else _LABEL_PART.sub(part, definition.text).strip()


def _number(number: int, number_format: str) -> str:
    """Letters as Word counts: z, aa, bb. What is rare or out of range is written in digits."""
    lower = number_format.lower()
    if lower == "lowerletter" or lower == "upperletter":
        if not 0 < number <= _MAX_LETTERS:
            return str(number)
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif lower in ("lowerroman", "upperroman") and 0 < number <= _MAX_ROMAN:
        text = _roman(number)
    else:
        return f"{number:02}" if lower == "decimalzero" else str(number)
    return text.upper() if lower.startswith("upper") else text


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        text += letters * (number // value)
        number %= value
    return text
