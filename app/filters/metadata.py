"""Checks of metadata that callers store, and the form of metadata that filters read."""

import json
from collections.abc import Iterable, Mapping

from app.errors import InvalidInputError
from app.filters.parser import EXPIRY, RESERVED_NAMES
from app.filters.values import INSTANTS, Loc, check_number, check_text, exceeds_size, parse_instant

MAX_DEPTH = 8
MAX_BYTES = 16 * 1024
_TOO_LARGE = f"Metadata may have at most {MAX_BYTES} bytes."


def check_metadata(metadata: object) -> dict[str, object]:
    """Check that metadata can be stored and filtered.

    Metadata is a JSON object of at most 16 KiB in UTF-8 and at most 8 levels. Top-level keys must not begin with ``$``.
    Every string must be storable, and every number finite.

    Args:
        metadata: Metadata of the caller.

    Returns:
        The metadata, unchanged.

    Raises:
        InvalidInputError: The metadata is invalid. Its location is ``("metadata",)`` or a path below that.
    """
    loc: Loc = ("metadata",)
    if not isinstance(metadata, dict):
        raise InvalidInputError("Metadata must be a JSON object.", loc=loc)
    # Each value takes at least two bytes of JSON. This count is much cheaper than the checks below.
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
    """Build the metadata that a row stores for filters.

    The result has the caller's metadata, the reserved names, and below ``$instants`` a comparable form of every
    ISO-8601 date. Dates with different precision or offsets do not sort correctly as strings. Postgres compares dates
    with and without offsets only in functions that depend on the time zone of the session. The caller's own values stay
    unchanged.

    Args:
        metadata: Metadata of the caller.
        reserved: Values of names in ``RESERVED_NAMES``, and of ``EXPIRY``. A date is an ISO-8601 string. Names in
            ``MULTI_VALUED_NAMES`` have a list. A filter treats an absent name as missing.

    Returns:
        The merged metadata.

    Raises:
        ValueError: A reserved name is unknown.
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
