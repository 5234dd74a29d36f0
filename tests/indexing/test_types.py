"""What a search index wants next, case by case."""

from dataclasses import replace
from uuid import UUID

import pytest

from app.indexing.types import HeldBack, IndexFigures, Step, chunks_to_promote, next_step

PLAIN = IndexFigures(
    id=UUID(int=1), dim=384, live=True, avgdl=100.0, k1=1.2, b=0.75, vector_index="exact", held_back=None,
    built_chunks=None, deleted_chunks=0, chunks=0, tokens=0,
)  # fmt: skip
BUILT = replace(PLAIN, vector_index="hnsw", built_chunks=1000)


@pytest.mark.parametrize(
    ("figures", "step"),
    [
        (replace(PLAIN, chunks=999), Step.NOTHING),
        (replace(PLAIN, chunks=1000), Step.PROMOTE),
        (replace(PLAIN, chunks=1000, live=False), Step.NOTHING),
        (replace(PLAIN, chunks=1000, held_back="no_owner"), Step.PROMOTE),
        (replace(PLAIN, chunks=1000, held_back="too_many"), Step.PROMOTE),
        (replace(PLAIN, chunks=1499, held_back="inexact", built_chunks=1000), Step.NOTHING),
        (replace(PLAIN, chunks=1500, held_back="inexact", built_chunks=1000), Step.PROMOTE),
        (replace(PLAIN, chunks=1000, dim=4001), Step.PROMOTE),
        (replace(PLAIN, chunks=1000, dim=4001, held_back="too_wide"), Step.NOTHING),
        (replace(PLAIN, chunks=499, held_back="no_owner"), Step.DEMOTE),
        (replace(PLAIN, chunks=500, vector_index="building"), Step.PROMOTE),
        (replace(PLAIN, chunks=499, vector_index="building"), Step.DEMOTE),
        (replace(BUILT, chunks=500), Step.NOTHING),
        (replace(BUILT, chunks=499), Step.DEMOTE),
        (replace(BUILT, chunks=1000, live=False), Step.DEMOTE),
        (replace(BUILT, chunks=850, deleted_chunks=150), Step.NOTHING),
        (replace(BUILT, chunks=849, deleted_chunks=151), Step.REBUILD),
        (replace(BUILT, chunks=1100), Step.NOTHING),
        (replace(BUILT, chunks=1101), Step.TRY),
        (replace(BUILT, chunks=9000, deleted_chunks=151), Step.REBUILD),
    ],
)
def test_next_step(figures: IndexFigures, step: Step) -> None:
    assert next_step(figures, threshold=1000) is step


@pytest.mark.parametrize(("dim", "chunks"), [(384, 20_000), (1536, 10_000), (96, 40_000)])
def test_the_threshold_falls_with_the_dimension(dim: int, chunks: int) -> None:
    assert chunks_to_promote(20_000, dim) == pytest.approx(chunks)


@pytest.mark.parametrize(
    ("chunks", "tokens", "drifted"),
    [(0, 0, False), (10, 0, False), (10, 1000, False), (10, 1049, False), (10, 1051, True), (10, 949, True)],
)
def test_drift_is_more_than_a_twentieth(chunks: int, tokens: int, drifted: bool) -> None:
    assert replace(PLAIN, chunks=chunks, tokens=tokens).has_drifted is drifted


def test_every_reason_has_a_sentence() -> None:
    assert len({reason.sentence for reason in HeldBack}) == len(HeldBack)
