"""Translation of Dify's metadata conditions to metadata filters (docs/reference/dify.md)."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from app.errors import InvalidInputError

Value = Any
Filter = dict[str, Any]
# Operators of metadata filters. A key with such a name needs a backslash.
_RESERVED_WORDS = frozenset({"and", "or", "not"})


# Python's ``float`` also accepts nan, infinity, 1_000 and digits of other scripts. In metadata, these are texts.
_NUMBER_PATTERN = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def _parse_number(value: Value) -> Value:
    """Return a number for the text of a number, because Dify also sends numbers as text; other values are unchanged."""
    if not isinstance(value, str) or not _NUMBER_PATTERN.fullmatch(value) or math.isinf(float(value)):
        return value
    try:
        return int(value)
    except ValueError:
        return float(value)


def _list_number_forms(value: Value) -> list[Value]:
    """Return the value as text and as number, because metadata may have either."""
    return list(dict.fromkeys([value, _parse_number(value)])) if isinstance(value, str) else [value]


def _split_values(value: Value) -> list[Value]:
    """Return the values of a list, or of a text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else [value]


FilterBuilder = Callable[[str, Value], Filter]
_FILTER_BUILDERS: Mapping[str, FilterBuilder] = {
    "contains": lambda key, value: {key: {"contains": value}},
    "start with": lambda key, value: {key: {"starts_with": value}},
    "end with": lambda key, value: {key: {"ends_with": value}},
    "is": lambda key, value: {key: [value]},
    "in": lambda key, value: {key: _split_values(value)},
    "=": lambda key, value: {key: _list_number_forms(value)},
    ">": lambda key, value: {key: {"gt": _parse_number(value)}},
    "<": lambda key, value: {key: {"lt": _parse_number(value)}},
    "≥": lambda key, value: {key: {"gte": _parse_number(value)}},
    "≤": lambda key, value: {key: {"lte": _parse_number(value)}},
    "before": lambda key, value: {key: {"lt": _parse_time(value)}},
    "after": lambda key, value: {key: {"gt": _parse_time(value)}},
    # Two equality conditions exclude null and the empty text. A single condition with a list of both values would also
    # exclude a metadata list that contains null or an empty text.
    "not empty": lambda key, _: {key: {"exists": True, "not": None}, "not": {key: ""}},
}
# Negated operators. With several fields, no field may match the positive operator.
_OPPOSITES: Mapping[str, str] = {
    "not contains": "contains",
    "is not": "is",
    "not in": "in",
    "≠": "=",
    "empty": "not empty",
}
# Names of operators in older versions of Dify.
_LEGACY_OPERATORS: Mapping[str, str] = {"null": "empty", "not null": "not empty"}
OPERATORS: Sequence[str] = sorted([*_FILTER_BUILDERS, *_OPPOSITES, *_LEGACY_OPERATORS])


def _parse_time(value: Value) -> Value:
    """Return seconds since 1970 as a number, and a date as text. A text of up to 4 characters counts as a year."""
    return value if isinstance(value, str) and len(value.strip()) <= 4 else _parse_number(value)


def build_condition_filter(names: Sequence[str], operator: str, value: Value) -> Filter:
    """Translate one condition of Dify.

    Args:
        names: Names of metadata fields. One of them must match; with a negated operator, none may match.
        operator: Operator of Dify.
        value: Value to compare with.

    Returns:
        A metadata filter.

    Raises:
        InvalidInputError: The operator is unknown.
    """
    operator = _LEGACY_OPERATORS.get(operator, operator)
    opposite = _OPPOSITES.get(operator)
    build_filter = _FILTER_BUILDERS.get(opposite or operator)
    if build_filter is None:
        supported = ", ".join(OPERATORS)
        raise InvalidInputError(f"comparison_operator {operator[:32]!r} is unknown. Choose one of: {supported}.")
    parts = [build_filter(f"\\{name}" if name in _RESERVED_WORDS else name, value) for name in names]
    any_field = parts[0] if len(parts) == 1 else {"or": parts}
    return any_field if opposite is None else {"not": any_field}


def combine_filters(parts: Sequence[Filter], logic: Literal["and", "or"]) -> Filter | None:
    """Combine filters with ``logic``. Without filters, return None."""
    return {logic: list(parts)} if parts else None
