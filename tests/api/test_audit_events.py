"""Audit events of the routes: each write leaves its event, without texts and secrets."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.ids import decode_id
from harness.running_service import Service, Tenant
from proofs.isolation.cases import EndpointCase, list_cases
from proofs.isolation.comparison import send_case
from proofs.isolation.tenants import Ids, create_objects, invent_ids, wait_until_done
from tests.api.audit import events, events_about, find_new_events, of_tenant
from tests.isolation.test_http_isolation import ENDPOINTS

KB = "/v1/knowledge-bases/{kb}"
DOCUMENTS = f"{KB}/documents"
STORES = "/openai/v1/vector_stores"
STORE = f"{STORES}/{{kb}}"
WRITING = ("POST", "PUT", "PATCH", "DELETE")
# Routes that change nothing, whatever their method.
ASKING = {
    "POST /v1/preview",
    "POST /v1/search",
    f"POST {KB}/search",
    "POST /v1/agent-search",
    f"POST {KB}/agent-search",
    "POST /v1/answer",
    f"POST {KB}/enrichment/estimate",
    f"POST {KB}/answer",
    "POST /mcp",
    "POST /dify/retrieval",
    f"POST {STORE}/search",
}
# The actions of each other route. A second list holds the actions of a request that depend on the state.
TOLD: dict[str, tuple[list[str], ...]] = {
    "POST /v1/tenants": (["tenant.create", "key.create"],),
    "PATCH /v1/tenants/{tenant}": (["tenant.update"],),
    "DELETE /v1/tenants/{tenant}": (["tenant.delete"],),
    "POST /v1/api-keys": (["key.create"],),
    "POST /v1/api-keys/{api_key}/rotate": (["key.rotate"],),
    "DELETE /v1/api-keys/{api_key}": (["key.revoke"],),
    "POST /v1/knowledge-bases": (["knowledge_base.create"],),
    f"PATCH {KB}": (["knowledge_base.update"],),
    f"DELETE {KB}": (["knowledge_base.delete"],),
    f"POST {KB}/prompts/{{prompt}}/{{number}}/pin": (["knowledge_base.update"],),
    f"POST {KB}/enrichment/run": (["knowledge_base.enrichment_run"],),
    f"POST {KB}/entities/merge": (["knowledge_base.entity_merge"],),
    f"POST {KB}/entities/split": (["knowledge_base.entity_split"],),
    f"DELETE {KB}/entities/corrections/{{correction}}": (["knowledge_base.entity_undo"],),
    f"POST {KB}/sql-view": (["sql_view.create"],),
    f"DELETE {KB}/sql-view": (["sql_view.delete"],),
    f"POST {KB}/reindex": (["knowledge_base.reindex"],),
    f"DELETE {KB}/reindex": (["knowledge_base.reindex_cancel"],),
    f"POST {KB}/reindex/rollback": (["knowledge_base.reindex_rollback"],),
    "PUT /v1/agents/{agent_id}": (["agent.create"], ["agent.update"]),
    "PATCH /v1/agents/{agent_id}": (["agent.update"],),
    "DELETE /v1/agents/{agent_id}": (["agent.delete"],),
    "POST /v1/webhooks": (["webhook.create"],),
    "PATCH /v1/webhooks/{webhook}": (["webhook.update"],),
    "DELETE /v1/webhooks/{webhook}": (["webhook.delete"],),
    "POST /v1/webhooks/{webhook}/rotate": (["webhook.rotate"],),
    "POST /v1/webhooks/{webhook}/test": (["webhook.test"],),
    "POST /v1/webhooks/{webhook}/deliveries/{delivery}/replay": (["webhook.replay"],),
    "POST /v1/jobs/{job}/retry": (["job.retry"],),
    "POST /v1/jobs/retry": (["job.retry"],),
    "POST /v1/golden-sets": (["golden_set.create"],),
    "PATCH /v1/golden-sets/{golden_set}": (["golden_set.update"],),
    "DELETE /v1/golden-sets/{golden_set}": (["golden_set.delete"],),
    "POST /v1/golden-sets/{golden_set}/items": (["golden_set.add_items"],),
    "DELETE /v1/golden-sets/{golden_set}/items/{item}": (["golden_set.delete_item"],),
    "DELETE /v1/golden-sets/{golden_set}/items/{item}/relevant": (["golden_set.remove_relevant"],),
    "POST /v1/evaluations": (["evaluation.create"],),
    "DELETE /v1/evaluations/{evaluation}": (["evaluation.delete"],),
    "POST /v1/agents/{agent_id}/prompts/{prompt}/{number}/pin": (["agent.update"],),
    f"POST {KB}/import": (["document.create"],),
    f"POST {DOCUMENTS}": (["document.create"], ["document.replace"]),
    f"POST {DOCUMENTS}/batch": (["document.create"],),
    f"DELETE {DOCUMENTS}": (["document.delete_many"],),
    f"PATCH {DOCUMENTS}/{{document}}": (["document.update"],),
    f"DELETE {DOCUMENTS}/{{document}}": (["document.delete"],),
    f"POST {DOCUMENTS}/{{document}}/reindex": (["document.reindex"],),
    f"POST {DOCUMENTS}/{{document}}/prepare-reindex": (["document.prepare_reindex"],),
    f"PUT {DOCUMENTS}/{{document}}/chunks/{{chunk}}": (["document.replace"],),
    f"DELETE {DOCUMENTS}/{{document}}/chunks/{{chunk}}": (["document.replace"],),
    "POST /openai/v1/files": (["file.create"],),
    "DELETE /openai/v1/files/{file}": (["file.delete"],),
    f"POST {STORES}": (
        ["knowledge_base.create"],
        ["knowledge_base.create", "file_batch.create", "document.create"],
    ),
    f"POST {STORE}": (["knowledge_base.update"],),
    f"DELETE {STORE}": (["knowledge_base.delete"],),
    f"POST {STORE}/files": (["document.create"],),
    f"POST {STORE}/files/{{vector_store_file}}": (["document.update"],),
    f"DELETE {STORE}/files/{{vector_store_file}}": (["document.delete"],),
    f"POST {STORE}/file_batches": (["file_batch.create", "document.create"],),
    f"POST {STORE}/file_batches/{{batch}}/cancel": (
        ["file_batch.cancel"],
        ["document.delete", "file_batch.cancel"],
    ),
}
BATCHES = {f"POST {STORES}", f"POST {STORE}/file_batches"}
WRITES = [one for one in ENDPOINTS if one.method in WRITING and one.name not in ASKING]
# It needs a chat model: tests/api/test_enrichment.py checks its event.
UNPREPARED = {f"POST {KB}/enrichment/run"}
CASES = [case for endpoint in WRITES if endpoint.name not in UNPREPARED for case in list_cases(endpoint)]
PLANTED = "xylophonist"


@pytest.fixture(scope="module")
def owner(service: Service) -> Tenant:
    tenant = service.create_tenant("audited")
    service.operator.patch(f"/v1/tenants/{tenant.id}", json={"sql_views": True}).raise_for_status()
    return tenant


def test_audit_table_lists_every_writing_route() -> None:
    assert {endpoint.name for endpoint in WRITES} == set(TOLD)


@pytest.mark.capability("audit")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_audit_write_leaves_exactly_its_event(service: Service, owner: Tenant, case: EndpointCase) -> None:
    fields = (*case.fields, *case.template.needs, *(["document"] if DOCUMENTS in case.endpoint.path else []))
    ids = create_objects(owner, "The heron of Anna Smith fishes.", fields=fields, form="id")
    given: Ids = {**ids, "taken": invent_ids("id")["taken"]}
    client = service.operator if case.is_operator_only else owner.admin
    about = ids["tenant"] if case.is_operator_only else owner.id
    before = events_about(service, about)
    reply = send_case(client, case, given)
    assert reply.is_success, reply.text
    if case.endpoint.name in BATCHES:  # a job acts as the caller
        wait_until_done(client, f"{reply.request.url.path}/{reply.json()['id']}")
    if case.endpoint.name == "POST /v1/tenants":
        about = reply.json()["id"]
    told = find_new_events(before, events_about(service, about))
    assert [event["action"] for event in told] in TOLD[case.endpoint.name]
    for event in told:
        assert event["object"]["type"] == event["action"].split(".")[0]
        assert event["object"]["ids"]
        assert (event["request_id"], event["address"]) == (reply.headers["x-request-id"], "127.0.0.1")
        assert event["actor"]["kind"] == ("operator" if case.is_operator_only else "key")
        assert event["knowledge_base"] == (ids["kb"] if KB in case.endpoint.path else event["knowledge_base"])
    if "{document}" in case.endpoint.path:
        assert told[0]["object"]["ids"] == [ids["document"]]
    if reply.headers.get("carrel-deletion-id"):
        assert told[0]["deletion"] == reply.headers["carrel-deletion-id"]


@pytest.mark.parametrize("case", [case for case in CASES if case.fields], ids=str)
def test_audit_refused_write_leaves_no_event(service: Service, owner: Tenant, case: EndpointCase) -> None:
    before = of_tenant(service, owner.id)
    nothing = invent_ids("id")
    nothing["taken"] = "default"
    if case.endpoint.name == "POST /v1/api-keys":
        nothing["user_id"] = ""
    client = service.operator if case.is_operator_only else owner.admin
    assert send_case(client, case, nothing).is_error
    assert of_tenant(service, owner.id) == before


def test_audit_event_names_actor(service: Service, tenant: Tenant) -> None:
    made = tenant.admin.post("/v1/api-keys", json={"name": "the scribe", "role": "writer"}).json()
    writer = service.create_client(made["key"])
    document = writer.post(f"{KB.format(kb='default')}/documents", json={"text": "A text."}).json()
    event = events(tenant.admin)[-1]
    assert event["actor"] == {"kind": "key", "id": made["id"], "name": "the scribe"}
    assert event["object"] == {"type": "document", "ids": [document["id"]]}
    assert event["counts"] == {}
    assert decode_id("evt", event["id"])
    created = datetime.fromisoformat(event["created_at"])
    assert abs(created - datetime.now(UTC)) < timedelta(minutes=5)
    assert events(tenant.admin, actor=made["id"]) == [event]
    assert events(tenant.admin, actor="the scribe") == [event]
    assert [one["action"] for one in events(tenant.admin, actor="operator")] == ["tenant.create", "key.create"]


def test_audit_request_without_change_leaves_no_event(tenant: Tenant) -> None:
    path = f"{KB.format(kb='default')}/documents"
    headers = {"Idempotency-Key": "once"}
    made = tenant.admin.post(path, json={"text": "A text."}, headers=headers).json()
    before = events(tenant.admin)
    again = tenant.admin.post(path, json={"text": "A text."}, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert tenant.admin.post(path, json={"text": "A text."}).status_code == 200
    same = {"metadata": made["metadata"], "title": made["title"]}
    assert tenant.admin.patch(f"{path}/{made['id']}", json=same).status_code == 200
    assert tenant.admin.patch(KB.format(kb="default"), json={"title": None}).status_code == 200
    assert tenant.admin.delete(path, params={"external_id": "nothing"}).status_code == 202
    tenant.admin.post("/v1/search", json={"query": "text"}).raise_for_status()
    tenant.admin.get(f"{path}/{made['id']}").raise_for_status()
    tenant.service.operator.patch(f"/v1/tenants/{tenant.id}", json={"name": "tenant"}).raise_for_status()
    assert events(tenant.admin) == before


def test_audit_upload_of_same_bytes_with_new_title_is_update(tenant: Tenant) -> None:
    path = f"{KB.format(kb='default')}/documents"
    tenant.admin.post(path, json={"text": "A text."}).raise_for_status()
    tenant.admin.post(path, json={"text": "A text.", "title": "Another"}).raise_for_status()
    assert [event["action"] for event in events(tenant.admin)[-2:]] == ["document.create", "document.update"]


def test_audit_deletion_of_many_is_one_event(tenant: Tenant) -> None:
    made = {tenant.add_text(f"Text {number}.")["id"] for number in range(3)}
    reply = tenant.admin.delete(f"{KB.format(kb='default')}/documents", params={"filter": "{}", "confirm": "default"})
    event = events(tenant.admin)[-1]
    assert (event["action"], event["counts"]) == ("document.delete_many", {"documents": 3, "chunks": 3})
    assert set(event["object"]["ids"]) == made
    assert event["deletion"] == reply.json()["deletion"]
    for found in (*made, event["deletion"], event["knowledge_base"]):
        assert event in events(tenant.admin, object_id=found)


def test_audit_events_contain_no_sent_values(service: Service, tenant: Tenant) -> None:
    """A marker is in every field of every request. Only the name of an API key may be in the audit."""
    path = f"{KB.format(kb='default')}/documents"
    fields: dict[str, Any] = {
        "title": PLANTED,
        "metadata": {PLANTED: PLANTED},
        "external_id": PLANTED,
        "user_id": PLANTED,
    }
    document = tenant.add_text(f"The {PLANTED} plays.", **fields)["id"]
    tenant.admin.post(path, files={"file": (f"{PLANTED}.txt", PLANTED.encode())}).raise_for_status()
    tenant.admin.patch(f"{path}/{document}", json={"title": f"{PLANTED}s"}).raise_for_status()
    base = {"name": PLANTED, "title": PLANTED, "description": PLANTED, "metadata_filter": {PLANTED: PLANTED}}
    tenant.admin.post("/v1/knowledge-bases", json=base).raise_for_status()
    tenant.admin.patch(f"/v1/knowledge-bases/{PLANTED}", json={"description": f"{PLANTED}s"}).raise_for_status()
    tenant.admin.post("/v1/search", json={"query": PLANTED}).raise_for_status()
    tenant.admin.delete(path, params={"external_id": PLANTED}).raise_for_status()
    tenant.admin.delete(f"/v1/knowledge-bases/{PLANTED}").raise_for_status()
    service.operator.patch(f"/v1/tenants/{tenant.id}", json={"name": PLANTED}).raise_for_status()
    issued = tenant.admin.post("/v1/api-keys", json={"name": "k", "role": "reader", "user_id": PLANTED}).json()["key"]
    service.create_client(f"carrel_{PLANTED}").get("/v1/me", headers={"User-Agent": PLANTED})
    told = json.dumps(of_tenant(service, tenant.id)) + json.dumps(events(service.operator))
    assert told.count('"action"') > 10
    assert PLANTED not in told
    for key in (tenant.key, issued):
        assert key not in told
        assert key[7:20] not in told


def test_audit_event_has_client_address(service: Service, tenant: Tenant) -> None:
    """uvicorn trusts X-Forwarded-For of this machine. A value that is no address is left out."""
    given = {
        "203.0.113.9": "203.0.113.9",
        "2001:DB8::1": "2001:db8::1",
        "fe80::1%any text": "fe80::1",
        "any text": None,
    }
    for header, address in given.items():
        reply = tenant.admin.post(
            "/v1/api-keys", json={"name": "k", "role": "reader"}, headers={"X-Forwarded-For": header}
        )
        assert reply.status_code == 201
        assert events(tenant.admin)[-1]["address"] == address
