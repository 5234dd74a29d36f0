"""The findings that ``make prove NAME=audit`` derives from the output of pip and pip-audit."""

import json
from pathlib import Path
from typing import Any

import pytest

from proofs.audit import Advisories, compute_exit_code, format_verdict, list_newer_releases, read_lock, read_report

LOCK = """# made by a tool
first==1.0 \\
    --hash=sha256:00
Second.Part[extra]==2.1 ; python_version < "3.12" \\
    --hash=sha256:01
"""
LOCKED = {"first": "1.0", "second-part": "2.1"}
FIRST: dict[str, Any] = {"name": "first", "version": "1.0", "vulns": []}
SECOND: dict[str, Any] = {"name": "second_part", "version": "2.1", "vulns": []}
SKIPPED = {"name": "second-part", "skip_reason": "not found"}
HOLE = {"id": "PYSEC-1", "fix_versions": ["1.0.1", "1.1"]}
OPEN = {"id": "X", "fix_versions": []}


def test_read_lock_returns_packages() -> None:
    assert read_lock(LOCK) == LOCKED
    assert len(read_lock(Path("requirements.lock").read_text())) > 100


def test_newer_releases_are_those_of_locked_packages() -> None:
    listed = [{"name": "Second_Part", "latest_version": "2.2"}, {"name": "third", "latest_version": "9"}]
    assert list_newer_releases(json.dumps(listed), LOCKED) == ["second-part 2.1 -> 2.2"]


@pytest.mark.parametrize(
    ("dependencies", "expected"),
    [
        ([FIRST, SECOND], Advisories([], 0)),
        ([FIRST, SKIPPED], Advisories([], 1)),
        ([{**FIRST, "vulns": [HOLE]}, SECOND], Advisories(["first 1.0: PYSEC-1, fixed in 1.0.1, 1.1"], 0)),
        ([{**FIRST, "vulns": [OPEN]}], Advisories(["first 1.0: X, fixed in no release"], 1)),
        (None, Advisories([], 2)),
    ],
)  # fmt: skip
def test_read_report_returns_advisories(dependencies: list[Any] | None, expected: Advisories) -> None:
    report = "" if dependencies is None else json.dumps({"dependencies": dependencies, "fixes": []})
    assert read_report(report, LOCKED) == expected


@pytest.mark.parametrize(
    ("broken", "known", "unread", "strict", "expected"),
    [
        (0, [], 0, False, 0), (0, [], 0, True, 0), (0, [], 2, False, 0), (0, [], 2, True, 1),
        (1, [], 0, False, 1), (0, ["one"], 0, False, 1), (0, ["one"], 2, False, 1),
    ],
)  # fmt: skip
def test_audit_exit_code_depends_on_advisories(
    broken: int, known: list[str], unread: int, strict: bool, expected: int
) -> None:
    assert compute_exit_code(broken, Advisories(known, unread), strict=strict) == expected


def test_audit_verdict_counts_packages_without_answer() -> None:
    assert format_verdict(Advisories([], 2), 2).startswith("NOT AUDITED")
    assert format_verdict(Advisories([], 0), 2) == "audited: 0 advisories about 2 locked packages"
