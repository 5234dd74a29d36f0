"""Strategy ``graph_rag`` over HTTP: hits that share names with the question or with the best hits."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx2
import pytest

from app.graph.entity_ids import decode_entity_id
from app.ids import decode_id
from harness.running_service import Service, Tenant

FILM = "Shakespeare in Love\n\nThe music of the film Shakespeare in Love was composed by Stephen Warbeck."
COMPOSER = "Stephen Warbeck keeps bees behind a cottage near Southampton."
TOWN = "The Solent forts guard Southampton. Their guns never fired in a war."
QUESTION = "In which town was the composer of the music of Shakespeare in Love born?"
# Texts about other things, with names that no other text has.
FILLERS = [
    f"A town has a music school where {number} film composers of love songs were taught." for number in range(40)
]


def add(tenant: Tenant, text: str, *, client: httpx2.Client | None = None, **fields: Any) -> dict[str, Any]:
    reply = (client or tenant.admin).post(
        "/v1/knowledge-bases/default/documents?wait=60", json={"text": text, **fields}
    )
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


def search(client: httpx2.Client, query: str = QUESTION, **body: Any) -> dict[str, Any]:
    reply = client.post("/v1/knowledge-bases/default/search", json={"query": query, "strategy": "graph_rag", **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def first_words(reply: Mapping[str, Any]) -> list[str]:
    return [" ".join(result["text"].split()[:2]) for result in reply["results"]]


@pytest.fixture(scope="module")
def films(service: Service) -> Tenant:
    tenant = service.create_tenant("films")
    for number, text in enumerate([FILM, COMPOSER, TOWN, *FILLERS]):
        add(tenant, text, external_id=f"{number}")
    return tenant


@pytest.mark.capability("graph-walk")
def test_walk_finds_chunk_that_shares_name_with_best_hit(films: Tenant) -> None:
    hybrid = search(films.admin, strategy="hybrid", top_k=3)
    walked = search(films.admin, top_k=3, explain=True)
    assert first_words(hybrid)[0] == first_words(walked)[0] == "Shakespeare in"
    assert "Stephen Warbeck" not in first_words(hybrid)
    found = {
        words: result.get("path_names") for words, result in zip(first_words(walked), walked["results"], strict=True)
    }
    assert found == {"Shakespeare in": None, "A town": None, "Stephen Warbeck": ["Stephen Warbeck"]}
    assert (walked["strategy"], walked["warnings"], walked["degraded"]) == ("graph_rag", [], [])
    assert walked["explain"]["strategy_options"]["graph_weight"] == 0.8


BRIDGE = "A letter says that Stephen Warbeck once met Ada Quillfeather."
FAR = "Ada Quillfeather paints boats."


def names_of(reply: Mapping[str, Any]) -> dict[str, list[str] | None]:
    """Return the names through which the walk found each text, by the first two words of the text."""
    return {words: result.get("path_names") for words, result in zip(first_words(reply), reply["results"], strict=True)}


def reaches(client: httpx2.Client, **body: Any) -> bool:
    """Return whether a walk of one step from the name Ada Quillfeather finds the text about Stephen Warbeck alone."""
    found = search(client, "Ada Quillfeather", top_k=50, explain=True, **body)
    return names_of(found).get("Stephen Warbeck") is not None


@pytest.fixture
def bridged(tenant: Tenant) -> Tenant:
    """Tenant where only the text that a test adds joins Ada Quillfeather and Stephen Warbeck."""
    for text in (FAR, COMPOSER):
        add(tenant, text)
    return tenant


def test_path_through_readable_chunk_is_walked(bridged: Tenant) -> None:
    assert not reaches(bridged.admin)
    add(bridged, BRIDGE)
    assert reaches(bridged.admin)


@pytest.mark.capability("graph-scopes")
def test_path_through_chunk_of_other_user_is_not_walked(bridged: Tenant) -> None:
    add(bridged, BRIDGE, user_id="alice")
    assert not reaches(bridged.admin)
    assert not reaches(bridged.admin, scope={"user_id": "bob"})
    assert not reaches(bridged.create_client("reader", user_id="bob"), scope={"user_id": "bob"})
    assert reaches(bridged.admin, scope={"user_id": "alice"})
    assert reaches(bridged.create_client("reader", user_id="alice"), scope={"user_id": "alice"})


@pytest.mark.capability("graph-filter")
def test_path_through_filtered_chunk_is_not_walked(bridged: Tenant) -> None:
    add(bridged, BRIDGE, metadata={"kind": "letter"})
    assert not reaches(bridged.admin, filter={"kind": {"exists": False}})
    assert not reaches(bridged.admin, filter={"not": {"kind": "letter"}})
    assert reaches(bridged.admin, filter={"not": {"kind": "note"}})


@pytest.mark.capability("graph-expiry")
def test_path_through_expired_chunk_is_not_walked(bridged: Tenant) -> None:
    end = datetime.now(UTC) + timedelta(seconds=4)
    add(bridged, BRIDGE, expires_at=end.isoformat())
    assert reaches(bridged.admin) or datetime.now(UTC) >= end
    while datetime.now(UTC) <= end:
        time.sleep(0.1)
    assert not reaches(bridged.admin)


@pytest.mark.capability("graph-tenants")
def test_path_through_chunk_of_other_tenant_is_not_walked(service: Service, bridged: Tenant) -> None:
    add(service.create_tenant(), BRIDGE)
    assert not reaches(bridged.admin)


def test_path_through_deleted_document_is_not_walked(bridged: Tenant) -> None:
    document = add(bridged, BRIDGE)
    assert reaches(bridged.admin)
    bridged.admin.delete(f"/v1/knowledge-bases/default/documents/{document['id']}").raise_for_status()
    assert not reaches(bridged.admin)


@pytest.mark.capability("graph-common-names")
def test_name_in_many_chunks_is_not_walked(bridged: Tenant) -> None:
    add(bridged, BRIDGE)
    for number in range(20):
        add(bridged, f"On day {number}, somebody saw Stephen Warbeck again.")
    assert not reaches(bridged.admin)
    assert reaches(bridged.admin, strategy_options={"max_entity_share": 1.0})


@pytest.mark.capability("graph-hops")
def test_max_hops_limits_walk(bridged: Tenant) -> None:
    add(bridged, BRIDGE)
    # From the name in the question, one step leads to the chunks that have it, and not further.
    assert not reaches(bridged.admin, strategy_options={"max_hops": 1})
    assert reaches(bridged.admin, strategy_options={"max_hops": 2})
    assert reaches(bridged.admin, strategy_options={"max_hops": 3})


def execute(service: Service, sql: str, *values: object) -> list[asyncpg.Record]:
    """Run a statement as the owner of the tables."""

    async def run() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            rows: list[asyncpg.Record] = await connection.fetch(sql, *values)
            return rows
        finally:
            await connection.close()

    return asyncio.run(run())


def find_keys(tenant: Tenant, *names: str) -> list[int]:
    """Return the keys of entities by their normalized names."""
    sql = """select e.key from entity e join knowledge_base k on k.tenant_id = e.tenant_id
               join search_index i on i.kb_id = k.id and i.id = e.index_id
              where k.tenant_id = $1 and e.name = $2 limit 1"""
    tenant_id = decode_id("ten", tenant.id)
    return [execute(tenant.service, sql, tenant_id, name)[0]["key"] for name in names]


def correct(tenant: Tenant, key: int, target: int, document: str | None = None) -> None:
    """Add a correction: a key counts as another one, in one document or in all."""
    sql = """insert into entity_alias (tenant_id, kb_id, id, key, target_key, document_id, target_name)
             select k.tenant_id, k.id, gen_random_uuid(), $2, $3, $4, 'other'
               from knowledge_base k where k.tenant_id = $1 and k.name = 'default'"""
    document_id = None if document is None else decode_id("doc", document)
    execute(tenant.service, sql, decode_id("ten", tenant.id), key, target, document_id)


def test_merged_entities_are_one_on_path(bridged: Tenant) -> None:
    add(bridged, "A letter says that Steve Warbeck once met Ada Quillfeather.")
    assert not reaches(bridged.admin)
    steve, stephen = find_keys(bridged, "steve warbeck", "stephen warbeck")
    correct(bridged, steve, stephen)
    assert reaches(bridged.admin)


def test_name_of_split_document_is_another_entity(bridged: Tenant) -> None:
    letter = add(bridged, BRIDGE)
    (stephen,) = find_keys(bridged, "stephen warbeck")
    correct(bridged, stephen, 12345, letter["id"])
    assert not reaches(bridged.admin)


def test_split_in_other_document_changes_nothing(bridged: Tenant) -> None:
    add(bridged, BRIDGE)
    other = add(bridged, "The ship called Stephen Warbeck sails on Monday.")
    (stephen,) = find_keys(bridged, "stephen warbeck")
    correct(bridged, stephen, 12345, other["id"])
    assert reaches(bridged.admin)


def test_split_in_document_of_other_user_changes_no_score_of_restricted_key(bridged: Tenant) -> None:
    for text in (BRIDGE, "Stephen Warbeck and Ada Quillfeather met Otto Blixen.", "Otto Blixen sails."):
        add(bridged, text)
    secret = add(bridged, "On that day a man saw Zed Quux again.", user_id="alice")
    bob = bridged.create_client("reader", user_id="bob")
    body = {"top_k": 50, "scope": {"user_id": "bob"}}
    before = search(bob, "Ada Quillfeather", **body)["results"]
    zed, stephen = find_keys(bridged, "zed quux", "stephen warbeck")
    correct(bridged, zed, stephen, secret["id"])
    assert search(bob, "Ada Quillfeather", **body)["results"] == before


@pytest.mark.capability("graph-relations")
def test_relation_filter_walks_along_named_relations_only(bridged: Tenant) -> None:
    add(bridged, BRIDGE)
    options = {"relation_filter": ["met"], "max_hops": 2}
    assert not reaches(bridged.admin, strategy_options=options)
    ada, stephen = find_keys(bridged, "ada quillfeather", "stephen warbeck")
    sql = """insert into relation (tenant_id, index_id, chunk_id, ordinal, subject_key, object_key, predicate, method)
             select e.tenant_id, e.index_id, e.chunk_id, 0, $2, $3, 'met', 'given' from chunk_entity e
              where e.tenant_id = $1 and e.keys && array[$2, $3]::int[]"""
    execute(bridged.service, sql, decode_id("ten", bridged.id), stephen, ada)
    assert reaches(bridged.admin, strategy_options=options)
    assert not reaches(bridged.admin, strategy_options={"relation_filter": ["wrote to"]})


@pytest.mark.capability("graph-missing")
def test_index_without_graph_is_searched_with_hybrid_and_warning(bridged: Tenant) -> None:
    add(bridged, BRIDGE)
    sql = "update search_index set graph = null where tenant_id = $1"
    execute(bridged.service, sql, decode_id("ten", bridged.id))
    body = {"query": "Ada Quillfeather", "top_k": 50}
    hybrid = bridged.admin.post("/v1/search", json=body | {"strategy": "hybrid"}).json()
    walked = bridged.admin.post("/v1/search", json=body | {"strategy": "graph_rag"}).json()
    assert walked["results"] == hybrid["results"]
    assert [warning["code"] for warning in walked["warnings"]] == ["graph_missing", "graph_nothing_to_walk"]


def test_question_without_shared_names_has_results_of_hybrid_and_warning(tenant: Tenant) -> None:
    for text in ("the sea is cold.", "the land is warm.", "the air is dry."):
        add(tenant, text)
    hybrid, walked = (search(tenant.admin, "is the sea cold", strategy=name) for name in ("hybrid", "graph_rag"))
    assert walked["results"] == hybrid["results"]
    assert [warning["code"] for warning in walked["warnings"]] == ["graph_nothing_to_walk"]


@pytest.mark.capability("graph-weight")
def test_graph_weight_zero_has_order_of_hybrid(films: Tenant) -> None:
    hybrid = search(films.admin, strategy="hybrid", top_k=20)
    walked = search(films.admin, top_k=20, strategy_options={"graph_weight": 0})
    assert [one["chunk_id"] for one in walked["results"]] == [one["chunk_id"] for one in hybrid["results"]]


@pytest.mark.capability("graph-fuse")
def test_without_fusion_results_are_chunks_of_walk_only(films: Tenant) -> None:
    found = search(films.admin, top_k=50, strategy_options={"fuse_with_vectors": False}, explain=True)
    assert 1 < len(found["results"]) < 10
    assert "Stephen Warbeck" in first_words(found)


@pytest.mark.capability("graph-keep-first")
def test_keep_first_puts_first_hits_of_hybrid_first(films: Tenant) -> None:
    hybrid = search(films.admin, strategy="hybrid", top_k=10)
    options = {"keep_first": 4, "graph_weight": 1}
    walked = search(films.admin, top_k=10, strategy_options=options)
    assert [one["chunk_id"] for one in walked["results"][:4]] == [one["chunk_id"] for one in hybrid["results"][:4]]
    scores = [one["score"] for one in walked["results"]]
    assert scores == sorted(scores, reverse=True)


def test_first_results_do_not_depend_on_top_k(films: Tenant) -> None:
    few, many = (search(films.admin, top_k=top_k)["results"] for top_k in (3, 40))
    assert [(one["chunk_id"], one["score"]) for one in few] == [(one["chunk_id"], one["score"]) for one in many[:3]]


@pytest.mark.capability("graph-seeds")
def test_without_seeds_only_names_of_question_lead(bridged: Tenant) -> None:
    add(bridged, BRIDGE)
    options = {"seeds": 0, "max_hops": 1}
    found = search(bridged.admin, "Ada Quillfeather", top_k=50, strategy_options=options, explain=True)
    assert names_of(found) == {
        "A letter": ["Ada Quillfeather"], "Ada Quillfeather": ["Ada Quillfeather"], "Stephen Warbeck": None
    }  # fmt: skip


def test_score_threshold_holds_for_chunks_of_walk(films: Tenant) -> None:
    near = search(films.admin, top_k=50, score_threshold=0.5)
    assert all(one["similarity"] >= 0.5 for one in near["results"])
    assert "Stephen Warbeck" not in first_words(near)


@pytest.mark.capability("graph-subgraph")
def test_subgraph_has_nodes_edges_and_paths_of_results(films: Tenant) -> None:
    found = search(films.admin, top_k=3, strategy_options={"subgraph": "entities"})
    graph = found["graph"]
    names = {node["id"]: node["name"] for node in graph["nodes"]}
    assert "Stephen Warbeck" in names.values()
    chunks = {" ".join(one["text"].split()[:2]): one["chunk_id"] for one in found["results"]}
    assert [names[entity] for entity in graph["paths"][chunks["Stephen Warbeck"]]] == ["Stephen Warbeck"]
    assert set(graph["paths"]) <= set(chunks.values())
    edges = {(edge["kind"], edge["source"], names[edge["target"]]) for edge in graph["edges"]}
    assert ("names", chunks["Stephen Warbeck"], "Stephen Warbeck") in edges
    assert ("names", chunks["Shakespeare in"], "Stephen Warbeck") in edges
    assert all(decode_entity_id(node["id"]) is not None for node in graph["nodes"])
    assert "graph" not in search(films.admin, top_k=3)


@pytest.mark.parametrize("predicate", ["met\\u0000", "\\ud800"], ids=["nul", "surrogate"])
def test_predicate_that_cannot_be_stored_is_422(films: Tenant, predicate: str) -> None:
    options = f'"strategy": "graph_rag", "strategy_options": {{"relation_filter": ["{predicate}"]}}'
    headers = {"content-type": "application/json"}
    for method, path, body in (
        ("POST", "/v1/search", f'{{"query": "x", {options}}}'),
        ("PATCH", "/v1/knowledge-bases/default", f'{{"retrieval": {{{options}}}}}'),
        ("PUT", "/v1/agents/walker", f'{{"knowledge_bases": ["default"], {options}}}'),
    ):
        reply = films.admin.request(method, path, content=body, headers=headers)
        assert (reply.status_code, "relation_filter" in reply.text) == (422, True), reply.text


@pytest.mark.parametrize(
    "options",
    [{"max_hops": 0}, {"max_hops": 4}, {"seeds": -1}, {"damping": 1.5}, {"graph_weight": 2}, {"max_entity_share": 0},
     {"subgraph": "all"}, {"serializer": "yaml"}, {"unknown": 1}, {"relation_filter": "met"}],
    ids=str,
)  # fmt: skip
def test_invalid_option_is_422(films: Tenant, options: dict[str, Any]) -> None:
    body = {"query": "x", "strategy": "graph_rag", "strategy_options": options}
    reply = films.admin.post("/v1/search", json=body)
    assert reply.status_code == 422
    assert "strategy_options" in reply.text


def test_walk_that_takes_too_long_has_results_of_hybrid_and_warning(films: Tenant) -> None:
    """A lock on the table of entities lets the walk wait until its time limit."""

    async def run() -> dict[str, Any]:
        connection = await asyncpg.connect(films.service.urls.owner)
        try:
            async with connection.transaction():
                await connection.execute("lock table entity in access exclusive mode")
                return await asyncio.to_thread(search, films.admin, timeout_seconds=3.0)
        finally:
            await connection.close()

    hybrid, walked = search(films.admin, strategy="hybrid"), asyncio.run(run())
    assert walked["results"] == hybrid["results"]
    assert [warning["code"] for warning in walked["warnings"]] == ["graph_skipped"]
    assert walked["degraded"] == [{"step": "graph", "reason": "failed"}]


@pytest.mark.capability("graph-several")
def test_several_knowledge_bases_share_one_walk(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "second"}).raise_for_status()
    for kb, texts in (("default", (FAR, BRIDGE)), ("second", (COMPOSER, FILM))):
        for text in texts:
            tenant.add_text(text, kb=kb)
    body = {"query": "Ada Quillfeather and Shakespeare in Love", "strategy": "graph_rag", "top_k": 10, "explain": True}
    reply = tenant.admin.post("/v1/search", json=body | {"knowledge_bases": ["default", "second"]}).json()
    found = names_of(reply)
    assert found["Stephen Warbeck"] == ["Stephen Warbeck"]
    assert found["Ada Quillfeather"] == ["Ada Quillfeather"] or found["A letter"] == ["Ada Quillfeather"]


RENAMED = "Adalind Quince"


def post_correction(tenant: Tenant, action: str, body: dict[str, Any]) -> None:
    tenant.admin.post(f"/v1/knowledge-bases/default/entities/{action}", json=body).raise_for_status()


def entity_id(tenant: Tenant, name: str) -> str:
    items = tenant.admin.get("/v1/knowledge-bases/default/entities", params={"prefix": name}).json()["items"]
    (found,) = [item["id"] for item in items if item["name"] == name]
    return str(found)


def reaches_letter(client: httpx2.Client) -> bool:
    """Return whether a walk from the name Ada Quillfeather finds the letter through a shared name."""
    found = search(client, "Ada Quillfeather", top_k=50, explain=True)
    return names_of(found)["A letter"] is not None


def test_walk_applies_split_before_merge_of_same_entity(bridged: Tenant) -> None:
    bridge = add(bridged, BRIDGE.replace("Ada Quillfeather", RENAMED))
    add(bridged, f"{RENAMED} sells sails.")
    renamed, ada = entity_id(bridged, RENAMED), entity_id(bridged, "Ada Quillfeather")
    assert not reaches_letter(bridged.admin)
    post_correction(bridged, "merge", {"entities": [renamed], "into": ada})
    assert reaches_letter(bridged.admin)
    split = {"entity": ada, "documents": [bridge["id"]], "name": "Adalind Quince the older"}
    post_correction(bridged, "split", split)
    assert not reaches_letter(bridged.admin)
    # The listed entities agree: the bridge names another entity, the other text of the same name is merged.
    detail = bridged.admin.get(f"/v1/knowledge-bases/default/entities/{ada}").json()
    assert detail["chunks"] == 2
    assert bridge["id"] not in {chunk["document_id"] for chunk in detail["chunk_list"]}
    corrections = bridged.admin.get("/v1/knowledge-bases/default/entities/corrections").json()["items"]
    assert sorted((row["entity"] == renamed, row["document"] == bridge["id"]) for row in corrections) == [
        (True, False), (True, True)
    ]  # fmt: skip
    (of_split,) = [row["id"] for row in corrections if row["document"]]
    bridged.admin.delete(f"/v1/knowledge-bases/default/entities/corrections/{of_split}").raise_for_status()
    assert reaches_letter(bridged.admin)
