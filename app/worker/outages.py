"""Outages of what a job depends on: told from the fault of one document, and watched until they are over.

A dependency is asked something harmless when a job has failed by it. If that fails too, nothing about the document is
wrong: the job waits without counting an attempt, and goes on as soon as the dependency answers again.
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
# A job looks again by itself after so long, whatever the watching worker finds; spread, for there may be many.
RETRY_DELAY_SECONDS = 60.0


@dataclass(slots=True)
class Outage:
    """A dependency that is out of reach, and when it is asked the next time."""

    check_interval_seconds: float = MIN_CHECK_INTERVAL_SECONDS
    next_check_at: float = field(default_factory=lambda: time.monotonic() + MIN_CHECK_INTERVAL_SECONDS)

    def back_off(self) -> None:
        """Ask again after a longer time."""
        self.check_interval_seconds = min(MAX_CHECK_INTERVAL_SECONDS, 2 * self.check_interval_seconds)
        self.next_check_at = time.monotonic() + self.check_interval_seconds


@dataclass(slots=True)
class OutageMonitor:
    """What this worker knows to be out of reach, by the code of the error that tells of it."""

    embedders: Embedders
    objects: ObjectStore
    resume_jobs: Callable[[str], Awaitable[int]]
    active_outages: dict[str, Outage] = field(default_factory=dict)

    async def find_outage_code(self, error: BaseException) -> str | None:
        """Return the code of the outage that a job has failed by; None where the job's own document may be at fault."""
        code = _classify_error(error)
        if code is None or code in self.active_outages:
            return code
        if not _is_circuit_open(error) and await self._is_available(code):
            return None
        self.active_outages[code] = Outage()
        logger.warning("outage.began", code=code)
        return code

    async def watch(self) -> None:
        """Ask what is out of reach from time to time; let the jobs that wait for it go on when it answers."""
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
                except AppError as exc:  # the jobs look again by themselves
                    logger.warning("outage.resume_failed", code=code, error=exc)

    async def _is_available(self, code: str) -> bool:
        """Ask the dependency something harmless. A vision model has no such question: its breaker alone tells."""
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
    """Return when a job that waits for the end of an outage looks by itself."""
    return datetime.now(UTC) + timedelta(seconds=RETRY_DELAY_SECONDS * random.uniform(1.0, 1.5))  # noqa: S311  no secret


def _classify_error(error: BaseException) -> str | None:
    """A refusal of everything, as of a wrong key, is no fault of a document either; of one text it is."""
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
