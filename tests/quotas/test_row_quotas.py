"""Every kind of row that a tenant can create has a quota, or a reason why it cannot grow without bound."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx2
import pytest

from app.embedded_postgres import DatabaseUrls
from app.ids import decode_id
from app.principal import ROW_QUOTAS
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

# Tables of tenants without a quota, each with the reason.
BOUNDED = {
    "tenant": "the operator alone creates tenants",
    "search_index": "at most three of a knowledge base: live, building and retired",
    "document": "quota documents, which the operator sets: stored documents are what a tenant pays for",
    "document_object": "one of a stored version; quotas documents and stored_bytes",
    "document_text": "one of a document",
    "document_page": "of a document's text; quota stored_bytes",
    "document_image": "of a document's file; quota stored_bytes",
    "image_caption": "one of a picture of a document; deleted with it",
    "node": "of a document's text; quota stored_bytes",
    "chunk": "quota chunks",
    "chunk_embedding": "one of a chunk",
    "chunk_lexical": "one of a chunk",
    "term_document_frequency": "of the words of chunks; merged by maintenance",
    "index_totals": "of the words of chunks; merged by maintenance",
    "private_frequency": "of the words of chunks; merged by maintenance",
    "chunk_entity": "one of a chunk",
    "entity": "of the entities of chunks; merged by maintenance",
    "private_entity_frequency": "of the entities of chunks; merged by maintenance",
    "relation": "a bounded number of a chunk",
    "node_enrichment": "one of a node",
    "enrichment_result": "one of a section of a document; each costs a paid call",
    "document_enrichment": "one of a document",
    "enrichment_usage": "one of a knowledge base and a day; removed after 40 days",
    "entity_alias": "at most 10,000 of a knowledge base",
    "evaluation_result": "two of an item of an evaluation; quota evaluations",
    "embedding_checkpoint": "of the passages of a document; deleted when it is ready",
    "embedding_usage": "one of a model and a day",
    "api_key_use": "one of a key; quota api_keys",
    "key_usage": "one of a key; quota api_keys",
    "usage_day": "one of a key and a day; quota api_keys",
    "rate_bucket": "one of a key; quota api_keys",
    "tenant_usage": "one of a tenant",
    "row_allowance": "one of a quota",
    "quota_lock": "one of a tenant",
    "worker_heartbeat": "of the system tenant",
    "job": "one at a time of a document version, a knowledge base, a deletion or a webhook delivery",
    "tenant_queue": "one of a tenant",
    "provider_rate_limit": "of the system tenant",
    "deletion": "one of a deletion; removed after CARREL_RECEIPT_RETENTION_DAYS",
    "audit_event": "one of a change; removed after CARREL_AUDIT_RETENTION_DAYS",
    "idempotency_subject": "of a stored response; quota stored_responses",
    "vector_store_labels": "one of a knowledge base; quota knowledge_bases",
    "routing_profile": "one of a search index",
    "routing_vector": "at most twenty of a search index",
    "webhook_delivery": "one of an event and a webhook; quota webhooks, and removed after 30 days",
}


async def test_tenant_tables_have_a_quota_or_a_reason(database: DatabaseUrls) -> None:
    connection = await asyncpg.connect(database.owner)
    try:
        tables = {
            row[0]
            for row in await connection.fetch(
                "select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace"
                " and c.relkind in ('r', 'p') and not c.relispartition and (c.relname = 'tenant' or exists"
                " (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id'))"
            )
        }
        limited = {
            row[0]: bytes(row[1]).split(b"\0")[0].decode()
            for row in await connection.fetch(
                "select t.tgrelid::regclass::text, t.tgargs from pg_trigger t join pg_proc p on p.oid = t.tgfoid"
                " where p.proname ~ '^check_.*_quota$'"
            )
        }
        assert tables == set(limited) | set(BOUNDED)
        assert not set(limited) & set(BOUNDED)
        assert set(limited.values()) == set(ROW_QUOTAS)
        defaults = {name: await connection.fetchval("select default_row_quota($1)", name) for name in limited.values()}
        assert defaults == ROW_QUOTAS
    finally:
        await connection.close()


def set_quotas(tenant: Tenant, **quotas: int | None) -> None:
    tenant.service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": quotas}).raise_for_status()


def posted(path: str, body: Callable[[int], dict[str, Any]]) -> Callable[[Tenant, int], httpx2.Response]:
    return lambda tenant, number: tenant.admin.post(path, json=body(number))


def store_response(tenant: Tenant, number: int) -> httpx2.Response:
    return tenant.admin.post(
        "/v1/knowledge-bases/default/documents",
        json={"text": f"Text {number}."},
        headers={"Idempotency-Key": f"once-{number}-{uuid4()}"},
    )


def add_file(tenant: Tenant, number: int) -> httpx2.Response:
    files = {"file": (f"{number}.txt", f"File {number}.".encode())}
    return tenant.admin.post("/openai/v1/files", files=files, data={"purpose": "assistants"})


def change_prompt(tenant: Tenant, number: int) -> httpx2.Response:
    retrieval = {"strategy": "hybrid", "rewrite_prompt": f"Prompt {number}: {{query}}"}
    return tenant.admin.patch("/v1/knowledge-bases/default", json={"retrieval": retrieval})


def put_agent(tenant: Tenant, number: int) -> httpx2.Response:
    return tenant.admin.put(f"/v1/agents/agent-{number}", json={"knowledge_bases": ["default"]})


def upload_to_chat(tenant: Tenant, number: int) -> httpx2.Response:
    with tenant.create_client("writer", user_id="user") as client:
        path = "/v1/knowledge-bases/default/documents"
        return client.post(path, json={"text": f"Note {number}.", "chat_id": f"chat-{number}"})


def add_golden_item(tenant: Tenant, number: int) -> httpx2.Response:
    sets = tenant.admin.get("/v1/golden-sets").json()["items"]
    if not sets:
        sets = [tenant.admin.post("/v1/golden-sets", json={"name": "Questions"}).raise_for_status().json()]
    document = tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    known = document[0] if document else tenant.add_text("A text about leave.")
    item = {"query": f"Question {number}?", "relevant": [{"document": known["id"]}]}
    return tenant.admin.post(f"/v1/golden-sets/{sets[0]['id']}/items", json={"items": [item]})


ENTRIES = [
    ("knowledge_bases", 1, posted("/v1/knowledge-bases", lambda n: {"name": f"kb-{n}"})),
    ("knowledge_bases", 1, posted("/openai/v1/vector_stores", lambda n: {"name": f"store-{n}"})),
    ("api_keys", 1, posted("/v1/api-keys", lambda n: {"name": f"key-{n}", "role": "reader"})),
    ("stored_responses", 0, store_response),
    ("files", 0, add_file),
    ("prompt_versions", 0, change_prompt),
    ("agents", 0, put_agent),
    ("chats", 0, upload_to_chat),
    ("golden_sets", 0, posted("/v1/golden-sets", lambda n: {"name": f"set-{n}"})),
    ("golden_items", 0, add_golden_item),
]


@pytest.mark.parametrize(("quota", "present", "create"), ENTRIES)
def test_row_above_quota_is_429_with_advice(
    tenant: Tenant, quota: str, present: int, create: Callable[[Tenant, int], httpx2.Response]
) -> None:
    set_quotas(tenant, **{quota: present + 2})
    for number in range(2):
        reply = create(tenant, number)
        assert reply.is_success, reply.text
    reply = create(tenant, 2)
    assert reply.status_code == 429, reply.text
    assert (reply.headers["RateLimit-Limit"], reply.headers["RateLimit-Remaining"]) == (str(present + 2), "0")
    assert int(reply.headers["Retry-After"]) >= 1
    assert "quota" in reply.text
    assert "operator" in reply.text
    set_quotas(tenant, **{quota: present + 3})
    assert create(tenant, 2).is_success
    assert create(tenant, 3).status_code == 429


def test_row_quota_race_admits_exact_number(service: Service, tenant: Tenant) -> None:
    set_quotas(tenant, knowledge_bases=8)

    def create(number: int) -> int:
        with httpx2.Client(base_url=service.url, headers=tenant.admin.headers, timeout=60) as client:
            return client.post("/v1/knowledge-bases", json={"name": f"kb-{number}"}).status_code

    with ThreadPoolExecutor(12) as pool:
        statuses = Counter(pool.map(create, range(24)))
    assert statuses == {201: 7, 429: 17}
    assert len(tenant.admin.get("/v1/knowledge-bases", params={"limit": 50}).json()["items"]) == 8


def test_deleted_row_frees_quota(tenant: Tenant) -> None:
    set_quotas(tenant, api_keys=2)
    made = tenant.admin.post("/v1/api-keys", json={"name": "k", "role": "reader"}).json()
    assert_problem(tenant.admin.post("/v1/api-keys", json={"name": "l", "role": "reader"}), 429, "quota_exceeded")
    tenant.admin.delete(f"/v1/api-keys/{made['id']}").raise_for_status()
    tenant.admin.post("/v1/api-keys", json={"name": "l", "role": "reader"}).raise_for_status()


def test_limits_of_tenant_show_row_quotas(tenant: Tenant) -> None:
    limits = tenant.admin.get("/v1/me").json()["limits"]
    assert {name: limits[name] for name in ROW_QUOTAS} == ROW_QUOTAS
    set_quotas(tenant, knowledge_bases=3)
    assert tenant.admin.get("/v1/me").json()["limits"]["knowledge_bases"] == 3


async def test_rows_of_ended_keys_are_removed(service: Service, tenant: Tenant) -> None:
    connection = await asyncpg.connect(service.urls.owner)
    own: UUID | None = decode_id("ten", tenant.id)
    try:
        await connection.execute(
            "insert into api_key (tenant_id, id, name, role, key_hash, hint, revoked_at)"
            " select $1, gen_random_uuid(), 'old', 'reader', uuid_send(gen_random_uuid()), 'x',"
            " now() - n * interval '1 s' from generate_series(1, 1500) n", own
        )  # fmt: skip
        tenant.admin.post("/v1/api-keys", json={"name": "new", "role": "reader"}).raise_for_status()
        assert await connection.fetchval("select count(*) from api_key where tenant_id = $1", own) == 1002
    finally:
        await connection.close()
