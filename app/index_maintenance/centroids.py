"""Centroids: a few directions that stand for many vectors (pure)."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

MAX_CENTROIDS = 16
# k-means has settled long before that on a few thousand vectors.
MAX_ROUNDS = 20
# Vectors that are tried as each next of the first means.
SEEDING_CANDIDATES = 3
# So that the same vectors give the same centroids.
SEED = 7


def compute_centroids(vectors: Vectors, *, chunks: int) -> Vectors:
    """Unit vectors by spherical k-means; more for more ``chunks``, of which the vectors are a sample. Blocking."""
    lengths = np.linalg.norm(vectors, axis=1)
    vectors = vectors[lengths > 0] / lengths[lengths > 0, None]
    number = min(compute_centroid_count(chunks), len(vectors))
    if number == 0:
        return np.zeros((0, vectors.shape[1]), np.float32)
    unit = np.ascontiguousarray(vectors, np.float32)
    means = _choose_initial_means(unit, number)
    assignments = np.full(len(unit), -1)
    for _ in range(MAX_ROUNDS):
        nearest = np.argmax(unit @ means.T, axis=1)
        if np.array_equal(nearest, assignments):
            break
        assignments = nearest
        sums = (assignments == np.arange(number)[:, None]).astype(np.float32) @ unit
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        # A mean without vectors, or whose vectors cancel each other out, stays as it is.
        means = np.divide(sums, norms, out=means, where=norms > 0)
    return means


def _choose_initial_means(unit: Vectors, number: int) -> Vectors:
    """Choose vectors that are far from each other by greedy k-means++ (Arthur and Vassilvitskii, 2007, section 3.1)."""
    rng = np.random.default_rng(SEED)
    chosen = [int(rng.integers(len(unit)))]
    distances = _compute_distances(unit, chosen)[:, 0]
    while len(chosen) < number:
        total = float(distances.sum(dtype=np.float64))
        weights = distances.astype(np.float64) / total if total > 0 else None
        candidates = rng.choice(len(unit), SEEDING_CANDIDATES, p=weights)
        results = np.minimum(distances[:, None], _compute_distances(unit, candidates))
        best = int(np.argmin(results.sum(axis=0)))
        chosen.append(int(candidates[best]))
        distances = results[:, best]
    return unit[chosen]


def _compute_distances(unit: Vectors, chosen: Sequence[int] | npt.NDArray[np.int64]) -> Vectors:
    """Return the cosine distance of each vector to each of the chosen ones, without rounding errors below zero."""
    distances: Vectors = np.maximum(np.float32(1) - unit @ unit[chosen].T, np.float32(0))
    return distances


def compute_centroid_count(chunks: int) -> int:
    """How many centroids stand for so many chunks: 1 for up to 4, 5 for 100, all 16 from 1,000 on."""
    return min(MAX_CENTROIDS, math.ceil(math.sqrt(chunks) / 2))
