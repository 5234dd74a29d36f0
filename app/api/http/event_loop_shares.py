"""Shares of the event loop: a tenant that takes most of its time, while it lags for others, has few requests at once.

Reading a body, checking it and writing a reply hold the event loop, and so everybody. As soon as it is late, the time
that the requests of each tenant hold it is measured, step by step, and forgotten with a half-life. While the loop lags
and another tenant is active, a tenant whose requests take a quarter of the time or more waits its turn for one request
at a time.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Self, TypeVar, cast
from uuid import UUID

from app.errors import TooManyRequestsError

ResultT = TypeVar("ResultT")
Charge = Callable[[float], None]
LAG_THRESHOLD_SECONDS = 0.04
# Seconds of the loop in a second of time.
HEAVY_SHARE = 0.25
MAX_CONCURRENT_WHEN_HEAVY = 1
WAIT_TIMEOUT_SECONDS = 10.0
ACTIVE_WINDOW_SECONDS = 2.0
TICK_INTERVAL_SECONDS = 0.02
# When no tenant is active.
IDLE_TICK_INTERVAL_SECONDS = 0.2
HALF_LIFE_SECONDS = 1.0


class TooManyAtOnce(TooManyRequestsError):
    """This tenant has many expensive requests at once, and the service is busy; try again in a moment."""

    code = "too_many_requests"


@dataclass(slots=True)
class LoopShares:
    """Count and measure the requests of one process by tenant. ``watch_lag`` must run as a task."""

    lag_seconds: float = 0.0
    wait_timeout_seconds: float = WAIT_TIMEOUT_SECONDS
    _decayed_at: float = 0.0
    _costs: defaultdict[UUID, float] = field(default_factory=lambda: defaultdict(float))
    _last_request_at: dict[UUID, float] = field(default_factory=dict)
    _running: Counter[UUID] = field(default_factory=Counter)
    _waiting: dict[UUID, deque[asyncio.Future[None]]] = field(default_factory=dict)

    async def watch_lag(self) -> None:
        """Measure how late the loop is, and admit who waits when it is not late."""
        while True:
            started_at, interval_seconds = (
                perf_counter(),
                TICK_INTERVAL_SECONDS if self._last_request_at else IDLE_TICK_INTERVAL_SECONDS,
            )
            await asyncio.sleep(interval_seconds)
            now = perf_counter()
            self._tick(now, late_seconds=now - started_at - interval_seconds)

    def can_run_unmeasured(self, tenant_id: UUID) -> bool:
        """Note a request; return whether it need not be counted and measured, as long as the loop is in time."""
        self._last_request_at[tenant_id] = perf_counter()
        return self.lag_seconds < LAG_THRESHOLD_SECONDS / 2 and tenant_id not in self._waiting

    @asynccontextmanager
    async def acquire(self, tenant_id: UUID) -> AsyncIterator[None]:
        """Count a request while the block runs; wait first if the tenant has too many. Raises TooManyAtOnce."""
        self._last_request_at[tenant_id] = perf_counter()
        if tenant_id in self._waiting or (
            self._running[tenant_id] >= MAX_CONCURRENT_WHEN_HEAVY and self._is_heavy(tenant_id)
        ):
            await self._wait_for_turn(tenant_id)
        else:
            self._running[tenant_id] += 1
        try:
            yield
        finally:
            self._release(tenant_id)

    async def measure(self, tenant_id: UUID, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Await the work; charge the tenant for the time that it, and the tasks that it creates, hold the loop."""
        token = _CHARGE.set(partial(self.charge, tenant_id))
        try:
            return await _MeasuredCoroutine(work, _CHARGE.get())
        finally:
            _CHARGE.reset(token)

    def charge(self, tenant_id: UUID, seconds: float) -> None:
        """Add to the time that the tenant's requests have held the loop."""
        self._costs[tenant_id] += seconds

    def get_charged_seconds(self, tenant_id: UUID) -> float:
        """Return what is not forgotten yet of the time that the tenant's requests have held the loop."""
        return self._costs.get(tenant_id, 0.0)

    def _is_heavy(self, tenant_id: UUID) -> bool:
        # What is forgotten with a half-life sums up to the rate times half-life / ln 2.
        if (
            self.lag_seconds < LAG_THRESHOLD_SECONDS
            or self.get_charged_seconds(tenant_id) < HEAVY_SHARE * HALF_LIFE_SECONDS / 0.69
        ):
            return False
        since = perf_counter() - ACTIVE_WINDOW_SECONDS
        return any(requested_at > since for other, requested_at in self._last_request_at.items() if other != tenant_id)

    async def _wait_for_turn(self, tenant_id: UUID) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        try:
            async with asyncio.timeout(self.wait_timeout_seconds):
                await turn
        except BaseException as exc:
            if turn.done() and not turn.cancelled():
                self._release(tenant_id)
            else:
                self._leave_queue(tenant_id, turn)
            if isinstance(exc, TimeoutError):
                raise TooManyAtOnce from None
            raise

    def _leave_queue(self, tenant_id: UUID, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant_id, deque())
        with suppress(ValueError):
            queue.remove(turn)
        if not queue:
            self._waiting.pop(tenant_id, None)

    def _release(self, tenant_id: UUID) -> None:
        self._running[tenant_id] -= 1
        if not self._running[tenant_id]:
            del self._running[tenant_id]
        if self._running[tenant_id] < MAX_CONCURRENT_WHEN_HEAVY:
            self._admit_next(tenant_id)

    def _admit_next(self, tenant_id: UUID) -> None:
        queue = self._waiting.get(tenant_id)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                self._running[tenant_id] += 1
                turn.set_result(None)
                break
        if queue is not None and not queue:
            del self._waiting[tenant_id]

    def _tick(self, now: float, *, late_seconds: float) -> None:
        """``late_seconds``: by how much the loop came back too late."""
        self.lag_seconds = max(late_seconds, self.lag_seconds * 0.9)
        decay_factor = 0.5 ** ((now - self._decayed_at) / HALF_LIFE_SECONDS)
        self._decayed_at = now
        for tenant_id in list(self._costs):
            self._costs[tenant_id] *= decay_factor
            if self._costs[tenant_id] < 1e-3:
                del self._costs[tenant_id]
        self._last_request_at = {
            active_id: requested_at
            for active_id, requested_at in self._last_request_at.items()
            if requested_at > now - ACTIVE_WINDOW_SECONDS
        }
        # One at a time: all at once would make the loop late again.
        for tenant_id in list(self._waiting):
            if not self._is_heavy(tenant_id):
                self._admit_next(tenant_id)


def create_measured_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, ResultT], **options: Any
) -> asyncio.Task[ResultT]:
    """Create a task, as the loop's task factory: what a measured request creates is measured as well."""
    charge = _CHARGE.get()
    return asyncio.Task(work if charge is _ignore_charge else _MeasuredCoroutine(work, charge), loop=loop, **options)


def _ignore_charge(_seconds: float) -> None:
    """Ignore the time of work that belongs to no tenant."""


_CHARGE: ContextVar[Charge] = ContextVar("charge", default=_ignore_charge)


class _MeasuredCoroutine(Coroutine[Any, Any, ResultT]):
    """A coroutine whose steps are measured: between two of them others run."""

    def __init__(self, work: Coroutine[Any, Any, ResultT], charge: Charge) -> None:
        self._work, self._charge = work, charge

    def send(self, value: Any) -> Any:
        """Take one step."""
        started_at = perf_counter()
        try:
            return self._work.send(value)
        finally:
            self._charge(perf_counter() - started_at)

    def throw(self, *error: Any) -> Any:
        """Take one step that begins with an error, such as a cancellation."""
        started_at = perf_counter()
        try:
            return self._work.throw(*error)
        finally:
            self._charge(perf_counter() - started_at)

    def close(self) -> None:
        """End the work."""
        self._work.close()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped coroutine, such as its state for ``inspect``."""
        return getattr(self._work, name)

    def __next__(self) -> Any:
        return self.send(None)

    def __iter__(self) -> Self:
        return self

    def __await__(self) -> Generator[Any, Any, ResultT]:
        return cast("Generator[Any, Any, ResultT]", self)
