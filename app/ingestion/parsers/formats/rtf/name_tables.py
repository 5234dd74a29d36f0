"""Font table and style sheet of an RTF file, collected entry by entry."""

import re
from dataclasses import dataclass, field

from app.ingestion.parsers.toolkit.code_pages import DEFAULT_CHARSETS, SYMBOL, find_charset_codec, find_codec
from app.ingestion.parsers.toolkit.symbol_fonts import is_symbol_font

_HEADING_NAME = re.compile(r"(?:heading|überschrift|titre|título|titolo|kop|rubrik|nagłówek|заголовок) ?([1-9])")
_TITLE_NAMES = frozenset({"title", "titel", "titre", "título", "titolo", "tytuł", "название"})
_MAX_LEVEL = 9
_MAX_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class Font:
    """Font: its name, its character set and its code page, if it has one."""

    name: str = ""
    charset: int | None = None
    code_page: int | None = None

    def find_codec(self, default: str) -> str:
        """Return the code page of the font's text, as a name of Python or ``SYMBOL``."""
        if is_symbol_font(self.name):
            return SYMBOL
        if self.code_page and self.charset in (None, *DEFAULT_CHARSETS):
            return find_codec(self.code_page)
        return find_charset_codec(self.charset, default)


@dataclass(slots=True)
class NameTables:
    """Fonts and heading levels of styles by number, and the entry that is open.

    Attributes:
        fonts: Fonts by number.
        levels: Levels of the styles that are headings, by number.
        number: Number of the open entry.
        charset: Character set of the open font.
        code_page: Code page of the open font.
        outline: Outline level of the open style; None if it has none.
    """

    fonts: dict[int, Font] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    number: int = 0
    charset: int | None = None
    code_page: int | None = None
    outline: int | None = None

    def add_font(self, name: str) -> None:
        """End the open font."""
        if len(self.fonts) < _MAX_ENTRIES:
            self.fonts[self.number] = Font(name.strip(), self.charset, self.code_page)
        self.charset = self.code_page = None

    def add_style(self, name: str) -> None:
        """End the open style. A style without an outline level can be a heading by its name."""
        name = name.strip().casefold()
        match = _HEADING_NAME.fullmatch(name)
        level = int(match[1]) if match else int(name in _TITLE_NAMES)
        if self.outline is not None:
            level = self.outline + 1 if self.outline < _MAX_LEVEL else 0
        if level and len(self.levels) < _MAX_ENTRIES:
            self.levels[self.number] = level
        self.number, self.outline = 0, None

    def find_level(self, style: int, outline: int | None) -> int:
        """Return the level of a heading from 1, or 0 for ordinary text."""
        if outline is not None:
            return outline + 1 if 0 <= outline < _MAX_LEVEL else 0
        return self.levels.get(style, 0)
