"""Permissions: the table of all routes, restricted keys, and invalid keys."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from harness.running_service import Service, Tenant
from harness.wait_until import create_expired
from tests.api.openai.errors import failure
from tests.api.problems import assert_problem

READER, WRITER, ADMIN, OPERATOR = "reader", "writer", "admin", "operator"
RANKS = [READER, WRITER, ADMIN, OPERATOR]
KB = "/v1/knowledge-bases/{kb}"
DOCUMENT = KB + "/documents/{document}"
NEEDED = {
    "POST /v1/tenants": OPERATOR,
    "GET /v1/tenants": OPERATOR,
    "GET /v1/tenants/{tenant}": OPERATOR,
    "PATCH /v1/tenants/{tenant}": OPERATOR,
    "DELETE /v1/tenants/{tenant}": OPERATOR,
    "GET /v1/me": READER,
    "GET /v1/capabilities": READER,
    "GET /v1/usage": ADMIN,
    "GET /v1/status": ADMIN,
    "GET /v1/audit-events": ADMIN,
    "GET /v1/tenants/{tenant}/audit-events": OPERATOR,
    "POST /v1/api-keys": ADMIN,
    "GET /v1/api-keys": ADMIN,
    "DELETE /v1/api-keys/{api_key}": ADMIN,
    "POST /v1/api-keys/{api_key}/rotate": ADMIN,
    "GET /v1/agents": ADMIN,
    "PUT /v1/agents/{agent_id}": ADMIN,
    "GET /v1/agents/{agent_id}": ADMIN,
    "PATCH /v1/agents/{agent_id}": ADMIN,
    "DELETE /v1/agents/{agent_id}": ADMIN,
    "POST /v1/webhooks": ADMIN,
    "GET /v1/webhooks": ADMIN,
    "GET /v1/webhooks/{webhook}": ADMIN,
    "PATCH /v1/webhooks/{webhook}": ADMIN,
    "DELETE /v1/webhooks/{webhook}": ADMIN,
    "POST /v1/webhooks/{webhook}/rotate": ADMIN,
    "POST /v1/webhooks/{webhook}/test": ADMIN,
    "GET /v1/webhooks/{webhook}/deliveries": ADMIN,
    "POST /v1/webhooks/{webhook}/deliveries/{delivery}/replay": ADMIN,
    "GET /v1/evaluations": WRITER,
    "POST /v1/evaluations": WRITER,
    "GET /v1/evaluations/{evaluation}": WRITER,
    "DELETE /v1/evaluations/{evaluation}": WRITER,
    "GET /v1/evaluations/{evaluation}/results": WRITER,
    "GET /v1/golden-sets": WRITER,
    "POST /v1/golden-sets": WRITER,
    "GET /v1/golden-sets/{golden_set}": WRITER,
    "PATCH /v1/golden-sets/{golden_set}": WRITER,
    "DELETE /v1/golden-sets/{golden_set}": WRITER,
    "GET /v1/golden-sets/{golden_set}/items": WRITER,
    "POST /v1/golden-sets/{golden_set}/items": WRITER,
    "DELETE /v1/golden-sets/{golden_set}/items/{item}": WRITER,
    "DELETE /v1/golden-sets/{golden_set}/items/{item}/relevant": WRITER,
    "GET /v1/agents/{agent_id}/prompts": ADMIN,
    "POST /v1/agents/{agent_id}/prompts/{prompt}/{number}/pin": ADMIN,
    "POST /v1/knowledge-bases": ADMIN,
    "GET /v1/knowledge-bases": READER,
    f"GET {KB}": READER,
    f"PATCH {KB}": ADMIN,
    f"DELETE {KB}": ADMIN,
    f"GET {KB}/prompts": ADMIN,
    f"POST {KB}/prompts/{{prompt}}/{{number}}/pin": ADMIN,
    f"GET {KB}/sql-view": ADMIN,
    f"GET {KB}/external-search": ADMIN,
    "GET /v1/agents/{agent_id}/external-search": ADMIN,
    f"POST {KB}/sql-view": ADMIN,
    f"DELETE {KB}/sql-view": ADMIN,
    f"GET {KB}/enrichment": READER,
    f"POST {KB}/enrichment/estimate": ADMIN,
    f"POST {KB}/enrichment/run": ADMIN,
    f"POST {KB}/reindex": ADMIN,
    f"DELETE {KB}/reindex": ADMIN,
    f"POST {KB}/reindex/rollback": ADMIN,
    f"GET {KB}/export": ADMIN,
    f"POST {KB}/import": ADMIN,
    f"POST {KB}/documents": WRITER,
    f"POST {KB}/documents/batch": WRITER,
    f"GET {KB}/documents": READER,
    f"DELETE {KB}/documents": ADMIN,
    f"GET {DOCUMENT}": READER,
    f"PATCH {DOCUMENT}": WRITER,
    f"DELETE {DOCUMENT}": WRITER,
    f"POST {DOCUMENT}/reindex": WRITER,
    f"GET {DOCUMENT}/events": READER,
    f"GET {KB}/events": READER,
    f"GET {DOCUMENT}/content": READER,
    f"GET {DOCUMENT}/images/{{n}}": READER,
    f"GET {DOCUMENT}/pages/{{page}}.png": READER,
    f"GET {DOCUMENT}/chunks": READER,
    f"GET {DOCUMENT}/chunks/{{chunk}}": READER,
    f"PUT {DOCUMENT}/chunks/{{chunk}}": WRITER,
    f"DELETE {DOCUMENT}/chunks/{{chunk}}": WRITER,
    f"POST {DOCUMENT}/prepare-reindex": WRITER,
    f"GET {KB}/chunks": READER,
    "GET /v1/chunks/{chunk}": READER,
    f"GET {KB}/entities": READER,
    f"POST {KB}/entities/merge": ADMIN,
    f"POST {KB}/entities/split": ADMIN,
    f"GET {KB}/entities/corrections": ADMIN,
    f"DELETE {KB}/entities/corrections/{{correction}}": ADMIN,
    f"GET {KB}/entities/{{entity}}": READER,
    f"GET {DOCUMENT}/graph": READER,
    f"GET {DOCUMENT}/tree": READER,
    f"GET {DOCUMENT}/nodes/{{node}}": READER,
    f"GET {DOCUMENT}/nodes/{{node}}/ancestors": READER,
    "GET /v1/deletions": ADMIN,
    "GET /v1/jobs": ADMIN,
    "GET /v1/jobs/{job}": ADMIN,
    "POST /v1/jobs/{job}/retry": ADMIN,
    "POST /v1/jobs/retry": ADMIN,
    "GET /v1/deletions/{deletion}": READER,
    "POST /v1/preview": WRITER,
    f"POST {KB}/search": READER,
    "POST /v1/search": READER,
    f"POST {KB}/agent-search": READER,
    "POST /v1/agent-search": READER,
    f"POST {KB}/answer": READER,
    "POST /v1/answer": READER,
    "POST /mcp": READER,
}
# The Dify API has its own error texts: tests/api/test_dify.py.
FOREIGN = {"POST /dify/retrieval"}
STORES = "/openai/v1/vector_stores"
STORE = f"{STORES}/{{kb}}"
ATTACHED = f"{STORE}/files/{{vector_store_file}}"
BATCH = f"{STORE}/file_batches/{{batch}}"
NEEDED |= {
    "POST /openai/v1/files": WRITER,
    "GET /openai/v1/files": READER,
    "GET /openai/v1/files/{file}": READER,
    "GET /openai/v1/files/{file}/content": READER,
    "DELETE /openai/v1/files/{file}": WRITER,
    f"POST {STORES}": ADMIN,
    f"GET {STORES}": READER,
    f"GET {STORE}": READER,
    f"POST {STORE}": ADMIN,
    f"DELETE {STORE}": ADMIN,
    f"POST {STORE}/search": READER,
    f"POST {STORE}/files": WRITER,
    f"GET {STORE}/files": READER,
    f"GET {ATTACHED}": READER,
    f"POST {ATTACHED}": WRITER,
    f"DELETE {ATTACHED}": WRITER,
    f"GET {ATTACHED}/content": READER,
    f"POST {STORE}/file_batches": WRITER,
    f"GET {BATCH}": READER,
    f"GET {BATCH}/files": READER,
    f"POST {BATCH}/cancel": WRITER,
}
OPEN = {"GET /healthz", "GET /readyz", "GET /openapi.json", "GET /docs"}


def routes(app: FastAPI) -> set[str]:
    paths = app.openapi()["paths"]
    return {f"{method.upper()} {path}" for path, operations in paths.items() for method in operations}


@pytest.fixture(scope="module")
def callers(service: Service) -> dict[str, httpx2.Client]:
    tenant = service.create_tenant("roles")
    return {
        READER: tenant.create_client(READER),
        WRITER: tenant.create_client(WRITER),
        ADMIN: tenant.admin,
        OPERATOR: service.operator,
    }


@pytest.mark.capability("role-table")
def test_permission_table_lists_every_route(service: Service) -> None:
    assert routes(service.app) == set(NEEDED) | FOREIGN | {"GET /healthz", "GET /readyz"}


@pytest.mark.capability("role-table")
@pytest.mark.parametrize("route", NEEDED)
def test_route_accepts_needed_role_and_higher_ones(
    service: Service, callers: dict[str, httpx2.Client], route: str
) -> None:
    method, path = route.split(" ")
    for field in (
        "kb",
        "document",
        "node",
        "chunk",
        "tenant",
        "api_key",
        "deletion",
        "job",
        "n",
        "agent_id",
        "webhook",
        "delivery",
        "file",
        "vector_store_file",
        "batch",
        "golden_set",
        "item",
        "evaluation",
    ):
        path = path.replace(f"{{{field}}}", "nothing")
    is_openai = path.startswith("/openai")
    refused = failure if is_openai else assert_problem
    refused(service.create_client().request(method, path), 401)
    for role, caller in callers.items():
        reply = caller.request(method, path)
        if RANKS.index(role) < RANKS.index(NEEDED[route]):
            found = refused(reply, 403, "forbidden")
            assert NEEDED[route] in found["message" if is_openai else "detail"]
        else:
            assert reply.status_code in (200, 404, 415, 400 if is_openai else 422), reply.text


def test_open_routes_need_no_key(service: Service) -> None:
    for route in OPEN:
        assert service.create_client().get(route.split(" ")[1]).status_code == 200, route


@pytest.mark.capability("key-once")
def test_created_key_is_returned_once(service: Service, tenant: Tenant) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    body = {"name": " laptop ", "role": "writer", "expires_at": soon.isoformat()}
    reply = tenant.admin.post("/v1/api-keys", json=body)
    assert reply.status_code == 201
    made = reply.json()
    assert made["key"].startswith("carrel_")
    assert (made["name"], made["role"], made["knowledge_bases"]) == ("laptop", "writer", None)
    assert abs(datetime.fromisoformat(made["expires_at"]) - soon) < timedelta(seconds=1)
    listed = tenant.admin.get("/v1/api-keys")
    assert listed.json()["items"][0] == {name: value for name, value in made.items() if name != "key"}
    assert made["key"] not in listed.text
    me = service.create_client(made["key"]).get("/v1/me").json()
    assert (me["key"]["id"], me["key"]["role"], me["tenant"]["id"]) == (made["id"], "writer", tenant.id)


@pytest.mark.parametrize(
    "change",
    [
        {"role": "operator"}, {"role": "root"}, {"role": None}, {"name": ""}, {"name": "  "}, {"name": "x" * 201},
        {"name": "a\0b"},
        {"expires_at": "2020-01-01T00:00:00Z"}, {"expires_at": "2999-01-01T00:00:00"}, {"expires_at": "soon"},
        {"expires_at": "9999-12-31T23:59:59-14:00"}, {"knowledge_bases": []}, {"knowledge_bases": "default"},
        {"knowledge_bases": ["default"] * 101}, {"user_id": ""},
        {"user_id": "u" * 257}, {"user_id": "a\0b"}, {"user_id": 1}, {"key": "carrel_mine"},
    ],
)  # fmt: skip
def test_create_key_with_invalid_body_is_422(tenant: Tenant, change: dict[str, Any]) -> None:
    assert_problem(tenant.admin.post("/v1/api-keys", json={"name": "k", "role": "reader", **change}), 422, "invalid")


def test_create_key_for_unknown_knowledge_base_is_404(tenant: Tenant) -> None:
    body = {"name": "k", "role": "reader", "knowledge_bases": ["default", "nothing"]}
    assert_problem(tenant.admin.post("/v1/api-keys", json=body), 404, "knowledge_base_not_found")


@pytest.mark.capability("key-expiry")
def test_key_expires_at_its_second(service: Service, tenant: Tenant) -> None:
    def make(end: datetime) -> httpx2.Response:
        body = {"name": "short", "role": "reader", "expires_at": end.isoformat()}
        reply = tenant.admin.post("/v1/api-keys", json=body)
        if reply.is_success:
            known = service.create_client(reply.json()["key"]).get("/v1/me")
            assert known.status_code == 200 or datetime.now(UTC) > end
        return reply

    key = create_expired(make).json()["key"]
    assert_problem(service.create_client(key).get("/v1/me"), 401, "unauthorized")


@pytest.fixture(scope="module")
def narrowed(service: Service) -> tuple[Tenant, dict[str, Any]]:
    """A tenant with two filled knowledge bases."""
    tenant = service.create_tenant("narrowed")
    made = {"default": tenant.add_text("The open shelf holds maps.")}
    tenant.admin.post("/v1/knowledge-bases", json={"name": "closed"}).raise_for_status()
    made["closed"] = tenant.add_text("The closed shelf holds maps.", kb="closed")
    closed = f"/v1/knowledge-bases/closed/documents/{made['closed']['id']}/chunks"
    (chunk,) = tenant.admin.get(closed).json()["items"]
    made["chunk"], made["node"] = chunk["id"], chunk["node_path"][-1]
    made["closed_id"] = tenant.admin.get("/v1/knowledge-bases/closed").json()["id"]
    return tenant, made


def test_restricted_key_reads_only_its_knowledge_bases(narrowed: tuple[Tenant, dict[str, Any]]) -> None:
    tenant, made = narrowed
    client = tenant.create_client("admin", knowledge_bases=["default"])
    me = client.get("/v1/me").json()
    assert me["key"]["knowledge_bases"] == [tenant.admin.get("/v1/knowledge-bases/default").json()["id"]]
    assert [kb["name"] for kb in client.get("/v1/knowledge-bases").json()["items"]] == ["default"]
    for name in ("closed", made["closed_id"]):
        path = f"/v1/knowledge-bases/{name}"
        document = f"{path}/documents/{made['closed']['id']}"
        for method, where in (
            ("GET", path), ("PATCH", path), ("DELETE", path), ("GET", f"{path}/documents"),
            ("GET", f"{path}/export"), ("POST", f"{path}/import"),
            ("POST", f"{path}/documents"), ("POST", f"{path}/documents/batch"), ("DELETE", f"{path}/documents"),
            ("POST", f"{document}/reindex"), ("GET", f"{document}/events"),
            ("GET", document), ("PATCH", document), ("DELETE", document), ("GET", f"{document}/content"),
            ("GET", f"{document}/chunks"), ("GET", f"{document}/chunks/{made['chunk']}"), ("GET", f"{document}/tree"),
            ("GET", f"{document}/nodes/{made['node']}"), ("GET", f"{document}/nodes/{made['node']}/ancestors"),
            ("POST", f"{path}/search"),
        ):  # fmt: skip
            body = {"query": "x"} if where.endswith("search") else {"text": "x"} if where.endswith("documents") else {}
            assert_problem(
                client.request(method, where, json=body if method != "GET" else None), 404, "knowledge_base_not_found"
            )
        both = {"query": "shelf maps", "knowledge_bases": ["default", name]}
        assert_problem(client.post("/v1/search", json=both), 404, "knowledge_base_not_found")
        assert_problem(client.post(f"{path}/agent-search", json={"messages": []}), 404, "knowledge_base_not_found")
        document = f"/v1/knowledge-bases/default/documents/{made['closed']['id']}"
        assert_problem(client.get(document), 404, "document_not_found")


@pytest.mark.capability("key-restricted")
def test_restricted_key_searches_only_its_knowledge_bases(narrowed: tuple[Tenant, dict[str, Any]]) -> None:
    tenant, _ = narrowed
    for names, found in (
        (["default"], {"default"}),
        (["closed"], {"closed"}),
        (["closed", "default"], {"closed", "default"}),
    ):
        client = tenant.create_client("reader", knowledge_bases=names)
        results = client.post("/v1/search", json={"query": "shelf maps"}).json()["results"]
        assert {result["knowledge_base"] for result in results} == found
        said = [{"role": "user", "content": "shelf maps"}]
        assert len(client.post("/v1/agent-search", json={"messages": said}).json()) == len(found)


def test_restricted_key_cannot_extend_its_rights(narrowed: tuple[Tenant, dict[str, Any]]) -> None:
    tenant, _ = narrowed
    client = tenant.create_client("admin", knowledge_bases=["default"])
    assert_problem(client.get("/v1/api-keys"), 403, "forbidden")
    assert_problem(client.get("/v1/audit-events"), 403, "forbidden")
    assert_problem(client.get("/v1/usage"), 403, "forbidden")
    assert_problem(client.post("/v1/api-keys", json={"name": "k", "role": "reader"}), 403, "forbidden")
    assert_problem(client.delete(f"/v1/api-keys/{client.get('/v1/me').json()['key']['id']}"), 403, "forbidden")
    assert_problem(client.post(f"/v1/api-keys/{client.get('/v1/me').json()['key']['id']}/rotate"), 403, "forbidden")
    assert_problem(client.post("/v1/knowledge-bases", json={"name": "mine"}), 403, "forbidden")


@pytest.mark.capability("scope-user-key")
def test_user_key_reads_and_writes_user_scope(tenant: Tenant) -> None:
    documents = "/v1/knowledge-bases/default/documents"
    ours = tenant.add_text("The swan of us all.")
    others = tenant.add_text("The swan of another.", user_id="v")
    client = tenant.create_client("admin", user_id="u")
    assert client.get("/v1/me").json()["key"]["user_id"] == "u"
    assert tenant.admin.get("/v1/api-keys").json()["items"][0]["user_id"] == "u"
    for scope in ({"user_id": "u"}, {"chat_id": "c"}):
        reply = client.post(documents, params={"wait": 60}, json={"text": f"The swan of {scope}.", **scope})
        assert reply.status_code == 201
    for scope in ({}, {"user_id": "v"}):
        assert_problem(client.post(documents, json={"text": "A swan.", **scope}), 403, "forbidden")
    assert_problem(
        tenant.create_client("writer", user_id="v").post(documents, json={"text": "A swan.", "chat_id": "c"}), 403
    )
    asked: list[tuple[dict[str, str], int]] = [
        ({}, 1), ({"user_id": "u"}, 2), ({"chat_id": "c"}, 2), ({"user_id": "u", "chat_id": "c"}, 2),
        ({"user_id": "v"}, 1), ({"user_id": "v", "chat_id": "c"}, 1),
    ]  # fmt: skip
    for scope, found in asked:
        results = client.post("/v1/search", json={"query": "swan", "scope": scope}).json()["results"]
        assert len(results) == found, scope
    assert len(client.get(documents).json()["items"]) == 3
    assert_problem(client.get(f"{documents}/{others['id']}"), 404, "document_not_found")
    assert client.get(f"{documents}/{ours['id']}").status_code == 200
    assert_problem(client.patch(f"{documents}/{ours['id']}", json={"title": "mine"}), 403, "forbidden")
    assert_problem(client.delete(f"{documents}/{ours['id']}"), 403, "forbidden")
    assert_problem(client.delete(f"{documents}/{others['id']}"), 404, "document_not_found")
    assert_problem(client.get("/v1/api-keys"), 403, "forbidden")
    assert_problem(client.delete("/v1/knowledge-bases/default"), 403, "forbidden")


def test_writer_deletes_documents_only_one_at_a_time(tenant: Tenant) -> None:
    documents = "/v1/knowledge-bases/default/documents"
    first, second = (tenant.add_text(f"The {word} heron.")["id"] for word in ("grey", "white"))
    writer, reader = tenant.create_client("writer"), tenant.create_client("reader")
    many: tuple[dict[str, str], ...] = (
        {"filter": '{"$title": "x"}'}, {"filter": "{}", "confirm": "default"}, {"ids": first}, {"external_id": "x"},
    )  # fmt: skip
    for client in (reader, writer):
        for query in many:
            assert_problem(client.delete(documents, params=query), 403, "forbidden")
        assert_problem(client.delete("/v1/knowledge-bases/default"), 403, "forbidden")
        assert_problem(client.delete(f"/v1/tenants/{tenant.id}"), 403, "forbidden")
    assert_problem(tenant.admin.delete(f"/v1/tenants/{tenant.id}"), 403, "forbidden")
    assert_problem(reader.delete(f"{documents}/{first}"), 403, "forbidden")
    assert {one["id"] for one in reader.get(documents).json()["items"]} == {first, second}
    assert writer.delete(f"{documents}/{first}").status_code == 204
    assert [one["id"] for one in reader.get(documents).json()["items"]] == [second]


def test_restricted_key_of_deleted_knowledge_base_reads_nothing(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
    client = tenant.create_client("reader", knowledge_bases=["brief"])
    tenant.admin.delete("/v1/knowledge-bases/brief").raise_for_status()
    assert client.get("/v1/knowledge-bases").json()["items"] == []
    assert client.post("/v1/search", json={"query": "x"}).json()["results"] == []
    tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
    assert_problem(client.get("/v1/knowledge-bases/brief"), 404)
