"""Which requests of a tenant are handled at a time: large bodies have places, and the event loop is shared."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from fastapi import Request, Response

from app.api.large_bodies import is_large, large_body_places
from app.api.loop_shares import LoopShares, create_task
from app.tenant_places import TenantPlaces


@dataclass(frozen=True, slots=True)
class Admission:
    """The limits of one process."""

    large_bodies: TenantPlaces = field(default_factory=large_body_places)
    loop: LoopShares = field(default_factory=LoopShares)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Measure the event loop while the block runs."""
        asyncio.get_running_loop().set_task_factory(create_task)  # type: ignore[arg-type]  # generic in its result
        watch = asyncio.create_task(self.loop.watch())
        try:
            yield
        finally:
            watch.cancel()
            asyncio.get_running_loop().set_task_factory(None)
            with suppress(asyncio.CancelledError):
                await watch

    async def run(
        self, request: Request, tenant_id: UUID, handle: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Handle a request when it is its turn. Raises TooManyLargeBodies, LargeBodiesBusy, TooManyAtOnce."""
        large = is_large(request)
        if self.loop.is_calm_for(tenant_id) and not large:
            return await handle()
        async with AsyncExitStack() as places:
            if large:
                await places.enter_async_context(self.large_bodies.take(tenant_id))
            await places.enter_async_context(self.loop.take(tenant_id))
            request.state.places = places
            return await self.loop.measured(tenant_id, handle())


async def leave_place(request: Request) -> None:
    """Give the request's places back before it ends, because from now on it only waits."""
    places: AsyncExitStack | None = getattr(request.state, "places", None)
    if places is not None:
        await places.aclose()
