"""Registry of the embedding models of a process; each knowledge base uses one of them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from app.errors import InvalidInputError
from app.ids import derive_id
from app.inference.embedding import Embedder, EmbeddingIdentity, EmbeddingUnavailable
from app.logging import get_logger

logger = get_logger(__name__)


@lru_cache(maxsize=100)
def compute_model_key(identity: EmbeddingIdentity) -> UUID:
    """Return a key of an embedding identity. Vectors with equal keys are comparable."""
    return derive_id("embedding model", *astuple(identity))


@dataclass(frozen=True, slots=True)
class Embedders:
    """All embedders of a process.

    Attributes:
        default: Embedder that is used if no model is named.
        additional: Other embedders that a caller can name.
        identity_only: Embedders of existing search indexes, such as another precision of a model. They are found by
            their identity, and cannot be named.
    """

    default: Embedder
    additional: Sequence[Embedder] = ()
    identity_only: Sequence[Embedder] = ()

    @property
    def all(self) -> Sequence[Embedder]:
        """All embedders that a caller can name, the default one first."""
        return self.default, *self.additional

    @property
    def identities(self) -> Sequence[EmbeddingIdentity]:
        """Identities of all search indexes that can be used, the default one first."""
        return [embedder.identity for embedder in (*self.all, *self.identity_only)]

    def find_by_identity(self, identity: Mapping[str, Any]) -> Embedder | None:
        """Return the embedder with the identity of a search index, or None if no configured embedder has it."""
        expected = EmbeddingIdentity.from_index_identity(identity)
        return next((item for item in (*self.all, *self.identity_only) if item.identity == expected), None)

    def find_by_key(self, key: UUID) -> Embedder | None:
        """Return the embedder with this ``compute_model_key``, or None if no configured embedder has this key."""
        embedders = (*self.all, *self.identity_only)
        return next((embedder for embedder in embedders if compute_model_key(embedder.identity) == key), None)

    def get_by_name(self, model: str | None, dimensions: int | None) -> Embedder:
        """Return the embedder of a model.

        Args:
            model: Name of the model; None for the default model.
            dimensions: Number of dimensions; None for the first model with the name.

        Raises:
            InvalidInputError: No such model is configured; the message names the configured ones.
        """
        name = model or self.default.identity.model
        matches = [embedder for embedder in self.all if embedder.identity.model == name]
        if not matches:
            model_names = ", ".join(dict.fromkeys(embedder.identity.model for embedder in self.all))
            raise InvalidInputError(f"The embedding models are: {model_names}.", loc=("body", "embedding", "model"))
        for embedder in matches:
            if dimensions in (None, embedder.identity.dimensions):
                return embedder
        sizes = " or ".join(str(embedder.identity.dimensions) for embedder in matches)
        raise InvalidInputError(f"{name} has {sizes} dimensions.", loc=("body", "embedding", "dimensions"))

    async def check(self) -> None:
        """Check each model, and log a warning for a model that does not answer now.

        Raises EmbeddingMismatch, EmbeddingRejected.
        """
        await asyncio.gather(*(_check(embedder) for embedder in self.all))

    async def close(self) -> None:
        """Close all models."""
        for embedder in (*self.all, *self.identity_only):
            await embedder.close()


async def _check(embedder: Embedder) -> None:
    try:
        await embedder.check()
    except EmbeddingUnavailable:
        logger.warning("embedding.unavailable_at_start", model=embedder.identity.model)
