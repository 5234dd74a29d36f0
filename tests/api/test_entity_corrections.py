"""Corrections of entities over HTTP: merges and splits."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.api.test_entities import BASE, ENTITIES, add, find_id, listed


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant("corrections")


def merge(tenant: Tenant, *names: str, into: str) -> None:
    ids = [find_id(tenant.admin, name) for name in names]
    body = {"entities": ids, "into": find_id(tenant.admin, into)}
    tenant.admin.post(f"{ENTITIES}/merge", json=body).raise_for_status()


@pytest.mark.capability("entities-merge")
def test_merge_counts_chunks_once_and_undo_restores(tenant: Tenant) -> None:
    add(tenant, "Acme Alpha", "Acme Beta")
    add(tenant, "Acme Beta")
    before = listed(tenant.admin, prefix="acme")
    alpha, beta = find_id(tenant.admin, "Acme Alpha"), find_id(tenant.admin, "Acme Beta")
    for _ in range(2):
        reply = tenant.admin.post(f"{ENTITIES}/merge", json={"entities": [beta, alpha], "into": alpha})
        assert reply.json() == {"entity": alpha}
    assert listed(tenant.admin, prefix="acme") == {"Acme Alpha": 2}
    assert listed(tenant.admin, prefix="acme b") == {"Acme Alpha": 2}
    detail = tenant.admin.get(f"{ENTITIES}/{beta}").json()
    assert (detail["id"], detail["aliases"]) == (alpha, [{"id": beta, "name": "Acme Beta"}])
    (row,) = tenant.admin.get(f"{ENTITIES}/corrections").json()["items"]
    assert (row["entity"], row["target"], row["document"]) == (beta, alpha, None)
    assert tenant.admin.delete(f"{ENTITIES}/corrections/{row['id']}").status_code == 204
    assert_problem(tenant.admin.delete(f"{ENTITIES}/corrections/{row['id']}"), 404, "correction_not_found")
    assert listed(tenant.admin, prefix="acme") == before


def test_merge_shows_no_name_that_the_caller_may_not_read(tenant: Tenant) -> None:
    add(tenant, "Acme Public")
    add(tenant, "Zeta Secret", user_id="alice")
    merge(tenant, "Acme Public", into="Zeta Secret")
    bob = tenant.create_client("reader", user_id="bob")
    assert listed(bob, prefix="acme") == {"Acme Public": 1}
    assert listed(bob, prefix="zeta") == {}
    assert listed(bob, q="secret") == {}
    assert listed(tenant.admin, prefix="acme") == {"Zeta Secret": 2}
    assert "Secret" not in bob.get(f"{ENTITIES}/{find_id(bob, 'Acme Public')}").text


@pytest.mark.capability("entities-split")
def test_split_applies_to_its_document_and_disappears_with_it(tenant: Tenant) -> None:
    add(tenant, "John Miller", "First Film")
    other = add(tenant, "John Miller", "Second Film")
    body = {"entity": find_id(tenant.admin, "John Miller"), "documents": [other["id"]], "name": "John Miller (painter)"}
    for _ in range(2):
        tenant.admin.post(f"{ENTITIES}/split", json=body).raise_for_status()
    assert listed(tenant.admin, q="miller") == {"John Miller": 1, "John Miller (painter)": 1}
    graph = tenant.admin.get(f"{BASE}/documents/{other['id']}/graph").json()
    assert {"John Miller (painter)", "Second Film"} <= {node["name"] for node in graph["nodes"]}
    assert len(tenant.admin.get(f"{ENTITIES}/corrections").json()["items"]) == 1
    tenant.admin.delete(f"{BASE}/documents/{other['id']}").raise_for_status()
    assert tenant.admin.get(f"{ENTITIES}/corrections").json()["items"] == []


def test_two_merges_at_once_make_no_cycle(tenant: Tenant) -> None:
    names = ["Acme Alpha", "Acme Beta", "Acme Gamma"]
    add(tenant, *names)
    ids = [find_id(tenant.admin, name) for name in names]
    bodies = [{"entities": [a], "into": b} for a in ids for b in ids if a != b]
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda body: tenant.admin.post(f"{ENTITIES}/merge", json=body), bodies))
    assert [reply.status_code for reply in replies] == [200] * 6
    assert len(listed(tenant.admin, prefix="acme")) == 1
    rows = tenant.admin.get(f"{ENTITIES}/corrections").json()["items"]
    assert len(rows) == 2
    assert {row["entity"] for row in rows}.isdisjoint({row["target"] for row in rows})


def test_invalid_corrections_are_refused(tenant: Tenant) -> None:
    document = add(tenant, "Acme Alpha")
    alpha = find_id(tenant.admin, "Acme Alpha")
    unknown = {"entities": [alpha], "into": "ent_00000000"}
    assert_problem(tenant.admin.post(f"{ENTITIES}/merge", json=unknown), 404, "entity_not_found")
    split = {"entity": alpha, "documents": [document["id"]], "name": "the acme ALPHA"}
    assert_problem(tenant.admin.post(f"{ENTITIES}/split", json=split), 422, "invalid")
    assert_problem(tenant.admin.post(f"{ENTITIES}/split", json={**split, "name": "!"}), 422, "invalid")
    restricted = tenant.create_client("admin", user_id="bob")
    assert_problem(restricted.post(f"{ENTITIES}/merge", json=unknown), 403, "forbidden")
