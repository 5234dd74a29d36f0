"""Headings of a PDF file, by its outline, by larger fonts, and by bold lines in the size of the body."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pymupdf import mupdf

from app.ingestion.parsers.formats.pdf.running_lines import HEADING_RATIO
from app.ingestion.parsers.formats.pdf.text_line import LayoutGroup
from app.text_normalization import fold_text

MAX_HEADING_CHARACTERS = 200
MAX_BOLD_CHARACTERS = 120
MAX_BOLD_WORDS = 16
MAX_BOLD_LINES = 2
MAX_BOLD_SHARE = 0.4
"""Maximum share of bold characters in the file. In a file with more bold text, bold is no sign of a heading."""

SLIGHTLY_LARGER = 1.08
"""Font size of a heading that has the length of a title, in font sizes of the body."""

MIN_OUTLINE_SHARE = 0.5
"""Minimum number of headings a page that an outline must name, so that it is the only source of headings."""

MAX_LEVEL = 6
_NUMBERING = re.compile(r"^[\W\d_]+")
_NOT_WORD = re.compile(r"[\W_]+")
_BULLET = re.compile(r"[•‣▪●○◦■□☐☒☑✓✗*·–—-]\s*")
_FOOTNOTE = re.compile(r"(?:[⁰¹²³⁴-⁹*†‡§]|\(\d{1,2}\)\s|\([a-z]\)\s|[⁽])")
_MONTHS = (
    r"(?:jan|feb|mar|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez|janvier|février|mars|avril|juin|juillet|août|"
    r"enero|febrero|marzo|abril|mayo|junio|julio|agosto|märz)\w{0,9}\.?"
)
_DATE = re.compile(
    rf"(?:(?:(?:dated )?as of|dated?:?|am|den|le|on|(?:three|six|nine|twelve) months ended|(?:quarter|year) ended)\s+)?"
    rf"(?:\w{{3,10}},?\s+)?(?:{_MONTHS}\s+\d{{1,2}},?(?:\s+\d{{4}})?|"
    rf"\d{{1,2}}\.?\s+(?:de\s+)?{_MONTHS}(?:\s+(?:de\s+)?\d{{4}})?|{_MONTHS}\s+\d{{4}}|\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}})",
    re.IGNORECASE,
)
_CHAPTER = re.compile(
    r"(?:item|part|section|article|chapter|annex|appendix|exhibit|note|schedule|teil|kapitel|abschnitt|artikel|anhang|"
    r"chapitre|artículo|capítulo|sección)\s+(?:\d|[ivxlc]+\b|[a-z]\b)",
    re.IGNORECASE,
)
_DEPTH = re.compile(r"\d{1,2}((?:\.\d{1,2}){1,4})\.?\s")
_SENTENCE_END = (".", ",", ";", ":", "…", "?", "!")
_ADDRESS = re.compile(r"@|https?://|www\.|\d{3}[)\s./-]+\d{3,}|\b[A-Z][A-Za-z]+\.? \d{5}\b")


def read_outline(document: Any) -> dict[int, dict[str, int]]:
    """Return the outline as levels by page number and normalized title; empty if the outline is damaged.

    Args:
        document: Document of PyMuPDF.
    """
    outline: dict[int, dict[str, int]] = {}
    try:
        entries = document.get_toc(simple=True)
    except (mupdf.FzErrorBase, RuntimeError, ValueError, TypeError, IndexError):
        return outline
    for level, title, page in entries:
        if normalized_title := _normalize_title(title):
            outline.setdefault(page, {})[normalized_title] = min(int(level), MAX_LEVEL)
    return outline


def _normalize_title(title: str) -> str:
    """Return a title in lowercase, without numbering, spaces and punctuation."""
    return _NOT_WORD.sub("", _NUMBERING.sub("", fold_text(title))).casefold()


class HeadingDetector:
    """Detector of the headings of a PDF file.

    Headings are the paragraphs that the outline names. If the outline names few paragraphs, headings are also
    paragraphs in a larger font and bold lines in the size of the body.

    Args:
        outline: Levels of the outline, by page number and normalized title.
        body: Font size of the body in points.
        groups: Paragraphs and tables of the file with their page numbers.
    """

    def __init__(
        self, outline: Mapping[int, Mapping[str, int]], body: float, groups: Sequence[tuple[int, LayoutGroup]]
    ) -> None:
        matched = sum(page in outline and _normalize_title(group.text) in outline[page] for page, group in groups)
        page_count = max((page for page, _ in groups), default=0)
        self._outline = outline if matched else {}
        self._is_outline_complete = matched > 0 and matched >= MIN_OUTLINE_SHARE * page_count
        self._body = body
        sizes = {round(group.size, 1) for _, group in groups if group.size > body and _can_be_heading(group)}
        larger = sorted((size for size in sizes if size > HEADING_RATIO * body), reverse=True)
        self._levels = {size: min(rank, MAX_LEVEL) for rank, size in enumerate(larger, start=1)}
        self._has_bold_headings = _has_bold_headings(groups)
        self._bold_level = min(MAX_LEVEL - 1, max(self._levels.values(), default=0) + 1)

    def get_level(self, group: LayoutGroup, page: int) -> int:
        """Return the level of a heading from 1; 0 for a paragraph or a table."""
        if not _can_be_heading(group):
            return 0
        if self._outline:
            level = self._outline.get(page, {}).get(_normalize_title(group.text), 0)
            if level or self._is_outline_complete:
                return level
        if _is_no_title(group.text):
            return 0
        if level := self._levels.get(round(group.size, 1), 0):
            return level
        return self._get_bold_level(group)

    def _get_bold_level(self, group: LayoutGroup) -> int:
        is_larger = group.size >= SLIGHTLY_LARGER * self._body
        is_bold = self._has_bold_headings and group.size >= 0.9 * self._body and _is_bold(group)
        if not (is_larger or is_bold) or not _is_short_title(group):
            return 0
        text = group.text
        if depth := _DEPTH.match(text):
            return min(MAX_LEVEL, self._bold_level + depth[1].count("."))
        return self._bold_level if text.isupper() or _CHAPTER.match(text) else min(MAX_LEVEL, self._bold_level + 1)


def _can_be_heading(group: LayoutGroup) -> bool:
    return not group.rows and len(group.text) <= MAX_HEADING_CHARACTERS and any(map(str.isalpha, group.text))


def _has_bold_headings(groups: Sequence[tuple[int, LayoutGroup]]) -> bool:
    """Return whether little text outside of tables is bold."""
    total, bold = 0, 0
    for _, group in groups:
        if not group.rows:
            total += len(group.text)
            bold += len(group.text) if _is_bold(group) else 0
    return 0 < bold <= MAX_BOLD_SHARE * total


def _is_bold(group: LayoutGroup) -> bool:
    return bool(group.lines) and all(line.is_bold for line in group.lines)


def _is_short_title(group: LayoutGroup) -> bool:
    """Return whether a paragraph is short, and is no sentence, number, label, address or blank of a form."""
    text = group.text
    if len(group.lines) > MAX_BOLD_LINES or text.endswith(_SENTENCE_END):
        return False
    if len(text) > MAX_BOLD_CHARACTERS or len(text.split()) > MAX_BOLD_WORDS:
        return False
    letters, digits = sum(map(str.isalpha, text)), sum(map(str.isdigit, text))
    return letters >= 4 and letters > digits and not _ADDRESS.search(text) and "__" not in text


def _is_no_title(text: str) -> bool:
    """Return whether a short text is a bullet, a footnote, a date or a sentence, not a title."""
    if _BULLET.match(text) or _FOOTNOTE.match(text) or _DATE.fullmatch(text.strip("() ")):
        return True
    return text.endswith((".", ";", ",")) and len(text.split()) > 8
