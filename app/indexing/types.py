"""What is known of a search index, and what it wants next (pure)."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self
from uuid import UUID

from app.db.maintenance import MOST_DIMENSIONS
from app.errors import Postponed

# How far the live mean length may be from the one that the weights were made with.
DRIFT = 0.05
# Which share of a vector index may be dead before it is built anew: DESIGN's "a tenth to a fifth".
DEAD = 0.15
# A vector index is tried again when it has grown by this share: what is added may hide what was found before.
GROWN = 0.1
# Another one is made for what did not find what it should when there are so many times the chunks.
ANOTHER_TRY = 1.5
# Centroids are made anew when so many chunks were added or removed, as a share of those they were made of, or at most.
CHANGED, MOST_CHANGED = 0.1, 1000
THRESHOLD_DIMENSIONS = 384
BUSY_REST_SECONDS = 5.0


class IndexBusy(Postponed):
    """The search index is being maintained, which may take minutes; whoever waits for that is in nobody's place."""

    code = "index_busy"

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC) + timedelta(seconds=BUSY_REST_SECONDS))


class Step(StrEnum):
    """What is done about the vector index."""

    NOTHING = "nothing"
    PROMOTE = "promote"
    REBUILD = "rebuild"
    TRY = "try"
    DEMOTE = "demote"


class HeldBack(StrEnum):
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
    HeldBack.NO_OWNER: "No worker has CARREL_ADMIN_DATABASE_URL, so that none can build a vector index.",
    HeldBack.TOO_MANY: "The database has as many vector indexes as it may have.",
    HeldBack.TOO_WIDE: f"A vector index holds at most {MOST_DIMENSIONS} dimensions.",
    HeldBack.INEXACT: "The vector index did not find what an exact search finds, and was dropped.",
}


@dataclass(frozen=True, slots=True)
class IndexFigures:
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
    held_back: str | None
    built_chunks: int | None
    deleted_chunks: int
    chunks: int
    tokens: int
    building: bool = False

    def once_live(self) -> Self:
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
        return mean is not None and abs(mean / self.avgdl - 1) > DRIFT


def chunks_to_promote(threshold: int, dim: int) -> float:
    """How many chunks are read exactly at most; ``threshold`` is that number for 384 dimensions."""
    return threshold * math.sqrt(THRESHOLD_DIMENSIONS / dim)


def next_step(figures: IndexFigures, *, threshold: int) -> Step:
    """What the vector index wants. Between half the threshold and the threshold, what is there stays.

    So it does while the search index is built: what it wants is made when it is whole, which is not seen here.
    """
    if figures.building:
        return Step.NOTHING
    limit = chunks_to_promote(threshold, figures.dim)
    shrunk = not figures.live or figures.chunks < limit / 2
    if figures.vector_index == "exact":
        if figures.live and figures.chunks >= limit:
            return Step.PROMOTE if _may_try(figures) else Step.NOTHING
        return Step.DEMOTE if figures.held_back is not None and shrunk else Step.NOTHING
    if shrunk:
        return Step.DEMOTE
    if figures.vector_index == "building":
        return Step.PROMOTE
    dead = figures.deleted_chunks > DEAD * (figures.built_chunks or 0)
    if dead:
        return Step.REBUILD
    return Step.TRY if figures.chunks > (1 + GROWN) * (figures.built_chunks or 0) else Step.NOTHING


def _may_try(figures: IndexFigures) -> bool:
    if figures.dim > MOST_DIMENSIONS:
        return figures.held_back is None
    return figures.held_back != HeldBack.INEXACT or figures.chunks >= ANOTHER_TRY * (figures.built_chunks or 0)
