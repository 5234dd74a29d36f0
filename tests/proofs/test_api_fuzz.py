"""What ``make api-fuzz`` asks: every operation there is, in one of its groups, and with real ids."""

import re
import tomllib
from typing import Any

import pytest

from app.main import create_app
from benchmarks.api_fuzz import FIELDS, GROUPS, TOOL_ERROR, configuration, is_tool_error, why_inconclusive
from tests.isolation.cases import PATH_FIELDS
from tests.isolation.grid import unreal
from tests.isolation.test_http_walls import unopened


def chosen(arguments: tuple[str, ...], operation: str) -> bool:
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    wanted, unwanted = options.get("--include-operation-id-regex", ""), options.get("--exclude-operation-id-regex")
    return bool(re.search(wanted, operation)) and not (unwanted and re.search(unwanted, operation))


def test_every_operation_is_in_one_group() -> None:
    paths: dict[str, dict[str, Any]] = create_app(unopened).openapi()["paths"]
    operations = [(method, told["operationId"]) for methods in paths.values() for method, told in methods.items()]
    for method, operation in operations:
        groups = [name for name, _, arguments in GROUPS if chosen(arguments, operation)]
        assert len(groups) == 1, operation
        assert (method == "delete") <= (groups[0] != "reading and writing"), operation
    assert sum(share for _, share, _ in GROUPS) == 1.0


def test_every_id_in_a_path_has_a_real_one() -> None:
    ids = unreal()["id"]
    found = tomllib.loads(configuration(ids))
    assert set(FIELDS) == PATH_FIELDS
    assert {name: found["dictionaries"][name]["values"] for name in FIELDS} == {name: [ids[name]] for name in FIELDS}
    assert set(found["parameters"]) == {f"path.{name}" for name in FIELDS}


def block(error: str) -> str:
    """As Schemathesis tells of one."""
    message, traceback = error.partition(": ")[2], "    Traceback (most recent call last):\n      File 'x', line 3"
    return f"Runtime Error\n\n{message}\n\n{traceback}\n    {error}\n"


ERRORS, SUMMARY = "===== ERRORS =====\n___ GET /v1/me ___\n", "Errors:\n  \N{NO ENTRY SIGN} Runtime Error: 1\n"
TOOL = block(f"{TOOL_ERROR} (before=86, after=80)")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (ERRORS + TOOL + SUMMARY, True),
        (ERRORS + TOOL + TOOL + SUMMARY, True),
        ("An internal error occurred during the test run\n" + TOOL, True),
        (ERRORS + TOOL + block("KeyError: 'x'") + SUMMARY, False),
        (ERRORS + TOOL + SUMMARY.replace("Runtime", "Network"), False),
        (ERRORS + TOOL + SUMMARY + "  \N{NO ENTRY SIGN} Network Error: 2\n", False),
        ("===== FAILURES =====\nServer error\n" + ERRORS + TOOL + SUMMARY, False),
        (ERRORS + block("RecursionError: maximum recursion depth exceeded") + SUMMARY, False),
        ("nothing", False),
        (f"The reply said: {TOOL_ERROR}", False),
    ],
)
def test_only_the_tool_s_own_error_is_tool_error(told: str, expected: bool) -> None:
    assert is_tool_error(told) is expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("API Operations:\n  Tested: 22/22\n", None),
        ("API Operations:\n  Tested: 0/22\n", "nothing was asked in the time there was"),
        ("No test cases were generated", "nothing was asked in the time there was"),
        (ERRORS + TOOL + SUMMARY, TOOL_ERROR),
        (ERRORS + block("KeyError: 'x'") + SUMMARY, None),
        ("===== FAILURES =====\nTested: 3\n", None),
    ],
)
def test_what_proves_nothing(told: str, expected: str | None) -> None:
    assert why_inconclusive(told) == expected
