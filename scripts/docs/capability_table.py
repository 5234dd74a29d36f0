"""The page of capabilities, from ``capabilities.toml`` and from the markers of the tests.

A test names the capabilities that it shows: ``@pytest.mark.capability("search-top-k")``.
"""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.docs.markdown import GENERATED, format_table, format_text

ROOT = Path(__file__).parents[2]
REGISTRY = Path(__file__).with_name("capabilities.toml")
MARKER = "pytest.mark.capability"

_INTRODUCTION = """# Capabilities and their tests

This page lists what Carrel promises, where each capability is, and a test that shows it. The list follows the
[HTTP API](http-api.md) and the documents of the systems that Carrel was designed after
([Coming from other systems](coming-from.md)).

The list is `scripts/docs/capabilities.toml`. A test names the capabilities that it shows with the marker `capability`.
The list is checked: a capability without a test fails, a marker with an unknown capability fails, and this page is
compared with both. A capability that is *not there yet* has no test.
"""
_MISSING = "*not there yet*"


@dataclass(frozen=True, slots=True)
class Capability:
    """One promise: its id, area, sentence, and place in the API, the settings or the commands."""

    id: str
    area: str
    text: str
    where: str
    is_missing: bool


@dataclass(frozen=True, slots=True)
class MarkedTest:
    """A test with the ids of its markers; ``path`` is relative to the repository."""

    path: str
    name: str
    ids: tuple[str, ...]


def read_capabilities(path: Path = REGISTRY) -> list[Capability]:
    """Return the capabilities of the registry in its order.

    Args:
        path: TOML file with a table for each area. A key is an id. Its value is a list of two or three texts: the
            capability, its place, and ``missing`` if it is not there yet.

    Returns:
        The capabilities.
    """
    areas = tomllib.loads(path.read_text("utf-8"))
    return [
        Capability(name, area, row[0], row[1], row[2:] == ["missing"])
        for area, rows in areas.items()
        for name, row in rows.items()
    ]


def find_marked_tests(root: Path = ROOT) -> Iterator[MarkedTest]:
    """Yield the tests below ``tests/`` that have a marker, by file and line."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        source = path.read_text("utf-8")
        if MARKER in source:
            yield from _read_markers(ast.parse(source), path.relative_to(root).as_posix())


def _read_markers(tree: ast.Module, path: str) -> Iterator[MarkedTest]:
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [each for each in function.decorator_list if isinstance(each, ast.Call)]
            marks = [call for call in calls if ast.unparse(call.func) == MARKER]
            ids = tuple(str(ast.literal_eval(argument)) for call in marks for argument in call.args)
            if ids:
                yield MarkedTest(path, function.name, ids)


def find_faults(capabilities: Sequence[Capability], tests: Sequence[MarkedTest]) -> list[str]:
    """Return a sentence for each disagreement of the registry and the markers.

    Args:
        capabilities: Capabilities of the registry.
        tests: Tests with markers.

    Returns:
        The sentences; none if the registry and the markers agree.
    """
    shown = _group_tests(tests)
    registered = {capability.id for capability in capabilities}
    faults = [
        f"{test.path}::{test.name} names {name!r}, which the registry lacks"
        for test in tests
        for name in test.ids
        if name not in registered
    ]
    faults += [f"{name} stands twice in the registry" for name in registered if _count(capabilities, name) > 1]
    for capability in capabilities:
        if capability.is_missing and capability.id in shown:
            faults.append(f"{capability.id} has a test, so it is not missing")
        elif not capability.is_missing and capability.id not in shown:
            faults.append(f"{capability.id} has no test")
    return faults


def _count(capabilities: Sequence[Capability], name: str) -> int:
    return sum(capability.id == name for capability in capabilities)


def _group_tests(tests: Sequence[MarkedTest]) -> Mapping[str, list[MarkedTest]]:
    grouped: dict[str, list[MarkedTest]] = defaultdict(list)
    for test in tests:
        for name in test.ids:
            grouped[name].append(test)
    return grouped


def build_page() -> str:
    """Return the page of all capabilities."""
    capabilities, tests = read_capabilities(), list(find_marked_tests())
    shown = _group_tests(tests)
    missing = sum(capability.is_missing for capability in capabilities)
    lines = [
        GENERATED,
        _INTRODUCTION,
        f"{len(capabilities) - missing} capabilities have a test. {missing} are not there yet.",
        "",
    ]
    for area in dict.fromkeys(capability.area for capability in capabilities):
        rows = [_build_row(each, shown) for each in capabilities if each.area == area]
        lines += [f"## {area}", "", *format_table(("capability", "where", "test"), rows)]
    return "\n".join(lines)


def _build_row(capability: Capability, shown: Mapping[str, Sequence[MarkedTest]]) -> tuple[str, str, str]:
    links = [f"[`{test.name.removeprefix('test_')}`](../../{test.path})" for test in shown.get(capability.id, ())]
    tests = _MISSING if capability.is_missing else ", ".join(links)
    return format_text(capability.text), format_text(capability.where), tests
