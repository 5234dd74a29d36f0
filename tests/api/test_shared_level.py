"""Shared level over HTTP: every tenant with a knowledge base of the same name finds the operator's documents."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from harness.running_service import Service, Tenant
from proofs.isolation.tenants import IMAGE_NUMBER, add_image, get_operator_tenant
from tests.api.problems import assert_problem

TEXT = "# Leave\n\nEverybody has thirty days of heliotrope leave.\n"


@dataclass
class Shared:
    """The operator and two tenants with knowledge bases of one name, and the operator's document."""

    name: str
    operator: Tenant
    readers: tuple[Tenant, Tenant]
    stranger: Tenant
    document: dict[str, Any]

    @property
    def place(self) -> str:
        return f"/v1/knowledge-bases/{self.name}/documents/{self.document['id']}"


@pytest.fixture(scope="module")
def shared(service: Service) -> Iterator[Shared]:
    name = f"everybodys-{secrets.token_hex(4)}"
    operator = get_operator_tenant(service)
    readers = service.create_tenant("one"), service.create_tenant("two")
    for one in (operator, *readers):
        one.admin.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
    document = operator.add_text(TEXT, kb=name)
    yield Shared(name, operator, readers, service.create_tenant("stranger"), document)
    operator.admin.delete(f"/v1/knowledge-bases/{name}").raise_for_status()


def found(tenant: Tenant, path: str, **body: Any) -> list[str]:
    reply = tenant.admin.post(path, json={"query": "heliotrope leave", **body})
    reply.raise_for_status()
    return [result["document"]["id"] for result in reply.json()["results"]]


def test_shared_document_is_created_by_operator(shared: Shared) -> None:
    none = {"user_id": None, "chat_id": None, "agent_id": None}
    assert shared.document["scope"] == {"level": "shared", **none}
    for ids in ({"user_id": "u"}, {"chat_id": "c"}, {"chat_id": "c", "agent_id": "a"}):
        reply = shared.operator.admin.post(
            f"/v1/knowledge-bases/{shared.name}/documents", json={"text": "For one.", **ids}
        )
        assert assert_problem(reply, 422, "invalid")["errors"][0]["loc"] == ["body"]
    change = f"/v1/knowledge-bases/{shared.name}/documents/{shared.document['id']}"
    reply = shared.operator.admin.patch(change, json={"scope": {"level": "user", "user_id": "u"}})
    assert assert_problem(reply, 422, "invalid")["errors"][0]["loc"] == ["body", "scope"]


@pytest.mark.capability("scope-shared")
def test_shared_document_is_found_by_tenants_with_same_name(shared: Shared) -> None:
    document, search = shared.document["id"], f"/v1/knowledge-bases/{shared.name}/search"
    for reader in shared.readers:
        assert found(reader, search) == [document]
        assert found(reader, "/v1/search") == [document]
        result = reader.admin.post(search, json={"query": "heliotrope", "expand": "section"}).json()["results"][0]
        assert result["knowledge_base"] == shared.name
        assert "thirty days" in result["text"]
        messages = [{"role": "customer", "content": "How much heliotrope leave is there?"}]
        for path in ("/v1/agent-search", f"/v1/knowledge-bases/{shared.name}/agent-search"):
            assert "thirty days" in reader.admin.post(path, json={"messages": messages}).json()[0]
    own = shared.readers[0].add_text("Our own heliotrope leave has two days more.", kb=shared.name)
    assert set(found(shared.readers[0], search)) == {document, own["id"]}
    assert found(shared.readers[1], search) == [document]
    assert found(shared.operator, search) == [document]
    assert found(shared.stranger, "/v1/search") == []
    assert shared.stranger.admin.post(search, json={"query": "heliotrope"}).status_code == 404


def test_shared_document_is_readable_completely(shared: Shared) -> None:
    asyncio.run(add_image(shared.operator, shared.document["id"]))
    for client in (shared.readers[0].admin, shared.readers[0].create_client("reader", user_id="u")):
        document = client.get(shared.place).json()
        assert {**document, "updated_at": None} == {**shared.document, "updated_at": None}
        content = client.get(f"{shared.place}/content", headers={"Range": "bytes=2-6"})
        assert (content.status_code, content.text) == (206, "Leave")
        chunk = client.get(f"{shared.place}/chunks").json()["items"][0]
        assert client.get(f"{shared.place}/chunks/{chunk['id']}").json()["text"] == chunk["text"]
        node = chunk["node_path"][-1]
        for path in ("tree", f"nodes/{node}", f"nodes/{node}/ancestors"):
            assert client.get(f"{shared.place}/{path}").status_code == 200, path
        assert client.get(f"{shared.place}/images/{IMAGE_NUMBER}").content == b"picture"
        assert "event: ready" in client.get(f"{shared.place}/events").text


def test_shared_document_is_listed_on_request(shared: Shared) -> None:
    documents = f"/v1/knowledge-bases/{shared.name}/documents"

    def listed(tenant: Tenant, **query: str) -> list[str]:
        return [item["id"] for item in tenant.admin.get(documents, params=query).json()["items"]]

    reader, document = shared.readers[1], shared.document["id"]
    assert (listed(reader), listed(reader, level="shared")) == ([], [document])
    assert listed(reader, level="shared", status="failed") == []
    assert listed(shared.operator) == listed(shared.operator, level="shared") == [document]
    refused = reader.admin.get(documents, params={"level": "shared", "user_id": "u"})
    assert assert_problem(refused, 422, "invalid")["errors"][0]["loc"] == ["query"]
    alone = shared.stranger.admin.get("/v1/knowledge-bases/default/documents", params={"level": "shared"})
    assert alone.json()["items"] == []


CHANGES = (
    ("PATCH", "", {"title": "ours now"}),
    ("PATCH", "", {"scope": {"level": "tenant"}}),
    ("POST", "/reindex", None),
    ("DELETE", "", None),
)


@pytest.mark.capability("scope-shared-closed")
@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_shared_document_cannot_be_changed_by_tenant(
    shared: Shared, method: str, path: str, body: dict[str, Any] | None
) -> None:
    reader = shared.readers[0]
    for client in (reader.admin, reader.create_client("writer"), reader.create_client("writer", user_id="u")):
        assert_problem(client.request(method, shared.place + path, json=body), 403, "shared_document")
    assert_problem(reader.create_client("reader").request(method, shared.place + path, json=body), 403, "forbidden")
    elsewhere = shared.place.replace(shared.name, "default") + path
    assert_problem(shared.stranger.admin.request(method, elsewhere, json=body), 404, "document_not_found")
    documents = f"/v1/knowledge-bases/{shared.name}/documents"
    by_filter = json.dumps({"$document_id": shared.document["id"]})
    for query in ({"ids": shared.document["id"]}, {"filter": by_filter}):
        assert reader.admin.delete(documents, params=query).json()["deleted"] == 0
    assert shared.operator.admin.get(shared.place).json() == shared.document


def test_shared_document_deleted_by_operator_disappears(shared: Shared) -> None:
    """The last test of the module, because it deletes the shared document."""
    deleted = shared.operator.admin.delete(shared.place)
    assert deleted.status_code == 204
    for reader in shared.readers:
        assert shared.document["id"] not in found(reader, f"/v1/knowledge-bases/{shared.name}/search")
        assert_problem(reader.admin.get(shared.place), 404, "document_not_found")
        receipt = reader.admin.get(f"/v1/deletions/{deleted.headers['carrel-deletion-id']}")
        assert receipt.status_code == 404
