"""Terms of numbers: one form for the ways in which languages write a number or a date."""

import re

from app.lexical.word_patterns import COMMA_THOUSANDS

# 1.000,50 and 1.000.000; 1,00,000 in India. A single group after a point (1.000) may be a decimal number too.
_POINT_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_LAKHS = re.compile(r"\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_DECIMAL_COMMA = re.compile(r"\d+,\d+")
_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
# 5 000 and 1 000 000,50: at most four groups, so that a row of numbers is not one number.
_SPACED = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3}){1,4}(?:[.,]\d{1,2})?(?![\w]| \d|[.,]\d)")
_SPACED_GROUP = re.compile(r" \d\d\d(?!\w)")


def list_number_terms(number: str) -> list[str]:
    """Return the terms of a number: its plain form, and the form in which it is written if both are common.

    Args:
        number: Digits with points and commas between them.

    Returns:
        The terms. A date has its ISO form and its parts too.
    """
    if number.isdigit():
        return [number]
    if COMMA_THOUSANDS.fullmatch(number) or _LAKHS.fullmatch(number):
        return [number.replace(",", "")]
    if _POINT_THOUSANDS.fullmatch(number):
        plain = number.replace(".", "").replace(",", ".")
        return [plain] if "," in number else [number, plain]
    date = _DATE.fullmatch(number)
    if date:
        day, month, year = date[1].zfill(2), date[2].zfill(2), date[3]
        return [number, f"{year}-{month}-{day}", year, month, day]
    return [number.replace(",", ".") if _DECIMAL_COMMA.fullmatch(number) else number]


def list_spaced_numbers(text: str) -> list[str]:
    """Return the numbers of a text whose groups of digits have spaces between them, in their plain form."""
    # The first test begins with a space, which an expression finds several times as fast as a digit.
    if not _SPACED_GROUP.search(text):
        return []
    return [match[0].replace(" ", "").replace(",", ".") for match in _SPACED.finditer(text)]
