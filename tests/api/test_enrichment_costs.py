"""Costs of the enrichment: limits, replies that are paid once, usage, and deletions without calls."""

import asyncio
from collections.abc import Iterator

import pytest

from harness.consistency import find_inconsistencies
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.running_service import Service, Tenant
from harness.section_writer import SectionWriter
from tests.api.enriching_service import (
    ENRICHMENT,
    ENRICHMENT_TABLES,
    KB,
    TEXT,
    add,
    count_rows,
    enable,
    fetch,
    run_enriching_service,
    tenant_id,
    wait_for,
    wait_for_state,
)


@pytest.fixture(scope="module")
def service(
    running_chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with run_enriching_service(running_chat, make_database, tmp_path_factory.mktemp("enriching")) as running:
        yield running


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant("enriched")


@pytest.mark.capability("enrich-limit")
def test_limit_of_a_document_stops_before_a_call_that_could_exceed_it(
    tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant, max_tokens_per_document=5_000)
    document = add(tenant)
    state = wait_for_state(tenant, document, "capped")
    assert 0 < state["sections_done"] < 3
    assert state["tokens"] <= 5_000
    calls = len(running_chat.text_requests)
    assert calls == state["calls"]
    enable(tenant, max_tokens_per_document=100_000)
    assert tenant.admin.post(f"{ENRICHMENT}/run").json() == {"enqueued": 1}
    assert wait_for_state(tenant, document, "done")["calls"] == len(running_chat.text_requests) == 3


def test_limit_of_the_day_holds_over_documents_and_continues_on_request(
    service: Service, tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant, max_tokens_per_day=9_000)
    documents = [add(tenant, f"{TEXT} Number {number}.", f"engines-{number}") for number in range(3)]

    def is_settled() -> bool:
        counts = tenant.admin.get(ENRICHMENT).json()["documents"]
        return bool(counts["capped"] >= 1 and counts["running"] == counts["pending"] == 0)

    wait_for(is_settled)
    status = tenant.admin.get(ENRICHMENT).json()
    assert 0 < status["tokens_today"] <= 9_000
    assert status["calls_today"] == len(running_chat.text_requests)
    rows = fetch(
        service,
        "select run_at::date > now()::date from job where tenant_id = $1 and kind = 'enrich_document'",
        tenant_id(tenant),
    )
    assert [row[0] for row in rows] == [True] * status["documents"]["capped"]
    enable(tenant)
    tenant.admin.post(f"{ENRICHMENT}/run").raise_for_status()
    for document in documents:
        wait_for_state(tenant, document, "done")
    assert len(running_chat.text_requests) == 9  # no section twice


def test_replaced_document_pays_only_for_changed_sections(
    tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant)
    wait_for_state(tenant, add(tenant), "done")
    before = len(running_chat.text_requests)
    document = add(tenant, TEXT.replace("Grace Hopper built", "Grace Hopper designed"))
    assert document["version"] == 2
    wait_for(lambda: len(running_chat.text_requests) == before + 2)  # the section, and the document above it
    assert wait_for_state(tenant, document, "done")["calls"] == 2


def test_reindex_uses_paid_replies_and_restores_the_graph(
    service: Service, tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant)
    document = add(tenant)
    wait_for_state(tenant, document, "done")
    calls, count = (
        len(running_chat.text_requests),
        "select count(*) from relation where tenant_id = $1 and index_id = $2",
    )
    live = "select id from search_index where tenant_id = $1 and state = 'live'"
    former = fetch(service, live, tenant_id(tenant))[0][0]
    reindexed = tenant.admin.post(f"{KB}/reindex", json={"chunking": {"max_tokens": 60}})
    assert reindexed.status_code == 202, reindexed.text

    def find_relations() -> bool:
        index = fetch(service, live, tenant_id(tenant))[0][0]
        return bool(index != former and fetch(service, count, tenant_id(tenant), index)[0][0] > 0)

    wait_for(find_relations)
    wait_for_state(tenant, document, "done")
    assert len(running_chat.text_requests) == calls
    assert asyncio.run(find_inconsistencies(service.urls.app, tenant_id(tenant))) == {}


def test_deletion_costs_no_call_and_leaves_no_row(
    service: Service, tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant)
    document = add(tenant)
    wait_for_state(tenant, document, "done")
    calls = len(running_chat.text_requests)
    assert all(count_rows(service, tenant).values())
    deleted = tenant.admin.delete(f"{KB}/documents/{document['id']}")
    deletion = f"/v1/deletions/{deleted.headers['carrel-deletion-id']}"
    wait_for(lambda: tenant.admin.get(deletion).json()["finished_at"])
    remaining = tenant.admin.get(deletion).json()["remaining"]
    assert {remaining[table] for table in ENRICHMENT_TABLES} == {0}
    assert not any(count_rows(service, tenant).values())
    assert len(running_chat.text_requests) == calls
    assert asyncio.run(find_inconsistencies(service.urls.app, tenant_id(tenant))) == {}


def test_document_deleted_while_it_waits_leaves_no_job(
    service: Service, tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant, max_tokens_per_day=1)
    document = add(tenant)
    wait_for_state(tenant, document, "capped")
    deleted = tenant.admin.delete(f"{KB}/documents/{document['id']}")
    deletion = f"/v1/deletions/{deleted.headers['carrel-deletion-id']}"
    wait_for(lambda: tenant.admin.get(deletion).json()["finished_at"])
    assert tenant.admin.get(deletion).json()["remaining"]["job"] == 0
    jobs = fetch(service, "select 1 from job where tenant_id = $1 and kind = 'enrich_document'", tenant_id(tenant))
    assert jobs == []


def test_same_text_of_another_tenant_is_paid_and_stored_separately(
    service: Service, tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    other = service.create_tenant("neighbour")
    for owner in (tenant, other):
        enable(owner)
        wait_for_state(owner, add(owner), "done")
    assert len(running_chat.text_requests) == 6
    assert other.admin.get(ENRICHMENT).json()["calls_today"] == 3
    reader = tenant.create_client("reader", user_id="user-1")
    assert reader.get(ENRICHMENT).status_code == 403


def test_usage_has_calls_and_tokens_of_the_enrichment(
    tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant)
    wait_for_state(tenant, add(tenant), "done")
    expected = (len(running_chat.text_requests), tenant.admin.get(f"{KB}/enrichment").json()["tokens_today"])
    assert expected[0] > 0
    days = tenant.admin.get("/v1/usage").json()["items"]
    assert [(day["enrichment_calls"], day["enrichment_tokens"]) for day in days] == [expected]
    keys = {item["key"]: item for item in tenant.admin.get("/v1/usage", params={"by": "key"}).json()["items"]}
    assert (keys[None]["enrichment_calls"], keys[None]["enrichment_tokens"]) == expected
    assert {item["enrichment_calls"] for key, item in keys.items() if key is not None} == {0}


def test_import_uses_the_replies_of_the_archive(
    service: Service, tenant: Tenant, running_chat: ChatServer, writer: SectionWriter
) -> None:
    enable(tenant)
    wait_for_state(tenant, add(tenant), "done")
    archive = tenant.admin.get(f"{KB}/export").content
    assert b"replies.jsonl" in archive
    calls = len(running_chat.text_requests)
    other = service.create_tenant("importing")
    enable(other)
    other.admin.post(f"{KB}/import", content=archive, headers={"content-type": "application/x-tar"}).raise_for_status()
    other.admin.post(f"{ENRICHMENT}/run").raise_for_status()
    wait_for(lambda: other.admin.get(ENRICHMENT).json()["documents"]["done"] == 1)
    assert len(running_chat.text_requests) == calls
    assert other.admin.get(ENRICHMENT).json()["tokens_today"] == 0
    notes = (
        "select n.summary, n.keywords, n.entities, n.method from node_enrichment n where n.tenant_id = $1 order by 1"
    )
    relations = "select predicate, method from relation where tenant_id = $1 order by 1, 2"
    for statement in (notes, relations):
        rows = [[tuple(row) for row in fetch(service, statement, tenant_id(one))] for one in (tenant, other)]
        assert rows[0] == rows[1] != []
    assert asyncio.run(find_inconsistencies(service.urls.app, tenant_id(other))) == {}
