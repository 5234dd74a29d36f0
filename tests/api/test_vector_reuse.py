"""Reuse of vectors for the same bytes in one tenant: documents stay independent, and tenants share nothing."""

from typing import Any

import httpx2
import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service

TEXT = "# Reefs\n\nThe reef grows slowly.\n\n# Corals\n\nA coral is an animal.\n\n# Tides\n\nThe tide turns.\n"


@pytest.fixture(scope="module")
def server() -> Any:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture(scope="module")
def service(server: EmbeddingServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = build_settings(tmp_path_factory.mktemp("reuse"), embedding=server.settings)
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture
def tenant(service: Service) -> Tenant:
    tenant = service.create_tenant("reuse")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
    return tenant


def upload(tenant: Tenant, *, kb: str = "default", name: str = "reefs.md", text: str = TEXT, **data: str) -> Any:
    path = f"/v1/knowledge-bases/{kb}/documents"
    files = {"file": (name, text.encode())}
    reply = tenant.admin.post(path, params={"wait": 60}, files=files, data=data)
    document = reply.json()
    assert (reply.status_code, document["status"]) == (201, "ready"), reply.text
    return document


def count_inputs(server: EmbeddingServer) -> int:
    return sum(len(request.inputs) for request in server.received)


def search(client: httpx2.Client, kb: str, query: str, **body: Any) -> list[tuple[str, float]]:
    path = f"/v1/knowledge-bases/{kb}/search"
    reply = client.post(path, json={"query": query, "strategy": "dense", "top_k": 10, **body})
    reply.raise_for_status()
    return [(result["text"], round(result["similarity"], 2)) for result in reply.json()["results"]]


@pytest.mark.capability("doc-vector-reuse")
@pytest.mark.parametrize(
    "place",
    [{"kb": "other"}, {"user_id": "ann"}, {"chat_id": "c"}, {"chat_id": "c", "agent_id": "a"}, {"external_id": "e"}],
    ids=str,
)
def test_same_bytes_in_another_place_are_not_embedded_again(
    server: EmbeddingServer, tenant: Tenant, place: dict[str, str]
) -> None:
    first = upload(tenant)
    before = count_inputs(server)
    second = upload(tenant, **place)
    assert count_inputs(server) == before
    assert second["id"] != first["id"]
    assert second["chunk_count"] == first["chunk_count"]
    kb = place.get("kb", "default")
    scope = {name: value for name, value in place.items() if name.endswith("_id") and name != "external_id"}
    found = search(tenant.admin, kb, "coral animal", scope=scope)
    tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{first['id']}").raise_for_status()
    left = search(tenant.admin, kb, "coral animal", scope=scope)
    assert set(left) == set(found)
    assert len(left) == second["chunk_count"]
    before = count_inputs(server)
    third = upload(tenant, kb=kb, user_id="bob")  # its vectors come from the second document
    assert (count_inputs(server), third["chunk_count"]) == (before, second["chunk_count"])


@pytest.mark.capability("doc-vector-reuse-tenants")
def test_bytes_of_another_tenant_or_a_deleted_document_are_embedded(
    server: EmbeddingServer, service: Service, tenant: Tenant
) -> None:
    first = upload(tenant)
    for stranger in (service.create_tenant("stranger"), service.create_tenant("second stranger")):
        before = count_inputs(server)
        document = upload(stranger)
        assert count_inputs(server) == before + document["chunk_count"]
    tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{first['id']}").raise_for_status()
    before = count_inputs(server)
    again = upload(tenant, kb="other")
    assert count_inputs(server) == before + again["chunk_count"]


def test_text_that_differs_by_its_title_or_chunking_is_embedded(server: EmbeddingServer, tenant: Tenant) -> None:
    first = upload(tenant)
    before = count_inputs(server)
    titled = upload(tenant, kb="other", title="About the sea")
    assert count_inputs(server) == before + titled["chunk_count"]
    chunking = {"strategy": "sentence"}
    tenant.admin.post("/v1/knowledge-bases", json={"name": "small", "chunking": chunking}).raise_for_status()
    small = upload(tenant, kb="small")
    assert small["status"] == first["status"]
    assert len(search(tenant.admin, "small", "tide")) == small["chunk_count"]
