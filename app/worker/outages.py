"""Outages of dependencies: the embedding model, the object store and the vision model.

When a job fails because of a dependency, the worker checks the dependency with a harmless request. If the check fails
too, the document is not the cause. The job then waits without counting an attempt, and resumes as soon as the
dependency answers again.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from app.errors import AppError
from app.inference.embedding import EmbeddingMismatch, EmbeddingRejected, EmbeddingUnavailable
from app.inference.embedding.model_registry import Embedders
from app.inference.vision import VisionUnavailable
from app.logging import get_logger
from app.object_store import ObjectMissing, ObjectStore, ObjectStoreUnavailable

logger = get_logger(__name__)

EMBEDDING, OBJECT_STORE, VISION = "embedding_unavailable", "object_store_unavailable", "vision_unavailable"
CHECK_TIMEOUT_SECONDS = 15.0
MIN_CHECK_INTERVAL_SECONDS, MAX_CHECK_INTERVAL_SECONDS = 1.0, 30.0
# A postponed job is due again after about this time, even if the monitor does not see the end of the outage. A random
# part of the time prevents that many jobs become due together.
RETRY_DELAY_SECONDS = 60.0


@dataclass(slots=True)
class Outage:
    """An outage of a dependency, with the time of the next check."""

    check_interval_seconds: float = MIN_CHECK_INTERVAL_SECONDS
    next_check_at: float = field(default_factory=lambda: time.monotonic() + MIN_CHECK_INTERVAL_SECONDS)

    def back_off(self) -> None:
        """Delay the next check: double the interval, up to 30 seconds."""
        self.check_interval_seconds = min(MAX_CHECK_INTERVAL_SECONDS, 2 * self.check_interval_seconds)
        self.next_check_at = time.monotonic() + self.check_interval_seconds


@dataclass(slots=True)
class OutageMonitor:
    """Current outages that this worker has noticed, by the code of their error."""

    embedders: Embedders
    objects: ObjectStore
    resume_jobs: Callable[[str], Awaitable[int]]
    active_outages: dict[str, Outage] = field(default_factory=dict)

    async def find_outage_code(self, error: BaseException) -> str | None:
        """Return the code of the outage that made a job fail.

        Args:
            error: Exception of the job.

        Returns:
            The code, or None if the job's document may be the cause.
        """
        code = _classify_error(error)
        if code is None or code in self.active_outages:
            return code
        if not _is_circuit_open(error) and await self._is_available(code):
            return None
        self.active_outages[code] = Outage()
        logger.warning("outage.began", code=code)
        return code

    async def watch(self) -> None:
        """Check dependencies with an outage until they answer, then make the jobs that wait for them due."""
        while True:
            await asyncio.sleep(MIN_CHECK_INTERVAL_SECONDS / 2)
            for code, outage in list(self.active_outages.items()):
                if time.monotonic() < outage.next_check_at:
                    continue
                if not await self._is_available(code):
                    outage.back_off()
                    continue
                del self.active_outages[code]
                try:
                    logger.info("outage.ended", code=code, resumed=await self.resume_jobs(code))
                except AppError as exc:  # the jobs are due later anyway
                    logger.warning("outage.resume_failed", code=code, error=exc)

    async def _is_available(self, code: str) -> bool:
        """Check a dependency with a harmless request. No such request exists for vision models: only their circuit
        breaker shows an outage.
        """
        if code == VISION:
            return True
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                if code == OBJECT_STORE:
                    await self.objects.check()
                else:
                    await asyncio.gather(*(embedder.check() for embedder in self.embedders.all))
        except (AppError, TimeoutError):
            return False
        return True


def get_next_check_time() -> datetime:
    """Return the time at which a job that waits for the end of an outage is due again."""
    return datetime.now(UTC) + timedelta(seconds=RETRY_DELAY_SECONDS * random.uniform(1.0, 1.5))  # noqa: S311  no secret


def _classify_error(error: BaseException) -> str | None:
    """Return the outage code of the dependency that may have caused an error, or None.

    A model that refuses every request, for example because of a wrong API key, has an outage. A model that refuses a
    single text has none: the document is the cause.
    """
    match error:
        case ObjectMissing():
            return None
        case ObjectStoreUnavailable():
            return OBJECT_STORE
        case VisionUnavailable():
            return VISION if _is_circuit_open(error) else None
        case EmbeddingUnavailable() | EmbeddingMismatch():
            return EMBEDDING
        case EmbeddingRejected() if "index" not in error.fields:
            return EMBEDDING
    return None


def _is_circuit_open(error: BaseException) -> bool:
    return isinstance(error, AppError) and bool(error.fields.get("circuit_open"))
