"""Characters of symbol fonts, such as Wingdings: a tick that a file stores as a letter becomes a tick."""

import re
from functools import lru_cache
from types import MappingProxyType

from app.ingestion.parsers.toolkit import symbol_font_tables as tables

_TABLES = MappingProxyType(
    {
        "symbol": tables.SYMBOL,
        "symbolmt": tables.SYMBOL,
        "wingdings": tables.WINGDINGS,
        "wingdings2": tables.WINGDINGS_2,
        "wingdings3": tables.WINGDINGS_3,
        "webdings": tables.WEBDINGS,
        "zapfdingbats": tables.ZAPFDINGBATS,
        "itczapfdingbats": tables.ZAPFDINGBATS,
        "monotypesorts": tables.ZAPFDINGBATS,
    }
)
_MAX_NAME_CHARACTERS = 100
_NOT_IN_NAME = re.compile(r"[^a-z0-9]+")
_PRIVATE_START, _PRIVATE_END = 0xF020, 0xF0FF
_PRIVATE = re.compile(f"[{chr(_PRIVATE_START)}-{chr(_PRIVATE_END)}]")
# Bullets and ticks that files write without their font: U+F0B7 of Symbol, and the others of Wingdings.
_FONTLESS = {0xB7: "•", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑", 0xE0: "→"}


def is_symbol_font(font: str) -> bool:
    """Return whether a font has symbols in the place of letters. Case, spaces and hyphens of its name are ignored."""
    return _find_table(font) is not None


def find_symbol(font: str, code: int) -> str:
    """Return the character that a code has in a font.

    Args:
        font: Name of the font.
        code: Code of the character, from 0x20 to 0xFF, or the same code in the private area from U+F020.

    Returns:
        The character. It is empty if the font or the code is unknown.
    """
    index = (code - 0xF000 if _PRIVATE_START <= code <= _PRIVATE_END else code) - tables.FIRST_CODE
    table = _find_table(font)
    if table is None:
        return _FONTLESS.get(code - 0xF000, "")
    character = table[index] if 0 <= index < len(table) else tables.MISSING
    return "" if character == tables.MISSING else character


def replace_symbols(text: str, font: str) -> tuple[str, int]:
    """Replace the characters of a symbol font in a text. Characters beyond the font, such as CJK, stay.

    Args:
        text: Text in one font.
        font: Name of the font; empty if it is unknown.

    Returns:
        The text, and the number of characters that are unknown. Unknown characters are left out.
    """
    is_symbol = font != "" and is_symbol_font(font)
    if not is_symbol and (text.isascii() or not _PRIVATE.search(text)):
        return text, 0
    parts, unknown_count = [], 0
    for character in text:
        code = ord(character)
        is_private = _PRIVATE_START <= code <= _PRIVATE_END
        if not is_private and not (is_symbol and 0x20 < code <= 0xFF and code != 0xA0):
            parts.append(character)
        elif symbol := find_symbol(font, code):
            parts.append(symbol)
        else:
            unknown_count += 1
    return "".join(parts), unknown_count


@lru_cache(maxsize=256)
def _find_table(font: str) -> str | None:
    return _TABLES.get(_NOT_IN_NAME.sub("", font.lower()[:_MAX_NAME_CHARACTERS]))
