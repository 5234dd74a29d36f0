"""Metadata on its way in: what a caller may store, and the form of it that filters are evaluated against."""

import json
from collections.abc import Iterable, Mapping

from app.errors import InvalidInputError
from app.filters.parser import EXPIRY, RESERVED_NAMES
from app.filters.values import INSTANTS, Loc, check_number, check_text, exceeds_size, parse_instant

MAX_DEPTH = 8
MAX_BYTES = 16 * 1024
_TOO_LARGE = f"Metadata may have at most {MAX_BYTES} bytes."


def check_metadata(metadata: object) -> dict[str, object]:
    """The caller's metadata, unchanged, once it is known to be storable and filterable.

    A JSON object of at most 16 KiB (encoded as UTF-8) and 8 levels, no key at its top beginning with ``$``, every
    string storable, every number finite. Raises InvalidInputError with a loc below ``("metadata",)``.
    """
    loc: Loc = ("metadata",)
    if not isinstance(metadata, dict):
        raise InvalidInputError("Metadata must be a JSON object.", loc=loc)
    # Each takes two bytes at least; looking at it takes much longer than counting it.
    if exceeds_size(metadata, MAX_BYTES // 2):
        raise InvalidInputError(_TOO_LARGE, loc=loc)
    _check_value(metadata, depth=1, loc=loc)
    for key in metadata:
        if key.startswith("$"):
            raise InvalidInputError("Metadata keys that begin with $ are reserved.", loc=(*loc, key))
    if len(json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode()) > MAX_BYTES:
        raise InvalidInputError(_TOO_LARGE, loc=loc)
    return metadata


def build_filter_metadata(metadata: Mapping[str, object], *, reserved: Mapping[str, object]) -> dict[str, object]:
    """What a row carries for filters: the metadata as it is, the reserved names, and the instants of their dates.

    ``reserved`` maps names of RESERVED_NAMES, and EXPIRY, to scalars (dates as ISO-8601 strings), those of LISTED_NAMES
    to a list; a name that is absent does not exist for filters. Dates written with other precision or offset order
    wrongly as strings, and Postgres compares dates with and without offset only in functions that depend on the
    session's time zone; so every ISO-8601 date that a path reaches is repeated below ``$instants`` in one comparable
    form, and the caller's own value stays untouched. Raises ValueError for a reserved name that does not exist.
    """
    unknown = reserved.keys() - RESERVED_NAMES - {EXPIRY}
    if unknown:
        raise ValueError(f"not a reserved name: {sorted(unknown)[0]}")
    merged: dict[str, object] = {**metadata, **reserved}
    dates = _collect_instants(merged)
    return {**merged, INSTANTS: dates} if dates else merged


def _collect_instants(tree: Mapping[str, object]) -> dict[str, object]:
    instants: dict[str, object] = {}
    for key, value in tree.items():
        dates = (
            parse_instant(value)
            if isinstance(value, str)
            else _collect_instants(value)
            if isinstance(value, Mapping)
            else None
        )
        if dates:
            instants[key] = dates
    return instants


def _check_value(value: object, *, depth: int, loc: Loc) -> None:
    if isinstance(value, dict | list):
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"Metadata may have at most {MAX_DEPTH} levels.", loc=loc)
        if isinstance(value, dict):
            _check_keys(value, loc=loc)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _check_value(item, depth=depth + 1, loc=(*loc, key))
    elif isinstance(value, str):
        check_text(value, loc=loc)
    elif isinstance(value, int | float):
        check_number(value, loc=loc)
    elif value is not None:
        raise InvalidInputError("Metadata must be JSON.", loc=loc)


def _check_keys(keys: Iterable[object], *, loc: Loc) -> None:
    for key in keys:
        if not isinstance(key, str):
            raise InvalidInputError("Metadata keys must be strings.", loc=loc)
        check_text(key, loc=loc)
