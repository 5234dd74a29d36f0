"""Slots of a worker for one kind of work: the number of running jobs, and the time of the next claim."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from app.db.models.control_plane_rows import ClaimedJob

POLL_INTERVAL_SECONDS = 1.0
# Every enqueued job wakes every worker. A worker with few free slots claims no more often than this.
MIN_POLL_INTERVAL_SECONDS = 0.25


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job in a slot. ``task`` runs the job and records its outcome; ``work`` only runs it.

    ``is_preempted`` means that the worker interrupts the job for another tenant.
    """

    job: ClaimedJob
    task: asyncio.Task[None] | None = None
    work: asyncio.Task[None] | None = None
    started_at: float = field(default_factory=time.monotonic)
    is_preempted: bool = False

    @property
    def elapsed_seconds(self) -> float:
        """Time since the start of the job."""
        return time.monotonic() - self.started_at

    def preempt(self) -> None:
        """Cancel the work, so that the job goes back to the queue."""
        if self.work is not None:
            self.is_preempted = True
            self.work.cancel()


@dataclass(slots=True)
class JobSlots:
    """Slots of a worker. Any job may use ``size`` slots. ``extra_size`` further slots are for tenants without a running
    job.
    """

    size: int
    extra_size: int = 0
    wakes_immediately: bool = True
    running_jobs: set[RunningJob] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has_free_slot(self) -> bool:
        """Whether a slot is free for any job."""
        return len(self.running_jobs) < self.size

    @property
    def has_free_extra_slot(self) -> bool:
        """Whether an extra slot is free."""
        return len(self.running_jobs) < self.size + self.extra_size

    def wake(self) -> None:
        """Report that a job may be due."""
        self._wake.set()

    def release(self, running_job: RunningJob, _task: object = None) -> None:
        """Release a slot. It is a callback of the job's task."""
        self.running_jobs.discard(running_job)
        self.interrupt_wait()

    def interrupt_wait(self) -> None:
        """End a running wait immediately."""
        self._freed.set()
        self._wake.set()

    async def wait_for_slot(self) -> None:
        """Wait until a job ends, or until it is time to look for tenants without a running job."""
        await _wait_for_event(self._freed, MIN_POLL_INTERVAL_SECONDS)
        self._freed.clear()

    async def wait_for_work(self, timeout_seconds: float = POLL_INTERVAL_SECONDS) -> None:
        """Wait until it is time to claim again.

        Args:
            timeout_seconds: Maximum time without a notification.
        """
        await _wait_for_event(self._wake, timeout_seconds)
        if not (self.wakes_immediately and self.has_free_slot):
            await _wait_for_event(self._freed, MIN_POLL_INTERVAL_SECONDS)
        self._wake.clear()
        self._freed.clear()


async def _wait_for_event(event: asyncio.Event, timeout_seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_seconds):
            await event.wait()
