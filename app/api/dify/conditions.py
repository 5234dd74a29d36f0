"""Dify's metadata conditions in our filter language (docs/dify.md)."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from app.errors import InvalidInput

Value = Any
Filter = dict[str, Any]
# Of our language: a metadata key of such a name is written with a backslash.
_WORDS = frozenset({"and", "or", "not"})


# Python reads more as a number: nan, infinity, 1_000, and digits of other scripts. These are names and codes here.
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def _number(value: Value) -> Value:
    """Dify sends numbers as text too; anything else stays what it is."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value) or math.isinf(float(value)):
        return value
    try:
        return int(value)
    except ValueError:
        return float(value)


def _numbers(value: Value) -> list[Value]:
    """Metadata may have it as a number or as text."""
    return list(dict.fromkeys([value, _number(value)])) if isinstance(value, str) else [value]


def _several(value: Value) -> list[Value]:
    """A list, or text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value if isinstance(value, list) else [value]


Operator = Callable[[str, Value], Filter]
_ASKED: Mapping[str, Operator] = {
    "contains": lambda key, value: {key: {"contains": value}},
    "start with": lambda key, value: {key: {"starts_with": value}},
    "end with": lambda key, value: {key: {"ends_with": value}},
    "is": lambda key, value: {key: [value]},
    "in": lambda key, value: {key: _several(value)},
    "=": lambda key, value: {key: _numbers(value)},
    ">": lambda key, value: {key: {"gt": _number(value)}},
    "<": lambda key, value: {key: {"lt": _number(value)}},
    "≥": lambda key, value: {key: {"gte": _number(value)}},
    "≤": lambda key, value: {key: {"lte": _number(value)}},
    "before": lambda key, value: {key: {"lt": _number_of_time(value)}},
    "after": lambda key, value: {key: {"gt": _number_of_time(value)}},
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
_FORMER: Mapping[str, str] = {"null": "empty", "not null": "not empty"}
OPERATORS: Sequence[str] = sorted([*_ASKED, *_OPPOSITES, *_FORMER])


def _number_of_time(value: Value) -> Value:
    """Seconds since 1970, or a date: a year alone is a date."""
    return value if isinstance(value, str) and len(value.strip()) <= 4 else _number(value)


def condition_filter(names: Sequence[str], operator: str, value: Value) -> Filter:
    """One condition: at least one of the fields fulfils it. Raises InvalidInput for an operator that is not known."""
    operator = _FORMER.get(operator, operator)
    opposite = _OPPOSITES.get(operator)
    asked = _ASKED.get(opposite or operator)
    if asked is None:
        known = ", ".join(OPERATORS)
        raise InvalidInput(f"comparison_operator {operator[:32]!r} is not known; known are: {known}.")
    parts = [asked(f"\\{name}" if name in _WORDS else name, value) for name in names]
    either = parts[0] if len(parts) == 1 else {"or": parts}
    return either if opposite is None else {"not": either}


def joined(parts: Sequence[Filter], logic: Literal["and", "or"]) -> Filter | None:
    """All conditions as one filter; None where there are none."""
    return {logic: list(parts)} if parts else None
