"""ETags of resources, `If-Match` of PATCH and `If-None-Match` of GET."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx2
import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

KB = "/v1/knowledge-bases/default"


class Resource(NamedTuple):
    """A resource: its client and path, and changes of which each changes the resource."""

    client: httpx2.Client
    path: str
    changes: list[dict[str, Any]]


def make_knowledge_base(tenant: Tenant) -> Resource:
    changes: list[dict[str, Any]] = [
        {"title": "New"}, {"description": "New"}, {"retrieval": {"top_k": 7}}, {"graph": {"enabled": False}},
        {"routing": {"descriptions": ["Rules of leave"]}},
    ]  # fmt: skip
    return Resource(tenant.admin, KB, changes)


def make_document(tenant: Tenant) -> Resource:
    document = tenant.add_text("A tern dives.", user_id="bob")["id"]
    changes: list[dict[str, Any]] = [
        {"metadata": {"year": 2026}}, {"source_uri": "https://example.com/a"},
        {"source_created_at": "2026-01-15T00:00:00Z"}, {"scope": {"level": "tenant"}}, {"title": "New"},
    ]  # fmt: skip
    return Resource(tenant.admin, f"{KB}/documents/{document}", changes)


def make_agent(tenant: Tenant) -> Resource:
    tenant.admin.put("/v1/agents/bot", json={"knowledge_bases": ["default"]}).raise_for_status()
    changes: list[dict[str, Any]] = [
        {"top_k": 7},
        {"max_messages": 3},
        {"citations": "prefix"},
        {"knowledge_bases": []},
    ]
    return Resource(tenant.admin, "/v1/agents/bot", changes)


def make_tenant(tenant: Tenant) -> Resource:
    changes: list[dict[str, Any]] = [{"name": "New"}, {"quotas": {"documents": 77}}, {"sql_views": True}]
    return Resource(tenant.service.operator, f"/v1/tenants/{tenant.id}", changes)


def make_webhook(tenant: Tenant) -> Resource:
    body = {"url": "http://127.0.0.1:9/", "events": ["document.ready"]}
    created = tenant.admin.post("/v1/webhooks", json=body).raise_for_status().json()
    changes: list[dict[str, Any]] = [
        {"description": "New"}, {"events": ["document.failed"]}, {"enabled": False}, {"url": "http://127.0.0.1:9/b"}
    ]  # fmt: skip
    return Resource(tenant.admin, f"/v1/webhooks/{created['id']}", changes)


def make_golden_set(tenant: Tenant) -> Resource:
    created = tenant.admin.post("/v1/golden-sets", json={"name": "old"}).raise_for_status().json()
    return Resource(tenant.admin, f"/v1/golden-sets/{created['id']}", [{"name": "new"}, {"description": "New"}])


MAKERS: list[Callable[[Tenant], Resource]] = [
    make_knowledge_base, make_document, make_agent, make_tenant, make_webhook, make_golden_set
]  # fmt: skip


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__.removeprefix("make_"))
def resource(request: pytest.FixtureRequest, service: Service) -> Resource:
    made: Resource = request.param(service.create_tenant("etags"))
    return made


def read_etag(resource: Resource) -> str:
    reply = resource.client.get(resource.path)
    assert reply.status_code == 200, reply.text
    etag: str = reply.headers["etag"]
    assert etag.startswith('"')
    return etag


def patch(resource: Resource, change: dict[str, Any], etag: str | None) -> httpx2.Response:
    return resource.client.patch(resource.path, json=change, headers={} if etag is None else {"If-Match": etag})


def get_settings_part(etag: str) -> str:
    return etag.strip('"').partition("-")[0]


@pytest.mark.capability("api-etag")
def test_patch_with_outdated_etag_is_refused_after_each_change(resource: Resource) -> None:
    for change in resource.changes:
        before = read_etag(resource)
        changed = patch(resource, change, before)
        assert changed.status_code == 200, (change, changed.text)
        after = read_etag(resource)
        assert get_settings_part(changed.headers["etag"]) == get_settings_part(after) != get_settings_part(before), (
            change
        )
        assert_problem(patch(resource, change, before), 412, "precondition_failed")
        assert_problem(patch(resource, change, f'{before}, "other", W/{after}'), 412, "precondition_failed")
        assert get_settings_part(read_etag(resource)) == get_settings_part(after)
    last = resource.changes[-1]
    for accepted in (None, "*", f'"other", {read_etag(resource)}'):
        assert patch(resource, last, accepted).status_code == 200


@pytest.mark.capability("api-etag")
def test_get_with_current_etag_is_not_modified(resource: Resource) -> None:
    etag = read_etag(resource)
    for header in (etag, f'"other", W/{etag}', "*"):
        reply = resource.client.get(resource.path, headers={"If-None-Match": header})
        assert (reply.status_code, reply.content, reply.headers["etag"]) == (304, b"", etag)
    assert resource.client.get(resource.path, headers={"If-None-Match": '"other"'}).status_code == 200
    patch(resource, resource.changes[0], None).raise_for_status()
    reply = resource.client.get(resource.path, headers={"If-None-Match": etag})
    assert (reply.status_code, reply.headers["etag"] != etag) == (200, True)


def test_two_patches_with_the_same_etag_have_one_winner(resource: Resource) -> None:
    """The changes differ, so the winner's change is the one that stays."""
    field, values = CONTESTED[resource.path.split("/")[2] if "/documents/" not in resource.path else "documents"]
    with ThreadPoolExecutor(2) as threads:
        for round_number in range(4):
            etag = read_etag(resource)
            bodies = [{field: value(round_number, side)} for value in (values,) for side in "ab"]
            replies = list(threads.map(lambda body, tag=etag: patch(resource, body, tag), bodies))
            assert sorted(reply.status_code for reply in replies) == [200, 412], [reply.text for reply in replies]
            winner = bodies[[reply.status_code for reply in replies].index(200)]
            assert resource.client.get(resource.path).json()[field] == winner[field]


def build_text(round_number: int, side: str) -> str:
    return f"{side} {round_number}"


CONTESTED: dict[str, tuple[str, Callable[[int, str], Any]]] = {
    "knowledge-bases": ("description", build_text),
    "documents": ("metadata", lambda round_number, side: {side: round_number}),
    "agents": ("top_k", lambda round_number, side: 2 * round_number + (1 if side == "a" else 2)),
    "tenants": ("name", build_text),
    "webhooks": ("description", build_text),
    "golden-sets": ("description", build_text),
}


def test_if_match_ignores_fields_that_patch_cannot_change(tenant: Tenant) -> None:
    resource = make_knowledge_base(tenant)
    etag = read_etag(resource)
    tenant.add_text("A tern dives.")
    assert read_etag(resource) != etag
    assert tenant.admin.get(KB, headers={"If-None-Match": etag}).status_code == 200
    assert patch(resource, {"title": "New"}, etag).status_code == 200


def test_if_match_compares_pending_enforced_metadata(tenant: Tenant) -> None:
    resource = make_knowledge_base(tenant)
    etag = read_etag(resource)
    assert patch(resource, {"metadata_filter": {"department": "hr"}}, etag).status_code == 200
    assert_problem(patch(resource, {"title": "New"}, etag), 412, "precondition_failed")


def test_created_resource_has_etag_for_the_first_patch(service: Service, tenant: Tenant) -> None:
    created = tenant.admin.post("/v1/knowledge-bases", json={"name": "fresh"})
    path = f"/v1/knowledge-bases/{created.json()['id']}"
    assert tenant.admin.patch(path, json={"title": "T"}, headers={"If-Match": created.headers["etag"]}).is_success
    body = {"url": "http://127.0.0.1:9/", "events": ["document.ready"]}
    hook = tenant.admin.post("/v1/webhooks", json=body)
    assert hook.headers["etag"] == tenant.admin.get(f"/v1/webhooks/{hook.json()['id']}").headers["etag"]
    made = service.operator.post("/v1/tenants", json={"name": "fresh"})
    assert made.headers["etag"] == service.operator.get(f"/v1/tenants/{made.json()['id']}").headers["etag"]


def test_etag_of_another_tenants_resource_is_not_compared(service: Service, tenant: Tenant) -> None:
    webhook = make_webhook(tenant)
    foreign = service.create_tenant().admin.patch(webhook.path, json={"enabled": False}, headers={"If-Match": '"x"'})
    assert_problem(foreign, 404, "webhook_not_found")
