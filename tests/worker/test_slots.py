"""Slots of a worker that is full: short jobs of other tenants, deliveries, and long jobs in turn."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields, ProvidedChunk
from app.embedded_postgres import DatabaseUrls
from app.ingestion.parsers import PARSERS, ParserSpec
from app.knowledge_bases.types import NewKnowledgeBase
from app.worker.slots import JobSlots, RunningJob
from harness.protocol_servers.webhook import WebhookReceiver
from tests.ingestion.workshop import Workshop, add_text, open_workshop, until

# A text file that says "sleep" occupies its parser; every other format is read as usual.
SLEEPY = {**PARSERS, "text/plain": ParserSpec("text/plain", ("txt",), "tests.ingestion.parsers.misbehaving")}
SHORT = "attempt nothing"
SLICE = 64
FORGET = (
    "delete from tenant where id <> system_tenant(); delete from term_document_frequency;"
    " delete from index_totals; delete from entity"
)


@pytest.fixture
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    async with open_workshop(database, tmp_path_factory.mktemp("data"), parsers=SLEEPY) as opened:
        yield opened
        await opened.owner.execute(FORGET)


async def count(workshop: Workshop, condition: str) -> int:
    found: int = await workshop.owner.fetchval(f"select count(*) from job where {condition}")
    return found


async def are_running(workshop: Workshop, services: TenantServices, jobs: int) -> bool:
    return await count(workshop, f"state = 'running' and tenant_id = '{services.principal.tenant_id}'") == jobs


async def test_short_document_does_not_wait_for_long_ones_of_another_tenant(workshop: Workshop) -> None:
    """Long documents occupy both places and both parser processes; the extra places are for other tenants."""
    large, small = await workshop.new_tenant(), await workshop.new_tenant()
    for number in range(4):
        await add_text(large, f"sleep {' ' * number}")
    async with workshop.working():
        await until(lambda: are_running(workshop, large, 2))
        for number in range(3):
            document = await add_text(small, SHORT, external_id=str(number))
            assert await workshop.settled(document.id) == "ready"
        assert await are_running(workshop, large, 2)


async def test_extra_slots_are_only_for_tenants_without_a_running_job(workshop: Workshop) -> None:
    large, other = await workshop.new_tenant(), await workshop.new_tenant()
    for services in (large, other):
        for number in range(3):
            await add_text(services, f"sleep {' ' * number}")
    async with workshop.working():
        await until(lambda: are_running(workshop, large, 1))
        await until(lambda: are_running(workshop, other, 1))
        await asyncio.sleep(1.0)
        assert await count(workshop, "state = 'running' and every is null") == 2


async def test_deliveries_have_separate_slots(workshop: Workshop) -> None:
    """Forty deliveries to a receiver that never answers, of the tenant that uploads."""
    services = await workshop.new_tenant()
    with WebhookReceiver() as receiver:
        receiver.is_silent = True
        for _ in range(40):
            await services.webhooks.create(receiver.address, ["knowledge_base.created"], description=None, enabled=True)
        await services.knowledge_bases.create(NewKnowledgeBase("tells"))
        async with workshop.working():
            await until(lambda: are_running(workshop, services, 2))
            for number in range(3):
                document = await add_text(services, SHORT, external_id=str(number))
                assert await workshop.settled(document.id) == "ready"
            assert await count(workshop, "kind = 'send_webhook' and state <> 'dead'") >= 36


async def test_long_documents_yield_to_waiting_ones(
    database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two long documents have all places. The third tenant's document is done before both, and all end ready."""
    async with open_workshop(
        database, tmp_path_factory.mktemp("data"), concurrency=1, extra_jobs=1, tenant_concurrency=1
    ) as workshop:
        workshop.endpoint.latency_seconds = 1.5
        tenants = [await workshop.new_tenant() for _ in range(3)]
        chunks = [ProvidedChunk(f"Part {number}.") for number in range(12 * SLICE)]
        long = [
            (await services.uploads.upload_chunks("default", chunks, DocumentFields())).document
            for services in tenants[:2]
        ]
        async with workshop.working():
            await until(lambda: are_running(workshop, tenants[0], 1))
            await until(lambda: are_running(workshop, tenants[1], 1))
            short = await add_text(tenants[2], "A short one.")
            assert await workshop.settled(short.id) == "ready"
            assert not {"ready", "failed"} & {await workshop.status(document.id) for document in long}
            workshop.endpoint.latency_seconds = 0.0
            assert [await workshop.settled(document.id) for document in long] == ["ready", "ready"]
        assert await workshop.inconsistencies() == {}
        await workshop.owner.execute(FORGET)


async def test_full_worker_waits_until_a_slot_is_free() -> None:
    places = JobSlots(1, extra_size=1)
    held = RunningJob.__new__(RunningJob)
    places.running_jobs.add(held)
    places.wake()
    started = time.monotonic()
    asyncio.get_running_loop().call_later(0.05, places.release, held)
    await places.wait_for_work()
    assert time.monotonic() - started < 5
    assert places.has_free_slot
