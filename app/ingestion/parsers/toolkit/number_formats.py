"""Number formats of spreadsheets: a number as its cell shows it ([ECMA-376] part 1, 18.8.31).

Formats are untrusted. A format longer than ``MAX_FORMAT_CHARACTERS`` is not applied, and the time is linear in its
length. Group and decimal separators are those of English, as the files store them.
"""

import math
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from app.ingestion.parsers.toolkit.date_formats import DATE_PART, format_date
from app.ingestion.parsers.toolkit.digit_patterns import format_digits

MAX_FORMAT_CHARACTERS = 500
GENERAL = "General"

BUILT_IN_FORMATS = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "#,##0;-#,##0", 6: "#,##0;-#,##0",
    7: "#,##0.00;-#,##0.00", 8: "#,##0.00;-#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm",
    21: "h:mm:ss", 37: "#,##0;-#,##0", 38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00",
    41: "#,##0;-#,##0", 42: "#,##0;-#,##0", 43: "#,##0.00;-#,##0.00", 44: "#,##0.00;-#,##0.00",
    45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip
"""Formats by id, as [ECMA-376] part 1, 18.8.30 lists them.

The dates 14 and 22 and the currency of the formats 5 to 8, 42 and 44 depend on the locale. They are left out.
"""

_TOKEN = re.compile(
    r"""
    (?P<quoted>"[^"]*"?)
    | \\(?P<escaped>.)
    | _(?P<space>.)
    | \*(?P<fill>.)
    | \[(?P<bracket>[^\]]*)\]
    | (?P<general>general)
    | (?P<ampm>am/pm|a/p)
    | (?P<exponent>e[+-])
    | (?P<date>y+|m+|d+|h+|s+|e+|g+|b+)
    | (?P<digit>[0#?])
    | (?P<sign>[.,%/@])
    | (?P<literal>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_SIMPLE = re.compile(
    r'(?P<prefix>(?:"[^"%]{0,40}"|[$€£ ])?)(?P<whole>0|#,##0)(?:\.(?P<decimals>0{1,6}))?'
    r'(?P<suffix>%|(?:\\? )?(?:"[^"%]{0,40}"|[€$£])?)'
)
MAX_SIMPLE_VALUE = 1e15
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d{1,15}(?:\.\d{1,15})?)")
_CURRENCY = re.compile(r"\$([^-\]]*)(?:-[0-9A-Fa-f]+)?")
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FormatToken:
    """Part of a format: its kind and its text.

    Attributes:
        kind: ``literal``, ``digit``, ``sign``, ``exponent``, ``date``, ``ampm``, ``elapsed`` or ``general``.
        text: Characters of the part; the shown characters of a literal.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Section:
    """Format of the numbers for which a condition holds; without a condition, of the numbers that are left."""

    tokens: tuple[FormatToken, ...]
    condition: tuple[str, float] | None = None

    @property
    def is_text(self) -> bool:
        return any(token.kind == "sign" and token.text == "@" for token in self.tokens)

    @property
    def is_date(self) -> bool:
        return any(token.kind in ("date", "ampm", "elapsed") for token in self.tokens)


@dataclass(frozen=True, slots=True)
class _SimpleFormat:
    """Format of plain digits with decimals, groups, a percent sign and words around them, such as ``0.00 "EUR"``.

    It gives the same text as the general algorithm, in a tenth of the time.
    """

    prefix: str
    suffix: str
    unit: Decimal
    is_grouped: bool
    is_percent: bool

    def format(self, value: float) -> str:
        number = Decimal(repr(abs(value)))
        if self.is_percent:
            number = number.scaleb(2)
        rounded = number.quantize(self.unit, ROUND_HALF_UP)
        digits = f"{rounded:,f}" if self.is_grouped else f"{rounded:f}"
        sign = "-" if value < 0 and rounded else ""
        return " ".join(f"{sign}{self.prefix}{digits}{self.suffix}".split())


@lru_cache(maxsize=2048)
def _find_simple_format(code: str) -> _SimpleFormat | None:
    """Return a format as a simple one; None if it needs the general algorithm."""
    match = _SIMPLE.fullmatch(code)
    if match is None:
        return None
    decimals = len(match["decimals"] or "")
    prefix, suffix = (text.replace('"', "").replace("\\", "") for text in (match["prefix"], match["suffix"]))
    unit = Decimal(1).scaleb(-decimals)
    return _SimpleFormat(prefix, suffix, unit, "," in match["whole"], "%" in suffix)


def format_number(value: float, code: str) -> str | None:
    """Return a number as its cell shows it.

    Args:
        value: The number; for dates and times the number of days since 30 December 1899.
        code: Number format, such as ``#,##0.00 "EUR"``.

    Returns:
        The text; None if the format is General, hides the number or cannot be applied.
    """
    simple = _find_simple_format(code)
    if simple is not None and abs(value) < MAX_SIMPLE_VALUE:
        return simple.format(value)
    sections = _parse_sections(code)
    if sections is None or not math.isfinite(value):
        return None
    index = _choose_section(sections, value)
    if index is None:
        return None
    section = sections[index]
    if section.is_text or any(token.kind == "general" for token in section.tokens):
        return None
    if not section.tokens:
        return "" if value == 0 else None
    if section.is_date:
        return _clean(format_date(value, [(token.kind, token.text) for token in section.tokens]))
    shown = format_digits(abs(value), [(token.kind, token.text) for token in section.tokens])
    if shown is None:
        return None
    is_negative = value < 0 and not _is_negative_only(sections, index) and any(digit in shown for digit in "123456789")
    return _clean(f"-{shown.lstrip()}" if is_negative else shown)


def format_text(text: str, code: str) -> str:
    """Return the text of a cell with the words that its format adds, such as ``"Item "@``."""
    sections = _parse_sections(code) or ()
    section = next((section for section in sections if section.is_text), None)
    if section is None:
        return text
    parts = [text if token.text == "@" and token.kind == "sign" else token.text for token in section.tokens]
    return _clean("".join(parts)) or text


def is_date_format(code: str) -> bool:
    """Return whether a format shows a number as a date, a time or a duration."""
    sections = _parse_sections(code)
    return sections is not None and sections[0].is_date


def _clean(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())


@lru_cache(maxsize=2048)
def _parse_sections(code: str) -> tuple[_Section, ...] | None:
    """Return the sections of a format; None if it is General or too long."""
    if not code or len(code) > MAX_FORMAT_CHARACTERS or code.lower() == "general":
        return None
    sections: list[_Section] = []
    tokens: list[FormatToken] = []
    condition: tuple[str, float] | None = None
    for match in _TOKEN.finditer(code):
        if match.lastgroup == "literal" and match[0] == ";":
            sections.append(_Section(tuple(tokens), condition))
            tokens, condition = [], None
        elif match.lastgroup == "bracket":
            match_condition = _CONDITION.fullmatch(match["bracket"])
            condition = (match_condition[1], float(match_condition[2])) if match_condition else condition
            tokens.extend(_read_bracket(match["bracket"]))
        else:
            tokens.append(_read_token(match))
    return (*sections, _Section(tuple(tokens), condition))


def _read_bracket(content: str) -> list[FormatToken]:
    """Return the token of a bracket: an elapsed time or a currency. A color or a condition shows nothing."""
    if _ELAPSED.fullmatch(content):
        return [FormatToken("elapsed", content.lower())]
    currency = _CURRENCY.fullmatch(content)
    return [FormatToken("literal", currency[1])] if currency and currency[1] else []


def _read_token(match: re.Match[str]) -> FormatToken:
    kind = match.lastgroup or "literal"
    if kind == "quoted":
        return FormatToken("literal", match[0].strip('"'))
    if kind in ("escaped", "literal"):
        return FormatToken("literal", match[kind])
    if kind in ("space", "fill"):
        return FormatToken("literal", " ")
    if kind == "date" and not DATE_PART.fullmatch(match[0].lower()):
        return FormatToken("literal", match[0])
    return FormatToken(kind, match[0].lower() if kind == "date" else match[0])


def _choose_section(sections: tuple[_Section, ...], value: float) -> int | None:
    """Return the index of the section for a number; None if no section is for it."""
    numeric = [index for index, section in enumerate(sections[:4]) if not (section.is_text and len(sections) > 1)][:3]
    if any(sections[index].condition for index in numeric):
        for index in numeric:
            condition = sections[index].condition
            if condition is None or _is_fulfilled(condition, value):
                return index
        return None
    if len(numeric) > 2 and value == 0:
        return numeric[2]
    if len(numeric) > 1 and value < 0:
        return numeric[1]
    return numeric[0] if numeric else None


def _is_fulfilled(condition: tuple[str, float], value: float) -> bool:
    sign, limit = condition
    return {
        "<": value < limit, ">": value > limit, "<=": value <= limit, ">=": value >= limit, "=": value == limit,
        "<>": value != limit,
    }[sign]  # fmt: skip


def _is_negative_only(sections: tuple[_Section, ...], index: int) -> bool:
    """Return whether a section is for negative numbers alone, so that it shows its own sign."""
    condition = sections[index].condition
    if condition is not None:
        return condition[0] in ("<", "<=") and condition[1] <= 0
    return index == 1 and not any(section.condition for section in sections)
