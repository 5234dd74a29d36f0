"""Build routing profiles: a few vectors that represent the contents of a knowledge base for comparison with queries."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.session import Database, DatabaseUnavailable
from app.ids import derive_id
from app.index_maintenance.centroids import MAX_CENTROIDS, compute_centroids
from app.index_maintenance.routing_repository import ProfileInput, RoutingProfileRepository
from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected, EmbeddingUnavailable
from app.inference.embedding.model_registry import Embedders, compute_model_key
from app.logging import get_logger

logger = get_logger(__name__)

# Limits of the sample of a knowledge base of any size.
MAX_SAMPLE_VALUES = 1_600_000
"""Maximum number of values: vectors times dimensions."""

MAX_SAMPLE_CHUNKS, MIN_SAMPLE_CHUNKS = 4096, 16 * MAX_CENTROIDS
MAX_SAMPLE_ROWS = 20_000
"""Maximum number of rows that the query reads."""

SAMPLE_TIMEOUT_SECONDS = 30.0
INTERACTIVE_SECONDS = 2.0
"""Maximum time that a request waits for the vectors of its descriptions."""


@dataclass(frozen=True, slots=True)
class RoutingProfileBuilder:
    """Service of the job that builds a routing profile.

    Attributes:
        database: Database.
        embedders: Configured embedders.
        scope_keys: Scopes that every reader of the knowledge base can read. Chunks of one user or one chat are left
            out, so that a profile shows nothing of them to other readers.
    """

    database: Database
    embedders: Embedders
    scope_keys: Sequence[UUID]

    async def embed_texts_at_once(self, tenant_id: UUID, index_id: UUID) -> None:
        """Embed new descriptions and example queries while a caller waits, so that the next search compares them.

        The centroids stay. If the model or the database does not answer in time, the job embeds the texts later.

        Args:
            tenant_id: The tenant.
            index_id: The search index.
        """
        try:
            async with asyncio.timeout(INTERACTIVE_SECONDS):
                await self._replace_texts(tenant_id, index_id)
        except (EmbeddingUnavailable, DatabaseUnavailable, DBAPIError, TimeoutError) as exc:
            logger.info("routing.texts_postponed", index=str(index_id), error=exc)

    async def _replace_texts(self, tenant_id: UUID, index_id: UUID) -> None:
        async with self.database.transaction(tenant_id) as session:
            profile_input = await RoutingProfileRepository(session, tenant_id, index_id).find_input()
        if profile_input is None:
            return
        texts_id, vectors = await self._embed_texts(profile_input, interactive=True)
        if vectors is None:
            return
        async with self.database.transaction(tenant_id) as session:
            await RoutingProfileRepository(session, tenant_id, index_id).replace_texts(
                model=compute_model_key(EmbeddingIdentity.from_index_identity(profile_input.identity)),
                texts_id=texts_id,
                text_vectors=vectors,
            )

    async def refresh(self, tenant_id: UUID, index_id: UUID) -> None:
        """Build the profile of a search index again. A repeated call has the same result.

        Vectors of unchanged descriptions and example queries are reused.

        Args:
            tenant_id: The tenant.
            index_id: The search index.

        Raises:
            EmbeddingUnavailable: The model does not answer. The centroids do not need the model and are stored.
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
            texts_id, vectors = await self._embed_texts(profile_input, interactive=False)
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

    async def _embed_texts(
        self, profile_input: ProfileInput, *, interactive: bool
    ) -> tuple[UUID | None, Sequence[Any] | None]:
        """Return the id of the texts and their vectors; None instead of the vectors if the stored ones are current.

        Without a configured model, or if it refuses the texts, there are no vectors.
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
            embeddings = await embedder.embed_documents(profile_input.texts, interactive=interactive)
        except EmbeddingRejected as exc:
            logger.warning("routing.texts_rejected", error=exc)
            return texts_id, []
        return texts_id, list(embeddings.vectors)
