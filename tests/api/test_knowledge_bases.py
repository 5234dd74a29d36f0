"""Knowledge bases: defaults, names, changes, the enforced metadata and deletion."""

import json
import time
from typing import Any

import pytest

from app.ids import PREFIXES, decode_id
from app.index_maintenance.types import VectorIndexSkipReason
from harness.databases import run_sql
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

ROUTE = "/v1/knowledge-bases"


@pytest.mark.capability("kb-create")
def test_create_knowledge_base_with_name_only_has_defaults(tenant: Tenant) -> None:
    reply = tenant.admin.post(ROUTE, json={"name": "handbook"})
    assert reply.status_code == 201
    made = reply.json()
    assert made["id"].startswith("kb_")
    assert made["chunking"] == {"strategy": "headered", "max_tokens": 170, "overlap_tokens": 0}
    assert made["retrieval"] == {"strategy": "hybrid", "top_k": 5}
    assert made["embedding"] == {"model": "bge-small-en-v1.5", "dimensions": 384}
    assert (made["language"], made["metadata_filter"], made["title"], made["description"]) == (
        "english",
        {},
        "handbook",
        None,
    )
    assert (made["document_count"], made["chunk_count"]) == (0, 0)
    for reference in ("handbook", made["id"]):
        assert tenant.admin.get(f"{ROUTE}/{reference}").json() == made
    tenant.add_text("One document.", kb="handbook")
    counted = tenant.admin.get(f"{ROUTE}/handbook").json()
    assert (counted["document_count"], counted["chunk_count"]) == (1, 1)


@pytest.mark.capability("kb-index")
def test_knowledge_base_shows_its_search_index(tenant: Tenant) -> None:
    nothing = {
        "state": "exact",
        "reason": None,
        "size_bytes": 0,
        "recall": None,
        "average_length": 100.0,
        "problem": None,
    }
    nothing |= {"analyzer": "english-v2", "action": None}
    assert tenant.admin.get(f"{ROUTE}/default").json()["index"] == nothing
    own = f"where tenant_id = '{decode_id('ten', tenant.id)}'"
    for change, told in (
        ("skip_reason = 'no_owner'", {"reason": VectorIndexSkipReason.NO_OWNER.sentence}),
        ("skip_reason = null, vector_index = 'building'", {"state": "building"}),
        ("vector_index = 'hnsw', index_bytes = 5000", {"state": "hnsw", "size_bytes": 5000}),
        ("recall = 0.97", {"state": "hnsw", "size_bytes": 5000, "recall": 0.97}),
        ("avgdl = 20.5", {"state": "hnsw", "size_bytes": 5000, "recall": 0.97, "average_length": 20.5}),
    ):
        run_sql(tenant.service.urls.owner, f"update search_index set {change} {own}")
        assert tenant.admin.get(f"{ROUTE}/default").json()["index"] == nothing | told
        assert tenant.admin.get(ROUTE).json()["items"][0]["index"] == nothing | told


@pytest.mark.parametrize("name", ["a", "0", "a-b_c", "x" * 63, "kbx", "documents", "doc"])
def test_knowledge_base_valid_names_are_accepted(tenant: Tenant, name: str) -> None:
    assert tenant.admin.post(ROUTE, json={"name": name}).status_code == 201
    assert tenant.admin.get(f"{ROUTE}/{name}").json()["name"] == name
    assert_problem(tenant.admin.post(ROUTE, json={"name": name}), 409, "knowledge_base_exists")


@pytest.mark.parametrize(
    "name",
    ["", "A", "a b", "-a", "_a", "a.b", "a/b", "ä", "x" * 64, "a\n", "a\0", None, 5, *(f"{p}_x" for p in PREFIXES)],
)
def test_knowledge_base_invalid_names_are_422(tenant: Tenant, name: Any) -> None:
    assert_problem(tenant.admin.post(ROUTE, json={"name": name}), 422, "invalid")


@pytest.mark.parametrize(
    "change",
    [
        {"embedding": {"model": "another"}}, {"embedding": {"dimensions": 100}}, {"chunking": {"strategy": "guess"}},
        {"chunking": {"max_tokens": 15}}, {"chunking": {"max_tokens": 8193}}, {"chunking": {"max_tokens": 511}},
        {"chunking": {"max_tokens": 20, "overlap_tokens": 20}}, {"chunking": {"overlap_tokens": -1}},
        {"chunking": None},
        {"retrieval": {"strategy": "guess"}}, {"retrieval": {"top_k": 0}}, {"retrieval": {"top_k": 501}},
        {"language": "klingon"},
        {"metadata_filter": {"$source": "x"}}, {"metadata_filter": {"a": [1]}}, {"metadata_filter": {"a": {"gte": 1}}},
        {"metadata_filter": {"a": None}}, {"metadata_filter": {"a": "\0"}}, {"metadata_filter": {"a.b": 1}},
        {"metadata_filter": {"not": "x"}}, {"metadata_filter": {"": "x"}}, {"metadata_filter": {"a\\": "x"}},
        {"metadata_filter": {"a": "x" * 5000}}, {"title": "a\0b"}, {"title": "x" * 301},
        {"description": "x" * 4001}, {"description": "\ud800"}, {"routing": {"scale": 0}},
        {"routing": {"description_weight": 2}}, {"routing": {"descriptions": [""]}}, {"routing": None}, {"id": "kb_x"},
    ],
    ids=ascii,
)  # fmt: skip
def test_knowledge_base_invalid_settings_are_422(tenant: Tenant, change: dict[str, Any]) -> None:
    body = json.dumps({"name": "wrong", **change})
    reply = tenant.admin.post(ROUTE, content=body, headers={"Content-Type": "application/json"})
    faults = assert_problem(reply, 422, "invalid")["errors"]
    assert {tuple(fault["loc"][:2]) for fault in faults} == {("body", *change)}
    assert_problem(tenant.admin.get(f"{ROUTE}/wrong"), 404, "knowledge_base_not_found")


@pytest.mark.parametrize(
    ("dimensions", "said"), [(0, "greater than or equal to 1"), (4001, "less than or equal to 4000")]
)
def test_knowledge_base_dimensions_above_limit_are_422(tenant: Tenant, dimensions: int, said: str) -> None:
    reply = tenant.admin.post(ROUTE, json={"name": "wrong", "embedding": {"dimensions": dimensions}})
    (error,) = assert_problem(reply, 422, "invalid")["errors"]
    assert error["loc"] == ["body", "embedding", "dimensions"]
    assert said in error["msg"]


@pytest.mark.capability("kb-change")
def test_knowledge_base_settings_can_be_changed(tenant: Tenant) -> None:
    tenant.admin.post(ROUTE, json={"name": "k", "title": "Old", "description": "old"}).raise_for_status()
    changed = tenant.admin.patch(
        f"{ROUTE}/k", json={"title": "New", "retrieval": {"strategy": "lexical", "top_k": 2}}
    ).json()
    assert (changed["title"], changed["description"]) == ("New", "old")
    assert changed["retrieval"] == {"strategy": "lexical", "top_k": 2}
    for number in range(4):
        tenant.add_text(f"Whales sing, part {number}.", kb="k")
    found = tenant.admin.post(f"{ROUTE}/k/search", json={"query": "whales"}).json()
    assert (found["strategy"], len(found["results"])) == ("lexical", 2)
    assert tenant.admin.patch(f"{ROUTE}/k", json={"description": None}).json()["description"] is None
    for wrong in (
        {"name": "other"},
        {"retrieval": None},
        {"retrieval": {"strategy": "x"}},
        {"embedding": {"dimensions": 2}},
    ):
        assert_problem(tenant.admin.patch(f"{ROUTE}/k", json=wrong), 422, "invalid")


@pytest.mark.capability("filter-enforced")
def test_metadata_filter_is_enforced_on_documents_and_searches(tenant: Tenant) -> None:
    settings = {"name": "hr", "metadata_filter": {"department": "hr", "public": True}}
    tenant.admin.post(ROUTE, json=settings).raise_for_status()
    document = tenant.add_text("Leave is granted.", kb="hr", metadata={"department": "it", "year": 2024})
    assert document["metadata"] == {"department": "hr", "public": True, "year": 2024}
    path = f"{ROUTE}/hr/documents/{document['id']}"
    assert (
        tenant.admin.patch(path, json={"metadata": {"department": "it"}}).json()["metadata"]
        == settings["metadata_filter"]
    )
    again = tenant.admin.post(
        f"{ROUTE}/hr/documents", json={"text": "Leave is granted.", "metadata": {"public": False}}
    )
    assert (again.status_code, again.json()["metadata"]) == (200, settings["metadata_filter"])
    for filter_, found in (
        (None, 1), ({}, 1), ({"department": "hr"}, 1), ({"department": "it"}, 0), ({"not": {"department": "hr"}}, 0),
        ({"or": [{"department": "it"}, {"public": False}]}, 0),
    ):  # fmt: skip
        for where in (f"{ROUTE}/hr/search", "/v1/search"):
            results = tenant.admin.post(where, json={"query": "leave", "filter": filter_}).json()["results"]
            assert len(results) == found, filter_


@pytest.mark.capability("kb-delete")
def test_delete_knowledge_base_leaves_nothing(service: Service, tenant: Tenant) -> None:
    tenant.admin.post(ROUTE, json={"name": "brief"}).raise_for_status()
    document = tenant.add_text("Here today.", kb="brief")
    folder = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    assert list(folder.glob("*/*"))
    assert tenant.admin.delete(f"{ROUTE}/brief").status_code == 204
    assert_problem(tenant.admin.get(f"{ROUTE}/brief"), 404)
    assert_problem(tenant.admin.get(f"{ROUTE}/brief/documents/{document['id']}"), 404)
    assert_problem(tenant.admin.delete(f"{ROUTE}/brief"), 404)
    assert tenant.admin.post("/v1/search", json={"query": "today"}).json()["results"] == []
    deadline = time.monotonic() + 30
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    tenant.admin.post(ROUTE, json={"name": "brief"}).raise_for_status()
    assert tenant.admin.get(f"{ROUTE}/brief/documents").json()["items"] == []


@pytest.mark.capability("filter-enforced-change")
def test_metadata_filter_change_runs_in_background(tenant: Tenant) -> None:
    old, new = {"department": "hr"}, {"department": "it", "year": 2026}
    tenant.admin.post(ROUTE, json={"name": "staff", "metadata_filter": old}).raise_for_status()
    document = tenant.add_text("Leave is granted.", kb="staff", metadata={"kind": "rule"})
    changed = tenant.admin.patch(f"{ROUTE}/staff", json={"metadata_filter": new, "title": "Staff"})
    assert (changed.status_code, changed.json()["title"]) == (200, "Staff")
    assert (changed.json()["metadata_filter"], changed.json()["pending_metadata_filter"]) == (old, new)
    deadline = time.monotonic() + 30
    while (found := tenant.admin.get(f"{ROUTE}/staff").json())["pending_metadata_filter"] is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert found["metadata_filter"] == new
    path = f"{ROUTE}/staff/documents/{document['id']}"
    assert tenant.admin.get(path).json()["metadata"] == {"kind": "rule", **new}
    (result,) = tenant.admin.post(f"{ROUTE}/staff/search", json={"query": "leave", "filter": new}).json()["results"]
    assert result["metadata"] == {"kind": "rule", **new}
    wrongs: tuple[Any, ...] = (None, {"a": [1]}, {"a.b": 1}, {"$page": 1}, [])
    for wrong in wrongs:
        assert_problem(tenant.admin.patch(f"{ROUTE}/staff", json={"metadata_filter": wrong}), 422, "invalid")
    assert_problem(tenant.create_client("writer").patch(f"{ROUTE}/staff", json={"metadata_filter": old}), 403)
