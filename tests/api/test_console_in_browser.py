"""The console in Chromium: keys, policies, payloads, roles and accessibility. Needs Node, `make console`, Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service, Tenant

ROOT = Path(__file__).parents[2]
PAYLOAD = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    """Tenant with a handbook, a document full of payloads, and a failed document."""
    tenant = service.create_tenant(f"{PAYLOAD}")
    tenant.upload(ROOT / "samples/handbook.pdf")
    body = {
        "text": f"# {PAYLOAD}\n\nfree cancellation {PAYLOAD}",
        "title": f"Title {PAYLOAD}",
        "media_type": "text/markdown",
        "external_id": "payload",
        "metadata": {PAYLOAD: PAYLOAD},
    }
    reply = tenant.admin.post("/v1/knowledge-bases/default/documents?wait=30", json=body)
    assert reply.status_code == 201, reply.text
    files = {"file": ('" onload="window.pwned=1.pdf', b"%PDF-1.7 broken", "application/pdf")}
    tenant.admin.post("/v1/knowledge-bases/default/documents?wait=30", files=files)
    return tenant


@pytest.fixture(scope="module")
def report(service: Service, tenant: Tenant) -> dict[str, Any]:
    """Report of one run of ``console/tests/browser.mjs`` over all screens."""
    documents = tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    by_status = {document["status"]: document["id"] for document in documents}
    (payload,) = [document["id"] for document in documents if document["external_id"] == "payload"]
    base = "/knowledge-bases/default"
    chunk = tenant.admin.get(f"/v1{base}/documents/{payload}/chunks").json()["items"][0]["id"]
    (handbook,) = [document["id"] for document in documents if document["source"] == "handbook.pdf"]
    page_chunk = tenant.admin.get(f"/v1{base}/documents/{handbook}/chunks").json()["items"][4]["id"]
    tenant.admin.put("/v1/agents/agt", json={"answer_prompt": PAYLOAD, "knowledge_bases": ["default"]})
    golden_set = tenant.admin.post("/v1/golden-sets", json={"name": PAYLOAD, "description": PAYLOAD}).json()["id"]
    items = [{"query": PAYLOAD, "relevant": [{"document": payload, "chunk": chunk}]}]
    tenant.admin.post(f"/v1/golden-sets/{golden_set}/items", json={"items": items}).raise_for_status()
    reader = tenant.admin.post("/v1/api-keys", json={"name": PAYLOAD, "role": "reader"}).json()
    screens = {
        "overview": ("/", ".chart"),
        "knowledge-bases": ("/knowledge-bases", "tbody tr"),
        "create-knowledge-base": ("/create-knowledge-base", "[data-testid=body]"),
        "knowledge-base-settings": (f"{base}/settings", "[data-testid=body]"),
        "knowledge-base-index": (f"{base}/index", "[data-testid=body]"),
        "agents": ("/agents", "tbody tr"),
        "agent": ("/agents/agt", "[data-testid=body]"),
        "golden-sets": ("/golden-sets", "tbody tr"),
        "golden-set": (f"/golden-sets/{golden_set}", "tbody tr"),
        "evaluations": ("/evaluations", "form select"),
        "evaluation-missing": ("/evaluations/%3Cb%3E", "[role=alert]"),
        "receipt-missing": ("/knowledge-bases?deletion=del_01h455vb4pex5vsknk084sn02q", "[role=alert]"),
        "documents": (base, "tbody tr"),
        "documents-none": (f"{base}?status=parsing", ".state"),
        "upload": (f"{base}/upload", ".drop"),
        "document": (f"{base}/documents/{payload}?chunk={chunk}", ".chunks .chunk"),
        "document-pages": (f"{base}/documents/{handbook}?chunk={page_chunk}", ".page-image rect"),
        "document-failed": (f"{base}/documents/{by_status['failed']}", ".notice.bad"),
        "document-missing": (f"{base}/documents/doc_01h455vb4pex5vsknk084sn02q", "[role=alert]"),
        "search": ("/search?q=free+cancellation+%3Cimg+src%3Dx+onerror%3Dpwned%3D1%3E&kb=default&top_k=4", ".hit"),
        "search-invalid": ("/search?q=x&strategy=%3Cb%3E", "[role=alert]"),
        "knowledge-base-missing": ("/knowledge-bases/%3Cb%3E", "[role=alert]"),
        "jobs": ("/jobs", "tbody tr"),
        "jobs-none": ("/jobs?state=postponed", ".state"),
        "operator-forbidden": ("/operator/tenants", ".state"),
        "api-keys": ("/api-keys", "tbody tr"),
        "api-key-new": ("/api-keys?new=1", "[data-testid=body]"),
        "audit-events": ("/audit-events", "tbody tr"),
        "audit-events-invalid": ("/audit-events?action=%3Cb%3E", "[role=alert]"),
        "deletions": ("/deletions", "h1"),
        "deletion-missing": ("/deletions/del_01h455vb4pex5vsknk084sn02q", "[role=alert]"),
        "nowhere": ("/knowledge-bases/a/b", "h1"),
    }
    keys = {"admin": tenant.key, "reader": reader["key"], "readerId": reader["id"]}
    result = run_browser("browser.mjs", service.url, keys, screens=screens)
    assert set(result["screens"]) == set(screens)
    return result


def test_no_screen_breaks_its_policy_or_fails(report: dict[str, Any]) -> None:
    assert report["reports"] == []
    assert report["errors"] == []


def test_nothing_leaves_the_origin(report: dict[str, Any]) -> None:
    assert report["foreign"] == []


def test_key_of_the_link_is_in_no_address_history_or_storage(report: dict[str, Any]) -> None:
    assert report["leaks"] == []
    assert report["signedOutByReload"] is True
    assert report["keptInTab"] is True
    assert report["keptPlaces"] == [True, False]


def test_payloads_are_shown_as_text(report: dict[str, Any]) -> None:
    assert report["markup"] == []
    for screen in ("overview", "documents", "document", "search"):
        assert "<img src=x" in report["screens"][screen], screen
    assert "<b>" in report["screens"]["search-invalid"]


def test_screens_have_no_accessibility_violation_and_fit_320_pixels(report: dict[str, Any]) -> None:
    assert report["violations"] == []
    assert report["overflow"] == []


def test_playground_shows_the_sent_body_and_the_reply_as_sent(report: dict[str, Any]) -> None:
    search = report["search"]
    assert search["shownBody"] == search["body"]
    assert search["shownReply"] == search["reply"]
    assert json.loads(search["body"])["top_k"] == 2
    assert len(json.loads(search["reply"])["results"]) == 2
    assert report["openedChunk"] is True


def test_reader_sees_no_status_and_a_revoked_key_signs_out(report: dict[str, Any]) -> None:
    assert "Ingestion" not in report["readerOverview"]
    assert "Reader" in report["readerOverview"]
    assert report["revoked"] == 204
    assert report["signedOutByRevocation"] is True
