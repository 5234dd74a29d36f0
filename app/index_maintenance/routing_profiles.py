"""Routing profiles: what a knowledge base is about, as a few vectors that a query is compared with."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.db.session import Database
from app.ids import derive_id
from app.index_maintenance.centroids import MAX_CENTROIDS, compute_centroids
from app.index_maintenance.routing_repository import ProfileInput, RoutingProfileRepository
from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected, EmbeddingUnavailable
from app.inference.embedding.model_registry import Embedders, compute_model_key
from app.logging import get_logger

logger = get_logger(__name__)

# However large a knowledge base is: numbers that the sample holds, chunks in it, and rows that are looked at for it.
MAX_SAMPLE_VALUES = 1_600_000
MAX_SAMPLE_CHUNKS, MIN_SAMPLE_CHUNKS = 4096, 16 * MAX_CENTROIDS
MAX_SAMPLE_ROWS = 20_000
SAMPLE_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RoutingProfileBuilder:
    """What the jobs call. ``scope_keys`` are the levels that everybody sees who sees the knowledge base.

    What belongs to one user or one chat says nothing of it to the others.
    """

    database: Database
    embedders: Embedders
    scope_keys: Sequence[UUID]

    async def refresh(self, tenant_id: UUID, index_id: UUID) -> None:
        """Make the profile of a search index anew; doing it again changes nothing.

        Texts that are embedded already stay so. Raises EmbeddingUnavailable where the model does not answer, after what
        does not need it is done.
        """
        async with self.database.transaction(tenant_id, statement_timeout_seconds=SAMPLE_TIMEOUT_SECONDS) as session:
            repository = RoutingProfileRepository(session, tenant_id, index_id)
            profile_input = await repository.find_input()
            if profile_input is None:
                return
            size = min(MAX_SAMPLE_CHUNKS, max(MIN_SAMPLE_CHUNKS, MAX_SAMPLE_VALUES // profile_input.dim))
            sample = await repository.sample_vectors(
                dim=profile_input.dim, scope_keys=self.scope_keys, max_rows=MAX_SAMPLE_ROWS, size=size
            )
        centroids = await asyncio.to_thread(compute_centroids, sample, chunks=profile_input.shared_chunks)
        unavailable_error: EmbeddingUnavailable | None = None
        texts_id, vectors = profile_input.texts_id, None
        try:
            texts_id, vectors = await self._embed_texts(profile_input)
        except EmbeddingUnavailable as exc:
            unavailable_error = exc
        async with self.database.transaction(tenant_id) as session:
            repository = RoutingProfileRepository(session, tenant_id, index_id)
            await repository.replace(
                model=compute_model_key(EmbeddingIdentity.from_index_identity(profile_input.identity)),
                chunks=profile_input.chunks,
                texts_id=texts_id,
                centroids=centroids,
                text_vectors=await repository.fetch_text_vectors() if vectors is None else vectors,
            )
        logger.info("routing.profile_built", index=str(index_id), centroids=len(centroids))
        if unavailable_error is not None:
            raise unavailable_error

    async def _embed_texts(self, profile_input: ProfileInput) -> tuple[UUID | None, Sequence[Any] | None]:
        """The name of the texts and their vectors; None for these where those that are kept still hold.

        What the model refuses, or where there is none, is done without.
        """
        if not profile_input.texts:
            return None, []
        texts_id = derive_id("routing texts", *profile_input.texts)
        if texts_id == profile_input.texts_id:
            return texts_id, None
        embedder = self.embedders.find_by_identity(profile_input.identity)
        if embedder is None:
            return None, []
        try:
            vectors: npt.NDArray[np.float32] = (await embedder.embed_documents(profile_input.texts)).vectors
        except EmbeddingRejected as exc:
            logger.warning("routing.texts_rejected", error=exc)
            return texts_id, []
        return texts_id, list(vectors)
