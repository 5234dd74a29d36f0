"""Routing profiles: what a knowledge base is about, as a few vectors that a query is compared with."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.db.session import Database
from app.ids import derived_id
from app.indexing.centroids import MOST_CENTROIDS, centroids_of
from app.indexing.routing_repository import Described, RoutingProfileRepository
from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected, EmbeddingUnavailable
from app.inference.embedding.registry import Embedders, model_key
from app.logging import get_logger

logger = get_logger(__name__)

# However large a knowledge base is: numbers that the sample holds, chunks in it, and rows that are looked at for it.
SAMPLE_NUMBERS = 1_600_000
SAMPLE, LEAST_SAMPLE = 4096, 16 * MOST_CENTROIDS
READS = 20_000
SAMPLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RoutingUpkeep:
    """What the jobs call. ``scopes`` are the levels that everybody sees who sees the knowledge base.

    What belongs to one user or one chat says nothing of it to the others.
    """

    database: Database
    embedders: Embedders
    scopes: Sequence[UUID]

    async def refresh(self, tenant_id: UUID, index_id: UUID) -> None:
        """Make the profile of a search index anew; doing it again changes nothing.

        Texts that are embedded already stay so. Raises EmbeddingUnavailable where the model does not answer, after what
        does not need it is done.
        """
        async with self.database.transaction(tenant_id, seconds=SAMPLE_SECONDS) as session:
            repository = RoutingProfileRepository(session, tenant_id, index_id)
            described = await repository.described()
            if described is None:
                return
            size = min(SAMPLE, max(LEAST_SAMPLE, SAMPLE_NUMBERS // described.dim))
            sample = await repository.sample(dim=described.dim, scopes=self.scopes, reads=READS, size=size)
        centroids = await asyncio.to_thread(centroids_of, sample, chunks=described.open_chunks)
        silent: EmbeddingUnavailable | None = None
        texts_id, vectors = described.texts_id, None
        try:
            texts_id, vectors = await self._embedded(described)
        except EmbeddingUnavailable as exc:
            silent = exc
        async with self.database.transaction(tenant_id) as session:
            repository = RoutingProfileRepository(session, tenant_id, index_id)
            await repository.replace(
                model=model_key(EmbeddingIdentity.stored(described.identity)),
                chunks=described.chunks,
                texts_id=texts_id,
                centroids=centroids,
                described=await repository.described_vectors() if vectors is None else vectors,
            )
        logger.info("routing.profile_made", index=str(index_id), centroids=len(centroids))
        if silent is not None:
            raise silent

    async def _embedded(self, described: Described) -> tuple[UUID | None, Sequence[Any] | None]:
        """The name of the texts and their vectors; None for these where those that are kept still hold.

        What the model refuses, or where there is none, is done without.
        """
        if not described.texts:
            return None, []
        texts_id = derived_id("routing texts", *described.texts)
        if texts_id == described.texts_id:
            return texts_id, None
        embedder = self.embedders.of(described.identity)
        if embedder is None:
            return None, []
        try:
            vectors: npt.NDArray[np.float32] = (await embedder.embed_documents(described.texts)).vectors
        except EmbeddingRejected as exc:
            logger.warning("routing.texts_rejected", error=exc)
            return texts_id, []
        return texts_id, list(vectors)
