"""Chunks of a knowledge base: lists, reads by id, changes of single uploaded chunks, and deletion of all chunks."""

import json
import time
from typing import Any

import httpx2
import pytest

from harness.running_service import Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem

KB = "/v1/knowledge-bases/default"
DOCUMENTS = f"{KB}/documents"
BIRDS = ["The heron waits.", "The otter dives.", "The kite soars.", "The newt sleeps."]


@pytest.fixture
def tenant(fragile: BreakableService) -> Tenant:
    return fragile.service.create_tenant("changes")


def upload(tenant: Tenant, texts: list[str], **fields: Any) -> dict[str, Any]:
    body = {"chunks": [{"text": text} for text in texts], **fields}
    reply = tenant.admin.post(DOCUMENTS, params={"wait": 60}, json=body)
    document: dict[str, Any] = reply.json()
    assert (reply.status_code, document["status"]) == (201, "ready"), reply.text
    return document


def change(tenant: Tenant, method: str, document: dict[str, Any], chunk: str, **body: Any) -> httpx2.Response:
    path = f"{DOCUMENTS}/{document['id']}/chunks/{chunk}"
    return tenant.admin.request(method, path, params={"wait": 60}, json=body or None)


def wait_until_final(tenant: Tenant, document: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        found: dict[str, Any] = tenant.admin.get(f"{DOCUMENTS}/{document['id']}").json()
        if found["status"] in ("ready", "failed"):
            return found
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_reindexed(tenant: Tenant) -> None:
    deadline = time.monotonic() + 60
    while (state := tenant.admin.get(KB).json()["reindex"]) is not None and state["state"] == "building":
        assert time.monotonic() < deadline, state
        time.sleep(0.05)


def find_texts(tenant: Tenant, query: str, **body: Any) -> set[str]:
    reply = tenant.admin.post(f"{KB}/search", json={"query": query, "top_k": 50, "strategy": "lexical", **body})
    reply.raise_for_status()
    return {result["text"] for result in reply.json()["results"]}


def list_all(tenant: Tenant, **params: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = tenant.admin.get(f"{KB}/chunks", params={**params, **({"cursor": cursor} if cursor else {})})
        page.raise_for_status()
        items += page.json()["items"]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            return items


@pytest.mark.capability("chunk-ids")
def test_upload_of_chunks_returns_ids_that_can_be_read(tenant: Tenant) -> None:
    document = upload(tenant, BIRDS, title="Animals", metadata={"zoo": 1})
    assert len(document["chunk_ids"]) == len(set(document["chunk_ids"])) == 4
    for number, (chunk_id, text) in enumerate(zip(document["chunk_ids"], BIRDS, strict=True)):
        chunk = tenant.admin.get(f"/v1/chunks/{chunk_id}").json()
        assert (chunk["id"], chunk["text"], chunk["chunk_index"]) == (chunk_id, text, number)
        assert chunk["knowledge_base"] == "default"
        assert chunk["document"] == {
            "id": document["id"], "source": "Animals", "title": "Animals", "metadata": {"zoo": 1},
        }  # fmt: skip
        near = [None, *document["chunk_ids"], None]
        assert [chunk["previous_chunk_id"], chunk["next_chunk_id"]] == [near[number], near[number + 2]]
    body = {"chunks": [{"text": text} for text in BIRDS], "title": "Animals"}
    again = tenant.admin.post(DOCUMENTS, json=body)
    assert (again.status_code, again.json()["chunk_ids"]) == (200, document["chunk_ids"])
    assert "chunk_ids" not in tenant.add_text("A text.")
    for wrong in ("chk_nothing", document["id"], document["chunk_ids"][0][:-1] + "0"):
        assert_problem(tenant.admin.get(f"/v1/chunks/{wrong}"), 404, "chunk_not_found")


@pytest.mark.capability("chunk-list")
def test_list_chunks_pages_through_all_documents_once(tenant: Tenant) -> None:
    first = upload(tenant, BIRDS, metadata={"kind": "own"})
    other = tenant.add_text(
        "# Reefs\n\nThe reef grows.\n\n# Corals\n\nA coral is an animal.", media_type="text/markdown"
    )
    last = upload(tenant, ["A lone owl."], title="Owls")
    everything = list_all(tenant)
    assert {item["id"] for item in everything} >= set(first["chunk_ids"]) | set(last["chunk_ids"])
    assert len(everything) == 4 + other["chunk_count"] + 1
    for limit in (1, 2, 3, 4, 5, 50):
        assert [item["id"] for item in list_all(tenant, limit=limit)] == [item["id"] for item in everything], limit
    assert {item["document"]["title"] for item in everything if item["document"]["id"] == other["id"]} == {"Reefs"}
    for cursor in ("x", "W10=", "WyJhIiwgMV0=", "eyJhIjogMX0="):
        assert_problem(tenant.admin.get(f"{KB}/chunks", params={"cursor": cursor}), 422, "invalid")


@pytest.mark.capability("chunk-list")
def test_list_chunks_applies_metadata_filters(tenant: Tenant) -> None:
    body = {
        "chunks": [
            {"text": "Red.", "metadata": {"colour": "red", "size": 1}, "page": 2},
            {"text": "Blue.", "metadata": {"colour": "blue", "size": 5}, "page": 3},
            {"text": "Plain."},
        ],
        "metadata": {"year": 2024},
    }
    document = tenant.admin.post(DOCUMENTS, params={"wait": 60}, json=body).json()
    upload(tenant, ["Other."])
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"colour": "red"}, {"Red."}),
        ({"size": {"gte": 2}}, {"Blue."}),
        ({"year": 2024}, {"Red.", "Blue.", "Plain."}),
        ({"$page": 3}, {"Blue."}),
        ({"$document_id": document["id"], "colour": {"not": "red"}}, {"Blue.", "Plain."}),
        ({"or": [{"colour": "blue"}, {"$page": 2}]}, {"Red.", "Blue."}),
        ({"colour": "green"}, set()),
    ]
    for filter_, texts in cases:
        found = list_all(tenant, filter=json.dumps(filter_), limit=1)
        assert {item["text"] for item in found} == texts, filter_
    for wrong in ("[]", "{", '{"a": {"gte": []}}'):
        assert_problem(tenant.admin.get(f"{KB}/chunks", params={"filter": wrong}), 422)


def test_list_chunks_shows_what_a_key_may_read(tenant: Tenant) -> None:
    upload(tenant, ["For all."])
    upload(tenant, ["For Ann."], user_id="ann")
    upload(tenant, ["For Bob."], user_id="bob")
    assert {item["text"] for item in list_all(tenant)} == {"For all.", "For Ann.", "For Bob."}
    assert {item["text"] for item in list_all(tenant, user_id="bob")} == {"For Bob."}
    ann = tenant.create_client("reader", user_id="ann")
    seen = {item["text"]: item["id"] for item in ann.get(f"{KB}/chunks").json()["items"]}
    assert set(seen) == {"For all.", "For Ann."}
    (hidden,) = list_all(tenant, user_id="bob")
    assert_problem(ann.get(f"/v1/chunks/{hidden['id']}"), 404, "chunk_not_found")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "closed"}).raise_for_status()
    narrow = tenant.create_client("reader", knowledge_bases=["closed"])
    assert_problem(narrow.get(f"/v1/chunks/{seen['For all.']}"), 404, "chunk_not_found")
    assert_problem(narrow.get(f"{KB}/chunks"), 404, "knowledge_base_not_found")


@pytest.mark.capability("chunk-put")
def test_put_chunk_replaces_text_without_new_ids(tenant: Tenant) -> None:
    document = upload(tenant, BIRDS, external_id="animals")
    ids = document["chunk_ids"]
    changed = change(tenant, "PUT", document, ids[1], text="The badger digs.", metadata={"legs": 4}, page=9)
    assert (changed.status_code, changed.json()["status"]) == (200, "ready"), changed.text
    assert changed.json()["chunk_ids"] == ids
    assert changed.json()["version"] == changed.json()["live_version"] == 1
    chunk = tenant.admin.get(f"/v1/chunks/{ids[1]}").json()
    assert (chunk["text"], chunk["metadata"], chunk["page"]) == ("The badger digs.", {"legs": 4}, 9)
    assert find_texts(tenant, "badger") == {"The badger digs."}
    assert find_texts(tenant, "otter") == set()
    assert {item["text"] for item in list_all(tenant)} == {BIRDS[0], "The badger digs.", *BIRDS[2:]}
    assert changed.json()["sha256"] != document["sha256"]
    stored = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/content", follow_redirects=True).json()
    assert [item["text"] for item in stored] == [BIRDS[0], "The badger digs.", *BIRDS[2:]]
    second = change(tenant, "PUT", document, ids[3], text="The toad waits.")
    assert (second.status_code, second.json()["chunk_ids"]) == (200, ids)
    assert find_texts(tenant, "waits") == {BIRDS[0], "The toad waits."}


@pytest.mark.capability("chunk-delete")
def test_deleted_chunk_leaves_ids_of_others_and_can_be_restored(tenant: Tenant) -> None:
    document = upload(tenant, BIRDS)
    ids = document["chunk_ids"]
    for number in (0, 2):  # the ids of the first upload stay valid
        deleted = change(tenant, "DELETE", document, ids[number])
        assert (deleted.status_code, deleted.json()["status"]) == (200, "ready"), deleted.text
    assert deleted.json()["chunk_ids"] == [ids[1], ids[3]]
    assert deleted.json()["chunk_count"] == 2
    assert find_texts(tenant, "heron kite otter newt") == {BIRDS[1], BIRDS[3]}
    chunk = tenant.admin.get(f"/v1/chunks/{ids[3]}").json()
    assert (chunk["text"], chunk["chunk_index"], chunk["total_chunks"]) == (BIRDS[3], 3, 2)
    assert (chunk["previous_chunk_id"], chunk["next_chunk_id"]) == (ids[1], None)
    for number in (0, 2):
        assert_problem(tenant.admin.get(f"/v1/chunks/{ids[number]}"), 404, "chunk_not_found")
        assert_problem(change(tenant, "DELETE", document, ids[number]), 404, "chunk_not_found")
    restored = change(tenant, "PUT", document, ids[0], text="The heron returns.")
    assert restored.json()["chunk_ids"] == [ids[0], ids[1], ids[3]]
    assert find_texts(tenant, "heron") == {"The heron returns."}
    change(tenant, "DELETE", document, ids[0])
    change(tenant, "DELETE", document, ids[1])
    assert_problem(change(tenant, "DELETE", document, ids[3]), 409, "last_chunk")


def test_knowledge_base_with_deleted_chunks_is_reindexed_and_copied(tenant: Tenant) -> None:
    document = upload(tenant, BIRDS)
    ids = document["chunk_ids"]
    change(tenant, "DELETE", document, ids[0])
    reply = tenant.admin.post(f"{DOCUMENTS}/{document['id']}/reindex")
    assert reply.status_code == 202
    tenant.admin.put(f"{DOCUMENTS}/{document['id']}/chunks/{ids[1]}", json={"text": "A lynx."})
    job = tenant.admin.post(f"{KB}/reindex", json={"language": "german"})
    assert job.status_code == 202, job.text
    wait_until_reindexed(tenant)
    assert {item["text"] for item in list_all(tenant)} == {"A lynx.", *BIRDS[2:]}
    assert {item["id"] for item in list_all(tenant)} == set(ids[1:])
    archive = tenant.admin.get(f"{KB}/export")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "copy", "language": "german"}).raise_for_status()
    sent = tenant.admin.post(
        "/v1/knowledge-bases/copy/import", content=archive.content, headers={"Content-Type": "application/x-tar"}
    )
    assert sent.status_code == 200, sent.text
    copied = tenant.admin.get("/v1/knowledge-bases/copy/chunks").json()["items"]
    assert [item["text"] for item in copied] == ["A lynx.", *BIRDS[2:]]
    (copy,) = tenant.admin.get("/v1/knowledge-bases/copy/documents").json()["items"]
    path = f"/v1/knowledge-bases/copy/documents/{copy['id']}/chunks/{copied[1]['id']}"
    changed = tenant.admin.put(path, params={"wait": 60}, json={"text": "A stork."})
    assert (changed.status_code, len(changed.json()["chunk_ids"])) == (200, 3), changed.text
    copied = tenant.admin.get("/v1/knowledge-bases/copy/chunks").json()["items"]
    assert [item["text"] for item in copied] == ["A lynx.", "A stork.", BIRDS[3]]


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, "text"), ({"text": ""}, "text"), ({"text": " \n"}, "text"), ({"text": "x", "page": 0}, "page"),
        ({"text": "x", "vector": [1.0, 2.0]}, "vector"), ({"text": "x", "vector": [0.0] * 64}, "vector"),
        ({"text": "x", "colour": "red"}, "colour"), ({"text": "a\0b"}, "text"),
    ],
)  # fmt: skip
def test_put_invalid_chunk_is_422_and_changes_nothing(tenant: Tenant, body: dict[str, Any], loc: str) -> None:
    document = upload(tenant, BIRDS)
    path = f"{DOCUMENTS}/{document['id']}/chunks/{document['chunk_ids'][0]}"
    problem = assert_problem(tenant.admin.put(path, json=body), 422)
    assert problem["errors"][0]["loc"] == ["body", loc]
    now = tenant.admin.get(f"{DOCUMENTS}/{document['id']}").json()
    assert (now["sha256"], now["status"]) == (document["sha256"], "ready")


def test_chunks_of_an_uploaded_text_cannot_be_changed_one_by_one(tenant: Tenant) -> None:
    document = tenant.add_text("The reef grows.")
    (chunk,) = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/chunks").json()["items"]
    for method, body in (("PUT", {"text": "Other."}), ("DELETE", {})):
        assert_problem(change(tenant, method, document, chunk["id"], **body), 409, "chunks_not_provided")
        assert_problem(change(tenant, method, {"id": "doc_nothing"}, chunk["id"], **body), 404, "document_not_found")
    own = upload(tenant, BIRDS)
    for method, body in (("PUT", {"text": "Other."}), ("DELETE", {})):
        assert_problem(change(tenant, method, own, chunk["id"], **body), 404, "chunk_not_found")


@pytest.mark.capability("chunk-prepare")
def test_prepare_reindex_removes_the_chunks_alone(tenant: Tenant) -> None:
    text = tenant.add_text("# Reefs\n\nThe reef grows.", media_type="text/markdown")
    own = upload(tenant, ["The reef waits.", "A coral."])
    for document in (text, own):
        path = f"{DOCUMENTS}/{document['id']}"
        reply = tenant.admin.post(f"{path}/prepare-reindex")
        assert reply.status_code == 200, reply.text
        prepared = reply.json()
        assert (prepared["status"], prepared["chunk_count"]) == ("ready", 0)
        assert [warning["code"] for warning in prepared["warnings"]] == ["chunks_deleted"]
        assert tenant.admin.post(f"{path}/prepare-reindex").json()["warnings"] == prepared["warnings"]
        assert tenant.admin.get(f"{path}/chunks").json()["items"] == []
        assert tenant.admin.get(f"{path}/tree").json()["root"]["children"] != []
        assert tenant.admin.get(f"{path}/content", follow_redirects=True).status_code == 200
    assert find_texts(tenant, "reef") == set()
    assert list_all(tenant) == []
    tenant.admin.post(f"{KB}/reindex", json={"chunking": {"max_tokens": 90}}).raise_for_status()
    wait_until_reindexed(tenant)
    assert find_texts(tenant, "reef") == set()
    for document in (text, own):
        tenant.admin.post(f"{DOCUMENTS}/{document['id']}/reindex").raise_for_status()
        ready = wait_until_final(tenant, document)
        assert (ready["status"], ready["chunk_count"], ready["warnings"]) == ("ready", document["chunk_count"], [])
    assert len(find_texts(tenant, "reef")) == 2


@pytest.mark.capability("chunk-include")
def test_get_document_with_include_has_tree_and_chunks(tenant: Tenant) -> None:
    document = tenant.add_text("# Reefs\n\nThe reef grows.\n\n# Corals\n\nA coral.", media_type="text/markdown")
    path = f"{DOCUMENTS}/{document['id']}"
    plain = tenant.admin.get(path).json()
    assert "tree" not in plain
    assert "chunks" not in plain
    chunks, tree = tenant.admin.get(f"{path}/chunks").json(), tenant.admin.get(f"{path}/tree").json()
    for include, parts in (
        ("tree", {"tree": tree}), ("chunks", {"chunks": chunks}), ("tree,chunks", {"tree": tree, "chunks": chunks}),
        ("chunks, tree", {"tree": tree, "chunks": chunks}), ("", {}),
    ):  # fmt: skip
        assert tenant.admin.get(path, params={"include": include}).json() == {**plain, **parts}, include
    assert_problem(tenant.admin.get(path, params={"include": "tree,pages"}), 422, "invalid")
    many = upload(tenant, [f"Chunk number {number}." for number in range(203)])
    included = tenant.admin.get(f"{DOCUMENTS}/{many['id']}", params={"include": "chunks"}).json()["chunks"]
    assert len(included["items"]) == 200
    rest = tenant.admin.get(f"{DOCUMENTS}/{many['id']}/chunks", params={"cursor": included["next_cursor"]}).json()
    assert [item["chunk_index"] for item in rest["items"]] == [200, 201, 202]


@pytest.mark.capability("chunk-title")
def test_title_is_the_name_by_default(tenant: Tenant) -> None:
    assert tenant.admin.get(KB).json()["title"] == "default"
    named = tenant.admin.post("/v1/knowledge-bases", json={"name": "shelf"}).json()
    assert named["title"] == "shelf"
    titled = tenant.admin.patch("/v1/knowledge-bases/shelf", json={"title": "Our shelf"}).json()
    assert titled["title"] == "Our shelf"
    assert tenant.admin.patch("/v1/knowledge-bases/shelf", json={"title": None}).json()["title"] == "shelf"
    document = upload(tenant, ["The heron waits."], external_id="birds-1")
    assert (document["source"], document["title"]) == ("birds-1", "birds-1")
    (result,) = tenant.admin.post(f"{KB}/search", json={"query": "heron"}).json()["results"]
    assert result["document"]["title"] == "birds-1"
