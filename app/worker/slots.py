"""A worker's places for jobs of one kind of work: how many are taken, and when to look for the next job."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from app.db.models.control_plane_rows import ClaimedJob

POLL_INTERVAL_SECONDS = 1.0
# Every job that is enqueued anywhere wakes every worker. Where it can take only some jobs, it looks no more often.
MIN_POLL_INTERVAL_SECONDS = 0.25


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job in its place, with the ``task`` that works and settles, and the ``work`` alone.

    ``is_preempted`` says that the worker ends the job for another tenant's sake.
    """

    job: ClaimedJob
    task: asyncio.Task[None] | None = None
    work: asyncio.Task[None] | None = None
    started_at: float = field(default_factory=time.monotonic)
    is_preempted: bool = False

    @property
    def elapsed_seconds(self) -> float:
        """Return how long the job has had its place."""
        return time.monotonic() - self.started_at

    def preempt(self) -> None:
        """End the work, so that the job goes back to the queue."""
        if self.work is not None:
            self.is_preempted = True
            self.work.cancel()


@dataclass(slots=True)
class JobSlots:
    """``size`` places that any job may take, and ``extra_size`` places for jobs that should not wait for those."""

    size: int
    extra_size: int = 0
    wakes_immediately: bool = True
    running_jobs: set[RunningJob] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has_free_slot(self) -> bool:
        """Return whether any job can be taken."""
        return len(self.running_jobs) < self.size

    @property
    def has_free_extra_slot(self) -> bool:
        """Return whether one of the extra places is free."""
        return len(self.running_jobs) < self.size + self.extra_size

    def wake(self) -> None:
        """Note that a job may have become ready."""
        self._wake.set()

    def release(self, running_job: RunningJob, _task: object = None) -> None:
        """Take back a place, as a callback of its task."""
        self.running_jobs.discard(running_job)
        self.interrupt_wait()

    def interrupt_wait(self) -> None:
        """End the rest at once."""
        self._freed.set()
        self._wake.set()

    async def wait_for_slot(self) -> None:
        """Wait until a job has ended, or until a look for jobs of tenants that have none running is worth it."""
        await _wait_for_event(self._freed, MIN_POLL_INTERVAL_SECONDS)
        self._freed.clear()

    async def wait_for_work(self, timeout_seconds: float = POLL_INTERVAL_SECONDS) -> None:
        """Wait until another look for a job is worth it.

        A look for a job that nothing tells of, after ``timeout_seconds``.
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
