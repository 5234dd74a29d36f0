"""Text of the inline elements of one block: links, superscripts, ruby and abbreviations."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from app.ingestion.parsers.toolkit.links import format_link
from app.ingestion.parsers.toolkit.superscripts import format_note_mark, format_subscript, format_superscript

MAX_OPEN_ELEMENTS = 8
"""Maximum number of nested elements with a rule. Deeper elements are plain text, so that the time stays linear."""

_SYMBOL_LINKS = frozenset("¶#§↩↪↑⤴⇑🔗⚓\ufe0e\ufe0f ^")
_WORD_ENDS = frozenset(".,;:!?)”’")
_SHORT_MARK = re.compile(r"\d{1,3}|\[\d{1,3}\]|[*†‡§]{1,3}")
_SCHEMES = ("http://", "https://", "mailto:", "tel:")
_BEFORE_CHARACTERS = 3


@dataclass(slots=True)
class _OpenElement:
    """Inline element whose end was not read yet.

    Attributes:
        key: Identifier of the element.
        kind: ``a``, ``sup``, ``sub``, ``ruby``, ``rt`` or ``abbr``.
        start: Index of the first part of the text inside the element.
        value: Address of a link, or long form of an abbreviation.
        is_note: Whether the element is the mark of a note.
        label: Label of a link without text.
        is_linked: Whether a text in front of a block has the address already.
    """

    key: int
    kind: str
    start: int
    value: str = ""
    is_note: bool = False
    label: str = ""
    is_linked: bool = False


class InlineText:
    """Text of the inline elements that were read since the last block.

    Attributes:
        is_plain: Whether links are only their labels, as in headings.
    """

    def __init__(self, base: str, abbreviations: set[str]) -> None:
        self.is_plain = False
        self._base = base
        self._abbreviations = abbreviations
        self._parts: list[str] = []
        self._open: list[_OpenElement] = []
        self._readings: list[str] = []
        self._needs_space = False

    def add(self, text: str) -> None:
        """Add a text."""
        if not text:
            return
        if self._needs_space:
            self._needs_space = False
            last = self.last_character
            if last.isalnum() and text[0].isalnum():
                self._parts.append(" ")
        self._parts.append(text)

    def add_apart(self, text: str) -> None:
        """Add a text with a space on both sides."""
        if text:
            self.add(f" {text} ")

    def add_gap(self) -> None:
        """Insert a space before the next text, if it would join two letters or digits."""
        self._needs_space = True

    @property
    def last_character(self) -> str:
        """The last character of the text so far; an empty string if there is none."""
        return self._parts[-1][-1:] if self._parts else ""

    @property
    def has_parts(self) -> bool:
        """Whether anything was added since the last block, also white space alone."""
        return bool(self._parts)

    @property
    def is_empty(self) -> bool:
        """Whether the text has only white space."""
        return not any(part.strip() for part in self._parts)

    def open(self, key: int, kind: str, value: str = "", *, is_note: bool = False, label: str = "") -> None:
        """Begin an element with a rule.

        Args:
            key: Identifier of the element.
            kind: ``a``, ``sup``, ``sub``, ``ruby``, ``rt`` or ``abbr``.
            value: Address of a link, or long form of an abbreviation.
            is_note: Whether the element is the mark of a note.
            label: Label of a link without text.
        """
        if len(self._open) < MAX_OPEN_ELEMENTS:
            self._open.append(_OpenElement(key, kind, len(self._parts), value, is_note, label))

    def close(self, key: int, *, defers_readings: bool = False) -> None:
        """End an element, if it is the innermost open element.

        Args:
            key: Identifier of the element.
            defers_readings: Whether the next element is ruby too, so that its readings follow the readings so far.
        """
        if not self._open or self._open[-1].key != key:
            return
        element = self._open.pop()
        text = "".join(self._parts[element.start :])
        del self._parts[element.start :]
        if element.kind == "rt":
            self._readings.append(text.strip())
        elif element.kind == "ruby":
            self._parts.append(text)
            if not defers_readings:
                self._add_readings()
        else:
            self._parts.append(_CLOSERS[element.kind](self, element, text))

    def take(self) -> str:
        """Return the text of a block, and begin the next block. Open links are applied to their part of the text."""
        self._add_readings()
        for element in reversed(self._open):
            if element.kind == "a" and not element.is_linked and not self.is_plain:
                text = "".join(self._parts[element.start :])
                linked = self._format_link(element, text)
                if linked != text:
                    element.is_linked = True
                    self._parts[element.start :] = [linked]
                break
        text = "".join(self._parts)
        self._parts.clear()
        self._needs_space = False
        for element in self._open:
            element.start = 0
        return text

    def _add_readings(self) -> None:
        """Add the readings of ruby in parentheses behind the whole word, so that a search finds the word."""
        if self._readings:
            separator = " " if any(reading.isascii() for reading in self._readings) else ""
            readings = separator.join(reading for reading in self._readings if reading)
            if readings:
                self._parts.append(f"({readings})")
            self._readings.clear()

    def _get_before(self) -> str:
        return "".join(self._parts[-_BEFORE_CHARACTERS:])[-_BEFORE_CHARACTERS:]

    def _format_link(self, element: _OpenElement, text: str) -> str:
        address = element.value.lstrip()[:8].lower()
        if not address or address[0] == "#" or not (self._base or address.startswith(_SCHEMES)):
            return text
        return format_link(text, element.value, base=self._base)

    def _close_link(self, element: _OpenElement, text: str) -> str:
        if element.is_note:
            return format_note_mark(text, before=self._get_before())
        if element.value.startswith("#"):
            core = text.strip()
            if core and all(character in _SYMBOL_LINKS for character in core):
                return ""
            if self._is_glued_mark(core):
                return f" {core}" if core[0] == "[" else format_note_mark(text, before=self._get_before())
            for outer in self._open:
                outer.is_note = outer.is_note or outer.kind == "sup"
        if not text.strip() and element.label:
            text = f" {element.label} "
        return text if self.is_plain or element.is_linked else self._format_link(element, text)

    def _is_glued_mark(self, core: str) -> bool:
        """Return whether the text of a link is the mark of a note directly behind a word, and not a cross-reference."""
        before = self._get_before()[-1:]
        is_behind = before.isalnum() or before in _WORD_ENDS
        return bool(before) and is_behind and _SHORT_MARK.fullmatch(core) is not None and not self._has_open_sup()

    def _has_open_sup(self) -> bool:
        return any(outer.kind == "sup" for outer in self._open)

    def _close_superscript(self, element: _OpenElement, text: str) -> str:
        links = [outer for outer in self._open if outer.kind == "a"]
        is_in_note = any(link.is_note or link.value.startswith("#") for link in links)
        before = self._get_before()
        if not text.strip():
            return text
        if element.is_note or is_in_note:
            for link in links:
                link.is_note = False
            # Brackets separate a mark from the text already, so that its digits stay as they are.
            return f" {text.strip()}" if text.strip()[0] == "[" else format_note_mark(text, before=before)
        return format_superscript(text, before=before)

    def _close_subscript(self, _: _OpenElement, text: str) -> str:
        return format_subscript(text, before=self._get_before())

    def _close_abbreviation(self, element: _OpenElement, text: str) -> str:
        core = " ".join(text.split())
        if not core or core in self._abbreviations or element.value.casefold() in core.casefold():
            return text
        self._abbreviations.add(core)
        return f"{text.rstrip()} ({element.value})"


_CLOSERS: dict[str, Callable[[InlineText, _OpenElement, str], str]] = {
    "a": InlineText._close_link,
    "sup": InlineText._close_superscript,
    "sub": InlineText._close_subscript,
    "abbr": InlineText._close_abbreviation,
}
