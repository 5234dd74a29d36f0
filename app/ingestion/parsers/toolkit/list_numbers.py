"""Formatting of the numbers of list items and headings: digits, letters and Roman numerals."""

_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_MAX_ROMAN, _MAX_LETTERS = 3999, 26 * 4


def format_list_number(number: int, number_format: str) -> str:
    """Format a number. Letters continue as in Word: z, aa, bb. Rare formats and numbers out of range become digits.

    Args:
        number: The number.
        number_format: Format with the name that it has in a DOCX file: lowerLetter, upperRoman, decimalZero and others.
    """
    lower = number_format.lower()
    if lower == "lowerletter" or lower == "upperletter":
        if not 0 < number <= _MAX_LETTERS:
            return str(number)
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif lower in ("lowerroman", "upperroman") and 0 < number <= _MAX_ROMAN:
        text = _format_roman(number)
    else:
        return f"{number:02}" if lower == "decimalzero" else str(number)
    return text.upper() if lower.startswith("upper") else text


def _format_roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        text += letters * (number // value)
        number %= value
    return text
