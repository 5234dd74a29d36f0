"""What routing compares, kept by each process for as long as it holds; a tenant's own, and what is shared."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.retrieval.routing import Candidate, Likeness

Vectors = npt.NDArray[np.float32]

# Of all tenants in one process; and of one tenant's vectors, about 2,000 knowledge bases of 384 dimensions: those of a
# larger one are compared in the database.
MOST_BYTES, MOST_BYTES_OF_ONE = 128 * 2**20, 64 * 2**20


class IndexVectors(NamedTuple):
    """The vectors of one search index, centroids first, and when they were made."""

    made: object
    centroids: Vectors
    texts: Vectors


@dataclass(frozen=True, slots=True)
class ProfileMatrix:
    """The vectors of one model below each other: ``rows`` says whose they are, ``starts`` where each of them begins."""

    vectors: Vectors
    starts: npt.NDArray[np.intp]
    rows: Sequence[tuple[UUID, bool]]

    @classmethod
    def of(cls, indexes: Mapping[UUID, IndexVectors]) -> "ProfileMatrix":
        """Of search indexes whose vectors have the same dimensions; there is one at least."""
        parts, rows = [], []
        for index_id, one in indexes.items():
            for described, vectors in ((False, one.centroids), (True, one.texts)):
                if len(vectors):
                    parts.append(vectors)
                    rows.append((index_id, described))
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        return cls(np.concatenate(parts), starts, rows)

    def likeness(self, queries: Sequence[Vectors]) -> dict[UUID, Likeness]:
        """How like the most alike query each search index is."""
        products = (self.vectors @ np.stack(queries).T).max(axis=1)
        best = np.maximum.reduceat(products, self.starts).tolist()
        found: dict[UUID, Likeness] = {}
        for (index_id, described), cosine in zip(self.rows, best, strict=True):
            before = found.get(index_id)
            found[index_id] = Likeness(before and before.centroids, cosine) if described else Likeness(cosine)
        return found


@dataclass(frozen=True, slots=True)
class Profiles:
    """All of a tenant as of one version; no ``matrices`` where there is too much to keep."""

    version: object
    candidates: Sequence[Candidate]
    vectors: Mapping[UUID, IndexVectors]
    matrices: Mapping[UUID, ProfileMatrix] | None

    @property
    def size(self) -> int:
        """Bytes, without what is small; each vector is kept twice, to be put together anew when others change."""
        matrices = sum(matrix.vectors.nbytes for matrix in (self.matrices or {}).values())
        return matrices + sum(one.centroids.nbytes + one.texts.nbytes for one in self.vectors.values())


@dataclass(frozen=True, slots=True)
class KnownProfiles:
    """The profiles of the tenants that have searched last. One for all searches of a process."""

    most_bytes: int = MOST_BYTES
    most_bytes_of_one: int = MOST_BYTES_OF_ONE
    _kept: OrderedDict[UUID, Profiles] = field(default_factory=OrderedDict)

    def get(self, tenant_id: UUID) -> Profiles | None:
        """What was kept of it, of whatever version."""
        return self._kept.get(tenant_id)

    def keep(self, tenant_id: UUID, profiles: Profiles) -> None:
        """In place of what was kept; the longest unused go."""
        self._kept[tenant_id] = profiles
        self._kept.move_to_end(tenant_id)
        while len(self._kept) > 1 and sum(one.size for one in self._kept.values()) > self.most_bytes:
            self._kept.popitem(last=False)


def matrices_of(candidates: Iterable[Candidate], vectors: Mapping[UUID, IndexVectors]) -> dict[UUID, ProfileMatrix]:
    """By model."""
    by_model: dict[UUID, dict[UUID, IndexVectors]] = {}
    for one in candidates:
        for profile in one.profiles:
            if profile.index_id in vectors:
                by_model.setdefault(profile.model, {})[profile.index_id] = vectors[profile.index_id]
    return {model: ProfileMatrix.of(indexes) for model, indexes in by_model.items()}
