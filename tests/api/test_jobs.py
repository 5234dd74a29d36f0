"""List of jobs: states, reasons, filters, the operator's view, and the retry of failed jobs."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
import pytest

from app.ids import decode_id, encode_id, generate_id
from harness.databases import DatabaseFactory
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem

JOBS = "/v1/jobs"
CONTENT = "A sentence about a file."


@pytest.fixture(scope="module")
def idle(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without a worker, so that jobs stay as the tests make them."""
    with run_service(build_settings(tmp_path_factory.mktemp("data")), make_database(), worker=False) as running:
        yield running


@pytest.fixture
def tenant(idle: Service) -> Tenant:
    return idle.create_tenant("jobs")


def run_sql(service: Service, sql: str, *values: object) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            return await connection.fetchval(sql, *values)
        finally:
            await connection.close()

    return asyncio.run(run())


def decode(prefix: str, text: str) -> UUID:
    found = decode_id(prefix, text)
    assert found is not None
    return found


def add_job(tenant: Tenant, *, state: str = "ready", delay: str = "-1 min", kind: str = "purge_objects", code: str = "",
            payload: str = "{}", document: str | None = None) -> str:  # fmt: skip
    job = generate_id()
    run_sql(
        tenant.service,
        "insert into job (tenant_id, id, kind, state, run_at, error, payload, document_id, attempts, worker,"
        " lease_until)"
        " values ($1, $2, $3, $4, now() + $5::text::interval, $6::jsonb, $7::jsonb, $8, 2,"
        "         case when $4 = 'running' then 'w' end, case when $4 = 'running' then now() + interval '1 h' end)",
        decode("ten", tenant.id), job, kind, state, delay,
        json.dumps({"code": code, "message": CONTENT}) if code else None, payload,
        None if document is None else decode("doc", document),
    )  # fmt: skip
    return encode_id("job", job)


def list_items(client: httpx2.Client, **query: Any) -> list[dict[str, Any]]:
    reply = client.get(JOBS, params={"limit": 200, **query})
    assert reply.status_code == 200, reply.text
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


def list_ids(client: httpx2.Client, **query: Any) -> list[str]:
    return [item["id"] for item in list_items(client, **query)]


def add_document(tenant: Tenant) -> dict[str, Any]:
    """Upload a text, which stays queued without a worker."""
    reply = tenant.admin.post("/v1/knowledge-bases/default/documents", json={"text": f"Waits {generate_id()}."})
    assert reply.status_code in (200, 202), reply.text
    document: dict[str, Any] = reply.json()
    return document


def fail_document(tenant: Tenant, document: str) -> None:
    """Mark the document and its job as failed, as a worker does after the last attempt."""
    values = (decode("ten", tenant.id), decode("doc", document))
    error = json.dumps({"code": "embedding_unavailable", "message": CONTENT, "retryable": True, "stage": "embedding"})
    run_sql(
        tenant.service, "update document set status = 'failed', error = $3::jsonb where tenant_id = $1 and id = $2",
        *values, error,
    )  # fmt: skip
    run_sql(
        tenant.service,
        "update job set state = 'dead', attempts = 5, error = $3::jsonb where tenant_id = $1 and document_id = $2",
        *values, error,
    )  # fmt: skip


@pytest.mark.capability("jobs")
def test_list_jobs_shows_state_reason_and_stage(tenant: Tenant) -> None:
    expected = {
        add_job(tenant): ("waiting", "worker"),
        add_job(tenant, delay="1 h", code="embedding_unavailable"): ("postponed", "embedding_endpoint"),
        add_job(tenant, delay="1 h", code="quota_exceeded"): ("postponed", "rate_limit"),
        add_job(tenant, delay="1 h", code="internal"): ("postponed", "retry"),
        add_job(tenant, state="running"): ("running", None),
        add_job(tenant, state="dead", code="internal"): ("failed", None),
    }
    items = list_items(tenant.admin)
    assert {item["id"]: (item["state"], item["waiting_for"]) for item in items} == expected
    assert list_ids(tenant.admin) == list(expected)[::-1]
    [failed] = list_items(tenant.admin, state="failed")
    assert failed == {
        **failed, "tenant": tenant.id, "kind": "purge_objects", "stage": None, "document": None, "knowledge_base": None,
        "attempts": 2, "max_attempts": 5, "error": {"code": "internal", "message": CONTENT},
    }  # fmt: skip
    assert failed["age_seconds"] >= 0
    assert tenant.admin.get(f"{JOBS}/{failed['id']}").json() | {"age_seconds": 0} == failed | {"age_seconds": 0}


def test_list_jobs_of_documents_have_stage_and_knowledge_base(tenant: Tenant) -> None:
    kb = tenant.admin.get("/v1/knowledge-bases/default").json()["id"]
    first, second = add_document(tenant)["id"], add_document(tenant)["id"]
    of_kb = add_job(tenant, kind="backfill_metadata", payload=json.dumps({"knowledge_base": str(decode("kb", kb))}))
    add_job(tenant)
    fail_document(tenant, first)
    [failed] = list_items(tenant.admin, document=first)
    assert (failed["stage"], failed["knowledge_base"], failed["kind"]) == ("embedding", kb, "ingest_document")
    [waiting] = list_items(tenant.admin, document=second)
    assert (waiting["stage"], waiting["state"]) == ("queued", "waiting")
    assert list_ids(tenant.admin, knowledge_base=kb) == [of_kb, waiting["id"], failed["id"]]
    assert list_ids(tenant.admin, kind="ingest_document", state="failed") == [failed["id"]]
    assert list_ids(tenant.admin, error_code="embedding_unavailable") == [failed["id"]]
    assert list_ids(tenant.admin, knowledge_base="default", state="failed") == [failed["id"]]
    assert_problem(tenant.admin.get(JOBS, params={"knowledge_base": "nothing"}), 404, "knowledge_base_not_found")
    for query in ({"document": kb}, {"state": "dead"}):
        assert_problem(tenant.admin.get(JOBS, params=query), 422, "invalid")


def test_list_jobs_pages_have_every_job_once(tenant: Tenant) -> None:
    jobs = [add_job(tenant) for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = tenant.admin.get(JOBS, params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == jobs[::-1]


def test_jobs_are_visible_to_their_tenant_and_the_operator_only(idle: Service, tenant: Tenant) -> None:
    job = add_job(tenant, state="dead", code="internal")
    other = idle.create_tenant().admin
    assert list_items(other) == []
    assert_problem(other.get(f"{JOBS}/{job}"), 404, "job_not_found")
    assert_problem(other.post(f"{JOBS}/{job}/retry"), 404, "job_not_found")
    assert other.post(f"{JOBS}/retry").json() == {"retried": 0, "has_more": False}
    assert tenant.admin.get(f"{JOBS}/{job}").json()["state"] == "failed"
    shown = idle.operator.get(f"{JOBS}/{job}").json()
    assert (shown["tenant"], shown["error"]) == (tenant.id, {"code": "internal", "message": None})
    assert CONTENT not in idle.operator.get(JOBS, params={"state": "failed"}).text
    for only in ({"knowledge_bases": ["default"]}, {"user_id": "bob"}):
        narrow = tenant.create_client("admin", **only)
        for reply in (narrow.get(JOBS), narrow.get(f"{JOBS}/{job}"), narrow.post(f"{JOBS}/retry")):
            assert_problem(reply, 403, "forbidden")


@pytest.mark.capability("jobs-retry")
def test_retry_job_queues_failed_document_again(tenant: Tenant) -> None:
    document = add_document(tenant)["id"]
    fail_document(tenant, document)
    [failed] = list_items(tenant.admin, document=document)
    reply = tenant.admin.post(f"{JOBS}/{failed['id']}/retry")
    assert reply.status_code == 202, reply.text
    assert (reply.json()["state"], reply.json()["attempts"], reply.json()["error"]) == ("waiting", 0, None)
    shown = tenant.admin.get(f"/v1/knowledge-bases/default/documents/{document}").json()
    assert (shown["status"], shown["error"]) == ("queued", None)
    assert_problem(tenant.admin.post(f"{JOBS}/{failed['id']}/retry"), 409, "job_not_failed")
    for missing in ("nothing", encode_id("job", generate_id())):
        assert_problem(tenant.admin.post(f"{JOBS}/{missing}/retry"), 404, "job_not_found")
    [event] = tenant.admin.get("/v1/audit-events", params={"action": "job.retry"}).json()["items"]
    assert event["object"] == {"type": "job", "ids": [failed["id"]]}


@pytest.mark.capability("jobs-retry")
def test_retry_jobs_retries_those_of_the_filter(idle: Service, tenant: Tenant) -> None:
    documents = [add_document(tenant)["id"] for _ in range(3)]
    for document in documents:
        fail_document(tenant, document)
    other = add_job(tenant, state="dead", code="internal")
    foreign = add_job(idle.create_tenant(), state="dead", code="internal")
    retried = tenant.admin.post(f"{JOBS}/retry", params={"error_code": "embedding_unavailable"})
    assert (retried.status_code, retried.json()) == (200, {"retried": 3, "has_more": False})
    assert list_ids(tenant.admin, state="failed") == [other]
    assert tenant.admin.post(f"{JOBS}/retry").json() == {"retried": 1, "has_more": False}
    assert idle.operator.get(f"{JOBS}/{foreign}").json()["state"] == "failed"
    assert idle.operator.post(f"{JOBS}/{foreign}/retry").json()["state"] == "waiting"
    [event] = idle.operator.get("/v1/audit-events", params={"action": "job.retry", "limit": 1}).json()["items"]
    assert event["object"]["ids"] == [foreign]


def test_retry_jobs_takes_at_most_500(tenant: Tenant) -> None:
    run_sql(
        tenant.service,
        "insert into job (tenant_id, id, kind, state)"
        " select $1, gen_random_uuid(), 'purge_objects', 'dead' from generate_series(1, 501)",
        decode("ten", tenant.id),
    )
    assert tenant.admin.post(f"{JOBS}/retry").json() == {"retried": 500, "has_more": True}
    assert tenant.admin.post(f"{JOBS}/retry").json() == {"retried": 1, "has_more": False}
