"""A worker's places for jobs of one kind of work: how many are taken, and when to look for the next job."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from app.db.models.control_rows import ClaimedJob

POLL_SECONDS = 1.0
# Every job that is enqueued anywhere wakes every worker. Where it can take only some jobs, it looks no more often.
LOOK_SECONDS = 0.25


@dataclass(slots=True, eq=False)
class Held:
    """A job in its place, with the ``task`` that works and settles, and the ``work`` alone.

    ``is_ended`` says that the worker ends the job for another tenant's sake.
    """

    job: ClaimedJob
    task: asyncio.Task[None] | None = None
    work: asyncio.Task[None] | None = None
    since: float = field(default_factory=time.monotonic)
    is_ended: bool = False

    @property
    def seconds(self) -> float:
        """Return how long the job has had its place."""
        return time.monotonic() - self.since

    def end(self) -> None:
        """End the work, so that the job goes back to the queue."""
        if self.work is not None:
            self.is_ended = True
            self.work.cancel()


@dataclass(slots=True)
class Places:
    """``size`` places that any job may take, and ``extra`` places for jobs that should not wait for those."""

    size: int
    extra: int = 0
    hurries: bool = True
    held: set[Held] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has_room(self) -> bool:
        """Return whether any job can be taken."""
        return len(self.held) < self.size

    @property
    def has_extra_room(self) -> bool:
        """Return whether one of the extra places is free."""
        return len(self.held) < self.size + self.extra

    def wake(self) -> None:
        """Note that a job may have become ready."""
        self._wake.set()

    def free(self, held: Held, _task: object = None) -> None:
        """Take back a place, as a callback of its task."""
        self.held.discard(held)
        self.stir()

    def stir(self) -> None:
        """End the rest at once."""
        self._freed.set()
        self._wake.set()

    async def wait_for_room(self) -> None:
        """Wait until a job has ended, or until a look for jobs of tenants that have none running is worth it."""
        await _set_within(self._freed, LOOK_SECONDS)
        self._freed.clear()

    async def rest(self, seconds: float = POLL_SECONDS) -> None:
        """Wait until another look for a job is worth it; a look for a job that nothing tells of, after ``seconds``."""
        await _set_within(self._wake, seconds)
        if not (self.hurries and self.has_room):
            await _set_within(self._freed, LOOK_SECONDS)
        self._wake.clear()
        self._freed.clear()


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
