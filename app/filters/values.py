"""What a JSON value may be before the database sees it, and which instant a date in it names."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from app.errors import InvalidInputError

Scalar = str | int | float | bool | None
Loc = tuple[str | int, ...]

# A key of filterable metadata: below it the caller's tree again with only its dates, as instants.
INSTANTS = "$instants"

# The largest double: what other JSON readers can still hold, and far from what Postgres' numeric refuses.
_NUMBER_BITS = 1024
_ISO_DATE = re.compile(
    r"(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?)?)?"
)


def check_text(text: str, *, loc: Loc) -> None:
    """Raise InvalidInputError for what Postgres cannot store: U+0000 and lone surrogates."""
    if "\0" in text:
        raise InvalidInputError("A string may not hold the character U+0000.", loc=loc)
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError("A string is not valid Unicode.", loc=loc) from exc


def check_number(number: int | float, *, loc: Loc) -> None:
    """Raise InvalidInputError for NaN, infinities and whole numbers beyond the range of a double."""
    if isinstance(number, int):
        if number.bit_length() > _NUMBER_BITS:
            raise InvalidInputError("A number may not exceed 1.8e308.", loc=loc)
    elif not math.isfinite(number):
        raise InvalidInputError("A number must be finite.", loc=loc)


def to_decimal(number: int | float) -> Decimal:
    """The number as the database reads it: by its decimal text, not by its binary value."""
    return Decimal(repr(number))


def parse_instant(text: str) -> str | None:
    """The start of the period that an ISO-8601 date names, as ``YYYY-MM-DDTHH:MM:SS.ffffffZ``; None for any other text.

    A year, a month, a day, a minute, a second or a fraction of one (cut to microseconds); without an offset it is UTC.
    All results have one length and order like the instants themselves, so the database compares them as strings.
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
    """Whether more values than that stand in it, at whatever depth; without recursion, and no further than that."""
    pending, value_count = [value], 0
    while pending:
        item = pending.pop()
        inner = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
        value_count += len(inner)
        if value_count > max_values:
            return True
        pending += inner
    return False
