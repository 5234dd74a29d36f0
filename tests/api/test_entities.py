"""Entities over HTTP: names, counts and neighbours come from readable chunks alone."""

import asyncio
from string import ascii_uppercase
from typing import Any

import asyncpg
import httpx2
import pytest

from app.graph.entity_ids import decode_entity_id
from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

BASE = "/v1/knowledge-bases/default"
ENTITIES = f"{BASE}/entities"


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant("entities")


def write_text(*names: str) -> str:
    """Return a text that names entities and nothing else in capitals."""
    return " ".join(f"we met {name} there." for name in names)


def add(tenant: Tenant, *names: str, kb: str = "default", **fields: Any) -> dict[str, Any]:
    """Upload a document of one chunk that names entities."""
    body = {"chunks": [{"text": write_text(*names)}], "title": "plain", **fields}
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/documents", params={"wait": 60}, json=body)
    document: dict[str, Any] = reply.json()
    assert (reply.status_code, document["status"]) == (201, "ready"), reply.text
    return document


def relate(tenant: Tenant, document: dict[str, Any], *ends: str) -> None:
    """Store a relation of the first chunk of a document, as an extractor does."""
    subject_key, object_key = (decode_entity_id(find_id(tenant.admin, name)) for name in ends)
    statement = """
        insert into relation (tenant_id, index_id, chunk_id, ordinal, subject_key, object_key, predicate, method)
        select tenant_id, index_id, id, 0, $2, $3, 'composed', 'test' from chunk where document_id = $1"""
    execute(tenant, statement, document, subject_key, object_key)


def execute(tenant: Tenant, statement: str, document: dict[str, Any], *values: Any) -> None:
    """Run a statement as the owner of the tables, with the id of a document first."""

    async def run() -> None:
        connection = await asyncpg.connect(tenant.service.urls.owner)
        try:
            await connection.execute("select set_config('app.tenant_id', $1, false)", str(decode_id("ten", tenant.id)))
            await connection.execute(statement, decode_id("doc", document["id"]), *values)
        finally:
            await connection.close()

    asyncio.run(run())


def listed(client: httpx2.Client, path: str = ENTITIES, **query: Any) -> dict[str, int]:
    """Return the names on the first page with their numbers of chunks."""
    reply = client.get(path, params={"limit": 200, **query})
    reply.raise_for_status()
    return {item["name"]: item["chunks"] for item in reply.json()["items"]}


def find_id(client: httpx2.Client, name: str) -> str:
    items = client.get(ENTITIES, params={"q": name}).json()["items"]
    entity_id: str = next(item["id"] for item in items if item["name"] == name)
    return entity_id


@pytest.mark.capability("entities-list")
def test_list_counts_chunks_and_titles(tenant: Tenant) -> None:
    add(tenant, "Stephen Warbeck", "Shakespeare in Love")
    add(tenant, "Stephen Warbeck", "Billy Elliot", title="Stephen Warbeck")
    reply = tenant.admin.get(ENTITIES).json()
    assert reply["warnings"] == []
    assert reply["next_cursor"] is None
    (warbeck,) = [item for item in reply["items"] if item["name"] == "Stephen Warbeck"]
    assert (warbeck["chunks"], warbeck["titles"], warbeck["type"]) == (2, 1, None)
    assert warbeck["kinds"] == ["name", "title"]
    assert warbeck["id"].startswith("ent_")
    names = [item["name"].casefold() for item in reply["items"]]
    assert names == sorted(names)


@pytest.mark.capability("entities-find")
def test_list_finds_prefix_and_words_without_case_and_accents(tenant: Tenant) -> None:
    add(tenant, "Émile Zola", "The Zola Prize", "Emil Nolde", "「百年孤独」")
    assert set(listed(tenant.admin, prefix="EMIL")) == {"Émile Zola", "Emil Nolde"}
    assert set(listed(tenant.admin, prefix="the zola")) == {"The Zola Prize"}
    assert set(listed(tenant.admin, q="zola")) == {"Émile Zola", "The Zola Prize"}
    assert set(listed(tenant.admin, q="pri zol")) == {"The Zola Prize"}
    assert set(listed(tenant.admin, q="孤独")) == {"百年孤独"}
    for nothing in ("%", "_", "!!!", "ola"):
        assert listed(tenant.admin, q=nothing) == {}
    assert listed(tenant.admin, prefix="???") == {}


def test_list_pages_are_stable_and_complete(tenant: Tenant) -> None:
    names = [f"Name {letter}x" for letter in ascii_uppercase]
    add(tenant, *names[:13])
    add(tenant, *names[13:])
    found: list[str] = []
    cursor = None
    while True:
        query: dict[str, Any] = {"limit": 4, "q": "", **({"cursor": cursor} if cursor else {})}
        page = tenant.admin.get(ENTITIES, params=query).json()
        found += [item["name"] for item in page["items"]]
        assert len(page["items"]) <= 4
        cursor = page["next_cursor"]
        if cursor is None:
            break
        # New entities before the cursor change nothing behind it.
        add(tenant, f"Aaa First{ascii_uppercase[len(found) // 4]}")
    assert [name for name in found if name in names] == names
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    "cursor", ["x", "WzFd", "WyJhIiwgIngiXQ==", "WyJhIiwgNDI5NDk2NzI5Nl0=", "WyJcdWQ4MDAiLCAxXQ=="]
)
def test_list_invalid_cursor_is_refused(tenant: Tenant, cursor: str) -> None:
    assert_problem(tenant.admin.get(ENTITIES, params={"cursor": cursor}), 422, "invalid")


def test_list_shows_names_of_readable_chunks_only(service: Service, tenant: Tenant) -> None:
    """The planted names share their prefix with a readable one."""
    stranger = service.create_tenant("stranger")
    add(stranger, "Acme Foreign")
    add(tenant, "Acme Tenant")
    add(tenant, "Acme Alice", "Acme Tenant", user_id="alice")
    add(tenant, "Acme Bob", "Acme Tenant", user_id="bob")
    add(tenant, "Acme Chat", chat_id="c", agent_id="a")
    expired = add(tenant, "Acme Expired", "Acme Tenant")
    execute(tenant, "update document set expires_at = now() - interval '1 minute' where id = $1", expired)
    bob = tenant.create_client("reader", user_id="bob")
    for query in ({"prefix": "acme"}, {"q": "acme"}):
        assert listed(bob, **query) == {"Acme Tenant": 2, "Acme Bob": 1}
        everything = {"Acme Tenant": 3, "Acme Bob": 1, "Acme Alice": 1, "Acme Chat": 1}
        assert listed(tenant.admin, **query) == everything
        assert listed(tenant.admin, user_id="alice", **query) == {"Acme Tenant": 1, "Acme Alice": 1}
        assert listed(tenant.admin, chat_id="c", agent_id="a", **query) == {"Acme Chat": 1}
        assert listed(bob, user_id="alice", **query) == {}
        assert listed(stranger.admin, **query) == {"Acme Foreign": 1}
    for name in ("Acme Alice", "Acme Chat"):
        hidden = find_id(tenant.admin, name)
        assert_problem(bob.get(f"{ENTITIES}/{hidden}"), 404, "entity_not_found")
        assert_problem(stranger.admin.get(f"{ENTITIES}/{hidden}"), 404, "entity_not_found")
    detail = bob.get(f"{ENTITIES}/{find_id(bob, 'Acme Tenant')}").json()
    assert [neighbour["name"] for neighbour in detail["neighbours"] if "Acme" in neighbour["name"]] == ["Acme Bob"]
    assert (detail["chunks"], len(detail["chunk_list"])) == (2, 2)


def test_page_never_ends_behind_an_unreadable_name(tenant: Tenant) -> None:
    """A cursor is built from a name that the caller reads."""
    for number, letter in enumerate(ascii_uppercase[:12]):
        add(tenant, f"Acme {letter}x", **({"user_id": "alice"} if number % 3 else {}))
    bob = tenant.create_client("reader", user_id="bob")
    found: list[str] = []
    cursor = None
    while True:
        page = bob.get(ENTITIES, params={"prefix": "acme", "limit": 1, **({"cursor": cursor} if cursor else {})}).json()
        assert len(page["items"]) == 1
        found += [item["name"] for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert found == ["Acme Ax", "Acme Dx", "Acme Gx", "Acme Jx"]


def test_key_restricted_to_knowledge_bases_reads_no_other(tenant: Tenant) -> None:
    add(tenant, "Acme Closed")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "open"}).raise_for_status()
    kept = tenant.create_client("reader", knowledge_bases=["open"])
    assert_problem(kept.get(ENTITIES), 404, "knowledge_base_not_found")
    path = f"{ENTITIES}/{find_id(tenant.admin, 'Acme Closed')}"
    assert_problem(kept.get(path), 404, "knowledge_base_not_found")
    assert_problem(kept.get(path.replace("default", "open")), 404, "entity_not_found")


def test_enforced_metadata_hides_entities(tenant: Tenant) -> None:
    kb = {"name": "enforced", "metadata_filter": {"team": "a"}}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    add(tenant, "Acme Inside", kb="enforced")
    outside = add(tenant, "Acme Outside", kb="enforced")
    execute(tenant, "update document set filterable = '{}' where id = $1", outside)
    path = "/v1/knowledge-bases/enforced/entities"
    assert listed(tenant.admin, path, prefix="acme") == {"Acme Inside": 1}


@pytest.mark.capability("entities-get")
def test_entity_has_chunks_neighbours_and_relations(tenant: Tenant) -> None:
    documents = [add(tenant, "Stephen Warbeck", "Billy Elliot", f"Other {letter}x") for letter in "ABC"]
    relate(tenant, documents[0], "Stephen Warbeck", "Billy Elliot")
    path = f"{ENTITIES}/{find_id(tenant.admin, 'Stephen Warbeck')}"
    first = tenant.admin.get(path, params={"limit": 2}).json()
    assert (first["name"], first["chunks"], first["truncated"]) == ("Stephen Warbeck", 3, False)
    second = tenant.admin.get(path, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert second["next_cursor"] is None
    chunks = first["chunk_list"] + second["chunk_list"]
    assert all("we met Stephen Warbeck there." in chunk["text"] for chunk in chunks)
    assert len({chunk["id"] for chunk in chunks}) == 3
    neighbours = {neighbour["name"]: neighbour for neighbour in first["neighbours"]}
    elliot = neighbours["Billy Elliot"]
    assert (elliot["shared_chunks"], elliot["weight"]) == (3, 1.0)
    assert elliot["relations"] == [{"predicate": "composed", "direction": "out", "chunks": 1}]
    assert neighbours["Other Bx"]["shared_chunks"] == 1
    assert neighbours["Other Bx"]["weight"] == pytest.approx(1 / 3**0.5, abs=1e-5)
    weights = [neighbour["weight"] for neighbour in first["neighbours"]]
    assert weights == sorted(weights, reverse=True)
    assert first["degree"] == len(first["neighbours"]) >= 4
    back = tenant.admin.get(f"{ENTITIES}/{elliot['id']}").json()["neighbours"]
    (found,) = [item for item in back if item["name"] == "Stephen Warbeck"]
    assert found["relations"] == [{"predicate": "composed", "direction": "in", "chunks": 1}]


@pytest.mark.parametrize("entity", ["ent_00000000", "ent_xyz", "doc_1", "ent_FFFFFFFF"])
def test_unknown_entity_is_not_found(tenant: Tenant, entity: str) -> None:
    assert_problem(tenant.admin.get(f"{ENTITIES}/{entity}"), 404, "entity_not_found")


@pytest.mark.capability("entities-document")
def test_document_graph_has_entities_and_edges(tenant: Tenant) -> None:
    document = add(tenant, "Stephen Warbeck", "Billy Elliot")
    relate(tenant, document, "Stephen Warbeck", "Billy Elliot")
    add(tenant, "Somebody Else")
    graph = tenant.admin.get(f"{BASE}/documents/{document['id']}/graph").json()
    nodes = {node["name"]: node for node in graph["nodes"]}
    assert {"Stephen Warbeck", "Billy Elliot"} <= nodes.keys()
    assert "Somebody Else" not in nodes
    assert nodes["Stephen Warbeck"]["kind"] == "name"
    (chunk,) = tenant.admin.get(f"{BASE}/documents/{document['id']}/chunks").json()["items"]
    naming = [edge for edge in graph["edges"] if edge["kind"] == "names"]
    assert {edge["source"] for edge in naming} == {chunk["id"]}
    assert {edge["target"] for edge in naming} == {node["id"] for node in graph["nodes"]}
    (related,) = [edge for edge in graph["edges"] if edge["kind"] == "relation"]
    ends = nodes["Stephen Warbeck"]["id"], nodes["Billy Elliot"]["id"]
    assert (related["source"], related["target"], related["predicate"]) == (*ends, "composed")
    assert (graph["truncated"], graph["warnings"], graph["version"]) == (False, [], 1)


def test_document_graph_of_other_users_document_is_not_found(tenant: Tenant) -> None:
    document = add(tenant, "Acme Alice", user_id="alice")
    bob = tenant.create_client("reader", user_id="bob")
    assert_problem(bob.get(f"{BASE}/documents/{document['id']}/graph"), 404, "document_not_found")


def test_document_graph_is_bounded(tenant: Tenant) -> None:
    chunks = [{"text": write_text(*(f"Q{a}x Z{b}y" for b in ascii_uppercase))} for a in ascii_uppercase * 2]
    chunks = [{"text": chunk["text"].replace("x Z", f"{n}x Z")} for n, chunk in enumerate(chunks)]
    body = {"chunks": chunks, "title": "plain"}
    document = tenant.admin.post(f"{BASE}/documents", params={"wait": 60}, json=body).json()
    graph = tenant.admin.get(f"{BASE}/documents/{document['id']}/graph").json()
    assert len(graph["nodes"]) == 1000
    assert graph["truncated"] is True
    known = {node["id"] for node in graph["nodes"]}
    assert {edge["target"] for edge in graph["edges"]} <= known


def test_index_without_graph_is_a_warning(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "flat"}).raise_for_status()
    document = tenant.add_text("Stephen Warbeck composed it.", kb="flat")
    statement = """
        update search_index set graph = null from document d
         where d.id = $1 and search_index.tenant_id = d.tenant_id and search_index.kb_id = d.kb_id"""
    execute(tenant, statement, document)
    for path in ("entities", f"documents/{document['id']}/graph"):
        reply = tenant.admin.get(f"/v1/knowledge-bases/flat/{path}").json()
        assert [warning["code"] for warning in reply["warnings"]] == ["graph_missing"]


@pytest.mark.capability("entities-deletion")
def test_deleted_documents_leave_no_names(tenant: Tenant) -> None:
    document = add(tenant, "Acme Gone")
    assert listed(tenant.admin, prefix="acme") == {"Acme Gone": 1}
    tenant.admin.delete(f"{BASE}/documents/{document['id']}").raise_for_status()
    assert listed(tenant.admin, prefix="acme") == {}
