"""Tenants: created with a key and a knowledge base, renamed, and deleted with all their data."""

import time
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from app.db.migrate import to_sqlalchemy_url
from app.db.models.base import Base
from app.ids import decode_id, encode_id, generate_id
from harness.running_service import Service
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.mark.capability("tenant-create")
def test_create_tenant_returns_key_and_knowledge_base(service: Service) -> None:
    reply = service.operator.post("/v1/tenants", json={"name": " Harbour Ltd. "})
    assert reply.status_code == 201
    made = reply.json()
    assert set(made) == {"id", "name", "created_at", "quotas", "sql_views", "api_key"}
    assert set(made["api_key"]) == {"id", "role", "key"}
    assert (made["name"], made["api_key"]["role"]) == ("Harbour Ltd.", "admin")
    admin = service.create_client(made["api_key"]["key"])
    me = admin.get("/v1/me").json()
    assert me["tenant"] == {"id": made["id"], "name": "Harbour Ltd."}
    assert (me["key"]["id"], me["key"]["role"], me["key"]["knowledge_bases"]) == (made["api_key"]["id"], "admin", None)
    assert me["limits"]["upload_bytes"] == service.settings.server.max_upload_bytes
    assert [kb["name"] for kb in admin.get("/v1/knowledge-bases").json()["items"]] == ["default"]
    found = service.operator.get(f"/v1/tenants/{made['id']}").json()
    assert found == {name: made[name] for name in ("id", "name", "created_at", "quotas", "sql_views")}


def test_rename_tenant_changes_name(service: Service) -> None:
    tenant = service.create_tenant("before")
    reply = service.operator.patch(f"/v1/tenants/{tenant.id}", json={"name": "after"})
    assert (reply.status_code, reply.json()["name"]) == (200, "after")
    assert tenant.admin.get("/v1/me").json()["tenant"]["name"] == "after"


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "  "}, {"name": "x" * 201}, {"name": "a\0b"}, {"name": None}, {"name": "x", "id": "y"}],
)
def test_tenant_with_invalid_body_is_422(service: Service, body: dict[str, Any]) -> None:
    assert_problem(service.operator.post("/v1/tenants", json=body), 422, "invalid")
    tenant = service.create_tenant()
    assert_problem(service.operator.patch(f"/v1/tenants/{tenant.id}", json=body), 422, "invalid")


@pytest.mark.parametrize(
    "text",
    [
        "%00",
        "nothing",
        "ten_",
        encode_id("ten", generate_id()),
        encode_id("kb", generate_id()),
        "ten_00000000000000000000000001",
    ],
    ids=["nul", "word", "prefix", "unknown", "another kind", "system"],
)
def test_unknown_tenant_is_404(service: Service, text: str) -> None:
    for method in ("GET", "PATCH", "DELETE"):
        reply = service.operator.request(
            method, f"/v1/tenants/{text}", json={"name": "x"} if method == "PATCH" else None
        )
        assert_problem(reply, 404, "tenant_not_found")


async def rows_of(service: Service, tenant: str) -> dict[str, int]:
    """Return the tenant's rows in each table, read as the owner, to whom no policy applies."""
    engine = create_async_engine(to_sqlalchemy_url(service.urls.owner))
    counts = {}
    async with engine.connect() as connection:
        await connection.execute(sqlalchemy.text("select set_config('app.tenant_id', :t, false)"), {"t": tenant})
        for table in Base.metadata.tables.values():
            if table.name != "tenant" and "tenant_id" not in table.columns:
                continue
            column = "id" if table.name == "tenant" else "tenant_id"
            sql = sqlalchemy.text(f"select count(*) from {table.name} where {column} = cast(:t as uuid)")
            counts[table.name] = (await connection.execute(sql, {"t": tenant})).scalar_one()
    await engine.dispose()
    return {name: count for name, count in counts.items() if count}


@pytest.mark.capability("tenant-delete")
async def test_delete_tenant_leaves_nothing(service: Service) -> None:
    tenant, neighbour = service.create_tenant("leaving"), service.create_tenant("staying")
    for one in (tenant, neighbour):
        one.add_text("# Words\n\nThat will be gone.", metadata={"a": 1})
    reader = tenant.create_client("reader")
    folder = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    own = str(decode_id("ten", tenant.id))
    before = await rows_of(service, own)
    assert {
        "tenant",
        "api_key",
        "knowledge_base",
        "search_index",
        "document",
        "chunk",
        "chunk_embedding",
        "term_document_frequency",
    } <= set(before)
    assert list(folder.glob("*/*"))

    reply = service.operator.delete(f"/v1/tenants/{tenant.id}")
    assert reply.status_code == 202
    for client in (tenant.admin, reader):
        assert_problem(client.get("/v1/me"), 401, "unauthorized")
        assert_problem(client.post("/v1/search", json={"query": "words"}), 401)
        assert_problem(client.post(DOCUMENTS, json={"text": "x"}), 401)
    assert_problem(service.operator.get(f"/v1/tenants/{tenant.id}"), 404)
    assert_problem(service.operator.patch(f"/v1/tenants/{tenant.id}", json={"name": "back"}), 404)
    assert tenant.id not in service.operator.get("/v1/tenants", params={"limit": 200}).text

    receipt, deadline = f"/v1/deletions/{reply.headers['carrel-deletion-id']}", time.monotonic() + 30
    while (told := service.operator.get(receipt).json())["finished_at"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (told["kind"], told["object"], told["documents"], told["chunks"]) == ("tenant", tenant.id, 1, 1)
    assert before.keys() - told["remaining"].keys() <= set(told["retained"]) == {"audit_event", "deletion"}
    assert not any(told["remaining"].values())
    assert (await rows_of(service, own)).keys() <= {"audit_event", "deletion"}
    assert not folder.exists()
    for client in (neighbour.admin, neighbour.create_client("reader")):
        assert_problem(client.get(receipt), 404, "deletion_not_found")
    assert neighbour.admin.post("/v1/search", json={"query": "words"}).json()["results"]


def test_delete_tenant_again_before_job_ends_is_202_or_404(service: Service) -> None:
    tenant = service.create_tenant("twice")
    statuses = [service.operator.delete(f"/v1/tenants/{tenant.id}").status_code for _ in range(3)]
    assert statuses[0] == 202
    assert set(statuses) <= {202, 404}
