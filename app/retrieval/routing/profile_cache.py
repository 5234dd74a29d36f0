"""What routing compares, kept by each process for as long as it holds; a tenant's own, and what is shared."""

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

# Of all tenants in one process; and of one tenant's vectors, about 2,000 knowledge bases of 384 dimensions: those of a
# larger one are compared in the database.
MAX_BYTES, MAX_TENANT_BYTES = 128 * 2**20, 64 * 2**20
# So many multiplications take a third of a millisecond, hardly more than to hand them to a thread and to come back.
MAX_INLINE_OPERATIONS = 1_000_000


class IndexVectors(NamedTuple):
    """The vectors of one search index, centroids first, and when they were made."""

    created_at: object
    centroids: Vectors
    texts: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class ProfileMatrix:
    """The vectors of one model below each other: where each profile's begin, and where in tables its cosine goes."""

    vectors: Vectors
    starts: npt.NDArray[np.intp]
    positions: tuple[npt.NDArray[np.intp], ...]

    @classmethod
    def from_indexes(cls, indexes: Mapping[UUID, IndexVectors], positions: Mapping[UUID, tuple[int, int]]) -> Self:
        """Of search indexes whose vectors have the same dimensions; there is one at least."""
        parts, cells = [], []
        for index_id, index_vectors in indexes.items():
            for table, vectors in enumerate((index_vectors.centroids, index_vectors.texts)):
                if len(vectors):
                    parts.append(vectors)
                    cells.append((table, *positions[index_id]))
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return cls(np.concatenate(parts), starts, tuple(np.array(cells).T))

    async def fill_similarities(self, queries: Sequence[Vectors], similarities: Numbers) -> None:
        """Put in the tables how like the most alike query each profile is."""
        work = self.vectors.size * len(queries)
        # The product lets go of the interpreter: the others of this process go on.
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
    """All of a tenant as of one version; no ``matrices`` where there is too much to keep."""

    version: object
    candidates: Candidates
    vectors: Mapping[UUID, IndexVectors]
    matrices: Mapping[UUID, ProfileMatrix] | None

    @property
    def size_bytes(self) -> int:
        """Bytes, without what is small; each vector is kept twice, to be put together anew when others change."""
        matrices = sum(matrix.vectors.nbytes for matrix in (self.matrices or {}).values())
        return matrices + sum(
            index_vectors.centroids.nbytes + index_vectors.texts.nbytes for index_vectors in self.vectors.values()
        )


@dataclass(slots=True)
class ProfileCache:
    """The profiles of the tenants that have searched last. One for all searches of a process."""

    max_bytes: int = MAX_BYTES
    max_tenant_bytes: int = MAX_TENANT_BYTES
    _profiles: LRUCache[UUID, TenantProfiles] = field(init=False)

    def __post_init__(self) -> None:
        # Profiles of more than all the bytes are kept alone.
        self._profiles = LRUCache(self.max_bytes, getsizeof=lambda profiles: min(profiles.size_bytes, self.max_bytes))

    def get(self, tenant_id: UUID) -> TenantProfiles | None:
        """What was kept of it, of whatever version."""
        return self._profiles.get(tenant_id)

    def put(self, tenant_id: UUID, profiles: TenantProfiles) -> None:
        """In place of what was kept; the longest unused go."""
        if self._profiles.get(tenant_id) is not profiles:
            self._profiles[tenant_id] = profiles


def build_matrices(candidates: Candidates, vectors: Mapping[UUID, IndexVectors]) -> dict[UUID, ProfileMatrix]:
    """By model."""
    by_model: dict[UUID, dict[UUID, IndexVectors]] = {}
    for candidate in candidates.items:
        for profile in candidate.profiles:
            if profile.index_id in vectors:
                by_model.setdefault(profile.model, {})[profile.index_id] = vectors[profile.index_id]
    return {model: ProfileMatrix.from_indexes(indexes, candidates.positions) for model, indexes in by_model.items()}
