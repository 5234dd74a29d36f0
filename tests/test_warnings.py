"""Warnings as code and message: normalized from plugins, read tolerantly from storage, listed in one place."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from app.warnings import ServiceWarning, WarningCode, normalize_warning, parse_stored_warnings

APP = Path(__file__).parents[1] / "app"
WARNING = ServiceWarning("images_not_read", "1 image was not read.")


def test_warning_of_a_known_code_equals_the_same_pair_of_strings() -> None:
    assert ServiceWarning(WarningCode.IMAGES_NOT_READ, "1 image was not read.") == WARNING
    assert list(dict.fromkeys([ServiceWarning(WarningCode.IMAGES_NOT_READ, WARNING.message), WARNING])) == [WARNING]


def test_normalize_warning_plain_string_gets_the_code_of_plugins() -> None:
    assert normalize_warning("Something.") == ServiceWarning("plugin_warning", "Something.")


@pytest.mark.parametrize("code", ["", "Upper", "a b", "a__b", "_a", "a_", "é", "1a", "x" * 65, 7, None])
def test_normalize_warning_malformed_code_becomes_the_code_of_plugins(code: Any) -> None:
    assert normalize_warning(ServiceWarning(code, "m")) == ServiceWarning("plugin_warning", "m")


@pytest.mark.parametrize("code", ["images_not_read", "a", "x" * 64, "page_2"])
def test_normalize_warning_well_formed_code_stays(code: str) -> None:
    assert normalize_warning(ServiceWarning(code, "m")) == ServiceWarning(code, "m")


@pytest.mark.parametrize("stored", [None, 1, "text", {}, {"code": "a"}, [None, 1, [], {}, {"code": "a"}, {"code": 1}]])
def test_parse_stored_warnings_anything_else_is_skipped(stored: Any) -> None:
    assert parse_stored_warnings(stored) == []


def test_parse_stored_warnings_returns_what_to_json_made() -> None:
    assert WARNING.to_json() == {"code": "images_not_read", "message": "1 image was not read."}
    assert parse_stored_warnings([WARNING.to_json(), "plain", {"code": "No", "message": "m"}]) == [
        WARNING,
        ServiceWarning("plugin_warning", "plain"),
    ]


def test_warning_codes_are_words_with_a_sentence() -> None:
    assert [code.name for code in WarningCode if code.value != code.name.lower()] == []
    assert [code for code in WarningCode if not re.fullmatch(r"[a-z]+(_[a-z]+)*", code.value)] == []
    assert [code for code in WarningCode if not re.fullmatch(r"[A-Z`][^\n]*\.", code.meaning)] == []


def test_every_warning_code_is_used_and_warnings_name_their_code() -> None:
    """A warning names its code by the registry, so that each code is written once."""
    used: set[str] = set()
    literal: list[str] = []
    for module in APP.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "WarningCode":
                used.add(node.attr)
            if isinstance(node, ast.Call) and is_literal_warning(node):
                literal.append(f"{module.relative_to(APP)}:{node.lineno}")
    assert {code.name for code in WarningCode} - used == set()
    assert literal == []


def is_literal_warning(call: ast.Call) -> bool:
    is_warning = isinstance(call.func, ast.Name) and call.func.id == "ServiceWarning"
    return is_warning and isinstance(call.args[0], ast.Constant | ast.JoinedStr)
