"""Quotas over HTTP: set by the operator, enforced under concurrency, freed by deletion, separate for each tenant."""

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import timedelta
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import decode_id
from app.principal import ROW_QUOTAS, Quotas
from app.settings import KeyLimits
from harness.running_service import Service, Tenant
from harness.wait_until import get_day_with_time_left
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
NONE = dict.fromkeys(field.name for field in fields(Quotas))
# Quotas of a tenant without its own settings, in one process of the service.
DEFAULTS = {**ROW_QUOTAS, "searches_per_second": 100, "concurrent_searches": 100, "event_streams": 250}
CLIENTS = 24


def set_quotas(tenant: Tenant, **quotas: float | None) -> dict[str, Any]:
    reply = tenant.service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": quotas})
    reply.raise_for_status()
    found: dict[str, Any] = reply.json()["quotas"]
    return found


def upload(tenant: Tenant, text: str, **fields: Any) -> httpx2.Response:
    return tenant.admin.post(DOCUMENTS, json={"text": text, **fields})


def refused(reply: httpx2.Response, limit: int, code: str = "quota_exceeded") -> dict[str, Any]:
    """Return the problem of a 429 with the limit, nothing remaining, and the time until the next attempt."""
    found = assert_problem(reply, 429, code)
    assert reply.headers["RateLimit-Limit"] == str(limit)
    assert reply.headers["RateLimit-Remaining"] == "0"
    assert reply.headers["RateLimit-Reset"] == reply.headers["Retry-After"]
    assert int(reply.headers["Retry-After"]) >= 1
    return found


async def counted(service: Service, tenant: Tenant) -> tuple[dict[str, int] | None, dict[str, int]]:
    """Return the counts of the triggers and the real counts."""
    connection = await asyncpg.connect(service.urls.owner)
    own = decode_id("ten", tenant.id)
    try:
        # One snapshot: a worker may be deleting between two of them.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            kept = await connection.fetchrow(
                "select documents, stored_bytes, chunks from tenant_usage where tenant_id = $1", own
            )
            true = await connection.fetchrow(
                "select count(*) documents, coalesce(sum(bytes), 0)::bigint stored_bytes,"
                " coalesce(sum(chunk_count), 0) chunks from document where tenant_id = $1", own
            )  # fmt: skip
    finally:
        await connection.close()
    assert true is not None
    return dict(kept) if kept else None, dict(true)


@pytest.mark.capability("quota-set")
def test_quotas_can_be_set_changed_and_removed(service: Service) -> None:
    made = service.operator.post("/v1/tenants", json={"name": "limited", "quotas": {"documents": 3, "chunks": 100}})
    assert made.status_code == 201
    assert made.json()["quotas"] == {**NONE, "documents": 3, "chunks": 100}
    path = f"/v1/tenants/{made.json()['id']}"
    reply = service.operator.patch(path, json={"quotas": {"chunks": None, "searches_per_second": 0.5}})
    assert reply.json()["quotas"] == {**NONE, "documents": 3, "searches_per_second": 0.5}
    assert service.operator.patch(path, json={"name": "renamed"}).json()["quotas"]["documents"] == 3
    assert service.operator.get(path).json()["quotas"] == reply.json()["quotas"]
    me = service.create_client(made.json()["api_key"]["key"]).get("/v1/me").json()
    upload_bytes = service.settings.server.max_upload_bytes
    assert me["limits"] == {
        **DEFAULTS,
        "documents": 3,
        "searches_per_second": 0.5,
        "upload_bytes": upload_bytes,
    }
    assert me["usage"] == {"documents": 0}


def test_tenant_without_quotas_has_defaults(tenant: Tenant) -> None:
    assert tenant.service.operator.get(f"/v1/tenants/{tenant.id}").json()["quotas"] == NONE
    me = tenant.admin.get("/v1/me").json()
    assert me["usage"] == {}
    assert me["limits"] == {**DEFAULTS, "upload_bytes": tenant.service.settings.server.max_upload_bytes}
    assert tenant.admin.post("/v1/search", json={"query": "x"}).headers["RateLimit-Limit"] == "200"


@pytest.mark.parametrize(
    "quotas",
    [
        {"documents": -1}, {"documents": 1.5}, {"documents": "many"}, {"documents": 2**53}, {"stored_bytes": -1},
        {"upload_bytes": 0}, {"searches_per_second": 0}, {"searches_per_second": -1}, {"concurrent_ingestions": 0},
        {"concurrent_ingestions": 1001}, {"wishes": 3}, [], "none",
    ],
)  # fmt: skip
def test_invalid_quotas_are_422(service: Service, tenant: Tenant, quotas: Any) -> None:
    assert_problem(service.operator.post("/v1/tenants", json={"name": "x", "quotas": quotas}), 422, "invalid")
    assert_problem(service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": quotas}), 422, "invalid")


@pytest.mark.parametrize("body", [{}, {"quotas": None}, {"name": None}, {"name": "x", "quotas": None}])
def test_tenant_update_without_changes_is_422(service: Service, tenant: Tenant, body: Mapping[str, Any]) -> None:
    assert_problem(service.operator.patch(f"/v1/tenants/{tenant.id}", json=body), 422, "invalid")


def test_tenant_cannot_set_its_quotas(tenant: Tenant) -> None:
    assert_problem(tenant.admin.patch(f"/v1/tenants/{tenant.id}", json={"quotas": {"documents": 9}}), 403, "forbidden")


@pytest.mark.capability("quota-race")
async def test_document_quota_race_admits_exact_number(service: Service, tenant: Tenant) -> None:
    places = 5
    set_quotas(tenant, documents=places)
    stranger = service.create_tenant("unlimited")

    def add(number: int) -> httpx2.Response:
        with httpx2.Client(base_url=service.url, headers=tenant.admin.headers, timeout=60) as client:
            return client.post(DOCUMENTS, json={"text": f"A text with the number {number}."})

    with ThreadPoolExecutor(CLIENTS) as pool:
        replies = list(pool.map(add, range(CLIENTS)))
    assert Counter(reply.status_code for reply in replies) == {202: places, 429: CLIENTS - places}
    for reply in replies:
        if reply.status_code == 429:
            assert str(places) in refused(reply, places)["detail"]
    kept, true = await counted(service, tenant)
    assert kept is not None
    assert (kept["documents"], kept["stored_bytes"]) == (true["documents"], true["stored_bytes"])
    assert true["documents"] == places
    assert upload(stranger, "What others may does not touch this one.").status_code == 202

    # A new version is no new document, and a freed place is available immediately.
    there = next(reply for reply in replies if reply.status_code == 202).json()
    assert upload(tenant, f"A text with the number {[r.status_code for r in replies].index(202)}.").status_code == 200
    refused(upload(tenant, "One more."), places)
    tenant.admin.delete(f"{DOCUMENTS}/{there['id']}").raise_for_status()
    assert upload(tenant, "One more.").status_code == 202
    refused(upload(tenant, "Another one."), places)


async def test_refused_upload_leaves_no_object(service: Service, tenant: Tenant) -> None:
    set_quotas(tenant, documents=0)
    refused(upload(tenant, "There is no place for this."), 0)
    folder = service.settings.server.data_dir / "objects" / str(decode_id("ten", tenant.id))
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_batch_upload_quota_refuses_single_files(tenant: Tenant) -> None:
    set_quotas(tenant, documents=2)
    files = [("file", (f"{number}.txt", f"Text {number}.".encode())) for number in range(4)]
    items = tenant.admin.post(f"{DOCUMENTS}/batch", files=files).json()["items"]
    assert [item["status"] for item in items] == [202, 202, 429, 429]
    assert items[3]["error"]["code"] == "quota_exceeded"


def test_stored_bytes_quota_limits_uploads(tenant: Tenant) -> None:
    set_quotas(tenant, stored_bytes=100)
    assert upload(tenant, "x" * 60, external_id="a").status_code == 202
    refused(upload(tenant, "y" * 41, external_id="b"), 100)
    assert upload(tenant, "y" * 40, external_id="b").status_code == 202
    refused(upload(tenant, "z" * 61, external_id="a"), 100)
    assert upload(tenant, "z" * 50, external_id="a").status_code == 202
    assert tenant.admin.get("/v1/me").json()["usage"] == {"stored_bytes": 90}


async def test_document_above_chunk_quota_fails(service: Service, tenant: Tenant) -> None:
    long = "\n\n".join(f"# Part {number}\n\nThe heron of part {number} stands still." for number in range(6))
    first = tenant.add_text("# One\n\nThe heron.", external_id="a")
    assert (first["status"], first["chunk_count"]) == ("ready", 1)
    set_quotas(tenant, chunks=3)
    failed = tenant.add_text(long, external_id="b")
    assert failed["status"] == "failed"
    assert (failed["error"]["code"], failed["error"]["retryable"]) == ("quota_exceeded", False)
    # A new version over the quota leaves the old version unchanged.
    again = tenant.add_text(long, external_id="a")
    assert (again["status"], again["version"], again["live_version"]) == ("failed", 2, 1)
    assert len(tenant.admin.post("/v1/search", json={"query": "heron"}).json()["results"]) == 1
    assert tenant.admin.get("/v1/me").json()["usage"] == {"chunks": 1}
    set_quotas(tenant, chunks=6)
    assert tenant.admin.delete(f"{DOCUMENTS}/{again['id']}").is_success
    path = f"{DOCUMENTS}/{failed['id']}"
    assert tenant.admin.post(f"{path}/reindex").status_code == 202
    assert settled(tenant, path)["status"] == "ready"
    kept, true = await counted(service, tenant)
    assert kept == true == {"documents": 1, "stored_bytes": len(long), "chunks": 6}


def settled(tenant: Tenant, path: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (document := tenant.admin.get(path).json())["status"] not in ("ready", "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found: dict[str, Any] = document
    return found


async def test_every_deletion_reduces_tenant_usage(service: Service, tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "other"}).raise_for_status()
    for number in range(4):
        tenant.add_text(f"The tern number {number}.", metadata={"even": number % 2 == 0}, external_id=str(number))
    tenant.add_text("The tern elsewhere.", kb="other")
    assert (await counted(service, tenant))[0] is None
    set_quotas(tenant, documents=10)
    for path, query, left in (
        (DOCUMENTS, {"filter": '{"even": true}'}, 3),
        (DOCUMENTS, {"external_id": "1"}, 2),
        ("/v1/knowledge-bases/other", {}, 1),
    ):
        assert tenant.admin.delete(path, params=query).is_success
        deadline = time.monotonic() + 30
        while (found := await counted(service, tenant))[1]["documents"] != left:
            assert time.monotonic() < deadline
        assert found[0] == found[1]
    set_quotas(tenant, documents=None)
    assert (await counted(service, tenant))[0] is None


async def test_quota_set_during_uploads_counts_each_once(service: Service, tenant: Tenant) -> None:
    """Uploads that run when a quota is set count once, whichever transaction commits first."""

    def add(number: int) -> int:
        with httpx2.Client(base_url=service.url, headers=tenant.admin.headers, timeout=60) as client:
            statuses = [client.post(DOCUMENTS, json={"text": f"Text {number} {part}."}) for part in range(6)]
        return sum(reply.status_code == 202 for reply in statuses)

    with ThreadPoolExecutor(9) as pool:
        adding = [pool.submit(add, number) for number in range(8)]
        for _ in range(8):
            set_quotas(tenant, documents=1000)
            set_quotas(tenant, documents=None)
        set_quotas(tenant, documents=1000)
        assert sum(one.result() for one in adding) == 48
    deadline = time.monotonic() + 60
    while tenant.admin.get(DOCUMENTS, params={"status": "queued"}).json()["items"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    kept, true = await counted(service, tenant)
    assert kept is not None
    assert kept["documents"] == true["documents"] == 48


def test_upload_size_limit_is_minimum_of_tenant_and_key(tenant: Tenant) -> None:
    set_quotas(tenant, upload_bytes=3000)
    key = tenant.create_client("writer", quotas={"upload_bytes": 2000})
    assert [one.get("/v1/me").json()["limits"]["upload_bytes"] for one in (tenant.admin, key)] == [3000, 2000]
    for client, limit in ((tenant.admin, 3000), (key, 2000)):
        for size, status in ((limit - 100, 202), (limit + 1, 413)):
            file = {"file": ("a.txt", (f"{limit} {status} " + "x" * size)[:size].encode())}
            reply = client.post(DOCUMENTS, files=file)
            assert reply.status_code == status, (limit, size, reply.text)
        assert_problem(client.post(DOCUMENTS, json={"text": "x" * (limit + 1)}), 413, "too_large")
        assert_problem(
            client.post(f"{DOCUMENTS}/batch", files={"file": ("a.txt", b"x" * (limit + 1))}), 413, "too_large"
        )


def test_key_shows_its_quotas(tenant: Tenant) -> None:
    quotas = {**dict.fromkeys(KeyLimits.model_fields), "documents": 3, "searches_per_second": 5.0}
    given = {"searches_per_second": 5, "documents": 3}
    made = tenant.admin.post("/v1/api-keys", json={"name": "k", "role": "reader", "quotas": given}).json()
    assert made["quotas"] == quotas
    assert tenant.admin.get("/v1/api-keys").json()["items"][0]["quotas"] == quotas
    rotated = tenant.admin.post(f"/v1/api-keys/{made['id']}/rotate").json()
    assert rotated["quotas"] == quotas
    for wrong in ({"wishes": 3}, {"documents": -1}, {"concurrent_ingestions": 0}, {"searches_per_second": 0}, None):
        body = {"name": "k", "role": "reader", "quotas": wrong}
        assert_problem(tenant.admin.post("/v1/api-keys", json=body), 422, "invalid")


def ask(client: httpx2.Client, path: str = "/v1/search") -> httpx2.Response:
    body = {"query": "heron"} if path.endswith("/search") else {"messages": [{"role": "user", "content": "heron"}]}
    return client.post(path, json=body)


@pytest.mark.capability("quota-rate")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/search", "/v1/knowledge-bases/default/search",
        "/v1/agent-search", "/v1/knowledge-bases/default/agent-search",
    ],
)  # fmt: skip
def test_search_rate_quota_limits_searches(service: Service, tenant: Tenant, path: str) -> None:
    set_quotas(tenant, searches_per_second=0.01)
    first = ask(tenant.admin, path)
    assert first.status_code == 200
    assert (first.headers["RateLimit-Limit"], first.headers["RateLimit-Remaining"]) == ("1", "0")
    assert 90 <= int(first.headers["RateLimit-Reset"]) <= 100
    for client in (tenant.admin, tenant.create_client("reader")):
        found = refused(ask(client, path), 1, "rate_limited")
        assert found["type"] == "urn:carrel:problem:rate_limited"
    assert ask(service.create_tenant("other").admin, path).status_code == 200
    # Other routes are not limited, and an invalid request takes no place.
    assert tenant.admin.get("/v1/me").status_code == 200
    assert_problem(tenant.admin.post("/v1/search", json={}), 422)
    set_quotas(tenant, searches_per_second=None)
    assert ask(tenant.admin, path).headers["RateLimit-Limit"] == "200"


def test_search_rate_burst_is_two_seconds(tenant: Tenant) -> None:
    set_quotas(tenant, searches_per_second=3)
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(reply.status_code for reply in pool.map(lambda _: ask(tenant.admin), range(40)))
    seconds = time.monotonic() - begun
    assert 6 <= statuses[200] <= 6 + 3 * seconds + 1
    assert statuses[429] == 40 - statuses[200]


def test_search_rate_of_key_is_separate(tenant: Tenant) -> None:
    slow, other = tenant.create_client("reader", quotas={"searches_per_second": 0.01}), tenant.create_client("reader")
    assert ask(slow).status_code == 200
    refused(ask(slow), 1, "rate_limited")
    assert ask(other).status_code == 200
    assert ask(tenant.admin).headers["RateLimit-Limit"] == "200"
    # A request that the tenant's limit refuses does not count for the key.
    set_quotas(tenant, searches_per_second=0.01)
    both = tenant.create_client("reader", quotas={"searches_per_second": 0.02})
    assert ask(tenant.admin).status_code == 200
    for _ in range(3):
        refused(ask(both), 1, "rate_limited")
    set_quotas(tenant, searches_per_second=None)
    assert ask(both).status_code == 200


@pytest.mark.capability("quota-tokens")
def test_spent_daily_tokens_queue_documents_until_tomorrow(tenant: Tenant) -> None:
    tomorrow = get_day_with_time_left() + timedelta(days=1)
    assert tenant.add_text("The osprey of today.")["status"] == "ready"
    set_quotas(tenant, embedding_tokens_per_day=1)
    path = f"{DOCUMENTS}/{upload(tenant, 'The osprey of tomorrow.').json()['id']}"
    deadline = time.monotonic() + 30
    while not (waiting := tenant.admin.get(path).json())["warnings"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert waiting["status"] == "queued"
    assert waiting["error"] is None
    assert f"until {tomorrow}T00:00:00Z" in waiting["warnings"][0]["message"]
    assert waiting["warnings"][0]["code"] == "processing_postponed"
    assert tenant.admin.get("/v1/me").json()["usage"]["embedding_tokens_per_day"] >= 1

    # A query without a cached vector is searched by its words.
    query = {"query": "osprey today", "strategy": "hybrid"}
    found = tenant.admin.post("/v1/search", json=query).json()
    assert len(found["results"]) == 1
    assert found["warnings"][0]["code"] == "embedding_quota_exceeded"
    assert found["warnings"][0]["message"].endswith("Only the lexical retriever was used.")
    dimensions = tenant.admin.get("/v1/knowledge-bases/default").json()["embedding"]["dimensions"]
    beside = {"queries": ["osprey tomorrow", {"vector": [1.0] * dimensions}], "strategy": "dense"}
    told = tenant.admin.post("/v1/search", json=beside).raise_for_status().json()
    assert len(told["results"]) == 1
    assert told["warnings"][0]["message"].endswith("Only queries with a provided vector were searched.")
    reply = tenant.admin.post("/v1/search", json={**query, "strategy": "dense"})
    refused(reply, 1)
    assert 0 < int(reply.headers["Retry-After"]) <= 86_400

    set_quotas(tenant, embedding_tokens_per_day=1_000_000)
    done = settled(tenant, path)
    assert (done["status"], done["warnings"]) == ("ready", [])
    assert tenant.admin.post("/v1/search", json={**query, "strategy": "dense"}).json()["warnings"] == []


def test_daily_tokens_of_key_queue_its_documents(tenant: Tenant) -> None:
    get_day_with_time_left()
    writer, other = (
        tenant.create_client("writer", quotas={"embedding_tokens_per_day": 1}),
        tenant.create_client("writer"),
    )
    assert writer.post(DOCUMENTS, params={"wait": 30}, json={"text": "The first owl."}).json()["status"] == "ready"
    path = f"{DOCUMENTS}/{writer.post(DOCUMENTS, json={'text': 'The second owl.'}).json()['id']}"
    assert other.post(DOCUMENTS, params={"wait": 30}, json={"text": "The third owl."}).json()["status"] == "ready"
    deadline = time.monotonic() + 30
    while not tenant.admin.get(path).json()["warnings"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert tenant.admin.get(path).json()["status"] == "queued"


def test_provided_vectors_use_no_tokens(tenant: Tenant) -> None:
    set_quotas(tenant, embedding_tokens_per_day=0)
    body = {"chunks": [{"text": "The ruff.", "vector": [1.0] + [0.0] * 383}]}
    reply = tenant.admin.post(DOCUMENTS, params={"wait": 30}, json=body)
    assert (reply.status_code, reply.json()["status"]) == (201, "ready")


async def test_concurrent_ingestion_quota_limits_claims(service: Service, tenant: Tenant) -> None:
    set_quotas(tenant, concurrent_ingestions=1)
    connection = await asyncpg.connect(service.urls.owner)
    most = "select max_running from tenant_queue where tenant_id = $1"
    own = decode_id("ten", tenant.id)
    assert await connection.fetchval(most, own) == 1
    set_quotas(tenant, concurrent_ingestions=None)
    assert await connection.fetchval(most, own) is None
    await connection.close()
