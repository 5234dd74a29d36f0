"""Forms of knowledge bases in Chromium: create, change, reindex, roll back, delete. Needs Node and Chromium."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service
    from tests.api.breakable_service import BreakableService

PAYLOAD = '<img src=x onerror="window.pwned=1">'
# A path of the console that a form of new knowledge bases could have had: as a name it must stay a knowledge base.
NAME = "new"

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def report(service: Service) -> dict[str, Any]:
    """Report of one run of ``console/tests/knowledge_bases.mjs``."""
    tenant = service.create_tenant()
    reader = tenant.admin.post("/v1/api-keys", json={"name": "reader", "role": "reader"}).json()
    keys = {"admin": tenant.key, "reader": reader["key"]}
    return run_browser("knowledge_bases.mjs", service.url, keys, name=NAME, payload=PAYLOAD)


def test_forms_break_no_policy_and_have_no_accessibility_violation(report: dict[str, Any]) -> None:
    for faults in ("reports", "errors", "foreign", "leaks", "markup", "violations", "overflow"):
        assert report[faults] == [], faults


def test_refused_form_shows_the_faults_of_the_api_at_their_fields(report: dict[str, Any]) -> None:
    assert report["refused"]["status"] == 422
    assert report["refusedFields"] == ["true", "true", None]
    assert "body.retrieval.top_k" in report["refusal"]


def test_changed_form_is_not_left_without_a_question(report: dict[str, Any]) -> None:
    assert report["draft"] == "draft"


def test_form_of_another_kind_has_the_fields_of_its_source(report: dict[str, Any]) -> None:
    assert json.loads(report["source"]["body"]) == {
        "kind": "agent_search",
        "source": {"hostname": "https://search.example.com", "top_k": 3},
    }
    assert report["source"]["chunking"] == 0
    assert report["ownBody"] == ["{}", 422]


def test_screens_are_german_in_a_german_browser(report: dict[str, Any]) -> None:
    assert "Testgespräch" in report["german"]


def test_created_knowledge_base_has_the_body_that_was_shown(report: dict[str, Any]) -> None:
    created = report["created"]
    assert created["status"] == 201
    assert created["shown"] == created["body"]
    assert json.loads(created["body"]) == {
        "name": NAME,
        "title": PAYLOAD,
        "chunking": {"strategy": "hierarchical", "options": {"parent_tokens": 900}},
        "retrieval": {"top_k": 7},
    }
    assert report["createdTitle"] == PAYLOAD


def test_change_of_an_older_version_is_refused_and_loads_again(report: dict[str, Any]) -> None:
    assert (report["unchangedButton"], report["brokenButton"]) == (True, True)
    assert report["stale"]["status"] == 412
    assert json.loads(report["stale"]["body"]) == {"description": "First", "metadata_filter": {"department": "hr"}}
    assert report["keptByStale"] == ""
    saved = report["saved"]
    assert saved["status"] == 200
    assert saved["shown"] == saved["body"]
    assert json.loads(saved["body"]) == {"retrieval": {"top_k": 9}}
    assert saved["ifMatch"] not in (None, report["stale"]["ifMatch"])


def test_reindex_sends_what_differs_and_can_be_rolled_back(report: dict[str, Any]) -> None:
    assert report["reindexed"]["status"] == 202
    body = json.loads(report["reindexed"]["body"])
    assert list(body) == ["chunking"]
    assert body["chunking"]["max_tokens"] == 120
    assert body["chunking"]["options"]["parent_tokens"] == 900
    assert report["rolledBack"]["max_tokens"] == 170


def test_running_reindex_shows_its_progress_and_can_be_cancelled(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant()
    tenant.add_text("\n\n".join(f"Paragraph {number} about leave, travel and expenses." for number in range(40)))
    with fragile.held():
        report = run_browser(
            "knowledge_bases.mjs", fragile.service.url, {"admin": tenant.key}, name="default", cancels=True
        )
    assert report["progress"] == "0 of 1 documents"
    assert report["afterCancel"] is None
    assert report["violations"] == report["overflow"] == []


def test_deletion_needs_the_name_and_its_receipt_reaches_zero(report: dict[str, Any]) -> None:
    assert (report["deleteBefore"], report["deleteOther"]) == (True, True)
    assert "1 document" in report["receipt"]
    assert "del_" in report["receipt"]
    assert report["afterDeletion"] == 404


def test_reader_sees_the_index_and_no_forms(report: dict[str, Any]) -> None:
    for text in report["reader"]:
        assert "Only admins change knowledge bases." in text
    assert "exact" in report["readerIndex"]
    assert "Start a reindex" not in report["readerIndex"]
    assert "New knowledge base" not in report["readerList"]
