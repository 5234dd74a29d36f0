"""OpenAI vector stores beyond the official client's calls: restricted keys, quotas and deletion."""

import asyncio
import time
from typing import Any

import asyncpg
import httpx2
import pytest

from app.api.openai.vector_store_search import VectorStoreSearchRequest
from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.api.breakable_service import BreakableService
from tests.api.openai.errors import failure

FILES = "/openai/v1/files"
STORES = "/openai/v1/vector_stores"
STORE = f"{STORES}/default"
TABLES = ("stored_file", "vector_store_labels", "file_batch", "file_batch_file")


def keep(client: httpx2.Client, text: str = "The heron fishes.", name: str = "a.txt") -> str:
    reply = client.post(FILES, files={"file": (name, text.encode())}, data={"purpose": "assistants"})
    assert reply.status_code == 200, reply.text
    found: str = reply.json()["id"]
    return found


def attach(client: httpx2.Client, file: str, store: str = STORE, **more: Any) -> dict[str, Any]:
    reply = client.post(f"{store}/files", json={"file_id": file, **more})
    assert reply.status_code == 200, reply.text
    assert int(reply.headers["openai-poll-after-ms"]) > 0
    found: dict[str, Any] = reply.json()
    return found


def finished(client: httpx2.Client, deletion: str) -> dict[str, int]:
    """Return the counts of remaining items of a finished deletion."""
    left: dict[str, int] = settled(client, deletion)["remaining"]
    return left


def settled(client: httpx2.Client, deletion: str) -> dict[str, Any]:
    """Wait for the end of a deletion, and return its receipt."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        receipt: dict[str, Any] = client.get(f"/v1/deletions/{deletion}").json()
        if receipt["finished_at"]:
            return receipt
        time.sleep(0.05)
    raise AssertionError("the deletion did not end")


def batched(client: httpx2.Client, body: dict[str, Any], store: str = STORE) -> dict[str, Any]:
    """Create a batch, and return it when it is complete."""
    reply = client.post(f"{store}/file_batches", json=body)
    assert reply.status_code == 200, reply.text
    batch: dict[str, Any] = reply.json()
    deadline = time.monotonic() + 60
    while batch["status"] == "in_progress":
        assert time.monotonic() < deadline
        time.sleep(0.05)
        batch = client.get(f"{store}/file_batches/{batch['id']}").json()
    return batch


def run(url: str, statement: str, *values: Any) -> list[asyncpg.Record]:
    async def fetch() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(url)
        try:
            found: list[asyncpg.Record] = await connection.fetch(statement, *values)
            return found
        finally:
            await connection.close()

    return asyncio.run(fetch())


@pytest.mark.capability("openai-store")
def test_vector_store_and_knowledge_base_are_the_same_object(tenant: Tenant) -> None:
    made = tenant.admin.post(STORES, json={"name": "Über uns", "description": "About", "metadata": {"a": "b"}}).json()
    native = tenant.admin.get(f"/v1/knowledge-bases/{made['knowledge_base']}").json()
    assert (native["id"], native["title"], native["description"]) == (made["id"], "Über uns", "About")
    file = attach(tenant.admin, keep(tenant.admin), f"{STORES}/{made['id']}", attributes={"year": 2024, "on": True})
    document = tenant.admin.get(f"/v1/knowledge-bases/{made['id']}/documents/{file['document']}").json()
    assert (document["external_id"], document["metadata"]) == (file["id"], {"year": 2024, "on": True})
    by_document = tenant.admin.get(f"{STORES}/{made['id']}/files/{file['document']}").json()
    assert by_document["id"] == file["id"]
    archive = keep(tenant.admin, "PK\x05\x06" + "\0" * 18, name="a.zip")
    batch = {"file_ids": [keep(tenant.admin, "Another."), archive]}
    made_batch = batched(tenant.admin, batch, f"{STORES}/{made['id']}")
    listed = tenant.admin.get(f"{STORES}/{made['id']}/file_batches/{made_batch['id']}/files").json()["data"]
    assert [(one["filename"], one["document"] is None) for one in listed] == [("a.zip", True), ("a.txt", False)]
    gone = tenant.admin.delete(f"/v1/knowledge-bases/{made['id']}")
    left = finished(tenant.admin, gone.headers["carrel-deletion-id"])
    assert {name: left[name] for name in TABLES[1:]} == dict.fromkeys(TABLES[1:], 0)
    failure(tenant.admin.get(f"{STORES}/{made['id']}"), 404, "knowledge_base_not_found")


def test_openai_file_above_json_limit_is_accepted(tenant: Tenant) -> None:
    """The file is larger than the limit of a JSON body."""
    text = "x" * (17 * 1024 * 1024)
    file = keep(tenant.admin, text)
    assert tenant.admin.get(f"{FILES}/{file}/content").content == text.encode()
    tenant.admin.delete(f"{FILES}/{file}").raise_for_status()


def test_attach_file_twice_returns_same_document(tenant: Tenant) -> None:
    file = keep(tenant.admin)
    first, second = attach(tenant.admin, file), attach(tenant.admin, file, attributes={"a": 1})
    assert (first["document"], second["attributes"]) == (second["document"], {"a": 1})
    assert len(tenant.admin.get(f"{STORE}/files").json()["data"]) == 1


def test_vector_store_chunking_strategy_is_applied(tenant: Tenant) -> None:
    static = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 20}}
    made = tenant.admin.post(STORES, json={"chunking_strategy": static}).json()
    file = attach(tenant.admin, keep(tenant.admin), f"{STORES}/{made['id']}", chunking_strategy=static)
    assert file["chunking_strategy"] == static
    other = {"type": "static", "static": {"max_chunk_size_tokens": 50, "chunk_overlap_tokens": 20}}
    body = {"file_id": keep(tenant.admin, "Another."), "chunking_strategy": other}
    error = failure(tenant.admin.post(f"{STORES}/{made['id']}/files", json=body), 400, "invalid")
    assert "at most 100 tokens" in error["message"]


@pytest.mark.parametrize(("size", "overlap"), [(800, 400), (4096, 0), (600, 599), (8192, 4096)])
def test_vector_store_chunk_sizes_above_model_limit_are_reduced(tenant: Tenant, size: int, overlap: int) -> None:
    static = {"type": "static", "static": {"max_chunk_size_tokens": size, "chunk_overlap_tokens": overlap}}
    reply = tenant.admin.post(STORES, json={"chunking_strategy": static}).raise_for_status().json()
    assert [warning["code"] for warning in reply["warnings"]] == ["chunk_sizes_reduced"]
    assert "reads at most" in reply["warnings"][0]["message"]
    store = f"{STORES}/{reply['id']}"
    assert tenant.admin.get(store).json()["warnings"] == []
    file = attach(tenant.admin, keep(tenant.admin), store, chunking_strategy=static)
    reduced = file["chunking_strategy"]["static"]
    assert 0 <= reduced["chunk_overlap_tokens"] < reduced["max_chunk_size_tokens"] < size
    batch = {"file_ids": [keep(tenant.admin, "Another.")], "chunking_strategy": static}
    assert tenant.admin.post(f"{store}/file_batches", json=batch).status_code == 200


def test_file_with_default_sizes_of_openai_gets_chunking_of_its_store(tenant: Tenant) -> None:
    static = {"type": "static", "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}}
    file = attach(tenant.admin, keep(tenant.admin), chunking_strategy=static)
    assert file["chunking_strategy"]["static"] == {"max_chunk_size_tokens": 170, "chunk_overlap_tokens": 0}
    body = {"file_id": keep(tenant.admin, "A third text."), "chunking_strategy": static}
    reply = tenant.admin.post(f"{STORE}/files", json=body).json()
    assert [warning["code"] for warning in reply["warnings"]] == ["chunk_sizes_reduced"]


def test_knowledge_base_key_sees_only_its_files(tenant: Tenant) -> None:
    ours = keep(tenant.admin)
    client = tenant.create_client("admin", knowledge_bases=["default"])
    failure(client.get(f"{FILES}/{ours}"), 404, "file_not_found")
    failure(client.post(f"{STORE}/files", json={"file_id": ours}), 404, "file_not_found")
    theirs = keep(client, "Another.")
    assert [file["id"] for file in client.get(FILES).json()["data"]] == [theirs]
    assert {file["id"] for file in tenant.admin.get(FILES).json()["data"]} == {ours, theirs}
    attach(client, theirs)
    failure(client.post(STORES, json={"name": "mine"}), 403, "forbidden")


def test_user_key_attaches_file_in_user_scope(tenant: Tenant) -> None:
    client = tenant.create_client("writer", user_id="u")
    other = tenant.create_client("writer", user_id="v")
    file = keep(client)
    document = attach(client, file)["document"]
    scope = tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document}").json()["scope"]
    assert (scope["level"], scope["user_id"]) == ("user", "u")
    batch = batched(client, {"file_ids": [keep(client, "More of u.")]})["id"]
    assert client.get(f"{STORE}/file_batches/{batch}/files").json()["data"]
    for path in (f"{FILES}/{file}", f"{STORE}/files/{file}", f"{STORE}/file_batches/{batch}"):
        assert client.get(path).status_code == 200
        failure(other.get(path), 404)
    assert other.get(f"{STORE}/files").json()["data"] == []


def test_file_upload_counts_against_quotas(service: Service) -> None:
    tenant = service.create_tenant("small")
    service.operator.patch(
        f"/v1/tenants/{tenant.id}", json={"quotas": {"stored_bytes": 100, "upload_bytes": 80}}
    ).raise_for_status()
    tenant = Tenant(service, tenant.id, tenant.key, service.create_client(tenant.key))
    file = keep(tenant.admin, "x" * 70)
    full = tenant.admin.post(FILES, files={"file": ("b.txt", b"y" * 40)}, data={"purpose": "assistants"})
    error = failure(full, 429, "quota_exceeded")
    assert error["type"] == "rate_limit_error"
    assert full.headers["x-should-retry"] == "false"
    failure(tenant.admin.post(FILES, files={"file": ("b.txt", b"y" * 90)}, data={"purpose": "assistants"}), 413)
    failure(tenant.admin.post(f"{STORE}/files", json={"file_id": file}), 429, "quota_exceeded")
    assert len(tenant.admin.get(FILES).json()["data"]) == 1
    assert tenant.admin.delete(f"{FILES}/{file}").status_code == 200
    attach(tenant.admin, keep(tenant.admin, "z" * 40))


def test_deleted_file_and_store_leave_no_rows(service: Service) -> None:
    tenant = service.create_tenant("brief")
    file, kept = keep(tenant.admin), keep(tenant.admin, "Kept.")
    attach(tenant.admin, file)
    key = f"{decode_id('ten', tenant.id)}/{decode_id('file', file)}"
    folder = service.settings.server.data_dir / "objects" / key
    assert list(folder.iterdir())
    assert tenant.admin.delete(f"{FILES}/{file}").json() == {"id": file, "object": "file", "deleted": True}
    assert not folder.exists() or not list(folder.iterdir())
    assert tenant.admin.get(f"{STORE}/files").json()["data"] == []
    tenant.admin.post(f"{STORE}/file_batches", json={"file_ids": [kept]}).raise_for_status()
    deletion = service.operator.delete(f"/v1/tenants/{tenant.id}").headers["carrel-deletion-id"]
    left = finished(service.operator, deletion)
    assert {name: left[name] for name in (*TABLES, "objects")} == dict.fromkeys((*TABLES, "objects"), 0)


@pytest.mark.capability("openai-batch")
def test_file_batch_reports_progress_until_complete(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant("batches")
    files = [keep(tenant.admin, f"Text {number}.") for number in range(3)]
    archive = keep(tenant.admin, "PK\x05\x06" + "\0" * 18, name="a.zip")
    body = {"files": [{"file_id": one, "attributes": {"n": 1}} for one in [*files, archive]]}
    with fragile.held():
        batch = tenant.admin.post(f"{STORE}/file_batches", json=body).json()
        assert (batch["status"], batch["file_counts"]["in_progress"]) == ("in_progress", 4)
        listed = tenant.admin.get(f"{STORE}/file_batches/{batch['id']}/files", params={"order": "asc"}).json()["data"]
        assert [(one["id"], one["attributes"]) for one in listed[:3]] == [(one, {"n": 1}) for one in files]
        assert {one["filename"] for one in listed} == {"a.txt", "a.zip"}
        counts = tenant.admin.get(STORE).json()["file_counts"]
        assert (counts["completed"], counts["failed"]) == (0, 0)
        assert counts["in_progress"] >= 3
    done = batched(tenant.admin, {"file_ids": files})
    assert done["file_counts"]["completed"] == 3
    found = tenant.admin.get(f"{STORE}/file_batches/{batch['id']}").json()
    assert (found["status"], found["file_counts"]["completed"], found["file_counts"]["failed"]) == ("completed", 3, 1)
    failed = tenant.admin.get(f"{STORE}/file_batches/{batch['id']}/files", params={"filter": "failed"}).json()["data"]
    assert [(one["id"], one["last_error"]["reason"]) for one in failed] == [(archive, "unsupported_media_type")]
    counts = tenant.admin.get(STORE).json()["file_counts"]
    assert (counts["completed"], counts["in_progress"]) == (3, 0)


def test_incomplete_search_without_results_is_503(fragile: BreakableService) -> None:
    """An incomplete search without results does not prove that there are no results."""
    tenant = fragile.service.create_tenant("broken")
    tenant.add_text("Lemurs live on Madagascar.")
    fragile.embedding.fail(503, times=None)
    try:
        found = tenant.admin.post(f"{STORE}/search", json={"query": "lemurs"}).json()
        assert [hit["content"][0]["text"] for hit in found["data"]] == ["Lemurs live on Madagascar."]
        assert [warning["code"] for warning in found["warnings"]] == ["embedding_unavailable"]
        error = failure(
            tenant.admin.post(f"{STORE}/search", json={"query": "zebra crossing"}), 503, "search_unavailable"
        )
        assert error["type"] == "server_error"
    finally:
        fragile.embedding.reset()
    whole = {"query": "zebra", "filters": {"type": "eq", "key": "n", "value": 1}}
    assert tenant.admin.post(f"{STORE}/search", json=whole).json()["data"] == []


def test_score_threshold_compares_with_returned_score(tenant: Tenant) -> None:
    """With lexical search alone, the last result's fused score is 0.

    A threshold on that score would drop a good result.
    """
    for name in ("heron", "heron fish", "heron pond", "fish pond", "otter"):
        tenant.add_text(f"A {name} by the water, early in the morning.", external_id=name)

    def searched(**options: Any) -> list[dict[str, Any]]:
        weights = {"embedding_weight": 0, "text_weight": 1}
        body = {"query": "the heron fishes", "ranking_options": {"ranker": "none", "hybrid_search": weights, **options}}
        found: list[dict[str, Any]] = tenant.admin.post(f"{STORE}/search", json=body).json()["data"]
        return found

    everything = searched()
    assert [one["score"] for one in everything] == [one["similarity"] for one in everything]
    assert len(everything) == 5
    middle = sorted(one["score"] for one in everything)[2]
    kept = [one for one in everything if one["score"] >= middle]
    assert searched(score_threshold=middle - 1e-6) == kept
    assert len(kept) == 3


def test_lexical_scores_above_one_keep_their_order(tenant: Tenant) -> None:
    """BM25 scores exceed 1; cut at 1, all of them would be equal."""
    settings = {"name": "words", "retrieval": {"strategy": "lexical"}}
    tenant.admin.post("/v1/knowledge-bases", json=settings).raise_for_status()
    for number in range(1, 5):
        tenant.add_text(f"{'osprey ' * number} {'nest ' * (number > 2)} by the water {number}.", kb="words")
    for number in range(8):
        tenant.add_text(f"Nothing of the kind, {number}.", kb="words")
    store = "/openai/v1/vector_stores/words"
    found = tenant.admin.post(f"{store}/search", json={"query": "osprey nest"}).json()["data"]
    first = tenant.admin.post("/v1/knowledge-bases/words/search", json={"query": "osprey nest"}).json()["results"]
    assert first[1]["score"] > 1
    scores = [one["score"] for one in found]
    assert scores == pytest.approx([one["score"] / first[0]["score"] for one in first], abs=1e-5)
    assert (len(set(scores)), scores[0]) == (4, 1)
    asked = {"knowledge_id": "words", "query": "osprey nest", "retrieval_setting": {"top_k": 10}}
    records = tenant.admin.post("/dify/retrieval", json=asked).json()["records"]
    assert [record["score"] for record in records] == scores


def test_score_threshold_zero_drops_nothing() -> None:
    """A negative similarity is returned as 0 too."""
    asked = [
        VectorStoreSearchRequest.model_validate({"query": "x", "ranking_options": {"score_threshold": least}})
        for least in (None, 0, 0.5)
    ]
    thresholds = [one.to_search_request("kb", user_id=None, has_reranker=False).score_threshold for one in asked]
    assert thresholds == [None, None, 0.5]


def test_foreign_document_named_like_a_file_does_not_block_attach(tenant: Tenant) -> None:
    owner, other = tenant.create_client("writer", user_id="v"), tenant.create_client("writer", user_id="u")
    file = keep(owner)
    named = []
    for client, scope in ((other, {"user_id": "u"}), (tenant.admin, {})):
        body = {"text": "Not made of it.", "external_id": file, **scope}
        reply = client.post("/v1/knowledge-bases/default/documents", json=body)
        assert reply.status_code == 202, reply.text
        named.append(reply.json()["id"])
    attach(owner, file)
    assert owner.delete(f"{FILES}/{file}").status_code == 200
    failure(owner.get(f"{FILES}/{file}"), 404, "file_not_found")
    left = tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    assert {one["id"] for one in left} == set(named)


def test_deletion_receipt_names_retained_files(tenant: Tenant) -> None:
    file, other, third = (keep(tenant.admin, f"Number {number}.") for number in range(3))
    document = attach(tenant.admin, file)["document"]
    gone = tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{document}")
    receipt = settled(tenant.admin, gone.headers["carrel-deletion-id"])
    assert (receipt["retained_files"], "stored_file" in receipt["retained"]) == (1, True)
    assert tenant.admin.get(f"{FILES}/{file}/content").text == "Number 0."
    attach(tenant.admin, other)
    tenant.add_text("It is called so.", external_id=third)
    many = tenant.admin.delete(
        "/v1/knowledge-bases/default/documents", params={"filter": "{}", "confirm": "default"}
    ).json()
    assert many["deleted"] == 2
    assert settled(tenant.admin, many["deletion"])["retained_files"] == 1
    store = tenant.admin.post(STORES, json={"name": "brief"}).json()["id"]
    for one in (file, other):
        attach(tenant.admin, one, f"{STORES}/{store}")
    withdrawn = tenant.admin.delete(f"/v1/knowledge-bases/{store}").headers["carrel-deletion-id"]
    assert settled(tenant.admin, withdrawn)["retained_files"] == 2


def test_file_with_expiry_expires(service: Service, tenant: Tenant) -> None:
    fields = {"purpose": "assistants", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    made = tenant.admin.post(FILES, files={"file": ("a.txt", b"Brief.")}, data=fields).json()
    assert made["expires_at"] == made["created_at"] + 3600
    document = attach(tenant.admin, made["id"])["document"]
    assert tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document}").json()["expires_at"]
    run(
        service.urls.owner,
        "update stored_file set expires_at = now() where tenant_id = $1 returning 1",
        decode_id("ten", tenant.id),
    )
    failure(tenant.admin.get(f"{FILES}/{made['id']}"), 404, "file_not_found")
    half = {"purpose": "assistants", "expires_after[seconds]": "3600"}
    failure(tenant.admin.post(FILES, files={"file": ("a.txt", b"Brief.")}, data=half), 400, "invalid")


def test_openai_retry_replays_response(tenant: Tenant) -> None:
    once: dict[str, Any] = {"headers": {"Idempotency-Key": "one"}, "json": {"name": "once"}}
    first, again = (tenant.admin.post(STORES, **once) for _ in range(2))
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()
    reused = tenant.admin.post(STORES, headers={"Idempotency-Key": "one"}, json={"name": "twice"})
    failure(reused, 409, "idempotency_key_reused")
    assert reused.headers["x-should-retry"] == "false"


def test_broken_pdf_file_fails_with_reason(tenant: Tenant) -> None:
    file = keep(tenant.admin, "%PDF-1.7\nnothing of a PDF", name="a.pdf")
    document = attach(tenant.admin, file)["document"]
    tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document}/events")  # ends when the document has failed
    found = tenant.admin.get(f"{STORE}/files/{file}").json()
    assert (found["status"], found["last_error"]["code"]) == ("failed", "invalid_file")
    listed = tenant.admin.get(f"{STORE}/files", params={"filter": "failed"}).json()
    assert [one["id"] for one in listed["data"]] == [file]
    assert tenant.admin.get(f"{STORE}").json()["file_counts"]["failed"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", FILES, {"purpose": "assistants"}),
        ("POST", STORES, {"metadata": {"a": 1}}),
        ("POST", STORES, {"metadata": {str(n): "" for n in range(17)}}),
        ("POST", STORES, {"file_ids": ["file_x"] * 501}),
        ("POST", STORES, {"unknown": 1}),
        ("POST", STORES, {"name": "a\0b"}),
        ("POST", f"{STORE}/files", {"file_id": "file_x", "attributes": {"a": {"b": 1}}}),
        ("POST", f"{STORE}/files", {"file_id": "file_x", "attributes": {"$a": 1}}),
        ("POST", f"{STORE}/file_batches", {}),
        ("POST", f"{STORE}/file_batches", {"file_ids": ["a"], "files": [{"file_id": "a"}]}),
        ("POST", f"{STORE}/search", {}),
        ("POST", f"{STORE}/search", {"query": "a", "filters": {"type": "eq", "key": "a", "value": [1]}}),
        ("POST", f"{STORE}/search", {"query": "a", "filters": {"type": "gt", "key": "a", "value": "word"}}),
        ("POST", f"{STORE}/search", {"query": "a", "filters": {"type": "and", "filters": []}}),
        ("GET", f"{STORES}?limit=101", None),
        ("GET", f"{STORES}?after=kb_x", None),
        ("GET", f"{STORES}?after=a&before=b", None),
        ("GET", f"{STORE}/files?filter=soon", None),
        ("GET", f"{STORE}/files?after=doc_x", None),
    ],
    ids=str,
)
def test_openai_invalid_request_gets_invalid_error(tenant: Tenant, method: str, path: str, body: Any) -> None:
    error = failure(tenant.admin.request(method, path, json=body), 400, "invalid")
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("value", ["1e999", "NaN", "1" + "0" * 400, '"\\ud800"', '"\\u0000"', "null", "[1]"])
def test_openai_unstorable_values_are_refused(tenant: Tenant, value: str) -> None:
    file = keep(tenant.admin)
    json_type = {"Content-Type": "application/json"}
    for path, body in (
        (f"{STORE}/files", f'{{"file_id": "{file}", "attributes": {{"a": {value}}}}}'),
        (f"{STORE}/search", f'{{"query": "a", "filters": {{"type": "eq", "key": "a", "value": {value}}}}}'),
    ):
        failure(tenant.admin.post(path, content=body, headers=json_type), 400)


@pytest.mark.parametrize("query", ["", [], 5])
def test_openai_error_param_is_callers_field_name(tenant: Tenant, query: Any) -> None:
    error = failure(tenant.admin.post(f"{STORE}/search", json={"query": query}), 400, "invalid")
    assert error["param"] == "query"
    assert "[" not in error["message"]


def test_openai_unknown_route_and_large_body_get_openai_errors(tenant: Tenant) -> None:
    failure(tenant.admin.get("/openai/v1/models"), 404, "not_found")
    failure(tenant.admin.put(STORES), 405, "method_not_allowed")
    failure(tenant.admin.post(STORES, content=b"x" * 17 * 1024 * 1024), 413, "too_large")
    deep: dict[str, Any] = {"type": "eq", "key": "a", "value": 1}
    for _ in range(200):
        deep = {"type": "and", "filters": [deep]}
    error = failure(tenant.admin.post(f"{STORE}/search", json={"query": "a", "filters": deep}), 400, "invalid")
    assert error["param"].startswith("filters")


def test_openapi_lists_errors_of_openai_api(service: Service) -> None:
    paths = service.create_client().get("/openapi.json").json()["paths"]
    ours = {path: told for path, told in paths.items() if path.startswith("/openai/")}
    assert len(ours) >= 12
    for path, operations in ours.items():
        for method, operation in operations.items():
            errors = {status: told for status, told in operation["responses"].items() if status[0] in "45"}
            assert {"400", "401", "403", "413", "429", "500", "503"} <= errors.keys(), (method, path)
            assert "422" not in errors
            for status, told in errors.items():
                assert set(told["content"]) == {"application/json"}, (method, path, status)
