"""Statistics of a search index, and the decision about the next step of its maintenance."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self
from uuid import UUID

from app.db.index_ddl import MAX_DIMENSIONS
from app.errors import JobPostponed

MAX_LENGTH_DRIFT = 0.05
"""Maximum relative difference between the current average chunk length and the one of the stored weights."""

MAX_DEAD_SHARE = 0.15
"""Maximum share of deleted chunks in a vector index before it is rebuilt."""

MIN_GROWTH_SHARE = 0.1
"""Growth after which the recall of a vector index is measured again, because added chunks can hide earlier ones."""

RETRY_GROWTH_FACTOR = 1.5
"""Growth factor after which a vector index is built again that was not accurate enough."""

MAX_CHANGED_SHARE, MAX_CHANGED_CHUNKS = 0.1, 1000
"""Share and number of chunks: when either of them has changed, the centroids are computed again."""

THRESHOLD_DIMENSIONS = 384
"""Number of dimensions to which the configured threshold applies."""

BUSY_RETRY_SECONDS = 5.0


class IndexBusy(JobPostponed):
    """Other maintenance of the search index is running and may take minutes; the job frees its slot and runs later."""

    code = "index_busy"

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC) + timedelta(seconds=BUSY_RETRY_SECONDS))


class IndexMaintenanceStep(StrEnum):
    """Next step of the maintenance of a vector index."""

    NOTHING = "nothing"
    PROMOTE = "promote"
    REBUILD = "rebuild"
    MEASURE = "try"
    DEMOTE = "demote"


class VectorIndexSkipReason(StrEnum):
    """Reason why a large search index has no vector index."""

    NO_OWNER = "no_owner"
    TOO_MANY = "too_many"
    TOO_WIDE = "too_wide"
    INEXACT = "inexact"

    @property
    def sentence(self) -> str:
        """Sentence for the owner of the knowledge base."""
        return _SENTENCES[self]


_SENTENCES = {
    VectorIndexSkipReason.NO_OWNER: "Set CARREL_ADMIN_DATABASE_URL for a worker, so that it can build a vector index.",
    VectorIndexSkipReason.TOO_MANY: "The database has the maximum number of vector indexes.",
    VectorIndexSkipReason.TOO_WIDE: f"A vector index supports at most {MAX_DIMENSIONS} dimensions.",
    VectorIndexSkipReason.INEXACT: "The vector index missed too many results of an exact scan, and was dropped.",
}


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Statistics of a search index.

    Attributes:
        id: Id of the search index.
        dim: Number of dimensions of its vectors.
        live: Whether the search index is the live generation.
        avgdl: Average chunk length of the stored weights, in terms.
        k1: Parameter k1 of BM25.
        b: Parameter b of BM25.
        vector_index: ``exact``, ``building`` or ``hnsw``.
        skip_reason: Reason why a large search index has no vector index.
        built_chunks: Number of chunks when the vector index was last measured.
        deleted_chunks: Number of chunks deleted since the vector index was built.
        chunks: Current number of chunks.
        tokens: Current number of terms of all chunks.
        building: Whether the search index is the generation that a reindex is building.
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
        """Return the statistics as if the search index were the live one."""
        return replace(self, live=True, building=False)

    @property
    def mean_length(self) -> float | None:
        """Current average chunk length in terms; None without chunks or terms."""
        return self.tokens / self.chunks if self.chunks > 0 and self.tokens > 0 else None

    @property
    def has_drifted(self) -> bool:
        """Whether the average chunk length has changed too much since the weights were computed."""
        mean = self.mean_length
        return mean is not None and abs(mean / self.avgdl - 1) > MAX_LENGTH_DRIFT


def compute_ann_threshold(threshold: int, dim: int) -> float:
    """Compute the number of chunks up to which searches scan all vectors. For 384 dimensions it is ``threshold``."""
    return threshold * math.sqrt(THRESHOLD_DIMENSIONS / dim)


def decide_next_step(stats: IndexStats, *, threshold: int) -> IndexMaintenanceStep:
    """Decide the next step of the maintenance of a vector index.

    Between half the threshold and the threshold nothing changes, so that an index is not built and dropped repeatedly.
    Nothing changes during a reindex either: ``IndexMaintenance.prepare`` builds the vector index of a complete
    generation.

    Args:
        stats: Statistics of the search index.
        threshold: Number of chunks with 384 dimensions from which a search index gets a vector index.
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
