"""Measure the quality of a parse: pages without text, suspected scans, garbled characters, tables and images."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from app.ingestion.types import BlockKind, ParsedDocument
from app.threads import SLICE_CHARACTERS

# Control characters, surrogates, private and unassigned characters, which written text does not contain.
_NOISE_CATEGORIES = frozenset({"Cc", "Cs", "Co", "Cn"})
# The text that some programs write for a glyph without a character, and UTF-8 decoded as Latin-1 or Windows-1252.
_GARBLED_TEXT = re.compile(r"\(cid:\d{1,20}\)|[ÂÃÐÑ][¡-¿]|â€.")
_MAX_GARBLED_CHARACTERS = 26
_PAGED_MEDIA_TYPES = frozenset({"application/pdf", "image/tiff"})


@dataclass(frozen=True, slots=True)
class ParseQuality:
    """Quality of a parsed file.

    Attributes:
        pages: Number of pages or slides; None if the format has neither.
        empty_pages: Numbers of the pages or slides without text, from 1.
        suspected_scans: Empty pages of a PDF or TIFF file; they are scans, unless they are blank.
        garbled_ratio: Share of garbled characters among all characters except white space, from 0 to 1.
        tables: Number of tables.
        images: Number of images that a vision or embedding model would get.
        characters: Number of characters of the text.
    """

    pages: int | None
    empty_pages: list[int]
    suspected_scans: list[int]
    garbled_ratio: float
    tables: int
    images: int
    characters: int


def measure_quality(parsed: ParsedDocument, *, media_type: str) -> ParseQuality:
    """Measure the quality of a parsed file. The call blocks, because it reads every character.

    Args:
        parsed: Result of the parser.
        media_type: Media type of the file.

    Returns:
        The quality.
    """
    texts = [block for block in parsed.blocks if block.kind is not BlockKind.IMAGE]
    pages_with_text = {block.page or block.slide for block in texts}
    empty_pages = [number for number in range(1, (parsed.page_count or 0) + 1) if number not in pages_with_text]
    return ParseQuality(
        pages=parsed.page_count,
        empty_pages=empty_pages,
        suspected_scans=empty_pages if media_type in _PAGED_MEDIA_TYPES else [],
        garbled_ratio=compute_garbled_ratio(block.text for block in texts),
        tables=sum(block.kind is BlockKind.TABLE for block in texts),
        images=len(parsed.blocks) - len(texts),
        characters=sum(len(block.text) for block in texts),
    )


def compute_garbled_ratio(texts: Iterable[str]) -> float:
    """Compute the share of garbled characters among all characters except white space.

    Args:
        texts: Texts of a document.

    Returns:
        A number from 0 (clean text) to 1 (only garbled characters), rounded to four digits; 0 without characters.
    """
    garbled, total = 0, 0
    for text in texts:
        counts = _count_characters(text)
        total += sum(count for character, count in counts.items() if not character.isspace())
        garbled += sum(count for character, count in counts.items() if _is_noise(character))
        garbled += _count_garbled(text)
    return round(min(garbled / total, 1.0), 4) if total else 0.0


def _count_characters(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for start in range(0, len(text), SLICE_CHARACTERS):
        counts.update(text[start : start + SLICE_CHARACTERS])
    return counts


def _count_garbled(text: str) -> int:
    """Count the characters of all matches of ``_GARBLED_TEXT``. A match counts in the slice in which it begins."""
    garbled = end = 0
    for start in range(0, len(text), SLICE_CHARACTERS):
        next_start = start + SLICE_CHARACTERS
        for match in _GARBLED_TEXT.finditer(text, max(start, end), next_start + _MAX_GARBLED_CHARACTERS):
            if match.start() < next_start:
                end = match.end()
                garbled += end - match.start()
    return garbled


def _is_noise(character: str) -> bool:
    return character == "\ufffd" or (not character.isspace() and unicodedata.category(character) in _NOISE_CATEGORIES)
