"""Cache of routing profiles in each process: the profiles of a tenant, and the shared profiles that the tenant uses."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from app.retrieval.routing.candidates import Candidates, Numbers

Vectors = npt.NDArray[np.float32]

# Limits for all tenants of a process, and for one tenant. One tenant's limit is about 2,000 knowledge bases with 384
# dimensions. The database compares the profiles of larger tenants.
MAX_BYTES, MAX_TENANT_BYTES = 128 * 2**20, 64 * 2**20
# Number of multiplications up to which similarities are computed without a thread. They take 0.3 ms, about as long as a
# switch to a thread and back.
MAX_INLINE_OPERATIONS = 1_000_000


class IndexVectors(NamedTuple):
    """Routing vectors of one search index.

    Attributes:
        created_at: Time at which the profile was made.
        centroids: Vectors of the centroids, one in each row.
        texts: Vectors of the description texts, one in each row.
    """

    created_at: object
    centroids: Vectors
    texts: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class ProfileMatrix:
    """Routing vectors of one embedding model, stacked into one matrix.

    Attributes:
        vectors: One vector in each row. The vectors of one search index and kind are adjacent.
        starts: First row of each group of adjacent vectors.
        positions: Position of each group in the similarity tables: kind (0 centroids, 1 texts), row and column.
    """

    vectors: Vectors
    starts: npt.NDArray[np.intp]
    positions: tuple[npt.NDArray[np.intp], ...]

    @classmethod
    def from_indexes(cls, indexes: Mapping[UUID, IndexVectors], positions: Mapping[UUID, tuple[int, int]]) -> Self:
        """Stack the vectors of search indexes with equal dimensions.

        Args:
            indexes: Vectors of at least one search index.
            positions: Row and column of each search index in a profile table.

        Returns:
            The matrix.
        """
        parts, cells = [], []
        for index_id, index_vectors in indexes.items():
            for table, vectors in enumerate((index_vectors.centroids, index_vectors.texts)):
                if len(vectors):
                    parts.append(vectors)
                    cells.append((table, *positions[index_id]))
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return cls(np.concatenate(parts), starts, tuple(np.array(cells).T))

    async def fill_similarities(self, queries: Sequence[Vectors], similarities: Numbers) -> None:
        """Write the highest cosine of each group with any query into the similarity tables.

        Args:
            queries: Vectors of the queries.
            similarities: Tables from ``create_similarities``, changed in place.
        """
        work = self.vectors.size * len(queries)
        # Matrix multiplication releases the GIL, so a thread lets other requests continue.
        best = (
            self._compute_best(queries)
            if work <= MAX_INLINE_OPERATIONS
            else await asyncio.to_thread(self._compute_best, queries)
        )
        similarities[self.positions] = best

    def _compute_best(self, queries: Sequence[Vectors]) -> Vectors:
        products: Vectors = (self.vectors @ np.stack(queries).T).max(axis=1)
        return np.maximum.reduceat(products, self.starts)


@dataclass(frozen=True, slots=True)
class TenantProfiles:
    """Routing profiles of a tenant.

    Attributes:
        version: Version of the profiles, for comparison with the database.
        candidates: Knowledge bases of the tenant.
        vectors: Vectors by search index; empty if they exceed the limit of a tenant.
        matrices: Matrix for each embedding model; None if the vectors exceed the limit of a tenant.
    """

    version: object
    candidates: Candidates
    vectors: Mapping[UUID, IndexVectors]
    matrices: Mapping[UUID, ProfileMatrix] | None

    @property
    def size_bytes(self) -> int:
        """Approximate size in bytes.

        Each vector counts twice: it is also kept outside the matrix, to rebuild the matrix after a change.
        """
        matrices = sum(matrix.vectors.nbytes for matrix in (self.matrices or {}).values())
        return matrices + sum(
            index_vectors.centroids.nbytes + index_vectors.texts.nbytes for index_vectors in self.vectors.values()
        )


@dataclass(slots=True)
class ProfileCache:
    """Cache of the profiles of the most recent tenants, shared by all searches of a process.

    Attributes:
        max_bytes: Maximum size of all profiles.
        max_tenant_bytes: Maximum size of the vectors of one tenant.
    """

    max_bytes: int = MAX_BYTES
    max_tenant_bytes: int = MAX_TENANT_BYTES
    _profiles: LRUCache[UUID, TenantProfiles] = field(init=False)

    def __post_init__(self) -> None:
        # Profiles that are larger than the whole cache count as exactly its size, so that they can still be cached,
        # alone.
        self._profiles = LRUCache(self.max_bytes, getsizeof=lambda profiles: min(profiles.size_bytes, self.max_bytes))

    def get(self, tenant_id: UUID) -> TenantProfiles | None:
        """Return the cached profiles of a tenant, which may be outdated; compare ``version``."""
        return self._profiles.get(tenant_id)

    def put(self, tenant_id: UUID, profiles: TenantProfiles) -> None:
        """Replace the cached profiles of a tenant; the least recently used profiles are evicted."""
        if self._profiles.get(tenant_id) is not profiles:
            self._profiles[tenant_id] = profiles


def build_matrices(candidates: Candidates, vectors: Mapping[UUID, IndexVectors]) -> dict[UUID, ProfileMatrix]:
    """Build the matrix of each embedding model.

    Args:
        candidates: Knowledge bases of the tenant.
        vectors: Vectors by search index.

    Returns:
        The matrices by the key of the embedding model.
    """
    by_model: dict[UUID, dict[UUID, IndexVectors]] = {}
    for candidate in candidates.items:
        for profile in candidate.profiles:
            if profile.index_id in vectors:
                by_model.setdefault(profile.model, {})[profile.index_id] = vectors[profile.index_id]
    return {model: ProfileMatrix.from_indexes(indexes, candidates.positions) for model, indexes in by_model.items()}
