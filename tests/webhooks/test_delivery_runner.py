"""Delivery of webhooks: retries and their end, disabled webhooks, and crashes between the steps."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from app.audit.types import EventFilters
from app.bootstrap import TenantServices
from app.cleanup.sweep_repository import SweepRepository
from app.knowledge_bases.types import NewKnowledgeBase
from app.webhooks.delivery_runner import WebhookDeliverer
from app.webhooks.types import DeliveryFailed, Webhook, WebhookPaused
from harness.protocol_servers.webhook import ReceivedWebhook, WebhookReceiver
from tests.ingestion.workshop import Workshop, until

CREATED = "knowledge_base.created"


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as running:
        yield running


@pytest.fixture
async def services(workshop: Workshop) -> AsyncIterator[TenantServices]:
    yield await workshop.new_tenant()
    await workshop.owner.execute("delete from tenant where id <> system_tenant()")


async def listening(services: TenantServices, receiver: WebhookReceiver) -> Webhook:
    return (await services.webhooks.create(receiver.address, [CREATED], description=None, enabled=True))[0]


async def create(services: TenantServices, name: str) -> None:
    await services.knowledge_bases.create(NewKnowledgeBase(name))


async def rows(workshop: Workshop) -> list[asyncpg.Record]:
    return list(await workshop.owner.fetch("select * from webhook_delivery order by created_at, id"))


async def attempt(
    workshop: Workshop, row: asyncpg.Record, *, is_last: bool = False, is_replay: bool = False, **settings: Any
) -> None:
    """Run the job of a delivery, as the worker does, at any time."""
    resources = workshop.resources
    made = resources.settings.webhooks.model_copy(update=settings)
    delivering = WebhookDeliverer(resources.database, resources.webhook_sender, made)
    await delivering.deliver(row["tenant_id"], row["id"], is_last=is_last, is_replay=is_replay)


async def awaken(workshop: Workshop) -> None:
    """End all waiting times."""
    await workshop.owner.execute("update webhook set paused_until = null; update job set run_at = now()")


async def delivered(workshop: Workshop, count: int) -> None:
    async def are() -> bool:
        return [row["status"] for row in await rows(workshop)] == ["delivered"] * count

    await until(are)


async def test_worker_sends_due_deliveries(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    await listening(services, receiver)
    for name in ("one", "two", "three"):
        await create(services, name)
        await asyncio.sleep(0.002)  # times have a resolution of milliseconds
    assert receiver.received == []
    async with workshop.working():
        await delivered(workshop, 3)
        await until(lambda: all_done(workshop))
    sent = sorted(map(time_and_name, receiver.received))
    # A receiver orders events by their times: two concurrent deliveries may arrive in any order.
    assert [name for _, name in sent] == ["one", "two", "three"]
    assert len({one.id for one in receiver.received}) == 3


async def test_replay_during_an_attempt_is_sent(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    """The attempt stores its success after the replay was requested, and before the job of the replay runs."""
    webhook = await listening(services, receiver)
    await create(services, "one")
    (row,) = await rows(workshop)
    await services.webhooks.replay(webhook.id, row["id"])
    await attempt(workshop, row)
    await attempt(workshop, row)
    assert len(receiver.received) == 1
    await attempt(workshop, row, is_replay=True)
    assert len({one.id for one in receiver.received}) == 1
    assert len(receiver.received) == 2
    async with workshop.working():
        await until(lambda: all_done(workshop))
    assert len(receiver.received) == 3
    assert [row["status"] for row in await rows(workshop)] == ["delivered"]


def time_and_name(request: ReceivedWebhook) -> tuple[str, str]:
    """Return the time of the event and the name of the knowledge base."""
    body = json.loads(request.body)
    return body["timestamp"], body["data"]["knowledge_base_name"]


async def all_done(workshop: Workshop) -> bool:
    return not await workshop.owner.fetchval("select count(*) from job where kind = 'send_webhook'")


async def test_delivery_claimed_by_killed_worker_is_sent_by_another(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    """The delivery is claimed, not sent: the job remains, and runs again when its lease is over."""
    await listening(services, receiver)
    await create(services, "one")
    lost = await workshop.resources.queue.claim_delivery("lost", timedelta(0), tenant_concurrency=2)
    assert lost is not None
    assert lost.kind == "send_webhook"
    async with workshop.working():
        await delivered(workshop, 1)
    assert len(receiver.received) == 1


async def test_failed_delivery_is_retried_by_queue(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    await listening(services, receiver)
    receiver.statuses = [500]
    await create(services, "one")
    async with workshop.working():
        await until(lambda: failed_once(workshop))
        await awaken(workshop)
        await delivered(workshop, 1)
    (row,) = await rows(workshop)
    assert (row["attempts"], row["response_status"], row["reason"]) == (2, 200, None)
    assert len({one.id for one in receiver.received}) == 1
    assert await workshop.owner.fetchval("select failures from webhook") == 0


async def failed_once(workshop: Workshop) -> bool:
    return bool(await workshop.owner.fetchval("select count(*) from job where error is not null and state = 'ready'"))


async def test_failed_delivery_pauses_its_receiver(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    """All deliveries to the receiver wait: longer after each failure, or as long as its Retry-After says."""
    await listening(services, receiver)
    await create(services, "one")
    await create(services, "two")
    first, second = await rows(workshop)
    receiver.status = 500
    left = "select extract(epoch from paused_until - now()) from webhook"
    for seconds in (1, 4, 16, 64, 256, 600, 600):
        with pytest.raises(DeliveryFailed):
            await attempt(workshop, first)
        assert seconds * 0.5 - 30 < await workshop.owner.fetchval(left) <= seconds
        await workshop.owner.execute("update webhook set paused_until = null")
    receiver.headers = {"Retry-After": "300"}
    await workshop.owner.execute("update webhook set failures = 0")
    with pytest.raises(DeliveryFailed) as failed:
        await attempt(workshop, first)
    assert failed.value.retry_after == 300
    seen = len(receiver.received)
    for row in (first, second):
        with pytest.raises(WebhookPaused) as resting:
            await attempt(workshop, row)
        assert resting.value.until == await workshop.owner.fetchval("select paused_until from webhook")
    assert len(receiver.received) == seen
    receiver.status = 200
    await awaken(workshop)
    await attempt(workshop, second)
    await attempt(workshop, first)
    assert [row["status"] for row in await rows(workshop)] == ["delivered", "delivered"]


async def test_worker_postpones_delivery_to_paused_receiver(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    await listening(services, receiver)
    await workshop.owner.execute("update webhook set paused_until = now() + interval '1 h'")
    await create(services, "one")
    job = "select count(*) from job where kind = 'send_webhook' and attempts = 0 and run_at > now() + interval '50 min'"

    async def put_off() -> bool:
        return bool(await workshop.owner.fetchval(job))

    async with workshop.working():
        await until(put_off)
    assert receiver.received == []


async def test_delivery_fails_after_last_attempt(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    await listening(services, receiver)
    for name in ("one", "two"):
        await create(services, name)
    first, second = await rows(workshop)
    receiver.status = 503
    for _ in range(2):
        with pytest.raises(DeliveryFailed):
            await attempt(workshop, first, max_attempts=3)
        await awaken(workshop)
    await attempt(workshop, first, max_attempts=3)
    await awaken(workshop)
    await attempt(workshop, second, is_last=True)
    found = [(row["status"], row["attempts"], row["response_status"], row["reason"]) for row in await rows(workshop)]
    assert found == [("dead", 3, 503, "status"), ("dead", 1, 503, "status")]
    sent = len(receiver.received)
    await attempt(workshop, first)
    assert len(receiver.received) == sent


@pytest.mark.parametrize(
    ("status", "settings", "reason"), [(500, {"max_consecutive_failures": 1}, "failures"), (410, {}, "gone")]
)
async def test_webhook_that_always_fails_is_disabled(
    workshop: Workshop,
    services: TenantServices,
    receiver: WebhookReceiver,
    status: int,
    settings: dict[str, Any],
    reason: str,
) -> None:
    made = await listening(services, receiver)
    for name in ("one", "two"):
        await create(services, name)
    first, second = await rows(workshop)
    receiver.status = status
    await attempt(workshop, first, **settings)
    webhook = await services.webhooks.get(made.id)
    assert (webhook.enabled, webhook.disabled_reason, webhook.failures) == (False, reason, 1)
    (event, *_) = await services.audit.list_events(EventFilters(), after=None, limit=1)
    assert (event.event.action, event.event.object_ids, event.actor.kind) == ("webhook.disable", [made.id], "service")
    await attempt(workshop, second)
    assert [(row["status"], row["reason"]) for row in await rows(workshop)] == [
        ("dead", "gone" if status == 410 else "status"),
        ("dead", "disabled"),
    ]
    assert len(receiver.received) == 1
    await create(services, "three")
    assert len(await rows(workshop)) == 2
    enabled = await services.webhooks.update(made.id, {"enabled": True})
    assert (enabled.enabled, enabled.disabled_reason, enabled.failures) == (True, None, 0)
    receiver.status = 200
    await services.webhooks.replay(made.id, second["id"])
    await workshop.run_jobs("send_webhook")
    assert {row["id"]: row["status"] for row in await rows(workshop)}[second["id"]] == "delivered"


async def test_delivery_of_deleted_tenant_is_not_sent(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    await listening(services, receiver)
    await create(services, "one")
    await workshop.resources.tenants.disable(services.principal.tenant_id)
    await create(services, "two")
    (row,) = await rows(workshop)
    await attempt(workshop, row)
    assert receiver.received == []


async def test_delivery_to_address_that_became_private_is_refused(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    made = await listening(services, receiver)
    await create(services, "one")
    (row,) = await rows(workshop)
    await workshop.owner.execute("update webhook set url = 'https://10.0.0.1/' where id = $1", made.id)
    with pytest.raises(DeliveryFailed):
        await attempt(workshop, row)
    assert [one["reason"] for one in await rows(workshop)] == ["address_refused"]


async def test_old_deliveries_are_removed(
    workshop: Workshop, services: TenantServices, receiver: WebhookReceiver
) -> None:
    await listening(services, receiver)
    for name in ("one", "two"):
        await create(services, name)
    first, second = await rows(workshop)
    await workshop.owner.execute(
        "update webhook_delivery set created_at = now() - interval '31 d' where id = $1", first["id"]
    )
    async with services.webhooks.db.transaction() as session:
        assert await SweepRepository(session, services.principal.tenant_id).remove_old_deliveries() == 1
    assert [row["id"] for row in await rows(workshop)] == [second["id"]]
