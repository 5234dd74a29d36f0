"""The course of one search: the time it has, and what is told of it afterwards."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from app.errors import AppError
from app.retrieval import time_budget
from app.retrieval.explain import RetrieverPlan
from app.retrieval.types import DegradableStep

T = TypeVar("T")
RESULTS_MAY_BE_INCOMPLETE = "There may be more results, behind the passages that the lanes were asked for."
NO_QUESTION = "There is no question in messages: nothing was searched for."
NO_EXTRA_QUERIES = "There was no time left for further queries: only what was asked was searched for."


def get_failure_reason(error: Exception) -> str:
    """Why something did not answer, in a word for machines."""
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.code if isinstance(error, AppError) else "failed"


@dataclass(slots=True)
class DatabaseBudget:
    """Seconds of the database that the lanes of one search have left, whatever time its caller gives."""

    remaining_seconds: float = time_budget.MAX_DATABASE_SECONDS


@dataclass(frozen=True, slots=True)
class SearchRun:
    """``deadline`` is in seconds of ``time.monotonic``; ``plans`` are by search index, where they are asked for.

    ``warnings`` tell what was left out of the search, ``notices`` what else the caller should know; ``degraded_steps``
    is what did not fit or did not answer, and why, both as words for machines. ``background_tasks`` is what goes on
    beside it. ``database_budget`` is shared by all parts of the course.
    """

    deadline: float
    warnings: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    plans: dict[bytes, RetrieverPlan] = field(default_factory=dict)
    degraded_steps: dict[str, str] = field(default_factory=dict)
    background_tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    database_budget: DatabaseBudget = field(default_factory=DatabaseBudget)

    @classmethod
    def from_timeout(cls, timeout_seconds: float) -> Self:
        """Beginning now, with so many seconds to go."""
        return cls(time.monotonic() + timeout_seconds)

    @property
    def remaining_seconds(self) -> float:
        """Seconds left, never less than none."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What an error says of the search that it ends."""
        return {"timings_ms": self.timings_ms, "degraded": self.degraded_steps}

    def compute_database_timeout(self, share: float) -> float:
        """Return how long the next statements of the lanes may take: a share of the time left, within the budget."""
        return max(
            time_budget.MIN_DATABASE_SECONDS,
            min(self.remaining_seconds, self.database_budget.remaining_seconds) * share,
        )

    @contextmanager
    def charge_database_budget(self) -> Iterator[None]:
        """Take what the block needs from the database budget."""
        started_at = time.monotonic()
        try:
            yield
        finally:
            self.database_budget.remaining_seconds = max(
                0.0, self.database_budget.remaining_seconds - (time.monotonic() - started_at)
            )

    def warn(self, message: str) -> None:
        """Tell the caller, once, what is not searched."""
        if message not in self.warnings:
            self.warnings.append(message)

    def add_notice(self, message: str) -> None:
        """Tell the caller, once, what is searched all the same."""
        if message not in self.notices:
            self.notices.append(message)

    def degrade(self, step: DegradableStep, reason: str) -> None:
        """Say that the search goes on without it, or without some of it; the first reason stands."""
        self.degraded_steps.setdefault(step, reason)

    def with_time_share(self, share: float, *, max_seconds: float | None = None) -> Self:
        """The same course with only this share of the time left, and no more than ``max_seconds``."""
        seconds = self.remaining_seconds * share
        return replace(
            self, deadline=time.monotonic() + (seconds if max_seconds is None else min(max_seconds, seconds))
        )

    def start_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin what is waited for later."""
        task = asyncio.create_task(work)
        task.add_done_callback(_consume_exception)
        self.background_tasks.append(task)
        return task

    def cancel_background(self) -> None:
        """Nothing that was begun beside the search outlives it."""
        for task in self.background_tasks:
            task.cancel()

    def reset(self) -> None:
        """Nothing that was told so far counts any more, but the time that it took."""
        self.cancel_background()
        for collected in (self.warnings, self.notices, self.plans, self.degraded_steps, self.background_tasks):
            collected.clear()

    def time_step(self, step: str) -> "StepTimer":
        """Count what the block takes to ``timings_ms[step]``, whatever its end."""
        return StepTimer(self.timings_ms, step)


class StepTimer:
    """The block that ``SearchRun.time_step`` counts: a class, because a generator takes several times as long."""

    __slots__ = ("_started", "_step", "_timings_ms")

    def __init__(self, timings_ms: dict[str, float], step: str) -> None:
        self._timings_ms, self._step = timings_ms, step

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = (time.perf_counter() - self._started) * 1000
        self._timings_ms[self._step] = round(self._timings_ms.get(self._step, 0.0) + spent, 2)


async def gather(work: Sequence[Awaitable[T]]) -> list[T]:
    """All at the same time; one alone, the usual case, is not worth a task."""
    return [await work[0]] if len(work) == 1 else await asyncio.gather(*work)


def _consume_exception(task: asyncio.Task[Any]) -> None:
    """Where the search has failed before it was waited for, its own failure is no news."""
    if not task.cancelled():
        task.exception()
