"""Removal of base64 data from text, such as images in JSON values and in data addresses."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from app.warnings import ServiceWarning, WarningCode

MIN_CHARACTERS = 200
"""Length from which a run of base64 characters may be data. Keys, hashes and tokens are shorter."""

REPLACEMENT = "…"
_SAMPLE_CHARACTERS = 1000
# Runs of at least 60 characters, each on a line: encoders break lines at 60, 64 or 76 characters. A line break may be
# an escape sequence, as in JSON.
_BLOB = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?:[A-Za-z0-9+/_-]{60,}+(?:(?:\\r)?\\n|\r?\n[ \t]*+)?+)++(?:[A-Za-z0-9+/_-]*+={1,2}+)?+"
)
_DATA_ADDRESS = re.compile(r"(data:[\w.+-]{1,60}/[\w.+-]{1,60}(?:;[\w=.-]{1,60}){0,4};base64,)[A-Za-z0-9+/_%=-]{40,}+")
_LOWERCASE_PAIR = re.compile(r"(?=[a-z]{2})")
_MAX_LOWERCASE_PAIRS = 0.45
_MIN_DIGITS, _MAX_DIGITS = 0.03, 0.5


@dataclass(frozen=True, slots=True)
class TextWithoutBlobs:
    """Text without base64 data.

    Attributes:
        text: The text, with ``…`` in place of each block of data.
        count: Number of blocks of data.
        characters: Number of characters of the data.
    """

    text: str
    count: int = 0
    characters: int = 0

    def list_warnings(self) -> list[ServiceWarning]:
        """Return a warning about the data that was left out; nothing if there was none."""
        if not self.count:
            return []
        subject = "1 block" if self.count == 1 else f"{self.count} blocks"
        verb = "was" if self.count == 1 else "were"
        message = f"{subject} of base64 data ({self.characters:,} characters) {verb} left out."
        return [ServiceWarning(WarningCode.ENCODED_DATA_LEFT_OUT, message, self.count)]


Substitute = Callable[[re.Pattern[str], Callable[[re.Match[str]], str], str], str]
"""Function that replaces the matches of a pattern in a text, like ``re.sub``."""


def remove_base64_blobs(text: str, substitute: Substitute = re.sub) -> TextWithoutBlobs:
    """Remove base64 data from a text. The time is linear in its length.

    A block of data has at least 200 characters, upper and lower case, digits, and fewer pairs of small letters than
    words have. Data addresses (``data:image/png;base64,…``) lose their data from 40 characters on.

    Args:
        text: Text of a file.
        substitute: Function that replaces the data.
    """
    count = characters = 0

    def replace_address(match: re.Match[str]) -> str:
        nonlocal count, characters
        count, characters = count + 1, characters + len(match[0]) - len(match[1])
        return match[1] + REPLACEMENT

    def replace_blob(match: re.Match[str]) -> str:
        nonlocal count, characters
        if not _is_encoded(match[0]):
            return match[0]
        count, characters = count + 1, characters + len(match[0])
        trailing = match[0][len(match[0].rstrip()) :]
        return REPLACEMENT + trailing

    if ";base64," in text:
        text = substitute(_DATA_ADDRESS, replace_address, text)
    text = substitute(_BLOB, replace_blob, text)
    return TextWithoutBlobs(text, count, characters)


def _is_encoded(blob: str) -> bool:
    if len(blob) < MIN_CHARACTERS:
        return False
    sample = "".join(blob[:_SAMPLE_CHARACTERS].replace("\\r", "").replace("\\n", "").split())
    digits = sum(character.isdigit() for character in sample) / len(sample)
    pairs = len(_LOWERCASE_PAIR.findall(sample)) / len(sample)
    has_cases = any(map(str.isupper, sample)) and any(map(str.islower, sample))
    return has_cases and _MIN_DIGITS <= digits <= _MAX_DIGITS and pairs < _MAX_LOWERCASE_PAIRS
