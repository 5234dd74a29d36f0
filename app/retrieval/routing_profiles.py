"""What routing compares, kept by each process for as long as it holds; a tenant's own, and what is shared."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from app.retrieval.routing import Candidates, Numbers

Vectors = npt.NDArray[np.float32]

# Of all tenants in one process; and of one tenant's vectors, about 2,000 knowledge bases of 384 dimensions: those of a
# larger one are compared in the database.
MOST_BYTES, MOST_BYTES_OF_ONE = 128 * 2**20, 64 * 2**20
# So many multiplications take a third of a millisecond, hardly more than to hand them to a thread and to come back.
AT_ONCE = 1_000_000


class IndexVectors(NamedTuple):
    """The vectors of one search index, centroids first, and when they were made."""

    made: object
    centroids: Vectors
    texts: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class ProfileMatrix:
    """The vectors of one model below each other: where each profile's begin, and where in tables its cosine goes."""

    vectors: Vectors
    starts: npt.NDArray[np.intp]
    places: tuple[npt.NDArray[np.intp], ...]

    @classmethod
    def of(cls, indexes: Mapping[UUID, IndexVectors], places: Mapping[UUID, tuple[int, int]]) -> Self:
        """Of search indexes whose vectors have the same dimensions; there is one at least."""
        parts, found = [], []
        for index_id, one in indexes.items():
            for table, vectors in enumerate((one.centroids, one.texts)):
                if len(vectors):
                    parts.append(vectors)
                    found.append((table, *places[index_id]))
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return cls(np.concatenate(parts), starts, tuple(np.array(found).T))

    async def compare(self, queries: Sequence[Vectors], alike: Numbers) -> None:
        """Put in the tables how like the most alike query each profile is."""
        work = self.vectors.size * len(queries)
        # The product lets go of the interpreter: the others of this process go on.
        best = self._best(queries) if work <= AT_ONCE else await asyncio.to_thread(self._best, queries)
        alike[self.places] = best

    def _best(self, queries: Sequence[Vectors]) -> Vectors:
        products: Vectors = (self.vectors @ np.stack(queries).T).max(axis=1)
        return np.maximum.reduceat(products, self.starts)


@dataclass(frozen=True, slots=True)
class Profiles:
    """All of a tenant as of one version; no ``matrices`` where there is too much to keep."""

    version: object
    candidates: Candidates
    vectors: Mapping[UUID, IndexVectors]
    matrices: Mapping[UUID, ProfileMatrix] | None

    @property
    def size(self) -> int:
        """Bytes, without what is small; each vector is kept twice, to be put together anew when others change."""
        matrices = sum(matrix.vectors.nbytes for matrix in (self.matrices or {}).values())
        return matrices + sum(one.centroids.nbytes + one.texts.nbytes for one in self.vectors.values())


@dataclass(slots=True)
class KnownProfiles:
    """The profiles of the tenants that have searched last. One for all searches of a process."""

    most_bytes: int = MOST_BYTES
    most_bytes_of_one: int = MOST_BYTES_OF_ONE
    _kept: LRUCache[UUID, Profiles] = field(init=False)

    def __post_init__(self) -> None:
        # Profiles of more than all the bytes are kept alone.
        self._kept = LRUCache(self.most_bytes, getsizeof=lambda profiles: min(profiles.size, self.most_bytes))

    def get(self, tenant_id: UUID) -> Profiles | None:
        """What was kept of it, of whatever version."""
        return self._kept.get(tenant_id)

    def keep(self, tenant_id: UUID, profiles: Profiles) -> None:
        """In place of what was kept; the longest unused go."""
        if self._kept.get(tenant_id) is not profiles:
            self._kept[tenant_id] = profiles


def matrices_of(candidates: Candidates, vectors: Mapping[UUID, IndexVectors]) -> dict[UUID, ProfileMatrix]:
    """By model."""
    by_model: dict[UUID, dict[UUID, IndexVectors]] = {}
    for one in candidates.each:
        for profile in one.profiles:
            if profile.index_id in vectors:
                by_model.setdefault(profile.model, {})[profile.index_id] = vectors[profile.index_id]
    return {model: ProfileMatrix.of(indexes, candidates.places) for model, indexes in by_model.items()}
