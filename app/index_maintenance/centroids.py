"""Compute centroids, a few unit vectors that represent many, by spherical k-means (Dhillon and Modha, 2001)."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

MAX_CENTROIDS = 16
MAX_ROUNDS = 20
"""Maximum number of rounds of k-means, which needs fewer for a few thousand vectors."""

SEEDING_CANDIDATES = 3
"""Number of candidates for each further initial mean."""

SEED = 7
"""Seed of the random generator: equal vectors give equal centroids."""


def compute_centroids(vectors: Vectors, *, chunks: int) -> Vectors:
    """Compute the centroids of a sample of vectors. The call blocks.

    Args:
        vectors: Sample, of the shape (vectors, dimensions); zero vectors are ignored.
        chunks: Number of chunks that the sample represents; more chunks give more centroids.

    Returns:
        Unit vectors, of the shape (centroids, dimensions).
    """
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
        # A mean without vectors, or whose vectors cancel each other out, stays unchanged.
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
    """Return the cosine distance of each vector to each chosen vector. Negative rounding errors become zero."""
    distances: Vectors = np.maximum(np.float32(1) - unit @ unit[chosen].T, np.float32(0))
    return distances


def compute_centroid_count(chunks: int) -> int:
    """Compute the number of centroids for a number of chunks: 1 for up to 4, 5 for 100, 16 for about 1,000 and more."""
    return min(MAX_CENTROIDS, math.ceil(math.sqrt(chunks) / 2))
