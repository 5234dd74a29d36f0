"""Provided times must be in the years of the database driver; stored times are always readable."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from pydantic import TypeAdapter, ValidationError

from app.api.openai.schemas import to_unix_seconds
from app.api.v1.schemas import Time
from app.times import ProvidedDay, ProvidedTime, to_utc_time

GIVEN, DAY, SHOWN = TypeAdapter(ProvidedTime), TypeAdapter(ProvidedDay), TypeAdapter(Time)


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",  # the zero time of Go and .NET
        "0001-12-31T23:59:59Z",
        "0002-01-01T00:00:00+01:00",
        "9998-12-31T23:59:59-01:00",
        "9999-01-01T00:00:00Z",
        "9999-12-31T23:59:59.9999999Z",  # the last time of .NET
        "+275760-09-13T00:00:00Z",  # JavaScript
        "-271821-04-20T00:00:00Z",
        "292278994-08-17T07:12:55.807Z",  # Java
        "0000-00-00T00:00:00Z",
        "1970-01-01T00:00:00",
    ],
)
def test_provided_time_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        GIVEN.validate_python(text)


@pytest.mark.parametrize(
    "text",
    ["0002-01-01T00:00:00Z", "1601-01-01T00:00:00Z", "1899-12-30T00:00:00Z", "9998-12-31T23:59:59.999999Z"],
)
def test_provided_time_in_range_is_accepted(text: str) -> None:
    assert GIVEN.validate_python(text) == datetime.fromisoformat(text)


def test_provided_day_out_of_range_is_refused() -> None:
    for day in ("0001-01-01", "9999-12-31"):
        with pytest.raises(ValidationError):
            DAY.validate_python(day)
    assert DAY.validate_python("0002-01-01") == date(2, 1, 1)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (datetime.min, "0001-01-01T00:00:00.000Z"),
        (datetime.max, "9999-12-31T23:59:59.999Z"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), "0001-01-01T00:00:00.000Z"),
        (datetime(2026, 1, 2, 4, tzinfo=timezone(timedelta(hours=1))), "2026-01-02T03:00:00.000Z"),
    ],
)
def test_stored_time_is_always_shown(stored: datetime, shown: str) -> None:
    assert SHOWN.dump_json(stored).decode() == f'"{shown}"'
    assert to_utc_time(stored).tzinfo is UTC
    assert isinstance(to_unix_seconds(stored), int)
