"""Dify's metadata conditions in our filter language (docs/tutorials/dify.md)."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from app.errors import InvalidInputError

Value = Any
Filter = dict[str, Any]
# Of our language: a metadata key of such a name is written with a backslash.
_RESERVED_WORDS = frozenset({"and", "or", "not"})


# Python reads more as a number: nan, infinity, 1_000, and digits of other scripts. These are names and codes here.
_NUMBER_PATTERN = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def _parse_number(value: Value) -> Value:
    """Dify sends numbers as text too; anything else stays what it is."""
    if not isinstance(value, str) or not _NUMBER_PATTERN.fullmatch(value) or math.isinf(float(value)):
        return value
    try:
        return int(value)
    except ValueError:
        return float(value)


def _list_number_forms(value: Value) -> list[Value]:
    """Metadata may have it as a number or as text."""
    return list(dict.fromkeys([value, _parse_number(value)])) if isinstance(value, str) else [value]


def _split_values(value: Value) -> list[Value]:
    """A list, or text with commas."""
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
    # Not any of both: a list with one of them among its elements is not empty.
    "not empty": lambda key, _: {key: {"exists": True, "not": None}, "not": {key: ""}},
}
# Each is the opposite of another: of several fields, none may fulfil that one.
_OPPOSITES: Mapping[str, str] = {
    "not contains": "contains",
    "is not": "is",
    "not in": "in",
    "≠": "=",
    "empty": "not empty",
}
# As older versions of Dify called them.
_LEGACY_OPERATORS: Mapping[str, str] = {"null": "empty", "not null": "not empty"}
OPERATORS: Sequence[str] = sorted([*_FILTER_BUILDERS, *_OPPOSITES, *_LEGACY_OPERATORS])


def _parse_time(value: Value) -> Value:
    """Seconds since 1970, or a date: a year alone is a date."""
    return value if isinstance(value, str) and len(value.strip()) <= 4 else _parse_number(value)


def build_condition_filter(names: Sequence[str], operator: str, value: Value) -> Filter:
    """One condition: at least one of the fields fulfils it.

    Raises InvalidInputError for an operator that is not known.
    """
    operator = _LEGACY_OPERATORS.get(operator, operator)
    opposite = _OPPOSITES.get(operator)
    build_filter = _FILTER_BUILDERS.get(opposite or operator)
    if build_filter is None:
        supported = ", ".join(OPERATORS)
        raise InvalidInputError(f"comparison_operator {operator[:32]!r} is not known; known are: {supported}.")
    parts = [build_filter(f"\\{name}" if name in _RESERVED_WORDS else name, value) for name in names]
    any_field = parts[0] if len(parts) == 1 else {"or": parts}
    return any_field if opposite is None else {"not": any_field}


def combine_filters(parts: Sequence[Filter], logic: Literal["and", "or"]) -> Filter | None:
    """All conditions as one filter; None where there are none."""
    return {logic: list(parts)} if parts else None
