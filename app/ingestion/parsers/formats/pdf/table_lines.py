"""Lines around a table: captions, units, periods, footnotes, and lines that look like cells of a table."""

import re
from collections.abc import Sequence

from app.ingestion.parsers.formats.pdf.text_line import TextLine

MAX_CAPTION_LINES = 8
MAX_CAPTION_CHARACTERS = 200
MAX_TITLE_CHARACTERS = 100
MAX_NOTE_LINES = 12

_UNIT = re.compile(
    r"\(?(?:u\.?s\.? )?(?:all |amounts?|dollars?|shares?|figures|values|unaudited|\$|€|£|in |\(in |tabular)",
    re.IGNORECASE,
)
_UNIT_WORDS = re.compile(
    r"\b(?:millions?|thousands?|billions?|unaudited|mio|tsd|mrd|per share|percent|eur|usd|\$000)\b", re.IGNORECASE
)
_INNER_UNIT = re.compile(r"\([^()]{0,40}\b(?:millions|thousands|billions)\b[^()]{0,60}\)", re.IGNORECASE)
_PERIOD = re.compile(
    r"\b(?:ended|ending|months?|quarters?|quarterly|weeks?|years?|as of|q[1-4]|[1-4]q|fy|h[12]|change|inc|dec"
    r"|increase|decrease"
    r"|jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|january|february|march|april|june|july|august|september"
    r"|october|november|december|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_LEADER = re.compile(r"(?:\. ?){4}|…{2}|_{4}")
_NOTE = re.compile(
    r"(?:\(\w{1,2}\)|[*†‡§#]{1,3}|[¹²³⁴⁵⁶⁷⁸⁹]|\[\w{1,2}\]|\d{1,2}\)|[a-z]\)) ?\S"
    r"|\d{1,2} [A-Z]|(?:notes?|sources?|n/?m|na|quelle|anmerkung)\b ?[:=.]?",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"@|\b(?:[A-Z]{1,2}[ -])?\d{5}(?:-\d{4})?\b \S|[A-Z]{2} \d{5}|(?:tel|phone|fax|telephone|email|e-mail)\b",
    re.IGNORECASE,
)
_CONTINUED = re.compile(r"\bcont(?:inued|['’]d|\.)|fortsetzung|suite\b", re.IGNORECASE)
_SENTENCE_END = (".", "!", "?", ";", ",")


def is_unit(text: str) -> bool:
    """Return whether a line names a unit, such as millions of dollars, or says that it is unaudited."""
    if len(text) > 120:
        return False
    return _UNIT.match(text) is not None and _UNIT_WORDS.search(text) is not None


def is_period(text: str) -> bool:
    """Return whether a header cell names a period, a date or a change between periods."""
    return len(text) <= 60 and _PERIOD.search(text) is not None


def is_leader(text: str) -> bool:
    """Return whether a text has dots or underscores that lead to a page number or are a field of a form."""
    return ("..." in text or ". ." in text or "…" in text or "__" in text) and _LEADER.search(text) is not None


def is_address(text: str) -> bool:
    """Return whether a text looks like a line of an address block."""
    return _ADDRESS.search(text, 0, 60) is not None


def is_form_entry(text: str) -> bool:
    """Return whether a text is the name of a field of a form."""
    return text.endswith(":") or ": " in text


def is_continued(text: str) -> bool:
    """Return whether a line says that a table continues."""
    return len(text) <= MAX_CAPTION_CHARACTERS and _CONTINUED.search(text) is not None


def is_caption(text: str) -> bool:
    """Return whether a line above a table is a part of its caption: a title, a unit, or the end of a sentence."""
    if is_unit(text) or is_intro(text):
        return True
    return len(text) <= MAX_TITLE_CHARACTERS and not text.endswith(_SENTENCE_END) and not text[:1].islower()


def is_intro(text: str) -> bool:
    """Return whether a line ends a sentence that introduces a table, such as ``were as follows (in millions):``."""
    return text.endswith(":") or (len(text) <= MAX_CAPTION_CHARACTERS and _INNER_UNIT.search(text) is not None)


def find_notes_end(lines: Sequence[TextLine], start: int) -> int:
    """Return the index behind the footnotes that begin at ``start``; ``start`` if there are none.

    Args:
        lines: Lines of the region.
        start: Index of the line below the last row of the table.
    """
    end = start
    while end < min(len(lines), start + MAX_NOTE_LINES):
        line, above = lines[end], lines[end - 1]
        gap = line.y0 - above.y1
        if gap > 2 * above.height:
            break
        is_new = _NOTE.match(line.text.strip()) is not None
        is_continuation = end > start and gap < 0.5 * line.height and abs(line.size - above.size) < 0.5
        if not is_new and not is_continuation and not (end == start and _is_remark(lines, end)):
            break
        end += 1
    return end


def _is_remark(lines: Sequence[TextLine], index: int) -> bool:
    """Return whether a line below a table is a remark on the table: near to it, and apart from the text below."""
    line, above = lines[index], lines[index - 1]
    if line.y0 - above.y1 > 0.8 * line.height or line.size > above.size + 0.1 or not line.text.rstrip().endswith("."):
        return False
    return index + 1 == len(lines) or lines[index + 1].y0 - line.y1 > 0.7 * line.height
