"""The next step of a search index's maintenance, case by case."""

from dataclasses import replace
from uuid import UUID

import pytest

from app.index_maintenance.types import (
    IndexMaintenanceStep,
    IndexStats,
    VectorIndexSkipReason,
    compute_ann_threshold,
    decide_next_step,
)

PLAIN = IndexStats(
    id=UUID(int=1), dim=384, live=True, avgdl=100.0, k1=1.2, b=0.75, vector_index="exact", skip_reason=None,
    built_chunks=None, deleted_chunks=0, chunks=0, tokens=0,
)  # fmt: skip
BUILT = replace(PLAIN, vector_index="hnsw", built_chunks=1000)


@pytest.mark.parametrize(
    ("figures", "step"),
    [
        (replace(PLAIN, chunks=999), IndexMaintenanceStep.NOTHING),
        (replace(PLAIN, chunks=1000), IndexMaintenanceStep.PROMOTE),
        (replace(PLAIN, chunks=1000, live=False), IndexMaintenanceStep.NOTHING),
        (replace(PLAIN, chunks=1000, skip_reason="no_owner"), IndexMaintenanceStep.PROMOTE),
        (replace(PLAIN, chunks=1000, skip_reason="too_many"), IndexMaintenanceStep.PROMOTE),
        (replace(PLAIN, chunks=1499, skip_reason="inexact", built_chunks=1000), IndexMaintenanceStep.NOTHING),
        (replace(PLAIN, chunks=1500, skip_reason="inexact", built_chunks=1000), IndexMaintenanceStep.PROMOTE),
        (replace(PLAIN, chunks=1000, dim=4001), IndexMaintenanceStep.PROMOTE),
        (replace(PLAIN, chunks=1000, dim=4001, skip_reason="too_wide"), IndexMaintenanceStep.NOTHING),
        (replace(PLAIN, chunks=499, skip_reason="no_owner"), IndexMaintenanceStep.DEMOTE),
        (replace(PLAIN, chunks=500, vector_index="building"), IndexMaintenanceStep.PROMOTE),
        (replace(PLAIN, chunks=499, vector_index="building"), IndexMaintenanceStep.DEMOTE),
        (replace(BUILT, chunks=500), IndexMaintenanceStep.NOTHING),
        (replace(BUILT, chunks=499), IndexMaintenanceStep.DEMOTE),
        (replace(BUILT, chunks=1000, live=False), IndexMaintenanceStep.DEMOTE),
        (replace(BUILT, chunks=850, deleted_chunks=150), IndexMaintenanceStep.NOTHING),
        (replace(BUILT, chunks=849, deleted_chunks=151), IndexMaintenanceStep.REBUILD),
        (replace(BUILT, chunks=1100), IndexMaintenanceStep.NOTHING),
        (replace(BUILT, chunks=1101), IndexMaintenanceStep.MEASURE),
        (replace(BUILT, chunks=9000, deleted_chunks=151), IndexMaintenanceStep.REBUILD),
    ],
)
def test_decide_next_step_depends_on_figures(figures: IndexStats, step: IndexMaintenanceStep) -> None:
    assert decide_next_step(figures, threshold=1000) is step


@pytest.mark.parametrize(("dim", "chunks"), [(384, 20_000), (1536, 10_000), (96, 40_000)])
def test_ann_threshold_falls_with_dimension(dim: int, chunks: int) -> None:
    assert compute_ann_threshold(20_000, dim) == pytest.approx(chunks)


@pytest.mark.parametrize(
    ("chunks", "tokens", "drifted"),
    [(0, 0, False), (10, 0, False), (10, 1000, False), (10, 1049, False), (10, 1051, True), (10, 949, True)],
)
def test_has_drifted_above_a_twentieth_is_true(chunks: int, tokens: int, drifted: bool) -> None:
    assert replace(PLAIN, chunks=chunks, tokens=tokens).has_drifted is drifted


def test_skip_reasons_have_different_sentences() -> None:
    assert len({reason.sentence for reason in VectorIndexSkipReason}) == len(VectorIndexSkipReason)
