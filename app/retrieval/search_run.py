"""State of one search: deadline, warnings, timings and background tasks."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from app.errors import AppError
from app.graph.subgraph import Subgraph
from app.retrieval import time_budget
from app.retrieval.explain import DegradableStep, RetrieverPlan
from app.warnings import ServiceWarning, WarningCode, normalize_warning

T = TypeVar("T")
RESULTS_MAY_BE_INCOMPLETE = ServiceWarning(
    WarningCode.RESULTS_MAY_BE_INCOMPLETE,
    "Results may be incomplete: the candidate limit was reached.",
)
EXTRA_QUERIES_SKIPPED = ServiceWarning(
    WarningCode.EXTRA_QUERIES_SKIPPED,
    "The remaining time was too short, so the queries that transformers added were skipped.",
)
THRESHOLD_NOT_APPLIED = ServiceWarning(
    WarningCode.THRESHOLD_NOT_APPLIED, "score_threshold was not applied to results without a known similarity."
)


def get_failure_reason(error: Exception) -> str:
    """Return the reason of a failure: ``timeout``, the code of an error of the service, or ``failed``."""
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.code if isinstance(error, AppError) else "failed"


@dataclass(slots=True)
class DatabaseBudget:
    """Seconds of database time that remain for the retrievers of one search, whatever the caller's timeout is."""

    remaining_seconds: float = time_budget.MAX_DATABASE_SECONDS


@dataclass(frozen=True, slots=True)
class SearchRun:
    """Deadline, timings, warnings and background tasks of one search.

    Attributes:
        deadline: End of the search, in seconds of ``time.monotonic``.
        warnings: Sentences for the caller about parts that were not searched.
        notices: Sentences for the caller about anything else; the results are complete.
        timings_ms: Milliseconds of each step.
        plans: Plans of the retrievers by search index, if the caller requested them.
        degraded_steps: Steps that failed or were skipped, each with a reason as in ``get_failure_reason``.
        background_tasks: Tasks that run while the search continues.
        subgraphs: Parts of the entity graph that connect the hits, if the caller requested them.
        serializer_names: Serializers for the text of these parts, if the caller requested a text.
        database_budget: Database time that is left, shared by all parts of the search.
    """

    deadline: float
    warnings: list[ServiceWarning] = field(default_factory=list)
    notices: list[ServiceWarning] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    plans: dict[bytes, RetrieverPlan] = field(default_factory=dict)
    degraded_steps: dict[str, str] = field(default_factory=dict)
    background_tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    subgraphs: list[Subgraph] = field(default_factory=list)
    serializer_names: list[str] = field(default_factory=list)
    database_budget: DatabaseBudget = field(default_factory=DatabaseBudget)

    @classmethod
    def from_timeout(cls, timeout_seconds: float) -> Self:
        """Start a search that ends after ``timeout_seconds``."""
        return cls(time.monotonic() + timeout_seconds)

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Fields that are added to the error that ends the search."""
        return {"timings_ms": self.timings_ms, "degraded": self.degraded_steps}

    def compute_database_timeout(self, share: float) -> float:
        """Return the time limit in seconds for the next statements.

        Args:
            share: Share of the remaining time, or of the database budget if that is smaller.

        Returns:
            The limit, at least ``time_budget.MIN_DATABASE_SECONDS``.
        """
        return max(
            time_budget.MIN_DATABASE_SECONDS,
            min(self.remaining_seconds, self.database_budget.remaining_seconds) * share,
        )

    @contextmanager
    def charge_database_budget(self) -> Iterator[None]:
        """Charge the time of the block to the database budget."""
        started_at = time.monotonic()
        try:
            yield
        finally:
            self.database_budget.remaining_seconds = max(
                0.0, self.database_budget.remaining_seconds - (time.monotonic() - started_at)
            )

    def warn(self, warning: ServiceWarning) -> None:
        """Add a warning for the caller, once, about a part that is not searched."""
        _add_once(self.warnings, warning)

    def add_notice(self, warning: ServiceWarning) -> None:
        """Add a warning for the caller, once. The results count as complete. Plugins may pass a plain string."""
        _add_once(self.notices, warning)

    def degrade(self, step: DegradableStep, reason: str) -> None:
        """Record that a step was skipped or failed, fully or in part. Later reasons for the same step are ignored."""
        self.degraded_steps.setdefault(step, reason)

    def with_time_share(self, share: float, *, max_seconds: float | None = None) -> Self:
        """Return a copy whose deadline leaves a share of the remaining time, and at most ``max_seconds``."""
        seconds = self.remaining_seconds * share
        return replace(
            self, deadline=time.monotonic() + (seconds if max_seconds is None else min(max_seconds, seconds))
        )

    def start_background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that ends with the search at the latest."""
        task = asyncio.create_task(work)
        task.add_done_callback(_consume_exception)
        self.background_tasks.append(task)
        return task

    def cancel_background(self) -> None:
        """Cancel all background tasks."""
        for task in self.background_tasks:
            task.cancel()

    def reset(self) -> None:
        """Cancel the background tasks and forget everything collected so far, except the timings."""
        self.cancel_background()
        for collected in (
            self.warnings, self.notices, self.plans, self.degraded_steps, self.background_tasks, self.subgraphs,
            self.serializer_names,
        ):  # fmt: skip
            collected.clear()

    def time_step(self, step: str) -> "StepTimer":
        """Return a context manager that adds the time of its block to ``timings_ms[step]``."""
        return StepTimer(self.timings_ms, step)


class StepTimer:
    """Context manager of ``SearchRun.time_step``: a class, because a generator takes several times as long."""

    __slots__ = ("_started", "_step", "_timings_ms")

    def __init__(self, timings_ms: dict[str, float], step: str) -> None:
        self._timings_ms, self._step = timings_ms, step

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = (time.perf_counter() - self._started) * 1000
        self._timings_ms[self._step] = round(self._timings_ms.get(self._step, 0.0) + spent, 2)


async def gather(work: Sequence[Awaitable[T]]) -> list[T]:
    """Await all awaitables at the same time. A single awaitable, the usual case, gets no task."""
    return [await work[0]] if len(work) == 1 else await asyncio.gather(*work)


def _add_once(warnings: list[ServiceWarning], warning: ServiceWarning) -> None:
    warning = normalize_warning(warning)
    if warning not in warnings:
        warnings.append(warning)


def _consume_exception(task: asyncio.Task[Any]) -> None:
    """Read the error of a task that nothing awaits any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
