"""The course of one search: the time it has, and what is told of it afterwards."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from app.errors import AppError
from app.retrieval import shares
from app.retrieval.explanation import LanePlan
from app.retrieval.types import Droppable

T = TypeVar("T")
MAYBE_MORE = "There may be more results, behind the passages that the lanes were asked for."
NO_QUESTION = "There is no question in messages: nothing was searched for."
NO_EXTRA_QUERIES = "There was no time left for further queries: only what was asked was searched for."


def reason_of(error: Exception) -> str:
    """Why something did not answer, in a word for machines."""
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.code if isinstance(error, AppError) else "failed"


@dataclass(slots=True)
class DatabaseBudget:
    """Seconds of the database that the lanes of one search have left, whatever time its caller gives."""

    seconds: float = shares.DATABASE_SECONDS


@dataclass(frozen=True, slots=True)
class Course:
    """``deadline`` is in seconds of ``time.monotonic``; ``plans`` are by search index, where they are asked for.

    ``warnings`` tell what was left out of the search, ``remarks`` what else the caller should know; ``dropped`` is what
    did not fit or did not answer, and why, both as words for machines. ``tasks`` is what goes on beside it.
    ``database`` is shared by all parts of the course.
    """

    deadline: float
    warnings: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    plans: dict[bytes, LanePlan] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    database: DatabaseBudget = field(default_factory=DatabaseBudget)

    @classmethod
    def of(cls, seconds: float) -> Self:
        """Beginning now, with so many seconds to go."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never less than none."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def told(self) -> dict[str, Any]:
        """What an error says of the search that it ends."""
        return {"timings_ms": self.timings_ms, "dropped": self.dropped}

    def database_seconds(self, share: float) -> float:
        """Return how long the next statements of the lanes may take: a share of the time left, within the budget."""
        return max(shares.DATABASE_LEAST_SECONDS, min(self.remaining, self.database.seconds) * share)

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Take what the block needs from the database budget."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.database.seconds = max(0.0, self.database.seconds - (time.monotonic() - began))

    def warn(self, message: str) -> None:
        """Tell the caller, once, what is not searched."""
        if message not in self.warnings:
            self.warnings.append(message)

    def remark(self, message: str) -> None:
        """Tell the caller, once, what is searched all the same."""
        if message not in self.remarks:
            self.remarks.append(message)

    def drop(self, step: Droppable, reason: str) -> None:
        """Say that the search goes on without it, or without some of it; the first reason stands."""
        self.dropped.setdefault(step, reason)

    def part(self, share: float, *, most: float | None = None) -> Self:
        """The same course with only this share of the time left, and no more than ``most`` seconds."""
        seconds = self.remaining * share
        return replace(self, deadline=time.monotonic() + (seconds if most is None else min(most, seconds)))

    def beside(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin what is waited for later."""
        task = asyncio.create_task(work)
        task.add_done_callback(_noticed)
        self.tasks.append(task)
        return task

    def end(self) -> None:
        """Nothing that was begun beside the search outlives it."""
        for task in self.tasks:
            task.cancel()

    def begin_again(self) -> None:
        """Nothing that was told so far counts any more, but the time that it took."""
        self.end()
        for told in (self.warnings, self.remarks, self.plans, self.dropped, self.tasks):
            told.clear()

    def timing(self, step: str) -> "Timing":
        """Count what the block takes to ``timings_ms[step]``, whatever its end."""
        return Timing(self.timings_ms, step)


class Timing:
    """The block that ``Course.timing`` counts: a class, because a generator takes several times as long."""

    __slots__ = ("_started", "_step", "_told")

    def __init__(self, told: dict[str, float], step: str) -> None:
        self._told, self._step = told, step

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = (time.perf_counter() - self._started) * 1000
        self._told[self._step] = round(self._told.get(self._step, 0.0) + spent, 2)


async def together(work: Sequence[Awaitable[T]]) -> list[T]:
    """All at the same time; one alone, the usual case, is not worth a task."""
    return [await work[0]] if len(work) == 1 else await asyncio.gather(*work)


def _noticed(task: asyncio.Task[Any]) -> None:
    """Where the search has failed before it was waited for, its own failure is no news."""
    if not task.cancelled():
        task.exception()
