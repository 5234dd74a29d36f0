"""Objects that the examples of the API reference name, created in a tenant of a running service."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.api.http import example_values as example

if TYPE_CHECKING:
    import httpx2

    from harness.running_service import Service

TEXT = "# Leave\n\nParental leave has fourteen months.\n\n## Travel\n\nTrips by train are preferred."
# Nothing listens here. The address in the examples is unknown to the resolver of a test machine.
RECEIVER = "https://127.0.0.1:9/hook"
KB = f"/v1/knowledge-bases/{example.KNOWLEDGE_BASE_NAME}"


@dataclass(frozen=True)
class ReferenceObjects:
    """Objects of a tenant; ``ids`` maps ids and addresses of the examples to those of the created objects."""

    service: Service
    admin: httpx2.Client
    ids: dict[str, str]
    archive: bytes

    def get_client(self, path: str) -> httpx2.Client:
        is_for_operator = path.startswith("/v1/tenants")
        return self.service.operator if is_for_operator else self.admin

    def substitute(self, text: str) -> str:
        for example_id, real_id in self.ids.items():
            text = text.replace(example_id, real_id)
        return text


def expect(response: httpx2.Response) -> Any:
    assert response.is_success, response.text
    return response.json() if response.content else None


def create_reference_objects(service: Service) -> ReferenceObjects:
    """Create a tenant with all objects that examples name."""
    tenant = service.create_tenant()
    admin = tenant.admin
    expect(service.operator.patch(f"/v1/tenants/{tenant.id}", json={"sql_views": True}))
    body = {"name": example.KNOWLEDGE_BASE_NAME, "retrieval": {"answer_prompt": "Answer briefly."}}
    kb = expect(admin.post("/v1/knowledge-bases", json=body))
    expect(admin.post("/v1/knowledge-bases", json={"name": "faq"}))
    upload = {"text": TEXT, "title": "Staff handbook", "external_id": "handbook-2026", "metadata": {"department": "hr"}}
    document = expect(
        admin.post(f"{KB}/documents", params={"wait": 60}, json={**upload, "media_type": "text/markdown"})
    )
    assert document["status"] == "ready"
    chunks = expect(admin.get(f"{KB}/documents/{document['id']}/chunks"))["items"]
    agent_scope = {"chat_id": example.CHAT_ID, "agent_id": example.AGENT_ID}
    for scope in ({"user_id": example.USER_ID}, {"chat_id": example.CHAT_ID}, agent_scope):
        same = {"text": TEXT, "title": "Staff handbook", "media_type": "text/markdown", **scope}
        expect(admin.post(f"{KB}/documents", params={"wait": 60}, json=same))
    nodes = expect(admin.get(f"{KB}/documents/{document['id']}/graph"))["nodes"]
    split = {"entity": nodes[1]["id"], "documents": [document["id"]], "name": "Another name"}
    expect(admin.post(f"{KB}/entities/split", json=split))
    correction = expect(admin.get(f"{KB}/entities/corrections"))["items"][0]
    deleted = expect(admin.post(f"{KB}/documents", json={"text": "Deleted."}))
    deletion = admin.delete(f"{KB}/documents/{deleted['id']}").headers["Carrel-Deletion-Id"]
    key = expect(admin.post("/v1/api-keys", json={"name": "backend", "role": "writer"}))
    webhook = expect(admin.post("/v1/webhooks", json={"url": RECEIVER, "events": ["document.ready"]}))
    delivery = expect(admin.post(f"/v1/webhooks/{webhook['id']}/test"))
    agent = {"knowledge_bases": [kb["id"]], "answer_prompt": "Answer briefly."}
    expect(admin.put(f"/v1/agents/{example.AGENT_ID}", json=agent))
    file = {"file": ("notes.md", io.BytesIO(b"# Notes\n\nA file of the OpenAI API."))}
    stored = expect(admin.post("/openai/v1/files", files=file, data={"purpose": "assistants"}))
    batches = f"/openai/v1/vector_stores/{kb['id']}/file_batches"
    batch = expect(admin.post(batches, json={"file_ids": [stored["id"]]}))
    until = time.monotonic() + 60
    while expect(admin.get(f"{batches}/{batch['id']}"))["status"] == "in_progress" and time.monotonic() < until:
        time.sleep(0.05)
    golden_set = expect(admin.post("/v1/golden-sets", json={"name": "Questions of new staff"}))
    relevant = [{"document": document["id"]}, {"document": document["id"], "chunk": chunks[0]["id"]}]
    golden_item = {"query": "Which trips are preferred?", "relevant": relevant}
    added = expect(admin.post(f"/v1/golden-sets/{golden_set['id']}/items", json={"items": [golden_item]}))
    evaluation = expect(admin.post("/v1/evaluations", json={"set": golden_set["id"], "settings": [{}]}))
    archive = admin.get(f"{KB}/export")
    assert archive.is_success, archive.text
    ids = {
        "https://hooks.example.com/carrel": RECEIVER,
        example.TENANT_ID: tenant.id,
        example.KNOWLEDGE_BASE_ID: kb["id"],
        example.DOCUMENT_ID: document["id"],
        example.CHUNK_ID: chunks[0]["id"],
        example.CORRECTION_ID: correction["id"],
        example.ENTITY_ID: nodes[0]["id"],
        example.OTHER_ENTITY_ID: nodes[1]["id"],
        example.NODE_ID: chunks[0]["node_path"][-1],
        example.DELETION_ID: deletion,
        example.API_KEY_ID: key["id"],
        example.WEBHOOK_ID: webhook["id"],
        example.DELIVERY_ID: delivery["id"],
        example.FILE_ID: stored["id"],
        example.FILE_BATCH_ID: batch["id"],
        example.EVALUATION_ID: evaluation["id"],
        example.GOLDEN_SET_ID: golden_set["id"],
        example.GOLDEN_ITEM_ID: added["items"][0]["id"],
    }
    return ReferenceObjects(service, admin, ids, archive.content)
