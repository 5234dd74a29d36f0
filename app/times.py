"""Conversion of times in requests, which must be in the range of the database driver, and of stored times.

The driver maps the first and the last time of Python to infinities of Postgres, and returns infinities without a time
zone. A
time in a request must therefore be in the years 2 to 9998, in UTC.
"""

from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field

MIN_YEAR, MAX_YEAR = 2, 9998
OUT_OF_RANGE_MESSAGE = f"must be a time between the years {MIN_YEAR} and {MAX_YEAR} in UTC"


def to_storable_time(value: datetime) -> datetime:
    """Return the time of a request in UTC.

    Args:
        value: A time with an offset.

    Raises:
        ValueError: The time is outside the years 2 to 9998.
    """
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise ValueError(OUT_OF_RANGE_MESSAGE) from None
    if not MIN_YEAR <= moment.year <= MAX_YEAR:
        raise ValueError(OUT_OF_RANGE_MESSAGE)
    return moment


def to_utc_time(value: datetime) -> datetime:
    """Return a stored time in UTC. An infinity, which the driver returns without a time zone, is in UTC."""
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        return value.replace(tzinfo=UTC)


def _to_storable_day(value: date) -> date:
    if not MIN_YEAR <= value.year <= MAX_YEAR:
        raise ValueError(f"must be a day between the years {MIN_YEAR} and {MAX_YEAR}")
    return value


TIME_RANGE = f"A time with an offset, between the years {MIN_YEAR} and {MAX_YEAR} in UTC"
DAY_RANGE = f"a day between the years {MIN_YEAR} and {MAX_YEAR}"

ProvidedTime = Annotated[AwareDatetime, AfterValidator(to_storable_time), Field(description=f"{TIME_RANGE}.")]
ProvidedDay = Annotated[date, AfterValidator(_to_storable_day)]
