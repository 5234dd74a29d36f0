"""SQL with named parameters for asyncpg, which accepts only numbered ones. Modules parse statements at import."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

__all__ = ["Record", "Statement", "parse_statement"]

_NAME = re.compile(r"(?<!:):([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with numbered parameters, and the names of the parameters in their order."""

    sql: str
    parameter_names: tuple[str, ...]

    def order_arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the values in the order of the parameters."""
        return [values[name] for name in self.parameter_names]


def parse_statement(sql: str) -> Statement:
    """Parse SQL with parameters of the form ``:name``.

    Postgres infers the type of each parameter. If it cannot infer a type, the SQL needs a cast.
    """
    positions: dict[str, int] = {}
    numbered_sql = _NAME.sub(lambda match: f"${positions.setdefault(match[1], len(positions) + 1)}", sql)
    return Statement(numbered_sql, tuple(positions))
