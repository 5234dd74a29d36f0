"""Golden sets over HTTP: items, merging, missing documents, roles and other tenants."""

from typing import Any

import pytest

from app.ids import encode_id, generate_id
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

SETS = "/v1/golden-sets"


def create_set(tenant: Tenant, name: str = "Questions") -> str:
    created = tenant.admin.post(SETS, json={"name": name})
    assert created.status_code == 201, created.text
    return str(created.json()["id"])


def add_items(tenant: Tenant, golden_set: str, *items: dict[str, Any]) -> list[dict[str, Any]]:
    added = tenant.admin.post(f"{SETS}/{golden_set}/items", json={"items": list(items)})
    assert added.status_code == 201, added.text
    result: list[dict[str, Any]] = added.json()["items"]
    return result


def find_chunk(tenant: Tenant, document: str) -> str:
    chunks = tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document}/chunks").json()["items"]
    return str(chunks[0]["id"])


@pytest.mark.capability("evaluations")
def test_golden_set_is_created_changed_and_deleted(tenant: Tenant) -> None:
    golden_set = create_set(tenant)
    path = f"{SETS}/{golden_set}"
    assert golden_set.startswith("gold_")
    changed = tenant.admin.patch(path, json={"name": "Other", "description": "Collected in March."}).json()
    assert (changed["name"], changed["description"], changed["item_count"]) == ("Other", "Collected in March.", 0)
    assert tenant.admin.patch(path, json={"description": None}).json()["description"] is None
    assert_problem(tenant.admin.patch(path, json={"name": None}), 422, "invalid")
    assert [item["id"] for item in tenant.admin.get(SETS).json()["items"]] == [golden_set]
    assert tenant.admin.delete(path).status_code == 204
    assert_problem(tenant.admin.get(path), 404, "golden_set_not_found")


def test_golden_items_with_same_query_are_merged(tenant: Tenant) -> None:
    first, second = (tenant.add_text(f"Text {number} about leave.")["id"] for number in range(2))
    golden_set = create_set(tenant)
    item = {"query": "leave", "relevant": [{"document": first}]}
    added = add_items(tenant, golden_set, item)[0]
    assert add_items(tenant, golden_set, item)[0] == added
    chunk = find_chunk(tenant, second)
    merged = add_items(
        tenant,
        golden_set,
        {"query": " leave ", "relevant": [{"document": second, "chunk": chunk}]},
        {"query": "leave", "relevant": [{"document": first}]},
    )
    assert [item["id"] for item in merged] == [added["id"]]
    assert [(entry["document"], entry["chunk"]) for entry in merged[0]["relevant"]] == [(first, None), (second, chunk)]
    assert tenant.admin.get(f"{SETS}/{golden_set}").json()["item_count"] == 1
    messages = [{"role": "user", "content": "leave"}]
    conversation = add_items(tenant, golden_set, {"messages": messages, "relevant": [{"document": first}]})[0]
    assert (conversation["query"], conversation["messages"]) == (None, messages)
    listed = tenant.admin.get(f"{SETS}/{golden_set}/items", params={"limit": 1}).json()
    assert [item["id"] for item in listed["items"]] == [conversation["id"]]
    rest = tenant.admin.get(f"{SETS}/{golden_set}/items", params={"cursor": listed["next_cursor"]}).json()
    assert (rest["items"], rest["next_cursor"]) == (merged, None)
    assert tenant.admin.delete(f"{SETS}/{golden_set}/items/{added['id']}").status_code == 204
    again = tenant.admin.delete(f"{SETS}/{golden_set}/items/{added['id']}")
    assert_problem(again, 404, "golden_item_not_found")


def test_golden_item_of_deleted_document_is_missing(tenant: Tenant) -> None:
    document = tenant.add_text("A secret about leave.")["id"]
    golden_set = create_set(tenant)
    relevant = [{"document": document}, {"document": document, "chunk": find_chunk(tenant, document)}]
    item = add_items(tenant, golden_set, {"query": "leave", "relevant": relevant})[0]
    assert [entry["missing"] for entry in item["relevant"]] == [False, False]
    assert tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{document}").status_code == 204
    found = tenant.admin.get(f"{SETS}/{golden_set}/items").json()["items"][0]
    assert [(entry["missing"], entry["knowledge_base"]) for entry in found["relevant"]] == [(True, None)] * 2


def test_golden_relevance_is_removed_until_the_last(tenant: Tenant) -> None:
    document, gone = (tenant.add_text(f"Text {number} about leave.")["id"] for number in range(2))
    chunk = find_chunk(tenant, document)
    golden_set = create_set(tenant)
    relevant = [{"document": document}, {"document": document, "chunk": chunk}, {"document": gone}]
    item = add_items(tenant, golden_set, {"query": "leave", "relevant": relevant})[0]
    path = f"{SETS}/{golden_set}/items/{item['id']}/relevant"
    tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{gone}").raise_for_status()
    assert tenant.admin.delete(path, params={"document": gone}).status_code == 204
    assert tenant.admin.delete(path, params={"document": document}).status_code == 204
    again = tenant.admin.delete(path, params={"document": document})
    assert_problem(again, 404, "golden_relevance_not_found")
    last = tenant.admin.delete(path, params={"document": document, "chunk": chunk})
    assert_problem(last, 409, "last_golden_relevance")
    (stored,) = tenant.admin.get(f"{SETS}/{golden_set}/items").json()["items"]
    assert [(entry["document"], entry["chunk"]) for entry in stored["relevant"]] == [(document, chunk)]
    assert stored["updated_at"] > item["updated_at"]


def test_golden_relevance_of_unknown_ids_is_not_found(tenant: Tenant) -> None:
    document = tenant.add_text("A text.")["id"]
    golden_set, other = create_set(tenant), create_set(tenant)
    item = add_items(tenant, golden_set, {"query": "q", "relevant": [{"document": document}]})[0]["id"]
    params = {"document": document}
    for ids in (f"{other}/items/{item}", f"{golden_set}/items/item_x"):
        reply = tenant.admin.delete(f"{SETS}/{ids}/relevant", params=params)
        assert_problem(reply, 404, "golden_item_not_found")
    for wrong in ({"document": "doc_x"}, {**params, "chunk": "chk_x"}):
        reply = tenant.admin.delete(f"{SETS}/{golden_set}/items/{item}/relevant", params=wrong)
        assert_problem(reply, 404, "golden_relevance_not_found")
    stranger = tenant.service.create_tenant()
    reply = stranger.admin.delete(f"{SETS}/{golden_set}/items/{item}/relevant", params=params)
    assert_problem(reply, 404, "golden_set_not_found")
    assert_problem(tenant.admin.delete(f"{SETS}/{golden_set}/items/{item}/relevant"), 422, "invalid")


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"query": "q", "messages": [{"role": "user", "content": "q"}]}, "invalid"),
        ({}, "invalid"),
        ({"messages": [{"role": "user", "content": "x" * 60_000}] * 2}, "invalid"),
        ({"query": "q", "relevant": []}, "invalid"),
        ({"query": "q", "relevant": [{"document": "doc_nothing"}]}, "invalid"),
        ({"query": "q", "relevant": [{"document": encode_id("doc", generate_id())}]}, "invalid"),
    ],
)
def test_golden_item_that_is_invalid_is_refused(tenant: Tenant, item: dict[str, Any], code: str) -> None:
    document = tenant.add_text("A text.")["id"]
    golden_set = create_set(tenant)
    body = {"items": [{"relevant": [{"document": document}], **item}]}
    assert_problem(tenant.admin.post(f"{SETS}/{golden_set}/items", json=body), 422, code)


def test_golden_item_with_chunk_of_another_document_is_refused(tenant: Tenant) -> None:
    first, second = (tenant.add_text(f"Text {number}.")["id"] for number in range(2))
    golden_set = create_set(tenant)
    relevant = [{"document": first, "chunk": find_chunk(tenant, second)}]
    reply = tenant.admin.post(f"{SETS}/{golden_set}/items", json={"items": [{"query": "q", "relevant": relevant}]})
    assert assert_problem(reply, 422, "invalid")["errors"][0]["loc"] == ["body", "items", 0, "relevant", 0, "chunk"]


def test_golden_sets_refuse_readers_and_restricted_keys(tenant: Tenant) -> None:
    create_set(tenant)
    assert_problem(tenant.create_client("reader").get(SETS), 403, "forbidden")
    for restriction in ({"knowledge_bases": ["default"]}, {"user_id": "user"}):
        client = tenant.create_client("writer", **restriction)
        assert_problem(client.get(SETS), 403, "forbidden")
        assert_problem(client.post(SETS, json={"name": "Questions"}), 403, "forbidden")
    assert tenant.create_client("writer").get(SETS).status_code == 200


def test_golden_sets_of_another_tenant_do_not_exist(service: Service, tenant: Tenant) -> None:
    document = tenant.add_text("A text.")["id"]
    golden_set = create_set(tenant)
    item = {"query": "q", "relevant": [{"document": document}]}
    added = add_items(tenant, golden_set, item)[0]
    other = service.create_tenant("other")
    assert other.admin.get(SETS).json()["items"] == []
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "x"}),
        ("DELETE", "", None),
        ("GET", "/items", None),
        ("POST", "/items", {"items": [item]}),
        ("DELETE", f"/items/{added['id']}", None),
    ):
        reply = other.admin.request(method, f"{SETS}/{golden_set}{path}", json=body)
        assert_problem(reply, 404, "golden_set_not_found")
    own = create_set(other)
    assert_problem(other.admin.post(f"{SETS}/{own}/items", json={"items": [item]}), 422, "invalid")
