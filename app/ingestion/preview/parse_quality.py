"""What a parse is worth: pages without text, scans, characters that are noise, tables."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from app.ingestion.types import BlockKind, ParsedDocument
from app.threads import SLICE_CHARACTERS

# Control characters, halves of surrogate pairs, private and unassigned characters: no letter that anybody wrote.
_NOISE_CATEGORIES = frozenset({"Cc", "Cs", "Co", "Cn"})
# What some programs write for a glyph without a character, and UTF-8 that was read as Latin-1 or Windows-1252.
_GARBLED_TEXT = re.compile(r"\(cid:\d{1,20}\)|[ÂÃÐÑ][¡-¿]|â€.")
_MAX_GARBLED_CHARACTERS = 26
_PAGED_MEDIA_TYPES = frozenset({"application/pdf", "image/tiff"})


@dataclass(frozen=True, slots=True)
class ParseQuality:
    """How well a file could be read; pages, or slides, count from 1.

    ``suspected_scans`` are pages of a PDF or a picture without any text: scans, unless they are blank.
    ``garbled_ratio`` is the share of characters that are noise, spaces apart. ``images`` are those that a model would
    look at.
    """

    pages: int | None
    empty_pages: list[int]
    suspected_scans: list[int]
    garbled_ratio: float
    tables: int
    images: int
    characters: int


def measure_quality(parsed: ParsedDocument, *, media_type: str) -> ParseQuality:
    """Blocking: it looks at every character."""
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
    """The share of characters that say nothing, spaces apart: 0 for a clean text, 1 for nothing but noise."""
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
    """The characters of what _GARBLED finds, each match by the slice in which it begins."""
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
