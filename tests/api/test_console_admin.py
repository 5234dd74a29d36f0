"""Keys, audit events and receipts of the console in Chromium. Needs Node and Chromium."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service

PAYLOAD = "<img src=x onerror=pwned=1>"

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def report(service: Service) -> dict[str, Any]:
    """Report of one run of ``console/tests/admin.mjs``. The tenant has deleted a document."""
    tenant = service.create_tenant(f"Tenant {PAYLOAD}")
    document = tenant.add_text("A ferry that sinks.")["id"]
    tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{document}").raise_for_status()
    reader = tenant.admin.post("/v1/api-keys", json={"name": "reader", "role": "reader"}).json()
    keys = {"admin": tenant.key, "reader": reader["key"]}
    return run_browser("admin.mjs", service.url, keys, payload=PAYLOAD)


def test_admin_screens_break_no_policy(report: dict[str, Any]) -> None:
    for faults in ("reports", "errors", "foreign", "leaks", "markup"):
        assert report[faults] == [], faults


def test_key_is_created_rotated_and_revoked_by_keyboard(report: dict[str, Any]) -> None:
    assert report["createdStatus"] == 200
    assert report["rotated"] == [200, 200]
    assert PAYLOAD in report["keys"]
    assert report["revoked"] == [401, 200]


def test_audit_events_are_filtered_and_downloaded(report: dict[str, Any]) -> None:
    assert "key.create" in report["audit"]
    assert "document.delete" not in report["audit"]
    events = [json.loads(line) for line in report["lines"].splitlines()]
    assert {event["action"] for event in events} == {"key.create"}
    assert "action" in report["refusedFilter"]


def test_deletions_lead_to_their_receipt(report: dict[str, Any]) -> None:
    assert "del_" in report["deletions"]


def test_reader_sees_no_screen_of_admins(report: dict[str, Any]) -> None:
    for screen in report["readerScreens"].values():
        assert "This key may not see this" in screen
    for link in ("API keys", "Audit", "Deletions"):
        assert link not in report["readerLinks"]
