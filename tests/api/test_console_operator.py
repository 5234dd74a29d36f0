"""Screens of the operator in Chromium: health, tenants, quotas, deletion, roles. Needs Node and Chromium."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser
from harness.running_service import OPERATOR_KEY

if TYPE_CHECKING:
    from harness.running_service import Service

PAYLOAD = '<img src=x onerror="window.pwned=1">'

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def report(service: Service) -> dict[str, Any]:
    """Report of one run of ``console/tests/operator.mjs``. The tenant has quotas and a failed job."""
    tenant = service.create_tenant(f"Tenant {PAYLOAD}")
    assert service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": {"documents": 77}}).status_code == 200
    files = {"file": ("broken.pdf", b"%PDF-1.7 broken", "application/pdf")}
    tenant.admin.post("/v1/knowledge-bases/default/documents?wait=30", files=files)
    reader = tenant.admin.post("/v1/api-keys", json={"name": "reader", "role": "reader"}).json()
    keys = {"operator": OPERATOR_KEY, "admin": tenant.key, "reader": reader["key"]}
    return run_browser("operator.mjs", service.url, keys, tenant=tenant.id, payload=PAYLOAD)


def test_operator_screens_break_no_policy_and_have_no_accessibility_violation(report: dict[str, Any]) -> None:
    for faults in ("reports", "errors", "foreign", "leaks", "markup", "violations", "overflow"):
        assert report[faults] == [], faults


def test_operation_shows_dependencies_workers_queue_and_indexes(report: dict[str, Any]) -> None:
    text = report["screens"]["operation"]
    for part in ("database", "object_store", "Queue of all tenants", "Confinement of parsers", "carrel doctor"):
        assert part in text, part


def test_tenant_shows_its_quotas_and_names_as_text(report: dict[str, Any]) -> None:
    assert PAYLOAD in report["screens"]["tenants"]
    assert "77" in report["screens"]["tenant"]
    assert "Not found" in report["screens"]["tenant-missing"]


def test_jobs_of_all_tenants_name_their_tenant(report: dict[str, Any]) -> None:
    assert "ten_" in report["screens"]["operator-jobs"]


def test_created_tenant_has_the_body_that_was_shown_and_its_key_is_shown_once(report: dict[str, Any]) -> None:
    assert report["refused"]["status"] == 422
    assert "quotas.documents" in report["refusal"]
    created = report["created"]
    assert (created["status"], created["shown"]) == (201, created["body"])
    assert json.loads(created["body"]) == {"name": PAYLOAD, "quotas": {"documents": 12}}
    assert report["firstKeyWorks"] == 200
    assert report["keyAfterwards"] is False
    assert PAYLOAD in report["createdTenant"]


def test_change_of_an_older_version_is_refused_and_only_changed_quotas_are_sent(report: dict[str, Any]) -> None:
    assert report["stale"]["status"] == 412
    saved = report["saved"]
    assert (saved["status"], saved["shown"]) == (200, saved["body"])
    assert json.loads(saved["body"]) == {"quotas": {"documents": None}}
    assert saved["ifMatch"] not in (None, report["stale"]["ifMatch"])
    assert (report["quotas"]["documents"], report["quotas"]["chunks"]) == (None, 5)


def test_deleted_tenant_needs_its_name_and_its_receipt_reaches_zero(report: dict[str, Any]) -> None:
    assert report["deleteOther"] is True
    assert report["keyAfterDeletion"] == 401


@pytest.mark.parametrize("name", ["admin", "reader"])
def test_other_keys_see_no_operator_screen_and_ask_for_nothing(report: dict[str, Any], name: str) -> None:
    other = report["others"][name]
    assert (other["asked"], other["links"]) == ([], 0)
    assert all("Only the key of the operator opens these screens." in text for text in other["texts"])
