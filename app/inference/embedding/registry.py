"""The embedding models of a process, side by side: each knowledge base has one of them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from app.errors import InvalidInput
from app.ids import derived_id
from app.inference.embedding import Embedder, EmbeddingIdentity, EmbeddingUnavailable
from app.logging import get_logger

logger = get_logger(__name__)


@lru_cache(maxsize=100)
def model_key(identity: EmbeddingIdentity) -> UUID:
    """A short name of what must be equal for two vectors to be comparable."""
    return derived_id("embedding model", *astuple(identity))


@dataclass(frozen=True, slots=True)
class Embedders:
    """All embedding models; ``default`` is that of whoever names none, and never among ``further``."""

    default: Embedder
    further: Sequence[Embedder] = ()

    @property
    def all(self) -> Sequence[Embedder]:
        """The default one first."""
        return self.default, *self.further

    @property
    def identities(self) -> Sequence[EmbeddingIdentity]:
        """Theirs, in the order of ``all``."""
        return [embedder.identity for embedder in self.all]

    def of(self, identity: Mapping[str, Any]) -> Embedder | None:
        """The one that makes vectors of a stored index's identity, None when no configured model does."""
        made = EmbeddingIdentity.stored(identity)
        return next((embedder for embedder in self.all if embedder.identity == made), None)

    def by_key(self, key: UUID) -> Embedder | None:
        """The one whose ``model_key`` this is, None when no configured model has it."""
        return next((embedder for embedder in self.all if model_key(embedder.identity) == key), None)

    def named(self, model: str | None, dimensions: int | None) -> Embedder:
        """The model of that name and size: without a name the default's, without a size the first of the name.

        Raises InvalidInput naming those that are there.
        """
        name = model or self.default.identity.model
        same = [embedder for embedder in self.all if embedder.identity.model == name]
        if not same:
            known = ", ".join(dict.fromkeys(identity.model for identity in self.identities))
            raise InvalidInput(f"The embedding models are: {known}.", loc=("body", "embedding", "model"))
        for embedder in same:
            if dimensions in (None, embedder.identity.dimensions):
                return embedder
        sizes = " or ".join(str(embedder.identity.dimensions) for embedder in same)
        raise InvalidInput(f"{name} has {sizes} dimensions.", loc=("body", "embedding", "dimensions"))

    async def check(self) -> None:
        """Try each; one that does not answer now is a warning. Raises EmbeddingMismatch, EmbeddingRejected."""
        await asyncio.gather(*(_check(embedder) for embedder in self.all))

    async def close(self) -> None:
        """Let go of all of them."""
        for embedder in self.all:
            await embedder.close()


async def _check(embedder: Embedder) -> None:
    try:
        await embedder.check()
    except EmbeddingUnavailable:
        logger.warning("embedding.unavailable_at_start", model=embedder.identity.model)
