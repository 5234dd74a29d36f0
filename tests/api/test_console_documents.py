"""The list of documents of the console in Chromium. Needs Node and Chromium."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service

PAYLOAD = "<img src=x onerror=window.pwned=1>"
COUNT = 230
OLD = 3
FAULTS = ("reports", "errors", "foreign", "leaks", "markup", "violations", "overflow")
DOCUMENTS = "/v1/knowledge-bases/default/documents"

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def report(service: Service) -> dict[str, Any]:
    """Report of one run of ``console/tests/documents.mjs`` over more documents than one page has, and a failed one."""
    tenant = service.create_tenant()

    def add(number: int) -> None:
        group = "old" if number < OLD else "new"
        body = {"text": f"Text {number}", "title": f"Title {number} {PAYLOAD}", "metadata": {"group": group}}
        tenant.admin.post(DOCUMENTS, json=body).raise_for_status()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(COUNT)))
    files = {"file": ("broken.pdf", b"%PDF-1.7 broken", "application/pdf")}
    tenant.admin.post(f"{DOCUMENTS}?wait=30", files=files)
    keys = {
        role: tenant.admin.post("/v1/api-keys", json={"name": role, "role": role}).json()["key"]
        for role in ("admin", "writer", "reader")
    }
    return run_browser("documents.mjs", service.url, keys, total=COUNT + 1)


def test_document_list_breaks_no_policy_and_has_no_accessibility_violation(report: dict[str, Any]) -> None:
    for fault in FAULTS:
        assert report[fault] == [], fault


def test_document_list_shows_the_last_document_with_few_rows_of_one_height(report: dict[str, Any]) -> None:
    assert report["rows"] < COUNT / 2
    assert len(report["heights"]) == 1
    assert report["rowCount"] == str(COUNT + 2)


def test_document_filter_shows_the_fault_of_the_api_and_leaves_the_address(report: dict[str, Any]) -> None:
    assert report["fault"] in report["shownFault"]
    assert report["refusedAddress"] == ""
    assert json.loads(parse_qs(report["filterAddress"].lstrip("?"))["filter"][0]) == {"group": "old"}
    assert report["filtered"] == OLD


def test_documents_of_a_filter_are_deleted_and_the_receipt_reaches_zero(report: dict[str, Any]) -> None:
    sent = parse_qs(report["deletion"].lstrip("?"))
    assert {name: [json.loads(text) for text in texts] for name, texts in sent.items()} == {
        "filter": [{"group": "old"}]
    }


def test_failed_documents_are_retried_and_a_ticked_one_is_ingested_again(report: dict[str, Any]) -> None:
    assert report["retried"]["retried"] == 1
    assert report["reindexed"] == 202


def test_actions_on_documents_follow_the_role(report: dict[str, Any]) -> None:
    assert report["writer"]["boxes"] > 0
    assert "Retry failed documents" not in report["writer"]["buttons"]
    assert report["reader"]["boxes"] == 0
