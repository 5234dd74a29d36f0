"""Composition of letters whose accents are separate glyphs, as TeX prints them."""

import unicodedata
from collections.abc import Sequence

from app.ingestion.parsers.formats.pdf.line_spans import PdfCharacter
from app.separate_accents import MARKS_BY_ACCENT

_DOTLESS = {"ı": "i", "ȷ": "j"}
_REACH = 3
"""Maximum number of characters between an accent and its letter in the order of the file."""


def compose_accents(characters: Sequence[PdfCharacter]) -> list[PdfCharacter]:
    """Compose the letters and accents of a line that are printed at one place.

    An accent belongs to the letter above or below which it is printed. An accent at a separate place, such as the
    acute in "It´s", stays as it is.

    Args:
        characters: Characters of a line, in the order of the file.
    """
    result: list[PdfCharacter | None] = list(characters)
    for index, character in enumerate(characters):
        combining = MARKS_BY_ACCENT.get(character.text) or (
            character.text if "\u0300" <= character.text <= "\u036f" else None
        )
        if combining is None:
            continue
        letter_index = _find_letter(result, index)
        letter = result[letter_index] if letter_index is not None else None
        if letter is None or letter_index is None:
            continue
        base = _DOTLESS.get(letter.text, letter.text)
        composed = unicodedata.normalize("NFC", base + combining)
        if len(composed) > 1 and character.text == combining and letter_index == index - 1:
            continue
        if len(composed) == 1 or character.text == combining:
            result[letter_index] = letter._replace(text=composed)
            result[index] = None
            _remove_synthetic_spaces(result, index, letter_index)
    return [character for character in result if character is not None]


def _find_letter(characters: Sequence[PdfCharacter | None], index: int) -> int | None:
    """Return the index of the letter that is printed at the place of an accent."""
    accent = characters[index]
    if accent is None:
        return None
    middle = (accent.x0 + accent.x1) / 2
    for distance in range(1, _REACH + 1):
        for other in (index + distance, index - distance):
            letter = characters[other] if 0 <= other < len(characters) else None
            if letter and letter.text[:1].isalpha() and letter.x0 - 0.05 * letter.size <= middle <= letter.x1:
                return other
    return None


def _remove_synthetic_spaces(characters: list[PdfCharacter | None], first: int, second: int) -> None:
    """Remove the spaces that MuPDF added between an accent and its letter, and on both sides of them."""
    for index in range(min(first, second) - 1, max(first, second) + 2):
        character = characters[index] if 0 <= index < len(characters) else None
        if character and character.is_synthetic and not _is_gap(characters, index):
            characters[index] = None


def _is_gap(characters: Sequence[PdfCharacter | None], index: int) -> bool:
    """Return whether there is a gap on the page at the place of a synthetic space."""
    before = next((item for item in reversed(characters[max(0, index - _REACH) : index]) if item), None)
    after = next((item for item in characters[index + 1 : index + 1 + _REACH] if item), None)
    return before is not None and after is not None and after.x0 - before.x1 > 0.15 * after.size
