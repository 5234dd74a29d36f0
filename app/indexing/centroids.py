"""Centroids: a few directions that stand for many vectors (pure). The home of faiss."""

import math

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

MOST_CENTROIDS = 16
# k-means has settled long before that on a few thousand vectors.
ROUNDS = 20
# So that the same vectors give the same centroids.
SEED = 7


def centroids_of(vectors: Vectors, *, chunks: int) -> Vectors:
    """Unit vectors by spherical k-means; more for more ``chunks``, of which the vectors are a sample. Blocking."""
    lengths = np.linalg.norm(vectors, axis=1)
    vectors = vectors[lengths > 0] / lengths[lengths > 0, None]
    number = min(wanted(chunks), len(vectors))
    if number == 0:
        return np.zeros((0, vectors.shape[1]), np.float32)
    # Two tenths of a second to import: only workers do, once.
    import faiss

    # Beside the searches and ingestions of the same machine.
    faiss.omp_set_num_threads(1)
    # Whether there are few vectors for so many centroids is for us to say, not for it to warn of.
    means = faiss.Kmeans(
        vectors.shape[1], number, niter=ROUNDS, spherical=True, seed=SEED,
        min_points_per_centroid=1, max_points_per_centroid=len(vectors),
    )  # fmt: skip
    means.train(np.ascontiguousarray(vectors, np.float32))
    return np.asarray(means.centroids, np.float32)


def wanted(chunks: int) -> int:
    """How many centroids stand for so many chunks: 1 for up to 4, 5 for 100, all 16 from 1,000 on."""
    return min(MOST_CENTROIDS, math.ceil(math.sqrt(chunks) / 2))
