"""Shares of the event loop: while the loop is slow, a tenant that uses much of its time runs one request at a time.

Reading a body, validating it and writing a response block the event loop, which delays all other requests. When the
loop begins to lag, the time that each tenant's requests block the loop is measured. The sum decays with a half-life.
The limit applies
to a tenant whose requests take a quarter of the time or more, while the loop lags and another tenant is active.
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
# Seconds of loop time in one second, from which a tenant is heavy.
HEAVY_SHARE = 0.25
MAX_CONCURRENT_WHEN_HEAVY = 1
WAIT_TIMEOUT_SECONDS = 10.0
ACTIVE_WINDOW_SECONDS = 2.0
TICK_INTERVAL_SECONDS = 0.02
# Interval if no tenant is active.
IDLE_TICK_INTERVAL_SECONDS = 0.2
HALF_LIFE_SECONDS = 1.0


class TooManyAtOnce(TooManyRequestsError):
    """The service is busy, and this tenant has several expensive requests at once. Try again in a moment."""

    code = "too_many_requests"


@dataclass(slots=True)
class LoopShares:
    """Counts and costs of the requests of one process, by tenant. ``watch_lag`` must run as a task.

    Attributes:
        lag_seconds: Recent delay of the event loop.
        wait_timeout_seconds: Maximum time that a request waits for its turn.
    """

    lag_seconds: float = 0.0
    wait_timeout_seconds: float = WAIT_TIMEOUT_SECONDS
    _decayed_at: float = 0.0
    _costs: defaultdict[UUID, float] = field(default_factory=lambda: defaultdict(float))
    _last_request_at: dict[UUID, float] = field(default_factory=dict)
    _running: Counter[UUID] = field(default_factory=Counter)
    _waiting: dict[UUID, deque[asyncio.Future[None]]] = field(default_factory=dict)

    async def watch_lag(self) -> None:
        """Measure the lag of the loop until cancelled, and admit waiting requests of tenants that are not heavy."""
        while True:
            started_at, interval_seconds = (
                perf_counter(),
                TICK_INTERVAL_SECONDS if self._last_request_at else IDLE_TICK_INTERVAL_SECONDS,
            )
            await asyncio.sleep(interval_seconds)
            now = perf_counter()
            self._tick(now, late_seconds=now - started_at - interval_seconds)

    def can_run_unmeasured(self, tenant_id: UUID) -> bool:
        """Record a request, and return whether it can run without being counted and measured.

        Args:
            tenant_id: Tenant of the request.

        Returns:
            True if the loop does not lag and no request of the tenant waits.
        """
        self._last_request_at[tenant_id] = perf_counter()
        return self.lag_seconds < LAG_THRESHOLD_SECONDS / 2 and tenant_id not in self._waiting

    @asynccontextmanager
    async def acquire(self, tenant_id: UUID) -> AsyncIterator[None]:
        """Count a request while the block runs; wait first if a heavy tenant already runs one.

        Args:
            tenant_id: Tenant of the request.

        Raises:
            TooManyAtOnce: The turn of the request did not come within ``wait_timeout_seconds``.
        """
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
        """Await the work, and charge the tenant for the loop time of the work and of the tasks that the work creates.

        Args:
            tenant_id: Tenant to charge.
            work: Coroutine to run.

        Returns:
            The result of the work.
        """
        token = _CHARGE.set(partial(self.charge, tenant_id))
        try:
            return await _MeasuredCoroutine(work, _CHARGE.get())
        finally:
            _CHARGE.reset(token)

    def charge(self, tenant_id: UUID, seconds: float) -> None:
        """Add seconds to the loop time of the tenant's requests."""
        self._costs[tenant_id] += seconds

    def get_charged_seconds(self, tenant_id: UUID) -> float:
        """Return the decayed sum of the loop time of the tenant's requests, in seconds."""
        return self._costs.get(tenant_id, 0.0)

    def _is_heavy(self, tenant_id: UUID) -> bool:
        # At a constant rate, a sum that decays with a half-life tends to rate * half-life / ln 2.
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
        """Update the lag and the decayed costs, forget inactive tenants, and admit waiting requests.

        ``late_seconds`` is the delay of this tick.
        """
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
        # Admit one request of each tenant in a tick: all waiting requests at once would make the loop lag again.
        for tenant_id in list(self._waiting):
            if not self._is_heavy(tenant_id):
                self._admit_next(tenant_id)


def create_measured_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, ResultT], **options: Any
) -> asyncio.Task[ResultT]:
    """Create a task. This function is the task factory of the event loop. The tasks of a measured request are measured
    too.

    Args:
        loop: The event loop.
        work: Coroutine of the task.
        options: Further arguments of ``asyncio.Task``.

    Returns:
        The task.
    """
    charge = _CHARGE.get()
    return asyncio.Task(work if charge is _ignore_charge else _MeasuredCoroutine(work, charge), loop=loop, **options)


def _ignore_charge(_seconds: float) -> None:
    """Ignore the loop time of work that belongs to no tenant."""


_CHARGE: ContextVar[Charge] = ContextVar("charge", default=_ignore_charge)


class _MeasuredCoroutine(Coroutine[Any, Any, ResultT]):
    """Coroutine whose steps are measured. Other tasks run between two steps, so their time does not count."""

    def __init__(self, work: Coroutine[Any, Any, ResultT], charge: Charge) -> None:
        self._work, self._charge = work, charge

    def send(self, value: Any) -> Any:
        """Run one step, and charge its time."""
        started_at = perf_counter()
        try:
            return self._work.send(value)
        finally:
            self._charge(perf_counter() - started_at)

    def throw(self, *error: Any) -> Any:
        """Run one step that begins with an exception, such as a cancellation, and charge its time."""
        started_at = perf_counter()
        try:
            return self._work.throw(*error)
        finally:
            self._charge(perf_counter() - started_at)

    def close(self) -> None:
        """Close the wrapped coroutine."""
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
