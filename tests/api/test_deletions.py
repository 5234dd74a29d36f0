"""Deletion of many documents: the selection, the immediate effect on searches, and the receipt."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from app.db.models.base import SYSTEM_TENANT
from app.documents.deletion.service import BATCH_SIZE
from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
HEADER = "carrel-deletion-id"


def add(tenant: Tenant, text: str, *, kb: str = "default", **fields: Any) -> str:
    """Add a document, wait until it is ready, and return its id."""
    document = tenant.add_text(text, kb=kb, **fields)
    assert document["status"] == "ready"
    found: str = document["id"]
    return found


def listed(tenant: Tenant, kb: str = "default") -> set[str]:
    items = tenant.admin.get(f"/v1/knowledge-bases/{kb}/documents", params={"limit": 200}).json()["items"]
    return {one["id"] for one in items}


def texts(tenant: Tenant, query: str) -> set[str]:
    found = tenant.admin.post("/v1/search", json={"query": query, "top_k": 50}).json()
    return {result["text"] for result in found["results"]}


def objects(service: Service, tenant: Tenant) -> list[Path]:
    folder = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    return [path for path in folder.glob("*/*") if path.is_file()]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def delete(tenant: Tenant, *, kb: str = "default", **query: Any) -> dict[str, Any]:
    reply = tenant.admin.delete(f"/v1/knowledge-bases/{kb}/documents", params=query)
    assert reply.status_code == 202, reply.text
    made: dict[str, Any] = reply.json()
    assert reply.headers[HEADER] == made["deletion"]
    return made


def finished(tenant: Tenant, deletion: str) -> dict[str, Any]:
    """Return the receipt after the stored files are deleted."""
    path = f"/v1/deletions/{deletion}"
    eventually(lambda: tenant.admin.get(path).json()["finished_at"] is not None)
    found: dict[str, Any] = tenant.admin.get(path).json()
    return found


def run(url: str, *statements: str, values: tuple[Any, ...] = ()) -> Any:
    """Run statements as the owner of the tables, and return the value of the last one."""

    async def main() -> Any:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1], *values)
        finally:
            await connection.close()

    return asyncio.run(main())


@pytest.fixture
def shelf(tenant: Tenant) -> dict[str, str]:
    """Some documents in ``default``, and one in another knowledge base."""
    tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
    facts: dict[str, dict[str, Any]] = {
        "red": {"external_id": "r", "metadata": {"colour": "red", "size": 1}},
        "green": {"external_id": "g", "metadata": {"colour": "green", "size": 2}},
        "blue": {"user_id": "u", "metadata": {"colour": "blue", "size": 3}},
        "white": {"metadata": {"colour": "white", "size": 2}},
        "grey": {"metadata": {"size": 4}},
        "black": {},
        "other": {"kb": "other", "external_id": "r", "metadata": {"colour": "red", "size": 9}},
    }
    return {name: add(tenant, f"The {name} heron.", **said) for name, said in facts.items()}


# Deletions in order, each with the documents that it removes.
STEPS: list[tuple[dict[str, Any], set[str]]] = [
    ({"ids": ["other", "invented", "nothing"]}, set()),
    ({"external_id": "nothing"}, set()),
    ({"filter": {"colour": "black"}}, set()),
    ({"ids": ["red,invented", "red"]}, {"red"}),
    ({"ids": ["red"]}, set()),
    ({"external_id": "r"}, set()),  # a document of the other knowledge base has the same external id
    ({"external_id": "g", "confirm": "whatever"}, {"green"}),
    ({"filter": {"size": {"gte": 3}, "colour": {"exists": True}}}, {"blue"}),
    ({"filter": {"$document_id": "white"}}, {"white"}),
    ({"filter": {}, "confirm": "default"}, {"grey", "black"}),
    ({"filter": {}, "confirm": "default"}, set()),
]


@pytest.mark.capability("delete-many")
def test_delete_documents_removes_selected_documents(service: Service, tenant: Tenant, shelf: dict[str, str]) -> None:
    names = {**shelf, "invented": "doc_01h455vb4pex5vsknk084sn02q"}
    left = dict(shelf)
    for query, gone in STEPS:
        sent = dict(query)
        if "ids" in query:
            sent["ids"] = [",".join(names.get(one, one) for one in part.split(",")) for part in query["ids"]]
        if "filter" in query:
            meant = query["filter"].get("$document_id")
            sent["filter"] = json.dumps({"$document_id": names[meant]} if meant else query["filter"])
        made = delete(tenant, **sent)
        assert made["deleted"] == len(gone), query
        for name in gone:
            del left[name]
        assert listed(tenant) | listed(tenant, "other") == {*left.values()}, query
        # A tenant-wide search does not find a user's document.
        assert texts(tenant, "heron") == {f"The {name} heron." for name in left if name != "blue"}, query
        receipt = finished(tenant, made["deletion"])
        assert (receipt["id"], receipt["documents"], receipt["chunks"]) == (made["deletion"], len(gone), len(gone))
        assert receipt["requested_at"] <= receipt["finished_at"]
        assert len(objects(service, tenant)) == 2 * len(left)  # an original and its parse result


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"confirm": "default"},
        {"filter": "{}"},
        {"filter": "{}", "confirm": ""},
        {"filter": "{}", "confirm": "Default"},
        {"filter": "{}", "confirm": "other"},
        {"filter": "null"},
        {"filter": "[]"},
        {"filter": "{"},
        {"filter": '{"size": {"$near": 1}}'},
        {"filter": '{"size": 1}', "external_id": "r"},
        {"filter": "{}", "external_id": "r", "confirm": "default"},
        {"external_id": "r", "ids": "red"},
        {"external_id": ""},
        {"ids": ["x"] * 201},
    ],
    ids=lambda query: json.dumps(query)[:60],
)
def test_delete_documents_ambiguous_selection_is_422(service: Service, keeper: Tenant, query: dict[str, Any]) -> None:
    assert_problem(keeper.admin.delete(DOCUMENTS, params=query), 422, "invalid")
    assert len(listed(keeper)) == 1


@pytest.mark.parametrize(
    ("meant", "place"),
    [
        ({"$page": {"exists": False}}, ["$page"]),
        ({"$page": {"not": 1}}, ["$page"]),
        ({"$node": {"not": {"contains": "nod_1"}}}, ["$node"]),
        ({"$suspicious": {"exists": False}}, ["$suspicious"]),
        ({"not": {"$suspicious": "instructions"}}, ["not", "$suspicious"]),
        ({"size": 1, "and": [{"or": [{"size": 1}, {"not": {"$page": 3}}]}]}, ["and", 0, "or", 1, "not", "$page"]),
        ({"\\$page": 3}, ["\\$page"]),
    ],
    ids=str,
)
def test_delete_documents_filter_with_chunk_fields_is_422(
    keeper: Tenant, meant: dict[str, Any], place: list[Any]
) -> None:
    found = assert_problem(keeper.admin.delete(DOCUMENTS, params={"filter": json.dumps(meant)}), 422, "invalid")
    assert [error["loc"] for error in found["errors"]] == [["query", "filter", *place]]
    assert len(listed(keeper)) == 1


def test_document_list_chunk_fields_never_exist(keeper: Tenant) -> None:
    for name in ("$page", "$node", "$suspicious"):
        missing = keeper.admin.get(DOCUMENTS, params={"filter": json.dumps({name: {"exists": False}})})
        there = keeper.admin.get(DOCUMENTS, params={"filter": json.dumps({name: {"exists": True}})})
        assert (len(missing.json()["items"]), len(there.json()["items"])) == (1, 0)


@pytest.fixture(scope="module")
def keeper(service: Service) -> Tenant:
    """Tenant with one document that no deletion selects."""
    made = service.create_tenant("keeper")
    add(made, "Kept.", external_id="r", metadata={"size": 1})
    return made


@pytest.mark.capability("delete-all")
def test_delete_all_confirmation_is_knowledge_base_name(tenant: Tenant) -> None:
    add(tenant, "All of it.")
    kb = tenant.admin.get("/v1/knowledge-bases/default").json()["id"]
    path = f"/v1/knowledge-bases/{kb}/documents"
    assert_problem(tenant.admin.delete(path, params={"filter": "{}", "confirm": kb}), 422, "invalid")
    assert tenant.admin.delete(path, params={"filter": "{}", "confirm": "default"}).json()["deleted"] == 1


def test_delete_one_document_returns_receipt(service: Service, tenant: Tenant) -> None:
    path = f"{DOCUMENTS}/{add(tenant, 'Gone alone.')}"
    reply = tenant.create_client("writer").delete(path)
    assert (reply.status_code, reply.content) == (204, b"")
    assert texts(tenant, "gone") == set()
    receipt = finished(tenant, reply.headers[HEADER])
    assert (receipt["documents"], receipt["chunks"]) == (1, 1)
    assert objects(service, tenant) == []
    again = tenant.create_client("writer").delete(path)
    assert_problem(again, 404, "document_not_found")
    assert HEADER not in again.headers


def test_receipt_is_unfinished_until_originals_are_deleted(service: Service, tenant: Tenant) -> None:
    """A lock stops the job, as a long queue would; the receipt is not finished until the job is."""
    add(tenant, "Still there.")

    async def main() -> str:
        connection = await asyncpg.connect(service.urls.owner)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("lock table claim_lock in exclusive mode")  # no worker claims a job
        made = await asyncio.to_thread(delete, tenant, external_id="nothing")
        assert await asyncio.to_thread(finished, tenant, made["deletion"])
        made = await asyncio.to_thread(delete, tenant, filter="{}", confirm="default")
        receipt = await asyncio.to_thread(tenant.admin.get, f"/v1/deletions/{made['deletion']}")
        assert (receipt.json()["documents"], receipt.json()["finished_at"]) == (1, None)
        assert len(objects(service, tenant)) == 2  # the original and its parse result
        await transaction.rollback()
        await connection.close()
        deletion: str = made["deletion"]
        return deletion

    assert finished(tenant, asyncio.run(main()))["documents"] == 1
    assert objects(service, tenant) == []


MANY = """
insert into document (tenant_id, kb_id, id, source, media_type, bytes, sha256, scope_key, external_id, metadata,
                      filterable, created_at)
select tenant_id, id, gen_random_uuid(), 'a', 'text/plain', 1, 'x', tenant_id, n::text, '{"many": true}',
       '{"many": true}', now() - interval '1 s'
  from knowledge_base, generate_series(1, $2) n where tenant_id = $1 and name = 'default' returning 1"""


def test_delete_documents_above_batch_size_deletes_all(service: Service, tenant: Tenant) -> None:
    kept = add(tenant, "Not one of many.")
    owner, key = service.urls.owner, decode_id("ten", tenant.id)
    run(owner, MANY, values=(key, 2 * BATCH_SIZE + 1))
    made = delete(tenant, filter='{"many": true}')
    assert made["deleted"] == 2 * BATCH_SIZE + 1
    assert listed(tenant) == {kept}
    receipt = finished(tenant, made["deletion"])
    assert (receipt["documents"], receipt["chunks"]) == (2 * BATCH_SIZE + 1, 0)
    left = "select count(*) from job where tenant_id = $1 and kind = 'purge_objects'"
    assert run(owner, left, values=(key,)) == 0


def test_delete_documents_exactly_batch_size_deletes_all(service: Service, tenant: Tenant) -> None:
    run(service.urls.owner, MANY, values=(decode_id("ten", tenant.id), BATCH_SIZE))
    assert delete(tenant, filter='{"many": true}')["deleted"] == BATCH_SIZE
    assert listed(tenant) == set()


def test_delete_documents_with_future_creation_time_deletes_them(service: Service, tenant: Tenant) -> None:
    """The document came from another machine, some seconds before the true time."""
    ids = [add(tenant, f"From the future {number}.") for number in range(3)]
    ahead = "update document set created_at = now() + interval '5 min' where tenant_id = $1 returning 1"
    run(service.urls.owner, ahead, values=(decode_id("ten", tenant.id),))
    assert tenant.admin.delete(f"{DOCUMENTS}/{ids[0]}").status_code == 204
    assert delete(tenant, ids=[ids[1]])["deleted"] == 1
    assert delete(tenant, filter="{}", confirm="default")["deleted"] == 1


def test_delete_documents_during_ingestion_deletes_them(tenant: Tenant) -> None:
    for number in range(5):
        tenant.admin.post(DOCUMENTS, json={"text": f"Under way {number}."}).raise_for_status()
    assert delete(tenant, filter="{}", confirm="default")["deleted"] == 5
    assert add(tenant, "After them.") in listed(tenant)
    assert texts(tenant, "way after them") == {"After them."}


def test_delete_documents_requires_permission(service: Service, tenant: Tenant) -> None:
    document = add(tenant, "Guarded.")
    for role in ("reader", "writer"):
        assert_problem(tenant.create_client(role).delete(DOCUMENTS, params={"ids": document}), 403, "forbidden")
    assert_problem(service.create_tenant().admin.delete(f"{DOCUMENTS}/{document}"), 404, "document_not_found")
    nowhere = "/v1/knowledge-bases/nothing/documents"
    assert_problem(tenant.admin.delete(nowhere, params={"ids": document}), 404, "knowledge_base_not_found")
    assert listed(tenant) == {document}


def test_receipt_is_visible_to_permitted_keys_only(service: Service, tenant: Tenant, shelf: dict[str, str]) -> None:
    path = f"/v1/deletions/{delete(tenant, ids=[shelf['red']])['deletion']}"
    assert tenant.create_client("reader").get(path).json()["documents"] == 1
    assert tenant.create_client("reader", knowledge_bases=["default"]).get(path).status_code == 200
    assert_problem(tenant.create_client("admin", knowledge_bases=["other"]).get(path), 404, "deletion_not_found")
    assert_problem(service.create_tenant().admin.get(path), 404, "deletion_not_found")
    for nothing in ("nothing", "del_01h455vb4pex5vsknk084sn02q", shelf["grey"]):
        assert_problem(tenant.admin.get(f"/v1/deletions/{nothing}"), 404, "deletion_not_found")


def test_receipt_other_users_deletion_is_not_found_for_restricted_key(tenant: Tenant) -> None:
    of_bob = [add(tenant, f"Bob's note {number}.", user_id="bob") for number in range(2)]
    of_alice = add(tenant, "Alice's note.", user_id="alice")
    bob, alice = (tenant.create_client("writer", user_id=user) for user in ("bob", "alice"))
    deletions = {
        "bob": bob.delete(f"{DOCUMENTS}/{of_bob[0]}").headers[HEADER],
        "alice": alice.delete(f"{DOCUMENTS}/{of_alice}").headers[HEADER],
        "admin": delete(tenant, ids=[of_bob[1]])["deletion"],
        "nothing": delete(tenant, ids=[of_bob[1]])["deletion"],
    }
    for name, deletion in deletions.items():
        path = f"/v1/deletions/{deletion}"
        assert tenant.admin.get(path).status_code == 200
        for user, client in (("bob", bob), ("alice", alice)):
            if user == name:
                assert client.get(path).json()["documents"] == 1
            else:
                assert_problem(client.get(path), 404, "deletion_not_found")
        assert tenant.create_client("reader", user_id=name).get(path).status_code == (
            200 if name in ("bob", "alice") else 404
        )


def list_receipts(client: httpx2.Client, **query: Any) -> list[dict[str, Any]]:
    reply = client.get("/v1/deletions", params=query)
    assert reply.status_code == 200, reply.text
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


@pytest.mark.capability("delete-receipt-list")
def test_list_deletions_pages_are_newest_first_and_equal_receipts(tenant: Tenant) -> None:
    ids = [delete(tenant, external_id=f"nothing-{number}")["deletion"] for number in range(3)]
    first = tenant.admin.get("/v1/deletions", params={"limit": 2}).json()
    assert [item["id"] for item in first["items"]] == ids[:0:-1]
    second = tenant.admin.get("/v1/deletions", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [item["id"] for item in second["items"]] == ids[:1]
    assert second["next_cursor"] is None
    assert second["items"][0] == tenant.admin.get(f"/v1/deletions/{ids[0]}").json()
    assert_problem(tenant.admin.get("/v1/deletions", params={"cursor": "nothing"}), 422, "invalid")


def test_list_deletions_filters_select_state_and_knowledge_base(tenant: Tenant) -> None:
    kb = tenant.admin.post("/v1/knowledge-bases", json={"name": "brief", "title": "Brief"}).json()["id"]
    here, there = delete(tenant, external_id="nothing"), delete(tenant, kb="brief", external_id="nothing")
    assert [item["id"] for item in list_receipts(tenant.admin, knowledge_base="default")] == [here["deletion"]]
    assert [item["id"] for item in list_receipts(tenant.admin, knowledge_base="brief")] == [there["deletion"]]
    whole = tenant.admin.delete("/v1/knowledge-bases/brief").headers[HEADER]
    finished(tenant, whole)
    assert [item["id"] for item in list_receipts(tenant.admin, knowledge_base=kb)] == [whole, there["deletion"]]
    assert len(list_receipts(tenant.admin, state="finished")) == 3
    assert list_receipts(tenant.admin, state="unfinished") == []
    for name in ("brief", "a\0b"):
        reply = tenant.admin.get("/v1/deletions", params={"knowledge_base": name})
        assert_problem(reply, *((404, "knowledge_base_not_found") if name == "brief" else (422, "invalid")))
    assert_problem(tenant.admin.get("/v1/deletions", params={"state": "nothing"}), 422, "invalid")


def test_list_deletions_shows_only_receipts_that_the_caller_may_read(service: Service, tenant: Tenant) -> None:
    other = tenant.admin.post("/v1/knowledge-bases", json={"name": "brief", "title": "Brief"}).json()["id"]
    here, there = delete(tenant, external_id="nothing"), delete(tenant, kb="brief", external_id="nothing")
    bobs = add(tenant, "Bob's note.", user_id="bob")
    of_bob = tenant.create_client("writer", user_id="bob").delete(f"{DOCUMENTS}/{bobs}").headers[HEADER]
    narrow, bob = (
        tenant.create_client("admin", **only) for only in ({"knowledge_bases": ["brief"]}, {"user_id": "bob"})
    )
    assert [item["id"] for item in list_receipts(narrow)] == [there["deletion"]]
    assert [item["id"] for item in list_receipts(bob)] == [of_bob]
    assert list_receipts(bob, knowledge_base=other) == []
    assert_problem(narrow.get("/v1/deletions", params={"knowledge_base": "default"}), 404, "knowledge_base_not_found")
    assert list_receipts(service.create_tenant().admin) == []
    assert here["deletion"] not in {item["id"] for item in list_receipts(service.operator, limit=200)}
    assert_problem(tenant.create_client("writer").get("/v1/deletions"), 403, "forbidden")


@pytest.mark.capability("delete-receipt")
def test_receipt_has_counts_and_times(tenant: Tenant) -> None:
    document = add(tenant, "Proven.")
    bytes_kept = tenant.admin.get(f"{DOCUMENTS}/{document}").json()["bytes"]
    reply = tenant.admin.delete(f"{DOCUMENTS}/{document}")
    receipt = finished(tenant, reply.headers[HEADER])
    remaining, retained = receipt.pop("remaining"), receipt.pop("retained")
    assert remaining["objects"] == 0
    assert {"document", "document_object", "node", "chunk", "chunk_embedding", "chunk_lexical", "job"} <= set(remaining)
    assert not any(remaining.values())
    assert {"audit_event", "deletion", "embedding_usage"} <= set(retained)
    assert not set(retained) & set(remaining)
    times = [datetime.fromisoformat(receipt.pop(name)) for name in ("requested_at", "finished_at", "retention_until")]
    assert times == sorted(times)
    assert (times[2] - times[0]).days == 365
    assert receipt == {
        "id": reply.headers[HEADER], "kind": "document", "object": document, "documents": 1, "chunks": 1,
        "bytes": bytes_kept, "retained_files": 0,
    }  # fmt: skip


def test_delete_knowledge_base_has_receipt_and_frees_name(service: Service, tenant: Tenant) -> None:
    made = tenant.admin.post("/v1/knowledge-bases", json={"name": "brief", "title": "Brief"}).json()
    add(tenant, "A brief heron.", kb="brief")
    add(tenant, "A heron that stays.")
    narrowed = tenant.create_client("reader", knowledge_bases=["brief"])
    reply = tenant.admin.delete("/v1/knowledge-bases/brief")
    assert (reply.status_code, reply.content) == (204, b"")
    for client in (tenant.admin, narrowed):
        for name in ("brief", made["id"]):
            assert_problem(client.get(f"/v1/knowledge-bases/{name}"), 404, "knowledge_base_not_found")
            assert_problem(client.post(f"/v1/knowledge-bases/{name}/search", json={"query": "heron"}), 404)
    assert narrowed.get("/v1/me").json()["key"]["knowledge_bases"] == []
    assert texts(tenant, "heron") == {"A heron that stays."}
    assert_problem(tenant.admin.delete("/v1/knowledge-bases/brief"), 404, "knowledge_base_not_found")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
    assert add(tenant, "A brief heron.", kb="brief") in listed(tenant, "brief")
    receipt = finished(tenant, reply.headers[HEADER])
    assert (receipt["kind"], receipt["object"]) == ("knowledge_base", made["id"])
    assert (receipt["documents"], receipt["chunks"]) == (1, 1)
    assert {"knowledge_base", "search_index", "term_document_frequency", "document"} <= set(receipt["remaining"])
    assert not any(receipt["remaining"].values())
    assert len(objects(service, tenant)) == 4  # two originals and their parse results
    assert_problem(narrowed.get(f"/v1/deletions/{reply.headers[HEADER]}"), 404, "deletion_not_found")


IN_AN_ANSWER = "A title that is only in an answer"


@pytest.mark.parametrize("what", ["document", "documents", "knowledge base"])
def test_delete_document_deletes_stored_responses_about_it(service: Service, tenant: Tenant, what: str) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
    path, again = "/v1/knowledge-bases/brief/documents", {"Idempotency-Key": "the-same"}
    body = {"text": "Said once.", "title": IN_AN_ANSWER}
    first = tenant.admin.post(path, params={"wait": 60}, json=body, headers=again)
    assert tenant.admin.post(path, params={"wait": 60}, json=body, headers=again).content == first.content
    renamed = {"title": IN_AN_ANSWER, "description": "x"}
    tenant.admin.patch("/v1/knowledge-bases/brief", json=renamed, headers=again).raise_for_status()
    if what == "document":
        reply = tenant.admin.delete(f"{path}/{first.json()['id']}")
    elif what == "documents":
        reply = tenant.admin.delete(path, params={"ids": first.json()["id"]})
    else:
        reply = tenant.admin.delete("/v1/knowledge-bases/brief")
    receipt = finished(tenant, reply.headers[HEADER])
    assert receipt["remaining"]["idempotency_subject"] == 0
    kept = "select count(*) from idempotency_key where tenant_id = $1 and position($2::text::bytea in body) > 0"
    left = run(service.urls.owner, kept, values=(decode_id("ten", tenant.id), IN_AN_ANSWER))
    assert left == (0 if what == "knowledge base" else 1)
    # A retry does not repeat the deletion, although its response is deleted.
    assert_problem(
        tenant.admin.post(path, params={"wait": 60}, json=body, headers=again), 409, "idempotency_response_deleted"
    )


def test_delete_tenant_deletes_name_from_operators_stored_responses(service: Service) -> None:
    tenant, again = service.create_tenant("before"), {"Idempotency-Key": "rename"}
    path = f"/v1/tenants/{tenant.id}"
    service.operator.patch(path, json={"name": IN_AN_ANSWER}, headers=again).raise_for_status()
    deletion = service.operator.delete(path).headers[HEADER]
    eventually(lambda: service.operator.get(f"/v1/deletions/{deletion}").json()["finished_at"] is not None)
    kept = "select count(*) from idempotency_key where position($1::text::bytea in body) > 0 and tenant_id = $2"
    assert run(service.urls.owner, kept, values=(IN_AN_ANSWER, SYSTEM_TENANT)) == 0


def test_upload_after_deletion_creates_new_document(tenant: Tenant) -> None:
    first = add(tenant, "Twice.")
    finished(tenant, tenant.admin.delete(f"{DOCUMENTS}/{first}").headers[HEADER])
    second = add(tenant, "Twice.")
    assert second != first
    assert texts(tenant, "twice") == {"Twice."}
