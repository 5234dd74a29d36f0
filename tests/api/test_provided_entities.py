"""Entities and relations that come with uploaded chunks."""

import asyncio
import time
from typing import Any

import httpx2
import pytest

from app.ids import decode_id
from harness.consistency import find_inconsistencies
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

BASE = "/v1/knowledge-bases/default"
RELATION = {"subject": "stephen warbeck", "predicate": "composed", "object": "the score"}
CHUNK = {
    "text": "he wrote the music for it.",
    "entities": [{"name": "Stephen Warbeck", "type": "person", "count": 3}, {"name": "gadolinium"}],
    "relations": [RELATION],
}
PROVIDED = {
    "provided_entities": [
        {"name": "Stephen Warbeck", "type": "person", "count": 3},
        {"name": "gadolinium", "type": None, "count": 1},
    ],
    "provided_relations": [RELATION],
}


def upload(tenant: Tenant, *chunks: dict[str, Any]) -> dict[str, Any]:
    reply = tenant.admin.post(f"{BASE}/documents", params={"wait": 60}, json={"chunks": list(chunks)})
    document: dict[str, Any] = reply.json()
    assert (reply.status_code, document["status"]) == (201, "ready"), reply.text
    return document


def put(tenant: Tenant, document: dict[str, Any], **body: Any) -> httpx2.Response:
    path = f"{BASE}/documents/{document['id']}/chunks/{document['chunk_ids'][0]}"
    return tenant.admin.put(path, params={"wait": 60}, json=body)


def read_graph(tenant: Tenant, document: dict[str, Any]) -> tuple[dict[str, str | None], set[tuple[str, str, str]]]:
    """Return the types of the names in a document, and its relations."""
    graph = tenant.admin.get(f"{BASE}/documents/{document['id']}/graph").json()
    names = {node["id"]: node["name"] for node in graph["nodes"]}
    relations = {
        (names[edge["source"]], edge["predicate"], names[edge["target"]])
        for edge in graph["edges"]
        if edge["kind"] == "relation"
    }
    return {node["name"]: node["type"] for node in graph["nodes"]}, relations


def reindex(tenant: Tenant) -> None:
    tenant.admin.post(f"{BASE}/reindex").raise_for_status()
    end = time.monotonic() + 60
    while tenant.admin.get(BASE).json()["reindex"] is not None:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_provided_entities_are_returned_by_all_chunk_routes(tenant: Tenant) -> None:
    document = upload(tenant, CHUNK, {"text": "nothing here."})
    first, second = document["chunk_ids"]
    own = f"{BASE}/documents/{document['id']}"
    details = tenant.admin.get(own, params={"include": "tree,chunks"}).json()
    for found in (
        tenant.admin.get(f"{own}/chunks").json()["items"],
        tenant.admin.get(f"{BASE}/chunks").json()["items"],
        [tenant.admin.get(f"{own}/chunks/{one}").json() for one in (first, second)],
        [tenant.admin.get(f"/v1/chunks/{one}").json() for one in (first, second)],
        details["chunks"]["items"] if isinstance(details["chunks"], dict) else details["chunks"],
    ):
        assert {key: found[0][key] for key in PROVIDED} == PROVIDED
        assert not set(PROVIDED) & set(found[1])


@pytest.mark.capability("graph-provided")
def test_provided_entities_and_ends_of_relations_join_the_graph(tenant: Tenant) -> None:
    document = upload(tenant, CHUNK)
    names, relations = read_graph(tenant, document)
    assert names == {"Stephen Warbeck": "person", "gadolinium": None, "the score": None}
    assert relations == {("Stephen Warbeck", "composed", "the score")}
    reindex(tenant)
    assert read_graph(tenant, document) == (names, relations)


def test_search_walks_along_provided_relations(tenant: Tenant) -> None:
    named = {"text": "he was born in 1953.", "entities": [{"name": "Stephen Warbeck"}]}
    target, _ = upload(tenant, CHUNK, named)["chunk_ids"]
    upload(tenant, *({"text": f"filler about topic {number}."} for number in range(5)))
    replies = []
    for predicate in ("composed", "sold"):
        body = {
            "query": "Who is Stephen Warbeck?", "strategy": "graph_rag",
            "strategy_options": {"relation_filter": [predicate], "seeds": 0, "subgraph": "entities"},
        }  # fmt: skip
        reply = tenant.admin.post(f"{BASE}/search", json=body)
        reply.raise_for_status()
        replies.append(reply.json())
    assert target in replies[0]["graph"]["paths"]
    assert [warning["code"] for warning in replies[1]["warnings"]] == ["graph_nothing_to_walk"]


def test_put_chunk_replaces_provided_entities(service: Service, tenant: Tenant) -> None:
    document = upload(tenant, CHUNK)
    replaced = put(tenant, document, text="she wrote it.", entities=[{"name": "Rachel Portman", "type": "person"}])
    assert replaced.status_code == 200, replaced.text
    assert read_graph(tenant, document) == ({"Rachel Portman": "person"}, set())
    chunk = tenant.admin.get(f"/v1/chunks/{document['chunk_ids'][0]}").json()
    assert [entity["name"] for entity in chunk["provided_entities"]] == ["Rachel Portman"]
    assert put(tenant, document, text="she wrote it.").status_code == 200
    assert read_graph(tenant, document) == ({}, set())
    assert not set(PROVIDED) & set(tenant.admin.get(f"/v1/chunks/{document['chunk_ids'][0]}").json())
    assert asyncio.run(find_inconsistencies(service.urls.app, decode_id("ten", tenant.id))) == {}


def test_spellings_of_provided_entity_are_one_entity(tenant: Tenant) -> None:
    entities = [{"name": "Beyoncé"}, {"name": "beyonce", "type": "person", "count": 7}]
    document = upload(tenant, {"text": "a song.", "entities": entities})
    assert list(read_graph(tenant, document)[0].values()) == ["person"]


def build_entities(number: int) -> list[dict[str, str]]:
    return [{"name": f"name {number}x"} for number in range(number)]


def build_relations(number: int) -> list[dict[str, str]]:
    return [{"subject": "hub", "predicate": "has", "object": f"end {at}x"} for at in range(number)]


def test_chunk_with_as_many_entities_as_allowed_has_them_all(tenant: Tenant) -> None:
    document = upload(tenant, {"text": "Mira Vale met Bob Jones.", "entities": build_entities(64)})
    assert set(read_graph(tenant, document)[0]) == {entity["name"] for entity in build_entities(64)}
    document = upload(tenant, {"text": "silence.", "relations": build_relations(63)})
    assert len(read_graph(tenant, document)[1]) == 63


WRONG: dict[str, tuple[dict[str, Any], list[str | int]]] = {
    "an empty name": ({"entities": [{"name": ""}]}, ["entities", 0, "name"]),
    "a name without words": ({"entities": [{"name": "Anna"}, {"name": "?!"}]}, ["entities", 1, "name"]),
    "one letter": ({"entities": [{"name": "A."}]}, ["entities", 0, "name"]),
    "a number": ({"entities": [{"name": "2 026"}]}, ["entities", 0, "name"]),
    "a long name": ({"entities": [{"name": "x" * 201}]}, ["entities", 0, "name"]),
    "a NUL": ({"entities": [{"name": "An\0na"}]}, ["entities", 0, "name"]),
    "a name that is no text": ({"entities": [{"name": 5}]}, ["entities", 0, "name"]),
    "no name": ({"entities": [{"type": "person"}]}, ["entities", 0, "name"]),
    "a blank type": ({"entities": [{"name": "Anna", "type": " "}]}, ["entities", 0, "type"]),
    "a long type": ({"entities": [{"name": "Anna", "type": "t" * 101}]}, ["entities", 0, "type"]),
    "count 0": ({"entities": [{"name": "Anna", "count": 0}]}, ["entities", 0, "count"]),
    "count 1,001": ({"entities": [{"name": "Anna", "count": 1001}]}, ["entities", 0, "count"]),
    "an unknown field": ({"entities": [{"name": "Anna", "colour": 1}]}, ["entities", 0, "colour"]),
    "a text": ({"entities": ["Anna"]}, ["entities", 0]),
    "65 entities": ({"entities": build_entities(65)}, ["entities"]),
    "65 relations": ({"relations": build_relations(65)}, ["relations"]),
    "65 entities with ends": ({"relations": build_relations(64)}, []),
    "a blank predicate": ({"relations": [{**RELATION, "predicate": "\t"}]}, ["relations", 0, "predicate"]),
    "a long predicate": ({"relations": [{**RELATION, "predicate": "p" * 101}]}, ["relations", 0, "predicate"]),
    "a subject without words": ({"relations": [{**RELATION, "subject": "-"}]}, ["relations", 0, "subject"]),
    "no object": ({"relations": [{"subject": "Anna", "predicate": "met"}]}, ["relations", 0, "object"]),
    "equal ends": ({"relations": [{**RELATION, "object": "Stephen Warbeck"}]}, ["relations", 0]),
}


@pytest.fixture(scope="module")
def refusing(service: Service) -> tuple[Tenant, dict[str, Any]]:
    tenant = service.create_tenant("refusing-entities")
    return tenant, upload(tenant, CHUNK)


@pytest.mark.parametrize("name", WRONG)
def test_invalid_entities_and_relations_are_422_with_their_place(
    refusing: tuple[Tenant, dict[str, Any]], name: str
) -> None:
    tenant, document = refusing
    fields, place = WRONG[name]
    chunks = [{"text": "good."}, {"text": "bad.", **fields}]
    found = assert_problem(tenant.admin.post(f"{BASE}/documents", json={"chunks": chunks}), 422, "invalid")
    assert found["errors"][0]["loc"] == ["body", "chunks", 1, *place]
    found = assert_problem(put(tenant, document, text="bad.", **fields), 422, "invalid")
    assert found["errors"][0]["loc"] == ["body", *place]
