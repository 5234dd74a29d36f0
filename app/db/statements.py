"""SQL with named parameters for the driver, which knows them by number; read once, when the module is loaded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

__all__ = ["Record", "Statement", "parse_statement"]

_NAME = re.compile(r"(?<!:):([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL as the driver takes it, and the names of its parameters in their order."""

    sql: str
    parameter_names: tuple[str, ...]

    def order_arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the parameters."""
        return [values[name] for name in self.parameter_names]


def parse_statement(sql: str) -> Statement:
    """Parse SQL with parameters of the form ``:name``. The server infers their types; cast where it cannot."""
    positions: dict[str, int] = {}
    numbered_sql = _NAME.sub(lambda match: f"${positions.setdefault(match[1], len(positions) + 1)}", sql)
    return Statement(numbered_sql, tuple(positions))
