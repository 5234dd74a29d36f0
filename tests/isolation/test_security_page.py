"""The tests that docs/explanation/security.md names exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explanation/security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def _tests_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_"))


def test_every_named_test_exists() -> None:
    assert len(NAMED) > 30
    missing = [f"{path}::{name}" for path, name in NAMED if not (ROOT / path).is_file() or name not in _tests_in(path)]
    assert missing == []


def test_every_promise_names_a_test() -> None:
    tables = PAGE[PAGE.index("## What is promised") : PAGE.index("## `make prove NAME=isolation`")]
    rows = [
        line for line in tables.splitlines() if line.startswith("| ") and not line.startswith(("| promise", "| ---"))
    ]
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row] == []
