"""Events of webhooks: triggers write them in the transaction of the change, whatever code changes the rows."""

import json
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.documents.deletion.service import DeletionSelection
from app.ids import generate_id
from app.knowledge_bases.types import NewKnowledgeBase, ReindexOptions
from app.webhooks.types import WebhookEventName
from harness.wait_until import get_day_with_time_left
from tests.ingestion.workshop import Workshop, add_text

NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    yield await workshop.new_tenant()
    await workshop.owner.execute(
        "delete from tenant where id <> system_tenant(); delete from term_document_frequency;"
        " delete from index_totals; delete from entity"
    )


async def listen(services: TenantServices, *events: str, enabled: bool = True) -> UUID:
    wanted = events or list(WebhookEventName)
    return (await services.webhooks.create(NOWHERE, wanted, description=None, enabled=enabled))[0].id


async def queued_events(workshop: Workshop, services: TenantServices) -> list[tuple[str, dict[str, Any]]]:
    """Return the events for a tenant's webhooks, oldest first, after checking that each has a job."""
    rows = await workshop.owner.fetch(
        "select d.event, d.data, j.payload from webhook_delivery d left join job j on (j.tenant_id, j.id) ="
        " (d.tenant_id, d.id) where d.tenant_id = $1 order by d.created_at, d.id",
        services.principal.tenant_id,
    )
    assert all(row["payload"] is not None for row in rows)
    return [(row["event"], json.loads(row["data"])) for row in rows]


async def events(workshop: Workshop, services: TenantServices) -> list[str]:
    return [event for event, _ in await queued_events(workshop, services)]


async def default_kb(services: TenantServices) -> UUID:
    return (await services.knowledge_bases.find("default")).row.id


async def test_document_changes_create_events(workshop: Workshop, services: TenantServices) -> None:
    await listen(services)
    kb = await default_kb(services)
    good, bad = [await add_text(services, text) for text in ("The heron fishes.", "The egret waits.")]
    assert await queued_events(workshop, services) == []
    await workshop.ingest(good)
    await workshop.owner.execute(
        "update document set status = 'failed', error = $2 where id = $1",
        bad.id, json.dumps({"code": "corrupt", "message": "The egret!", "retryable": False, "stage": "parsing"}),
    )  # fmt: skip
    await services.deletions.delete_many("default", DeletionSelection(ids=[good.id]), confirm=None)
    common = {"knowledge_base": str(kb), "knowledge_base_name": "default", "version": 1}
    assert await queued_events(workshop, services) == [
        ("document.ready", {**common, "document": str(good.id), "status": "ready", "error": None}),
        (
            "document.failed",
            {**common, "document": str(bad.id), "status": "failed", "error": {"code": "corrupt", "retryable": False}},
        ),
        ("document.deleted", {**common, "document": str(good.id), "status": "deleted"}),
    ]


async def test_document_of_lost_workers_creates_failed_event(workshop: Workshop, services: TenantServices) -> None:
    """The function that crosses tenants fails the document, not a transaction of the tenant."""
    await listen(services, "document.failed")
    await add_text(services, "The heron fishes.")
    await workshop.owner.execute(
        "update job set state = 'running', attempts = 5, lease_until = now() - interval '1 s', worker = 'w'"
        " where kind = 'ingest_document'"
    )
    await workshop.resources.queue.reap()
    ((event, data),) = await queued_events(workshop, services)
    assert (event, data["error"]) == ("document.failed", {"code": "internal", "retryable": True})


async def test_knowledge_base_changes_create_events(workshop: Workshop, services: TenantServices) -> None:
    await listen(services)
    made = (await services.knowledge_bases.create(NewKnowledgeBase("birds"))).row
    await services.knowledge_bases.update("birds", {"title": "Birds", "description": None})
    await services.knowledge_bases.update("birds", {"title": "Birds"})
    await services.reindexing.start("birds", ReindexOptions())
    assert await workshop.run_jobs("reindex_knowledge_base") > 0
    data = {"knowledge_base": str(made.id), "knowledge_base_name": "birds"}
    assert await queued_events(workshop, services) == [
        (f"knowledge_base.{what}", data) for what in ("created", "updated", "reindexed")
    ]
    await services.knowledge_bases.delete("birds")
    assert (await queued_events(workshop, services))[3:] == [("knowledge_base.deleted", data)]


async def test_metadata_filter_change_creates_event_after_backfill(
    workshop: Workshop, services: TenantServices
) -> None:
    await listen(services)
    await services.knowledge_bases.update("default", {"metadata_filter": {"team": "hr"}})
    assert await events(workshop, services) == []
    await workshop.run_jobs("backfill_metadata")
    assert await events(workshop, services) == ["knowledge_base.updated"]


async def test_deleted_knowledge_base_creates_no_document_events(workshop: Workshop, services: TenantServices) -> None:
    await workshop.ingest(await add_text(services, "The heron fishes."))
    await listen(services)
    await services.knowledge_bases.delete("default")
    await workshop.owner.execute("delete from job where kind = 'ingest_document'")
    await workshop.run_jobs("purge_knowledge_base", "purge_objects", "drop_search_index")
    assert await events(workshop, services) == ["knowledge_base.deleted"]


async def test_event_exists_only_if_transaction_commits(workshop: Workshop, services: TenantServices) -> None:
    await listen(services)
    await add_text(services, "The heron fishes.")
    waiting = "select count(*) from webhook_delivery", "select count(*) from job where kind = 'send_webhook'"
    for fails in (True, False):
        try:
            async with services.webhooks.db.transaction() as session:
                driver = session._driver
                await driver.execute("update document set status = 'ready'")
                assert [await driver.fetchval(count) for count in waiting] == [1, 1]
                assert [await workshop.owner.fetchval(count) for count in waiting] == [0, 0]
                if fails:
                    raise LookupError("something went wrong")
        except LookupError:
            assert [await workshop.owner.fetchval(count) for count in waiting] == [0, 0]
    assert [await workshop.owner.fetchval(count) for count in waiting] == [1, 1]


async def test_webhook_receives_only_subscribed_events(workshop: Workshop, services: TenantServices) -> None:
    created = await listen(services, "knowledge_base.created")
    both = await listen(services, "knowledge_base.created", "knowledge_base.deleted")
    await listen(services, "document.ready")
    await listen(services, "knowledge_base.created", enabled=False)
    await services.knowledge_bases.create(NewKnowledgeBase("birds"))
    await services.knowledge_bases.delete("birds")
    rows = await workshop.owner.fetch("select webhook_id, event from webhook_delivery")
    assert sorted((row["webhook_id"], row["event"]) for row in rows) == sorted(
        [(created, "knowledge_base.created"), (both, "knowledge_base.created"), (both, "knowledge_base.deleted")]
    )


async def test_webhook_receives_no_events_of_another_tenant(workshop: Workshop, services: TenantServices) -> None:
    other = await workshop.new_tenant()
    await listen(other)
    await workshop.ingest(await add_text(services, "The heron fishes."))
    await services.knowledge_bases.delete("default")
    assert await queued_events(workshop, other) == []
    assert await workshop.owner.fetchval("select count(*) from webhook_delivery") == 0


async def test_events_contain_no_content(workshop: Workshop, services: TenantServices) -> None:
    word = "xylophonist"
    await listen(services)
    document = await add_text(services, f"The {word} plays.", title=word, external_id=word, metadata={word: word})
    await workshop.ingest(document)
    await services.knowledge_bases.update("default", {"title": word, "description": word})
    await services.deletions.delete("default", document.id)
    assert await events(workshop, services) == ["document.ready", "knowledge_base.updated", "document.deleted"]
    assert word not in json.dumps(await queued_events(workshop, services))


async def set_quotas(workshop: Workshop, services: TenantServices, **quotas: int | None) -> None:
    await workshop.resources.tenants.update(services.principal.tenant_id, quotas=quotas)


async def near(workshop: Workshop, services: TenantServices) -> list[dict[str, Any]]:
    """Return the events of near quotas, and delete them."""
    found = [data for event, data in await queued_events(workshop, services) if event == "quota.near"]
    await workshop.owner.execute("delete from webhook_delivery")
    return found


async def test_nearly_used_quota_creates_event(workshop: Workshop, services: TenantServices) -> None:
    await set_quotas(workshop, services, documents=5)
    await listen(services, "quota.near")
    documents = [(await add_text(services, f"Text {number}.")).id for number in range(3)]
    assert await near(workshop, services) == []
    documents.append((await add_text(services, "The fourth.")).id)
    assert await near(workshop, services) == [{"quota": "documents", "limit": 5, "used": 4}]
    documents.append((await add_text(services, "The fifth.")).id)
    await services.deletions.delete("default", documents.pop())
    assert await near(workshop, services) == []
    await services.deletions.delete("default", documents.pop())
    await add_text(services, "Another fourth.")
    assert await near(workshop, services) == [{"quota": "documents", "limit": 5, "used": 4}]


async def test_lowered_quota_creates_event(workshop: Workshop, services: TenantServices) -> None:
    await listen(services, "quota.near")
    for number in range(4):
        await add_text(services, f"Text {number}.")
    await set_quotas(workshop, services, documents=100, stored_bytes=10_000)
    assert await near(workshop, services) == []
    await set_quotas(workshop, services, documents=5)
    assert await near(workshop, services) == [{"quota": "documents", "limit": 5, "used": 4}]
    await set_quotas(workshop, services, documents=4)
    await set_quotas(workshop, services, documents=None)
    assert await near(workshop, services) == []


async def test_daily_tokens_create_event_once_a_day(workshop: Workshop, services: TenantServices) -> None:
    """The limit counts all keys together, and starts again each day."""
    tenant, today = services.principal.tenant_id, get_day_with_time_left()
    await set_quotas(workshop, services, embedding_tokens_per_day=100)
    await listen(services, "quota.near")

    async def use(key: UUID, tokens: int, day: date = today) -> None:
        await workshop.owner.execute(
            "insert into usage_day as d (tenant_id, day, key_id, query_tokens)"
            " values ($1, $4, $2, $3) on conflict (tenant_id, day, key_id) do update"
            " set query_tokens = d.query_tokens + excluded.query_tokens, searches = d.searches + 1",
            tenant, key, tokens, day,
        )  # fmt: skip

    one, other = generate_id(), generate_id()
    await use(one, 50)
    await use(other, 20)
    await use(other, 0)
    assert await near(workshop, services) == []
    await use(one, 15)
    assert await near(workshop, services) == [{"quota": "embedding_tokens_per_day", "limit": 100, "used": 85}]
    await use(other, 50)
    assert await near(workshop, services) == []
    await use(other, 81, today + timedelta(days=1))
    assert await near(workshop, services) == [{"quota": "embedding_tokens_per_day", "limit": 100, "used": 81}]
