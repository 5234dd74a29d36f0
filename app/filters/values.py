"""Checks of JSON values before they reach the database, and the parsing of ISO-8601 dates."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from app.errors import InvalidInputError

Scalar = str | int | float | bool | None
Loc = tuple[str | int, ...]

# Key of filter metadata. Its value repeats the caller's object with the dates only, as instants.
INSTANTS = "$instants"

# Bits of the largest double. Other JSON readers cannot represent larger numbers, and Postgres' numeric accepts far
# larger ones.
_NUMBER_BITS = 1024
_ISO_DATE = re.compile(
    r"(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?)?)?"
)


def check_text(text: str, *, loc: Loc) -> None:
    """Check that Postgres can store a string.

    Raises:
        InvalidInputError: The string contains U+0000 or a lone surrogate.
    """
    if "\0" in text:
        raise InvalidInputError("A string may not contain the character U+0000.", loc=loc)
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError("A string is not valid Unicode: it contains a lone surrogate.", loc=loc) from exc


def check_number(number: int | float, *, loc: Loc) -> None:
    """Check that a number is finite and within the range of a double.

    Raises:
        InvalidInputError: The number is NaN, infinite, or a whole number beyond the range of a double.
    """
    if isinstance(number, int):
        if number.bit_length() > _NUMBER_BITS:
            raise InvalidInputError("A number may not exceed 1.8e308.", loc=loc)
    elif not math.isfinite(number):
        raise InvalidInputError("A number must be finite.", loc=loc)


def to_decimal(number: int | float) -> Decimal:
    """Return the number as the database reads it: by its decimal text, not by its binary value."""
    return Decimal(repr(number))


def parse_instant(text: str) -> str | None:
    """Parse an ISO-8601 date and return the start of its period in UTC.

    The date may be a year, a month, a day, a minute, a second or a fraction of a second. Fractions are cut to
    microseconds. A date without an offset is in UTC. All results have the same length and sort like the instants, so
    the database compares them as strings.

    Args:
        text: Any string.

    Returns:
        The instant as ``YYYY-MM-DDTHH:MM:SS.ffffffZ``; None if the string is no ISO-8601 date.
    """
    match = _ISO_DATE.fullmatch(text)
    if match is None:
        return None
    month, day, hour, minute, second = (
        int(match[name] or default)
        for name, default in (("month", 1), ("day", 1), ("hour", 0), ("minute", 0), ("second", 0))
    )
    microsecond = int((match["fraction"] or "0")[:6].ljust(6, "0"))
    try:
        zone = _parse_zone(match["zone"])
        start = datetime(int(match["year"]), month, day, hour, minute, second, microsecond, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return f"{start.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _parse_zone(offset: str | None) -> timezone:
    if offset is None or offset in "Zz":
        return UTC
    digits = offset[1:].replace(":", "").ljust(4, "0")
    if int(digits[2:]) > 59:
        raise ValueError("an offset has at most 59 minutes")
    delta = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(delta if offset[0] == "+" else -delta)


def exceeds_size(value: object, max_values: int) -> bool:
    """Return whether a JSON value contains more than ``max_values`` values at all levels together.

    The function is iterative and stops at the limit, so a deep or huge value cannot exhaust the process.

    Args:
        value: Any JSON value.
        max_values: Maximum number of inner values; the outermost value does not count.
    """
    pending, value_count = [value], 0
    while pending:
        item = pending.pop()
        inner = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
        value_count += len(inner)
        if value_count > max_values:
            return True
        pending += inner
    return False
