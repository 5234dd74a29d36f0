"""Reading the audit over HTTP: pages, filters, JSON Lines, the list of each tenant, and failed sign-ins."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import decode_id
from harness.running_service import Service, Tenant
from proofs.isolation.tenants import invent_ids
from tests.api.audit import EVENTS, events, find_new_events, of_tenant
from tests.api.problems import assert_problem


@pytest.fixture(scope="module")
def owner(service: Service) -> Tenant:
    return service.create_tenant("audited")


@pytest.fixture(scope="module")
def busy(service: Service) -> Tenant:
    """A tenant with 25 events."""
    tenant = service.create_tenant("busy")
    for number in range(23):
        tenant.admin.post("/v1/api-keys", json={"name": f"key {number}", "role": "reader"}).raise_for_status()
    return tenant


def test_audit_pages_contain_all_events(busy: Tenant) -> None:
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = busy.admin.get(EVENTS, params={"limit": 7, **cursor}).json()
        found += page["items"]
        if page["next_cursor"] is None:
            break
        assert len(page["items"]) == 7
        cursor = {"cursor": page["next_cursor"]}
    assert len(found) == 25
    assert found[::-1] == events(busy.admin)
    assert [one["created_at"] for one in found] == sorted((one["created_at"] for one in found), reverse=True)
    lines = busy.admin.get(EVENTS, headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line) for line in lines.text.splitlines()] == found
    behind = busy.admin.get(EVENTS, params={"format": "jsonl", "cursor": page_cursor(busy, 20)})
    assert [json.loads(line) for line in behind.text.splitlines()] == found[20:]
    shown = busy.admin.get(EVENTS, params={"format": "json"}, headers={"Accept": "application/x-ndjson"})
    assert len(shown.json()["items"]) == 25


def page_cursor(tenant: Tenant, limit: int) -> str:
    """Return the cursor of the page after ``limit`` events."""
    cursor: str = tenant.admin.get(EVENTS, params={"limit": limit}).json()["next_cursor"]
    return cursor


def test_audit_list_filters_narrow_events(busy: Tenant) -> None:
    everything = events(busy.admin)
    assert [one["action"] for one in everything[:2]] == ["tenant.create", "key.create"]
    assert events(busy.admin, action="tenant.create") == everything[:1]
    assert events(busy.admin, action="document.create") == []
    assert events(busy.admin, object_id=busy.id) == everything[:1]
    assert events(busy.admin, object_id=everything[9]["object"]["ids"][0]) == [everything[9]]
    assert len(events(busy.admin, actor=everything[9]["actor"]["id"], action="key.create")) == 23
    assert events(busy.admin, actor="nobody") == []
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    assert events(busy.admin, **{"from": past, "to": soon}) == everything
    assert events(busy.admin, **{"from": soon}) == []
    assert events(busy.admin, to=past) == []


@pytest.mark.parametrize(
    "query",
    [
        {"action": "document.read"}, {"object_id": "nothing"}, {"object_id": "nod_01h455vb4pex5vsknk084sn02q"},
        {"from": "yesterday"}, {"from": "2026-01-01"}, {"to": "9999-12-31T23:59:59-14:00"}, {"format": "csv"},
        {"cursor": "x"}, {"limit": "0"}, {"actor": "a\0b"}, {"actor": "x" * 513},
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_audit_list_invalid_query_is_422(busy: Tenant, query: dict[str, str], form: str) -> None:
    assert_problem(busy.admin.get(EVENTS, params={"format": form, **query}), 422, "invalid")


def sign_ins(client: httpx2.Client, *, since: list[dict[str, Any]], at_least: int) -> Iterator[dict[str, Any]]:
    """Yield the failed sign-ins that are new since a list. They are written with a short delay."""
    deadline = time.monotonic() + 30
    while True:
        found = find_new_events(since, events(client, action="sign_in.fail"))
        if sum(event["counts"]["attempts"] for event in found) >= at_least or time.monotonic() > deadline:
            yield from found
            return
        time.sleep(0.05)


def test_audit_sign_in_with_revoked_key_is_in_tenants_list(service: Service, tenant: Tenant) -> None:
    made = tenant.admin.post("/v1/api-keys", json={"name": "the old one", "role": "reader"}).json()
    tenant.admin.delete(f"/v1/api-keys/{made['id']}").raise_for_status()
    refused = [service.create_client(made["key"]).get("/v1/me") for _ in range(3)]
    for reply in refused:
        assert_problem(reply, 401)
    told = list(sign_ins(tenant.admin, since=[], at_least=3))
    assert sum(event["counts"]["attempts"] for event in told) == 3
    for event in told:
        assert event["actor"] == {"kind": "key", "id": made["id"], "name": "the old one"}
        assert event["object"] == {"type": "sign_in", "ids": [made["id"]]}
        assert event["address"] == "127.0.0.1"
    assert told[0]["request_id"] == refused[0].headers["x-request-id"]


def test_audit_sign_in_with_unknown_key_is_in_operators_list(service: Service, tenant: Tenant) -> None:
    before = events(service.operator, action="sign_in.fail")
    assert_problem(service.create_client("carrel_nothing-that-was-ever-issued").get("/v1/me"), 401)
    told = list(sign_ins(service.operator, since=before, at_least=1))
    assert {event["actor"]["kind"] for event in told} == {"unknown"}
    assert events(tenant.admin, action="sign_in.fail") == []


def test_audit_tenant_sees_only_its_events(service: Service, owner: Tenant, tenant: Tenant) -> None:
    mine = events(tenant.admin)
    assert {event["object"]["type"] for event in mine} == {"tenant", "key"}
    assert owner.id not in json.dumps(mine)
    assert mine == of_tenant(service, tenant.id)
    for role in ("reader", "writer"):
        assert_problem(tenant.create_client(role).get(EVENTS), 403, "forbidden")
    narrowed: tuple[dict[str, Any], ...] = ({"knowledge_bases": ["default"]}, {"user_id": "u"})
    for narrowing in narrowed:
        assert_problem(tenant.create_client("admin", **narrowing).get(EVENTS), 403, "forbidden")
    assert_problem(tenant.admin.get(f"/v1/tenants/{tenant.id}/audit-events"), 403, "forbidden")


def test_audit_operator_list_has_tenant_and_shared_events(service: Service, tenant: Tenant) -> None:
    before = events(service.operator)
    made = service.operator.post("/v1/knowledge-bases", json={"name": f"shared-{tenant.id[-12:]}"}).json()
    tenant.admin.post("/v1/api-keys", json={"name": "k", "role": "reader"}).raise_for_status()
    service.operator.delete(f"/v1/tenants/{tenant.id}").raise_for_status()
    told = [
        event for event in find_new_events(before, events(service.operator)) if event["object"]["type"] != "sign_in"
    ]
    assert [(event["action"], event["object"]["ids"]) for event in told] == [
        ("knowledge_base.create", [made["id"]]),
        ("tenant.delete", [tenant.id]),
    ]
    assert {event["actor"]["kind"] for event in told} == {"operator"}
    assert tenant.id in {event["object"]["ids"][0] for event in before if event["action"] == "tenant.create"}


def test_audit_events_outlive_tenant(service: Service, tenant: Tenant) -> None:
    document = tenant.add_text("A text.")["id"]
    before = of_tenant(service, tenant.id)
    service.operator.delete(f"/v1/tenants/{tenant.id}").raise_for_status()
    assert_problem(tenant.admin.get(EVENTS), 401)
    deadline = time.monotonic() + 30
    path = f"/v1/tenants/{tenant.id}/audit-events"
    while not is_erased(service, tenant):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    after = events(service.operator, path)
    assert after == before
    assert [event["action"] for event in events(service.operator, path, object_id=document)] == ["document.create"]
    assert_problem(
        service.operator.get(f"/v1/tenants/{invent_ids('id')['tenant']}/audit-events"), 404, "tenant_not_found"
    )


def is_erased(service: Service, tenant: Tenant) -> bool:
    """Return whether the tenant's rows are deleted, except for the rows that a deletion leaves."""

    async def count() -> int:
        connection = await asyncpg.connect(service.urls.owner)
        found: int = await connection.fetchval("select count(*) from tenant where id = $1", decode_id("ten", tenant.id))
        await connection.close()
        return found

    return asyncio.run(count()) == 0
