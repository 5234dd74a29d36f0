"""Slots of exports and imports: each tenant has a share, and a request beyond it is refused with a waiting time."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import httpx2
import pytest

from app.tenant_slots import TenantSlots
from app.transfer.types import TooManyTransfers, TransfersBusy
from harness.archives import ArchiveDocument, build_archive
from harness.running_service import Service
from tests.api.problems import assert_problem
from tests.transfer.test_round_trip import ARCHIVE, take

ONE, OTHER, THIRD = (UUID(int=number) for number in (1, 2, 3))


async def test_take_more_than_a_tenants_share_is_refused() -> None:
    places = TenantSlots(4, 1, 0.01, TooManyTransfers, TransfersBusy)
    async with places.acquire(ONE), places.acquire(OTHER):
        with pytest.raises(TooManyTransfers) as refused:
            async with places.acquire(ONE):
                pass
        assert refused.value.retry_after > 0
    assert places.acquired_count == 0


async def test_take_more_than_all_places_is_refused() -> None:
    places = TenantSlots(2, 2, 0.01, TooManyTransfers, TransfersBusy)
    async with places.acquire(ONE), places.acquire(OTHER):
        with pytest.raises(TransfersBusy):
            async with places.acquire(THIRD):
                pass


async def test_take_waits_for_a_place_that_becomes_free() -> None:
    places = TenantSlots(1, 1, 60, TooManyTransfers, TransfersBusy)
    held, free = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with places.acquire(ONE):
            held.set()
            await free.wait()

    holding = asyncio.create_task(hold())
    await held.wait()
    waiting = asyncio.create_task(hold())
    await asyncio.sleep(0)
    assert places.acquired_count == 1
    free.set()
    await asyncio.gather(holding, waiting)
    assert places.acquired_count == 0


async def test_take_cancelled_while_waiting_holds_no_place() -> None:
    places = TenantSlots(1, 1, 60, TooManyTransfers, TransfersBusy)
    async with places.acquire(ONE):
        waiting = asyncio.create_task(places.acquire(OTHER).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with places.acquire(OTHER):
        assert places.acquired_count == 1


def test_import_above_tenants_share_is_429_and_later_accepted(service: Service) -> None:
    tenant, ended = service.create_tenant("many imports"), threading.Event()
    share = service.settings.transfers.max_tenant_imports

    def slowly(number: int) -> Iterator[bytes]:
        content = build_archive(ArchiveDocument([f"The tern number {number}."]))
        yield content[:1000]
        ended.wait(90)
        yield content[1000:]

    def send(number: int) -> httpx2.Response:
        with httpx2.Client(base_url=service.url, headers=tenant.admin.headers, timeout=120) as client:
            return client.post("/v1/knowledge-bases/default/import", content=slowly(number), headers=ARCHIVE)

    with ThreadPoolExecutor(share) as threads:
        running = [threads.submit(send, number) for number in range(share)]
        try:
            while service.resources.transfer_slots.imports.acquired_count < share:
                threading.Event().wait(0.02)
            refused = take(tenant, "default", build_archive(ArchiveDocument(["One too many."])))
        finally:
            ended.set()
        assert [one.result().json()["documents"] for one in running] == [1] * share
    assert assert_problem(refused, 429, "too_many_transfers")
    assert int(refused.headers["retry-after"]) > 0
    assert take(tenant, "default", build_archive(ArchiveDocument(["One too many."]))).json()["documents"] == 1
