"""Centroids of generated clusters: their number, unit length and repeatability."""

import numpy as np
import pytest

from app.index_maintenance.centroids import compute_centroid_count, compute_centroids


def clusters(count: int, each: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    middles = np.eye(count, 32)
    made = np.repeat(middles, each, axis=0) + rng.normal(scale=0.05, size=(count * each, 32))
    return np.asarray(made, np.float32)


@pytest.mark.parametrize(("chunks", "count"), [(0, 0), (1, 1), (4, 1), (5, 2), (100, 5), (1000, 16), (1_000_000, 16)])
def test_centroid_count_grows_with_chunks(chunks: int, count: int) -> None:
    assert compute_centroid_count(chunks) == count


@pytest.mark.capability("routing-centroids")
def test_centroids_cover_every_cluster() -> None:
    found = compute_centroids(clusters(4, 16), chunks=64)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert sorted(np.argmax(found, axis=1)) == [0, 1, 2, 3]
    assert found.max(axis=1).min() > 0.95
    assert np.array_equal(found, compute_centroids(clusters(4, 16), chunks=64))


@pytest.mark.parametrize(("vectors", "chunks", "count"), [(0, 0, 0), (0, 500, 0), (1, 1, 1), (3, 1_000_000, 3)])
def test_centroids_of_few_vectors_are_computed(vectors: int, chunks: int, count: int) -> None:
    assert compute_centroids(clusters(1, 3)[:vectors], chunks=chunks).shape == (count, 32)


def test_centroids_ignore_zero_vectors() -> None:
    given = np.concatenate([np.zeros((2, 32), np.float32), clusters(1, 2)])
    assert np.isfinite(compute_centroids(given, chunks=100)).all()
    assert len(compute_centroids(given[:2], chunks=2)) == 0


def test_centroids_cover_clusters_of_different_sizes() -> None:
    sizes = [2**n for n in range(10)]
    rng = np.random.default_rng(5)
    middles = np.repeat(np.eye(10, 64), sizes, axis=0)
    vectors = np.asarray(middles + rng.normal(scale=0.001, size=middles.shape), np.float32)
    found = compute_centroids(vectors, chunks=400)
    assert len(found) == 10
    assert sorted(np.argmax(found, axis=1)) == list(range(10))


def test_centroids_beyond_directions_are_unit_vectors() -> None:
    found = compute_centroids(np.repeat(np.eye(2, 32, dtype=np.float32), 50, axis=0), chunks=100)
    assert found.shape == (5, 32)
    assert {tuple(one) for one in found.tolist()} == {tuple(one) for one in np.eye(2, 32).tolist()}


def test_centroids_of_opposite_vectors_are_unit_vectors() -> None:
    found = compute_centroids(np.array([[1, 0], [-1, 0]] * 2, np.float32), chunks=4)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
