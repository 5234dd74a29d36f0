"""Golden sets and evaluations in Chromium. Needs Node and Chromium."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service

PAYLOAD = "<img src=x onerror=window.pwned=1>"
QUERY = f"transporter deposit {PAYLOAD}"
FAULTS = ("reports", "errors", "foreign", "leaks", "markup", "violations", "overflow")

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def report(service: Service) -> dict[str, Any]:
    """Report of one run of ``console/tests/evaluations.mjs``, with the ids of the document and its chunk."""
    tenant = service.create_tenant()
    document = tenant.add_text(f"The deposit of a transporter is 300 euros. {PAYLOAD}")["id"]
    tenant.add_text("Bicycles are free on Sundays.")
    path = f"/v1/knowledge-bases/default/documents/{document}/chunks"
    chunk = tenant.admin.get(path).json()["items"][0]["id"]
    keys = {
        role: tenant.admin.post("/v1/api-keys", json={"name": role, "role": role}).json()["key"]
        for role in ("writer", "reader")
    }
    values = {"document": document, "chunk": chunk, "query": QUERY, "name": f"Customers {PAYLOAD}"}
    return {**values, **run_browser("evaluations.mjs", service.url, keys, **values)}


def test_evaluation_screens_break_no_policy_and_have_no_accessibility_violation(report: dict[str, Any]) -> None:
    for fault in FAULTS:
        assert report[fault] == [], fault


def test_golden_set_is_filled_with_the_shown_bodies_and_links_to_what_is_relevant(report: dict[str, Any]) -> None:
    assert report["created"]["reply"]["name"] == report["name"]
    added = report["added"]
    assert (added["status"], added["body"]) == (201, added["shown"])
    (item,) = added["reply"]["items"]
    assert [entry["chunk"] for entry in item["relevant"]] == [None, report["chunk"]]
    assert report["refused"]["status"] == 422
    assert report["refused"]["reply"]["detail"] in report["alert"]
    roles = [message["role"] for message in report["talk"]["reply"]["items"][0]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert any(link.endswith(f"/documents/{report['document']}?chunk={report['chunk']}") for link in report["links"])


def test_item_evaluation_and_golden_set_are_deleted(report: dict[str, Any]) -> None:
    assert [report[name]["status"] for name in ("removedRelevant", "removed", "deleted", "deletedSet")] == [204] * 4


def test_evaluation_compares_two_settings_and_links_into_the_playground(report: dict[str, Any]) -> None:
    assert report["canStart"] is False
    started = report["started"]
    assert (started["status"], started["body"]) == (202, started["shown"])
    assert json.loads(started["body"])["settings"] == [{"strategy": "hybrid"}, {"strategy": "lexical"}]
    assert "nDCG@10" in report["figures"]
    assert "Difference" in report["figures"]
    assert parse_qs(report["address"].lstrip("?"))["change"] == ["all"]
    opened = parse_qs(urlsplit(report["playground"]).query)
    assert (opened["q"], opened["strategy"]) == ([QUERY], ["lexical"])


def test_reader_sees_neither_golden_sets_nor_evaluations(report: dict[str, Any]) -> None:
    assert all("Only writers and admins" in text for text in report["reader"])
    assert "Golden sets" not in report["readerLinks"]
    assert "Evaluations" not in report["readerLinks"]
