"""Limits on the concurrent requests of a tenant: slots for large bodies, and shares of the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from fastapi import Request, Response

from app.api.http.event_loop_shares import LoopShares, create_measured_task
from app.api.http.large_bodies import create_large_body_slots, has_large_body
from app.tenant_slots import TenantSlots


@dataclass(frozen=True, slots=True)
class AdmissionControl:
    """Concurrency limits of one process."""

    large_bodies: TenantSlots = field(default_factory=create_large_body_slots)
    loop_shares: LoopShares = field(default_factory=LoopShares)

    @asynccontextmanager
    async def monitor_loop(self) -> AsyncIterator[None]:
        """Measure the event loop while the block runs."""
        asyncio.get_running_loop().set_task_factory(create_measured_task)  # type: ignore[arg-type]  # generic in its result
        watch = asyncio.create_task(self.loop_shares.watch_lag())
        try:
            yield
        finally:
            watch.cancel()
            asyncio.get_running_loop().set_task_factory(None)
            with suppress(asyncio.CancelledError):
                await watch

    async def run_request(
        self, request: Request, tenant_id: UUID, handle: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Handle a request. If the tenant runs too many requests, wait first.

        Args:
            request: The request. ``request.state.slots`` holds its slots while it runs.
            tenant_id: Tenant of the caller.
            handle: Handler of the request.

        Returns:
            The response of ``handle``.

        Raises:
            TooManyLargeBodies: The tenant's slots for large bodies were in use for too long.
            LargeBodiesBusy: All slots for large bodies were in use for too long.
            TooManyAtOnce: The event loop is slow, the tenant uses much of its time, and the request waited too long for
                its turn.
        """
        large = has_large_body(request)
        if self.loop_shares.can_run_unmeasured(tenant_id) and not large:
            return await handle()
        async with AsyncExitStack() as slots:
            if large:
                await slots.enter_async_context(self.large_bodies.acquire(tenant_id))
            await slots.enter_async_context(self.loop_shares.acquire(tenant_id))
            request.state.slots = slots
            return await self.loop_shares.measure(tenant_id, handle())


async def release_slots(request: Request) -> None:
    """Release the slots of a request before the request ends. Call this function when the request needs no more
    memory.
    """
    slots: AsyncExitStack | None = getattr(request.state, "slots", None)
    if slots is not None:
        await slots.aclose()
