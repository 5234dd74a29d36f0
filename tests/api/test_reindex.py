"""Reindexing of a document: failed jobs run again, a ready document stays complete, and no job starts twice."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from app.ids import decode_id
from harness.running_service import Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
TEXT = "# Reefs\n\nThe reef grows.\n\n## Corals\n\nA coral is an animal.\n"


@pytest.fixture
def tenant(fragile: BreakableService) -> Tenant:
    return fragile.service.create_tenant("reindexed")


def path_of(document: dict[str, Any]) -> str:
    return f"{DOCUMENTS}/{document['id']}"


def reindex(tenant: Tenant, document: dict[str, Any]) -> dict[str, Any]:
    reply = tenant.create_client("writer").post(f"{path_of(document)}/reindex")
    assert reply.status_code == 202, reply.text
    found: dict[str, Any] = reply.json()
    return found


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def settled(tenant: Tenant, document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def is_settled() -> bool:
        found.update(tenant.admin.get(path_of(document)).json())
        return found["status"] in ("ready", "failed")

    eventually(is_settled)
    return found


def sql(fragile: BreakableService, statement: str, document: dict[str, Any]) -> list[asyncpg.Record]:
    """Run a statement as the owner of the tables; the document is ``$1``."""

    async def run() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(fragile.service.urls.owner)
        try:
            return list(await connection.fetch(statement, decode_id("doc", document["id"])))
        finally:
            await connection.close()

    return asyncio.run(run())


def jobs(fragile: BreakableService, document: dict[str, Any]) -> list[asyncpg.Record]:
    return sql(fragile, "select id, state, attempts, error from job where document_id = $1", document)


def inside(tenant: Tenant, document: dict[str, Any]) -> tuple[Any, Any]:
    """Return all parts of a document that have ids."""
    chunks = tenant.admin.get(f"{path_of(document)}/chunks").json()["items"]
    return chunks, tenant.admin.get(f"{path_of(document)}/tree").json()


def texts(tenant: Tenant, query: str) -> list[str]:
    found = tenant.admin.post("/v1/search", json={"query": query, "strategy": "lexical"}).json()
    return [result["text"] for result in found["results"]]


@pytest.mark.capability("doc-reindex")
def test_reindex_failed_document_becomes_ready(fragile: BreakableService, tenant: Tenant) -> None:
    fragile.embedding.fail(400, times=None)
    try:
        document = tenant.add_text("Given up once.")
    finally:
        fragile.embedding.reset()
    (dead,) = jobs(fragile, document)
    assert (document["status"], document["error"]["stage"], dead["state"]) == ("failed", "embedding", "dead")
    with fragile.held():
        begun = reindex(tenant, document)
        assert (begun["status"], begun["error"], begun["progress"]) == ("queued", None, None)
        (job,) = jobs(fragile, document)
        assert job["id"] != dead["id"]
    found = settled(tenant, document)
    assert (found["status"], found["error"], found["version"], found["live_version"]) == ("ready", None, 1, 1)
    assert texts(tenant, "given") == ["Given up once."]


def test_reindex_ready_document_stays_complete_until_done(fragile: BreakableService, tenant: Tenant) -> None:
    document = tenant.add_text(TEXT, title="Reefs")
    before = inside(tenant, document)
    with fragile.held():
        begun = reindex(tenant, document)
        assert (begun["status"], begun["live_version"]) == ("queued", 1)
        eventually(lambda: tenant.admin.get(path_of(document)).json()["status"] == "embedding")
        assert inside(tenant, document) == before
        assert len(texts(tenant, "coral")) == 1
    found = settled(tenant, document)
    assert {**found, "updated_at": None} == {**document, "updated_at": None}
    assert inside(tenant, document) == before
    assert len(texts(tenant, "coral")) == 1


def test_reindex_failure_leaves_ready_document(fragile: BreakableService, tenant: Tenant) -> None:
    document = tenant.add_text(TEXT)
    before = inside(tenant, document)
    fragile.embedding.fail(400, times=None)
    try:
        reindex(tenant, document)
        found = settled(tenant, document)
    finally:
        fragile.embedding.reset()
    assert (found["status"], found["live_version"], found["chunk_count"]) == ("failed", 1, len(before[0]))
    assert inside(tenant, document) == before
    assert len(texts(tenant, "coral")) == 1
    reindex(tenant, document)
    assert settled(tenant, document)["status"] == "ready"


def test_reindex_running_document_starts_no_second_job(fragile: BreakableService, tenant: Tenant) -> None:
    with fragile.held():
        document = tenant.admin.post(DOCUMENTS, json={"text": "Under way."}).json()
        eventually(lambda: tenant.admin.get(path_of(document)).json()["status"] == "embedding")
        before = jobs(fragile, document)
        for _ in range(3):
            assert reindex(tenant, document)["status"] == "embedding"
        assert jobs(fragile, document) == before
    assert settled(tenant, document)["status"] == "ready"


def test_reindex_waiting_document_retries_immediately(fragile: BreakableService, tenant: Tenant) -> None:
    fragile.embedding.fail(503, times=1, retry_after="500")
    document = tenant.admin.post(DOCUMENTS, json={"text": "Put off for minutes."}).json()
    eventually(lambda: [job["state"] for job in jobs(fragile, document) if job["error"]] == ["ready"])
    late = "select 1 from job where document_id = $1 and run_at > now() + interval '5 min'"
    assert sql(fragile, late, document)
    reindex(tenant, document)
    assert settled(tenant, document)["status"] == "ready"


def test_reindex_before_job_is_settled_starts_new_job(fragile: BreakableService, tenant: Tenant) -> None:
    """The state between the event that a document is ready and the end of its job."""
    document = tenant.add_text("Just done.")
    unsettled = """
        insert into job (tenant_id, id, kind, document_id, payload, state, worker, lease_until)
        select tenant_id, gen_random_uuid(), 'ingest_document', id, '{"version": 1}', 'running', 'x',
               now() + interval '1 h' from document where id = $1 returning id"""
    (job,) = sql(fragile, unsettled, document)
    with fragile.held():
        assert reindex(tenant, document)["status"] == "queued"
        assert len([one for one in jobs(fragile, document) if one["id"] != job["id"]]) == 1
    assert settled(tenant, document)["status"] == "ready"


def test_reindex_uses_newest_version(fragile: BreakableService, tenant: Tenant) -> None:
    document = tenant.add_text("The heron waits.", external_id="bird")
    fragile.embedding.fail(400, times=None)
    try:
        newer = tenant.add_text("The otter dives.", external_id="bird")
    finally:
        fragile.embedding.reset()
    assert (newer["status"], newer["live_version"], newer["version"]) == ("failed", 1, 2)
    assert texts(tenant, "heron otter") == ["The heron waits."]
    reindex(tenant, document)
    found = settled(tenant, document)
    assert (found["status"], found["live_version"]) == ("ready", 2)
    assert texts(tenant, "heron otter") == ["The otter dives."]


def test_reindex_document_of_other_model_is_409(fragile: BreakableService, tenant: Tenant) -> None:
    document = tenant.add_text("Of another model.")
    change = """
        update search_index set identity = jsonb_set(identity, '{model}', '"another"')
         where kb_id = (select kb_id from document where id = $1)"""
    sql(fragile, change, document)
    assert_problem(tenant.admin.post(f"{path_of(document)}/reindex"), 409, "index_mismatch")
    assert tenant.admin.get(path_of(document)).json() == document


def test_reindex_requires_writer(tenant: Tenant) -> None:
    document = tenant.add_text("Not for readers.")
    assert_problem(tenant.create_client("reader").post(f"{path_of(document)}/reindex"), 403, "forbidden")
    assert_problem(tenant.admin.post(f"{DOCUMENTS}/nothing/reindex"), 404, "document_not_found")
    assert_problem(tenant.admin.post(f"{DOCUMENTS}/doc_01h455vb4pex5vsknk084sn02q/reindex"), 404, "document_not_found")


@pytest.mark.capability("doc-title-indexed")
def test_changed_title_is_found_by_its_words(fragile: BreakableService, tenant: Tenant) -> None:
    document = tenant.add_text("The reef grows.", title="Corals")

    def found(*words: str) -> list[int]:
        return [len(texts(tenant, word)) for word in words]

    with fragile.held():
        changed = tenant.create_client("writer").patch(path_of(document), json={"title": "Zebras"})
        assert (changed.status_code, changed.json()["title"], changed.json()["status"]) == (200, "Zebras", "queued")
        assert found("corals", "zebras") == [1, 0]
    assert settled(tenant, document)["title"] == "Zebras"
    assert found("corals", "zebras") == [0, 1]
    again = tenant.add_text("The reef grows.", title="Otters")
    assert (again["id"], again["title"], again["status"]) == (document["id"], "Otters", "ready")
    assert found("corals", "zebras", "otters") == [0, 0, 1]
    same = tenant.admin.patch(path_of(document), json={"title": "Otters", "metadata": {"a": 1}}).json()
    assert (same["metadata"], same["status"], jobs(fragile, document)) == ({"a": 1}, "ready", [])


def test_changed_title_of_other_model_is_409(fragile: BreakableService, tenant: Tenant) -> None:
    document = tenant.add_text("Of one that is not configured.", title="Corals")
    change = """
        update search_index set identity = jsonb_set(identity, '{model}', '"another"')
         where kb_id = (select kb_id from document where id = $1)"""
    sql(fragile, change, document)
    assert_problem(tenant.admin.patch(path_of(document), json={"title": "Zebras"}), 409, "index_mismatch")
    assert tenant.admin.get(path_of(document)).json() == document
    assert tenant.admin.patch(path_of(document), json={"metadata": {"a": 1}}).status_code == 200
