"""Dates, times and durations of spreadsheets in the pattern of their number format."""

import datetime
import re
from collections.abc import Sequence

EPOCH = datetime.datetime(1899, 12, 30)
MAX_SERIAL = 2_958_466
"""First number of days after 31 December 9999."""

DATE_PART = re.compile(r"y{1,4}|m{1,5}|d{1,4}|h{1,2}|s{1,2}|e{1,4}|a")
_SECONDS_OF_DAY = 86_400
_MAX_FRACTION_DIGITS = 3

Part = tuple[str, str]


def format_date(value: float, parts: Sequence[Part]) -> str | None:
    """Return a number of days as a date, a time or a duration.

    Args:
        value: Number of days since 30 December 1899.
        parts: Parts of the section, with the kinds of ``number_formats``.

    Returns:
        The text; None if the number is no date, such as a negative one.
    """
    is_elapsed = any(kind == "elapsed" for kind, _ in parts)
    if abs(value) >= MAX_SERIAL or (value < 0 and not is_elapsed):
        return None
    digits = _count_fraction_digits(parts)
    seconds = round(abs(value) * _SECONDS_OF_DAY, digits) if digits else round(abs(value) * _SECONDS_OF_DAY)
    if not any(kind in ("elapsed", "ampm") or text[0] in "hs" for kind, text in parts if kind != "literal"):
        seconds = int(abs(value)) * _SECONDS_OF_DAY
    if seconds >= MAX_SERIAL * _SECONDS_OF_DAY:
        return None
    moment = EPOCH + datetime.timedelta(seconds=seconds)
    shown: list[str] = []
    has_half_days = any(kind == "ampm" for kind, _ in parts)
    for index, (kind, text) in enumerate(parts):
        if kind == "date" and text[0] == "m" and _is_minute(parts, index):
            shown.append(f"{moment.minute:0{min(len(text), 2)}d}")
        elif kind == "date":
            shown.append(_format_part(moment, text, has_half_days=has_half_days))
        elif kind == "elapsed":
            shown.append(_format_elapsed(seconds, text))
        elif kind == "ampm":
            shown.append(_format_half_day(moment, text))
        elif kind == "digit":
            shown.append(_format_fraction_digit(seconds, parts, index))
        else:
            shown.append(text)
    return ("-" if value < 0 else "") + "".join(shown)


def _count_fraction_digits(parts: Sequence[Part]) -> int:
    return min(sum(kind == "digit" for kind, _ in parts), _MAX_FRACTION_DIGITS)


def _format_fraction_digit(seconds: float, parts: Sequence[Part], index: int) -> str:
    place = sum(kind == "digit" for kind, _ in parts[:index])
    digits = f"{seconds % 1:.3f}".partition(".")[2]
    return digits[place] if place < _MAX_FRACTION_DIGITS else "0"


def _is_minute(parts: Sequence[Part], index: int) -> bool:
    """Return whether an ``m`` means minutes: an hour is before it, or seconds are after it."""
    if len(parts[index][1]) > 2:
        return False
    before = next((text for kind, text in reversed(parts[:index]) if kind in ("date", "elapsed")), "")
    after = next((text for kind, text in parts[index + 1 :] if kind in ("date", "elapsed")), "")
    return before.startswith("h") or after.startswith("s")


def _format_part(moment: datetime.datetime, text: str, *, has_half_days: bool) -> str:
    hour = (moment.hour + 11) % 12 + 1 if has_half_days else moment.hour
    year = str(moment.year)
    shown = {
        "y": year[-2:] if len(text) <= 2 else year, "e": year, "d": str(moment.day), "dd": f"{moment.day:02d}",
        "ddd": f"{moment:%a}", "dddd": f"{moment:%A}", "m": str(moment.month), "mm": f"{moment.month:02d}",
        "mmm": f"{moment:%b}", "mmmm": f"{moment:%B}", "mmmmm": f"{moment:%B}"[:1], "h": str(hour),
        "hh": f"{hour:02d}", "s": str(moment.second), "ss": f"{moment.second:02d}",
    }  # fmt: skip
    return shown.get(text) or shown.get(text[0], text)


def _format_elapsed(seconds: float, text: str) -> str:
    divisor = {"h": 3600, "m": 60, "s": 1}[text[0]]
    return f"{int(seconds // divisor):0{min(len(text), 9)}d}"


def _format_half_day(moment: datetime.datetime, text: str) -> str:
    half = "AM" if moment.hour < 12 else "PM"
    return half if len(text) > 3 else half[0]
