"""Digits of a number in the pattern of a number format: groups, decimals, percent, exponents, fractions and masks."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

MAX_DECIMALS = 30
MAX_DENOMINATOR_DIGITS = 6
_MAX_SCALE = 100
_PRECISION = 400
"""Digits of the arithmetic: the largest number of a cell has 309 digits before the point."""

Part = tuple[str, str]
"""Kind and text of a part of a number format."""


def format_digits(value: float, parts: Sequence[Part]) -> str | None:
    """Return a number in the pattern of a section of a number format.

    Args:
        value: The number, not negative.
        parts: Parts of the section, with the kinds of ``number_formats``.

    Returns:
        The text. A section without digits shows only its literals.
    """
    with localcontext() as context:
        context.prec = _PRECISION
        number = Decimal(repr(value)).scaleb(2 * sum(part == ("sign", "%") for part in parts))
        if any(kind == "exponent" for kind, _ in parts):
            return _format_exponent(number, parts)
        slash = _find_slash(parts)
        if slash is not None:
            return _format_fraction(number, parts, slash)
        return _format_decimal(number, parts)


def _find_slash(parts: Sequence[Part]) -> int | None:
    """Return the index of the slash of a fraction: digits are before it and after it."""
    for index, part in enumerate(parts):
        if part == ("sign", "/"):
            before = any(kind == "digit" for kind, _ in parts[:index])
            after = next((part for part in parts[index + 1 :] if part != ("literal", " ")), ("", ""))
            if before and (after[0] == "digit" or after[1].isdigit()):
                return index
    return None


def _format_decimal(number: Decimal, parts: Sequence[Part]) -> str:
    point = next((index for index, part in enumerate(parts) if part == ("sign", ".")), len(parts))
    whole_digits = [index for index in range(point) if parts[index][0] == "digit"]
    last = whole_digits[-1] if whole_digits else point
    scale = _count_scaling_commas(parts)
    is_grouped = any(parts[index] == ("sign", ",") for index in range(last)) and len(whole_digits) > 1
    decimals = min(sum(kind == "digit" for kind, _ in parts[point:]), MAX_DECIMALS)
    rounded = number.scaleb(-3 * scale).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    whole, _, fraction = f"{rounded:f}".partition(".")
    if not whole_digits and not any(kind == "digit" for kind, _ in parts):
        return _join_literals(parts)
    before = _fill_whole("" if whole == "0" else whole, parts[:point], is_grouped=is_grouped)
    if not whole_digits and whole != "0":
        before += whole
    return before + _fill_fraction(fraction, parts[point:])


def _count_scaling_commas(parts: Sequence[Part]) -> int:
    """Return the number of commas directly after the last digit, or before the point: each divides by a thousand."""
    count, is_scaling = 0, True
    for kind, text in reversed(parts):
        if kind == "digit":
            is_scaling = False
        elif (kind, text) == ("sign", ","):
            count += is_scaling
        elif (kind, text) == ("sign", "."):
            is_scaling = True
    return min(count, _MAX_SCALE)


def _fill_whole(digits: str, parts: Sequence[Part], *, is_grouped: bool) -> str:
    """Return the part before the point: digits from right to left, and all remaining digits at the first place."""
    shown: list[str] = []
    places = sum(kind == "digit" for kind, _ in parts)
    position, count = len(digits), 0
    for kind, text in reversed(parts):
        if kind != "digit":
            shown.append("" if (kind, text) == ("sign", ",") else text)
            continue
        places -= 1
        run = digits[:position] if places == 0 else digits[max(0, position - 1) : position]
        position = 0 if places == 0 else max(0, position - 1)
        for digit in reversed(run or {"0": "0", "?": " "}.get(text, "")):
            if is_grouped and count and count % 3 == 0 and digit != " ":
                shown.append(",")
            shown.append(digit)
            count += 1
    return "".join(reversed(shown))


def _fill_fraction(digits: str, parts: Sequence[Part]) -> str:
    """Return the point and the part after it, without the zeros at places of ``#``."""
    shown: list[str] = []
    position = 0
    needed = len(digits.rstrip("0"))
    for kind, text in parts:
        if kind != "digit":
            shown.append("" if (kind, text) == ("sign", ",") else text)
            continue
        is_shown = text == "0" or position < needed
        shown.append(digits[position : position + 1] if is_shown else {"?": " "}.get(text, ""))
        position += 1
    joined = "".join(shown)
    if joined.startswith(".") and not joined[1:2].isdigit() and needed == 0 and position:
        return joined[1:]
    return joined


def _join_literals(parts: Sequence[Part]) -> str:
    return "".join(text for kind, text in parts if kind == "literal" or text in ("%", ".", "/", ","))


def _format_exponent(number: Decimal, parts: Sequence[Part]) -> str:
    index = next(index for index, (kind, _) in enumerate(parts) if kind == "exponent")
    mantissa, after = parts[:index], parts[index + 1 :]
    point = next((place for place, part in enumerate(mantissa) if part == ("sign", ".")), len(mantissa))
    width = max(1, sum(kind == "digit" for kind, _ in mantissa[:point]))
    exponent = number.adjusted() if number else 0
    exponent -= exponent % width if width > 1 else 0
    decimals = min(sum(kind == "digit" for kind, _ in mantissa[point:]), MAX_DECIMALS)
    scaled = number.scaleb(-exponent).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    if scaled >= Decimal(10) ** width:
        exponent, scaled = exponent + width, scaled.scaleb(-width)
    places = [part for part in after if part[0] == "digit"]
    minimum = sum(text == "0" for _, text in places)
    sign = "-" if exponent < 0 else "+" * (parts[index][1][1] == "+")
    tail = _join_literals([part for part in after if part[0] != "digit"])
    return f"{_format_decimal(scaled, mantissa)}{parts[index][1][0]}{sign}{abs(exponent):0{max(1, minimum)}d}{tail}"


def _format_fraction(number: Decimal, parts: Sequence[Part], slash: int) -> str:
    """Return a number with a fraction, such as ``1 3/4``. The denominator is fixed, or its digits are limited."""
    start = slash
    while start and (parts[start - 1][0] == "digit" or parts[start - 1] == ("literal", " ")):
        start -= 1
        if parts[start] == ("literal", " ") and any(kind == "digit" for kind, _ in parts[start + 1 : slash]):
            break
    has_whole = any(kind == "digit" for kind, _ in parts[:start])
    first = end = slash + 1 + sum(part == ("literal", " ") for part in parts[slash + 1 : slash + 2])
    while end < len(parts) and (parts[end][0] == "digit" or parts[end][1].isdigit()):
        end += 1
    denominator_text = "".join(text for _, text in parts[first:end])
    exact = Fraction(number)
    whole = exact.numerator // exact.denominator if has_whole else 0
    remainder = exact - whole
    if denominator_text.strip("0#?").isdigit():
        fixed = int(denominator_text.replace("#", "").replace("?", "")[:MAX_DENOMINATOR_DIGITS]) or 1
        numerator, denominator = round(remainder * fixed), fixed
    else:
        near = remainder.limit_denominator(10 ** min(len(denominator_text) or 1, MAX_DENOMINATOR_DIGITS) - 1)
        numerator, denominator = near.numerator, near.denominator
    if has_whole and denominator and numerator == denominator:
        whole, numerator = whole + 1, 0
    before = _join_literals([part for part in parts[:start] if part[0] != "digit"]).rstrip()
    after = _join_literals(parts[end:])
    shown_whole = str(whole) if has_whole and (whole or not numerator) else ""
    shown_fraction = f"{numerator}/{denominator}" if numerator or not has_whole else ""
    return f"{before}{' '.join(filter(None, (shown_whole, shown_fraction)))}{after}"
