"""The requests of ``make prove NAME=fuzz``: every operation is in one group, and has real ids."""

import re
import tomllib
from typing import Any

import pytest

from harness.unopened_app import build_openapi_document
from proofs.fuzz import ID_FIELDS, OPERATION_GROUPS, UNSENT_OPERATIONS, build_configuration, has_sent_nothing
from proofs.isolation.grid import invent_forms


def chosen(arguments: tuple[str, ...], operation: str) -> bool:
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    wanted, unwanted = options.get("--include-operation-id-regex", ""), options.get("--exclude-operation-id-regex")
    return bool(re.search(wanted, operation)) and not (unwanted and re.search(unwanted, operation))


def test_every_operation_is_in_one_group() -> None:
    paths: dict[str, dict[str, Any]] = build_openapi_document()["paths"]
    operations = [(method, told["operationId"]) for methods in paths.values() for method, told in methods.items()]
    for method, operation in operations:
        groups = [name for name, _, arguments in OPERATION_GROUPS if chosen(arguments, operation)]
        if re.search(UNSENT_OPERATIONS, operation):
            assert groups == []
            continue
        assert len(groups) == 1, operation
        assert (method == "delete") <= (groups[0] != "reading and writing"), operation
    assert sum(share for _, share, _ in OPERATION_GROUPS) == 1.0


def test_fuzz_every_path_id_is_real() -> None:
    ids = invent_forms()["id"]
    found = tomllib.loads(build_configuration(ids))
    assert {name: found["dictionaries"][name]["values"] for name in ID_FIELDS} == {
        name: [ids[name]] for name in ID_FIELDS
    }
    assert set(found["parameters"]) == {f"path.{name}" for name in ID_FIELDS}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("API Operations:\n  Tested: 22/22\n", False),
        ("API Operations:\n  Tested: 0/22\n", True),
        ("No test cases were generated", True),
        ("===== ERRORS =====\nTested: 0/22\n", False),
        ("An internal error occurred during the test run\n", False),
        ("===== FAILURES =====\nTested: 3\n", False),
    ],
)
def test_has_sent_nothing_detects_empty_run(told: str, expected: bool) -> None:
    assert has_sent_nothing(told) is expected
