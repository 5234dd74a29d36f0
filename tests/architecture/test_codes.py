"""Page of error and warning codes: it lists every code, and only codes that exist."""

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import app
from app.api.http.problems import HTTP_ERROR_CODES, HTTP_STATUSES, OTHER_HTTP_ERROR_CODE
from app.errors import AppError
from app.warnings import WarningCode
from app.worker.failures import describe_failure
from tests.architecture.sources import parse, walk

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/errors.md").read_text()
REQUESTS, JOBS, COMMANDS, WARNINGS = (
    "Errors of requests",
    "Errors of documents and jobs",
    "Errors of the start",
    "Warnings",
)
CODE = re.compile(r"[a-z]{3,}(_[a-z]+)*")
STATUSES = range(400, 600)


def rows_of(title: str) -> list[list[str]]:
    """Return the cells of all table rows below a heading of the second level."""
    (section,) = re.findall(rf"^## {title}[^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert rows
    return [[cells[0].strip("`"), *cells[1:]] for cells in rows]


def codes_of(title: str) -> set[str]:
    codes = [code for code, *_ in rows_of(title)]
    assert len(codes) == len(set(codes))
    return set(codes)


@pytest.fixture(scope="module")
def error_types() -> list[type[AppError]]:
    for module in pkgutil.walk_packages(app.__path__, "app."):
        importlib.import_module(module.name)

    def walk(kind: type[AppError]) -> Iterator[type[AppError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from walk(child)

    return [kind for kind in dict.fromkeys(walk(AppError)) if kind.__module__.startswith("app.")]


def test_errors_without_message_have_a_docstring_of_one_line(error_types: list[type[AppError]]) -> None:
    """Check the docstrings of error classes, which are their default messages for callers."""
    broken = [kind.__qualname__ for kind in error_types if not kind.__doc__ or "\n" in kind.__doc__.strip()]
    assert broken == []


def statuses_of(error_types: list[type[AppError]]) -> dict[str, set[str]]:
    """Return the HTTP statuses of each code, from error classes and from replies without one."""
    statuses: dict[str, set[str]] = defaultdict(set)
    for kind in error_types:
        if not kind.__module__.startswith("app.cli."):
            statuses[kind.code] |= {str(status) for base, status in HTTP_STATUSES if issubclass(kind, base)}
    for code, status in literal_pairs():
        statuses[code].add(str(status))
    for status, code in HTTP_ERROR_CODES.items():
        statuses[code].add(str(status))
    return {code: found for code, found in statuses.items() if found}


def literal_pairs() -> Iterator[tuple[str, int]]:
    """Yield codes with the status next to them in a call or a tuple."""
    for tree in trees():
        for node in walk(tree):
            values = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            constants = [value.value if isinstance(value, ast.Constant) else None for value in values]
            for status, code in pairwise(constants):
                if type(status) is int and status in STATUSES and isinstance(code, str) and CODE.fullmatch(code):
                    yield code, status


def literal_codes() -> Iterator[str]:
    """Yield codes in literal JSON and in arguments named ``code``."""
    for tree in trees():
        for node in walk(tree):
            if isinstance(node, ast.Dict):
                pairs = [
                    (getattr(key, "value", None), value) for key, value in zip(node.keys, node.values, strict=True)
                ]
            elif isinstance(node, ast.Call):
                pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
                pairs += (
                    [("code", node.args[0])] if isinstance(node.func, ast.Name) and node.func.id == "JobFailure" else []
                )
            else:
                continue
            for key, value in pairs:
                if key == "code" and isinstance(value, ast.Constant) and CODE.fullmatch(str(value.value)):
                    yield str(value.value)


def trees() -> Iterator[ast.Module]:
    for path in sorted((ROOT / "app").rglob("*.py")):
        yield parse(path)


def test_errors_page_lists_every_error_code_and_no_other(error_types: list[type[AppError]]) -> None:
    existing = {kind.code for kind in error_types} | set(literal_codes()) | {code for code, _ in literal_pairs()}
    existing |= {*HTTP_ERROR_CODES.values(), OTHER_HTTP_ERROR_CODE}
    listed = codes_of(REQUESTS) | codes_of(JOBS) | codes_of(COMMANDS)
    assert {"not listed": existing - listed, "listed without being raised": listed - existing} == {
        "not listed": set(),
        "listed without being raised": set(),
    }


def test_errors_page_gives_the_statuses_of_codes_of_requests(error_types: list[type[AppError]]) -> None:
    listed = {code: set(statuses.split(", ")) for code, statuses, _ in rows_of(REQUESTS)}
    other = {OTHER_HTTP_ERROR_CODE: {"4xx"}, "tool_not_found": {"-"}}
    assert listed == statuses_of(error_types) | other


def test_errors_page_lists_what_documents_and_jobs_fail_with(error_types: list[type[AppError]]) -> None:
    failures = set()
    for kind in error_types:
        error = kind.__new__(kind)
        AppError.__init__(error)
        error.retry_after = 1.0  # type: ignore[attr-defined]
        failures.add(describe_failure(error).code)
    assert codes_of(JOBS) == failures
    assert codes_of(COMMANDS) & (codes_of(JOBS) | codes_of(REQUESTS)) == set()


def test_errors_page_lists_every_warning_code_with_its_meaning() -> None:
    assert [tuple(row) for row in rows_of(WARNINGS)] == [(code.value, code.meaning) for code in WarningCode]
