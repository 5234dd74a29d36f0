"""Acceptance of the main line: a user uploads a file, an agent finds its passage, and an admin deletes the file."""

from pathlib import Path

import pytest

from harness.running_service import Tenant

HANDBOOK = Path(__file__).parents[2] / "samples" / "handbook.pdf"
CONVERSATION = [
    {"role": "customer", "content": "What's your cancellation policy?"},
    {"role": "agent", "content": "Free cancellation up to 24 hours before pickup."},
    {"role": "customer", "content": "And for one-way rentals?"},
]


@pytest.mark.capability("main-line")
def test_upload_search_delete_removes_document_from_search(tenant: Tenant) -> None:
    document = tenant.upload(HANDBOOK)
    assert document["status"] == "ready", document["error"]
    assert document["page_count"] > 5

    agent = tenant.create_client("reader")
    body = {"messages": CONVERSATION, "top_k": 3}
    snippets = agent.post("/v1/agent-search", json=body).json()
    assert "72 hours before pickup" in " ".join(snippets[0].split())
    found = agent.post("/v1/search", json=body).json()
    assert [result["text"] for result in found["results"]] == snippets
    assert found["results"][0]["page"] == 3
    assert found["warnings"] == []

    tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{document['id']}").raise_for_status()
    assert agent.post("/v1/agent-search", json=body).json() == []
    assert agent.post("/v1/search", json=body).json()["results"] == []
