"""What is known of a search index, and what it wants next (pure)."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self
from uuid import UUID

from app.db.index_ddl import MAX_DIMENSIONS
from app.errors import JobPostponed

# How far the live mean length may be from the one that the weights were made with.
MAX_LENGTH_DRIFT = 0.05
# Which share of a vector index may be dead before it is built anew: DESIGN's "a tenth to a fifth".
MAX_DEAD_SHARE = 0.15
# A vector index is tried again when it has grown by this share: what is added may hide what was found before.
MIN_GROWTH_SHARE = 0.1
# Another one is made for what did not find what it should when there are so many times the chunks.
RETRY_GROWTH_FACTOR = 1.5
# Centroids are made anew when so many chunks were added or removed, as a share of those they were made of, or at most.
MAX_CHANGED_SHARE, MAX_CHANGED_CHUNKS = 0.1, 1000
THRESHOLD_DIMENSIONS = 384
BUSY_RETRY_SECONDS = 5.0


class IndexBusy(JobPostponed):
    """The search index is being maintained, which may take minutes; whoever waits for that is in nobody's place."""

    code = "index_busy"

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC) + timedelta(seconds=BUSY_RETRY_SECONDS))


class IndexMaintenanceStep(StrEnum):
    """What is done about the vector index."""

    NOTHING = "nothing"
    PROMOTE = "promote"
    REBUILD = "rebuild"
    MEASURE = "try"
    DEMOTE = "demote"


class VectorIndexSkipReason(StrEnum):
    """Why a large search index has no vector index of its own."""

    NO_OWNER = "no_owner"
    TOO_MANY = "too_many"
    TOO_WIDE = "too_wide"
    INEXACT = "inexact"

    @property
    def sentence(self) -> str:
        """For the knowledge base's owner."""
        return _SENTENCES[self]


_SENTENCES = {
    VectorIndexSkipReason.NO_OWNER: "No worker has CARREL_ADMIN_DATABASE_URL, so that none can build a vector index.",
    VectorIndexSkipReason.TOO_MANY: "The database has as many vector indexes as it may have.",
    VectorIndexSkipReason.TOO_WIDE: f"A vector index holds at most {MAX_DIMENSIONS} dimensions.",
    VectorIndexSkipReason.INEXACT: "The vector index did not find what an exact search finds, and was dropped.",
}


@dataclass(frozen=True, slots=True)
class IndexStats:
    """A search index as maintenance finds it; chunks and tokens are counted, the others remembered.

    One that is ``building`` is to become the live one.
    """

    id: UUID
    dim: int
    live: bool
    avgdl: float
    k1: float
    b: float
    vector_index: str
    skip_reason: str | None
    built_chunks: int | None
    deleted_chunks: int
    chunks: int
    tokens: int
    building: bool = False

    def as_live(self) -> Self:
        """The same when it is the live one."""
        return replace(self, live=True, building=False)

    @property
    def mean_length(self) -> float | None:
        """Of its chunks, in terms; None where there is nothing to take a mean of."""
        return self.tokens / self.chunks if self.chunks > 0 and self.tokens > 0 else None

    @property
    def has_drifted(self) -> bool:
        """Whether the weights were made with a mean length that is too far from the live one."""
        mean = self.mean_length
        return mean is not None and abs(mean / self.avgdl - 1) > MAX_LENGTH_DRIFT


def compute_ann_threshold(threshold: int, dim: int) -> float:
    """How many chunks are read exactly at most; ``threshold`` is that number for 384 dimensions."""
    return threshold * math.sqrt(THRESHOLD_DIMENSIONS / dim)


def decide_next_step(stats: IndexStats, *, threshold: int) -> IndexMaintenanceStep:
    """What the vector index wants. Between half the threshold and the threshold, what is there stays.

    So it does while the search index is built: what it wants is made when it is whole, which is not seen here.
    """
    if stats.building:
        return IndexMaintenanceStep.NOTHING
    limit = compute_ann_threshold(threshold, stats.dim)
    shrunk = not stats.live or stats.chunks < limit / 2
    if stats.vector_index == "exact":
        if stats.live and stats.chunks >= limit:
            return IndexMaintenanceStep.PROMOTE if _can_retry(stats) else IndexMaintenanceStep.NOTHING
        return IndexMaintenanceStep.DEMOTE if stats.skip_reason is not None and shrunk else IndexMaintenanceStep.NOTHING
    if shrunk:
        return IndexMaintenanceStep.DEMOTE
    if stats.vector_index == "building":
        return IndexMaintenanceStep.PROMOTE
    dead = stats.deleted_chunks > MAX_DEAD_SHARE * (stats.built_chunks or 0)
    if dead:
        return IndexMaintenanceStep.REBUILD
    return (
        IndexMaintenanceStep.MEASURE
        if stats.chunks > (1 + MIN_GROWTH_SHARE) * (stats.built_chunks or 0)
        else IndexMaintenanceStep.NOTHING
    )


def _can_retry(stats: IndexStats) -> bool:
    if stats.dim > MAX_DIMENSIONS:
        return stats.skip_reason is None
    return stats.skip_reason != VectorIndexSkipReason.INEXACT or stats.chunks >= RETRY_GROWTH_FACTOR * (
        stats.built_chunks or 0
    )
