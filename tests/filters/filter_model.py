"""The documented semantics of filters in plain Python, random filters, and their expected results."""

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import asyncpg

from app.filters import CompiledFilter, build_filter_metadata


async def evaluate(connection: asyncpg.Connection, metadata: Mapping[str, object], compiled: CompiledFilter) -> bool:
    row = json.dumps(build_filter_metadata(metadata, reserved={}))
    contains, path, _ = compiled.sql_params
    found = await connection.fetchval(
        """select ($2::jsonb is null or $1::jsonb @> $2::jsonb)
              and ($3::jsonpath is null or ($1::jsonb @@ $3::jsonpath) is true)""",
        row,
        contains,
        path,
    )
    return bool(found)


DATES = {
    "2026": datetime(2026, 1, 1, tzinfo=UTC),
    "2026-01": datetime(2026, 1, 1, tzinfo=UTC),
    "2026-01-01": datetime(2026, 1, 1, tzinfo=UTC),
    "2026-01-01T00:00:00Z": datetime(2026, 1, 1, tzinfo=UTC),
    "2026-01-05": datetime(2026, 1, 5, tzinfo=UTC),
    "2026-01-05T10:00:00+02:00": datetime(2026, 1, 5, 8, tzinfo=UTC),
    "2026-01-05T08:00Z": datetime(2026, 1, 5, 8, tzinfo=UTC),
    "2026-01-05T08:00:00.5Z": datetime(2026, 1, 5, 8, 0, 0, 500_000, tzinfo=UTC),
    "2025-12-31T23:30:00-01:00": datetime(2026, 1, 1, 0, 30, tzinfo=UTC),
    "2025-12": datetime(2025, 12, 1, tzinfo=UTC),
}
SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    -2,
    0.1,
    2.5,
    10**25,
    "",
    "1",
    "alpha",
    "al",
    "é",
    "2026-02-30",
    *DATES,
]
KEYS = ["a", "b", "c", "a.b", "a.c", "b.a.c"]
OPERATORS = ["gte", "lte", "gt", "lt", "contains", "starts_with", "ends_with", "exists", "not"]
MISSING = object()


def kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def same(value: Any, scalar: Any) -> bool:
    if kind(value) == kind(scalar) == "number":
        return Decimal(repr(value)) == Decimal(repr(scalar))
    return kind(value) == kind(scalar) and bool(value == scalar)


def in_range(value: Any, operator: str, bound: Any) -> bool:
    if isinstance(bound, str):
        value = DATES.get(value) if isinstance(value, str) else None
        if value is None:
            return False
        bound = DATES[bound]
    elif kind(value) != "number":
        return False
    else:
        value, bound = Decimal(repr(value)), Decimal(repr(bound))
    return bool({"gte": value >= bound, "lte": value <= bound, "gt": value > bound, "lt": value < bound}[operator])


def holds(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        return all(operator_holds(value, name, operand) for name, operand in condition.items())
    if isinstance(condition, list):
        candidates = value if isinstance(value, list) else [value]
        return any(same(candidate, scalar) for candidate in candidates for scalar in condition)
    return same(value, condition)


def operator_holds(value: Any, name: str, operand: Any) -> bool:
    if name == "not":
        return not holds(value, operand)
    if name == "exists":
        return (value is not MISSING) is operand
    if name == "contains":
        if isinstance(value, str) and isinstance(operand, str):
            return operand in value
        return isinstance(value, list) and any(same(element, operand) for element in value)
    if name == "starts_with":
        return isinstance(value, str) and value.startswith(operand)
    if name == "ends_with":
        return isinstance(value, str) and value.endswith(operand)
    return in_range(value, name, operand)


def passes(metadata: Any, expression: dict[str, Any]) -> bool:
    return all(entry_passes(metadata, key, value) for key, value in expression.items())


def entry_passes(metadata: Any, key: str, value: Any) -> bool:
    if key == "and":
        return all(passes(metadata, part) for part in value)
    if key == "or":
        return any(passes(metadata, part) for part in value)
    if key == "not":
        return not passes(metadata, value)
    found = metadata
    for step in key.split("."):
        found = found.get(step, MISSING) if isinstance(found, dict) else MISSING
    return holds(found, value)


def random_value(rng: random.Random, depth: int) -> Any:
    roll = rng.random()
    if depth < 3 and roll < 0.35:
        return {key: random_value(rng, depth + 1) for key in rng.sample("abc", rng.randint(0, 3))}
    if depth < 4 and roll < 0.55:
        return [random_value(rng, depth + 2) for _ in range(rng.randint(0, 3))]
    return rng.choice(SCALARS)


def random_metadata(rng: random.Random) -> dict[str, Any]:
    return {key: random_value(rng, 1) for key in rng.sample("abc", rng.randint(0, 3))}


def random_condition(rng: random.Random, depth: int) -> Any:
    roll = rng.random()
    if roll < 0.3:
        return rng.choice(SCALARS)
    if roll < 0.5:
        return rng.choices(SCALARS, k=rng.choice([0, 1, 2, 4, 12, 20]))
    operators: dict[str, Any] = {}
    for name in rng.sample(OPERATORS, rng.choice([1, 1, 2])):
        if name == "not":
            operators[name] = random_condition(rng, depth + 1) if depth < 3 else rng.choice(SCALARS)
        elif name == "exists":
            operators[name] = rng.random() < 0.5
        elif name == "contains":
            operators[name] = rng.choice(SCALARS)
        elif name in ("starts_with", "ends_with"):
            operators[name] = rng.choice(["", "al", "alpha", "ha", "1", "é", "2026-01", "00Z"])
        else:
            operators[name] = rng.choice([0, 1, -2, 0.1, 2.5, 10**25, *DATES])
    return operators


def random_filter(rng: random.Random, depth: int = 1) -> dict[str, Any]:
    expression: dict[str, Any] = {}
    for _ in range(rng.choice([1, 1, 2])):
        roll = rng.random()
        if depth < 4 and roll < 0.15:
            expression["not"] = random_filter(rng, depth + 1)
        elif depth < 4 and roll < 0.45:
            name = rng.choice(["and", "or"])
            expression[name] = [random_filter(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        else:
            expression[rng.choice(KEYS)] = random_condition(rng, depth)
    return expression
