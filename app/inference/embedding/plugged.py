"""Embedders of plugins: made by the name of their entry point, and nothing they give is believed unchecked."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from app.errors import AppError
from app.inference.embedding import (
    Embedder,
    EmbeddingIdentity,
    EmbeddingMismatch,
    EmbeddingRejected,
    Embeddings,
    EmbeddingUnavailable,
    PictureEmbedder,
    PictureFile,
    Vectors,
)
from app.plugins import EMBEDDERS, make_provider
from app.settings import EmbeddingSettings

MAX_DIMENSIONS = 4000
LEAST_TOKENS = 16

InputT = TypeVar("InputT")
MadeT = TypeVar("MadeT")


class EmbedderMissing(AppError):
    """No installed plugin brings the embedder that CARREL_EMBEDDING_PROVIDER names."""

    code = "embedder_missing"


class EmbedderRefused(AppError):
    """The embedder that CARREL_EMBEDDING_PROVIDER names cannot be made."""

    code = "embedder_refused"


def open_plugged(name: str, settings: EmbeddingSettings) -> Embedder:
    """What the plugin's factory makes of the settings; blocking. Raises EmbedderMissing, EmbedderRefused."""
    made = make_provider(
        EMBEDDERS,
        name,
        settings,
        problem=_problem,
        missing=EmbedderMissing,
        refused=EmbedderRefused,
        variable="CARREL_EMBEDDING_PROVIDER",
    )
    return PluggedEmbedder(name, made)


def _problem(made: Any) -> str:
    """What is wrong with an embedder; empty when nothing is."""
    if not isinstance(made.identity, EmbeddingIdentity):
        return "has no EmbeddingIdentity"
    if not 1 <= made.identity.dimensions <= MAX_DIMENSIONS:
        return f"makes vectors of no length between 1 and {MAX_DIMENSIONS}"
    if made.max_tokens - made.special_tokens < LEAST_TOKENS:
        return f"reads fewer than {LEAST_TOKENS} tokens"
    pictures = getattr(made, "pictures", None)
    if pictures is not None and not callable(getattr(pictures, "embed_pictures", None)):
        return "has pictures that embed none"
    return ""


@dataclass(frozen=True, slots=True)
class PluggedEmbedder:
    """An Embedder around another's: errors become ours, vectors are checked and brought to unit length."""

    name: str
    inner: Embedder

    @property
    def identity(self) -> EmbeddingIdentity:
        """As the plugin says."""
        return self.inner.identity

    @property
    def max_tokens(self) -> int:
        """As the plugin says."""
        return self.inner.max_tokens

    @property
    def special_tokens(self) -> int:
        """As the plugin says."""
        return self.inner.special_tokens

    @property
    def pictures(self) -> PictureEmbedder | None:
        """Itself, where the plugin has something there."""
        return self if self._inner_pictures else None

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:  # noqa: ARG002
        """As bulk work: plugins know no other. Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected."""
        return self._embeddings(await self._guarded(self.inner.embed_documents, texts), len(texts))

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected."""
        return self._checked(await self._guarded(self.inner.embed_queries, texts), len(texts))

    async def embed_pictures(self, pictures: Sequence[PictureFile], *, interactive: bool = False) -> Embeddings:
        """Only where ``pictures`` is not None. Raises as ``embed_documents``."""
        if (inner := self._inner_pictures) is None:
            raise EmbeddingRejected(f"The embedder {self.name!r} takes no pictures.")
        embed = partial(inner.embed_pictures, interactive=interactive)
        return self._embeddings(await self._guarded(embed, pictures), len(pictures))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Raises EmbeddingRejected where it is no count."""
        try:
            counts = [int(count) for count in self.inner.count_tokens(texts)]
        except AppError:
            raise
        except Exception as exc:
            raise EmbeddingRejected(f"The embedder {self.name!r} failed to count tokens.") from exc
        if len(counts) != len(texts) or min(counts, default=0) < 0:
            raise EmbeddingRejected(f"The embedder {self.name!r} does not count the tokens of each text.")
        return counts

    async def check(self) -> None:
        """Embed one word. Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected."""
        await self.embed_queries(["word"])

    async def close(self) -> None:
        """The plugin's own end."""
        await self.inner.close()

    @property
    def _inner_pictures(self) -> PictureEmbedder | None:
        """A plugin may leave the attribute out."""
        found: PictureEmbedder | None = getattr(self.inner, "pictures", None)
        return found

    async def _guarded(self, embed: Callable[[Sequence[InputT]], Awaitable[MadeT]], inputs: Sequence[InputT]) -> MadeT:
        try:
            return await embed(inputs)
        except AppError:
            raise
        except Exception as exc:
            raise EmbeddingUnavailable(f"The embedder {self.name!r} failed.") from exc

    def _embeddings(self, made: Any, count: int) -> Embeddings:
        if not isinstance(made, Embeddings) or not isinstance(made.tokens, int):
            raise EmbeddingRejected(f"The embedder {self.name!r} gave no Embeddings.")
        return Embeddings(self._checked(made.vectors, count), max(made.tokens, 0))

    def _checked(self, made: Any, count: int) -> Vectors:
        try:
            vectors = np.asarray(made, np.float64)
        except (ValueError, TypeError) as exc:
            raise EmbeddingMismatch(f"The embedder {self.name!r} gave something that is no vectors.") from exc
        expected = (count, self.identity.dimensions)
        if vectors.shape != expected:
            raise EmbeddingMismatch(
                f"The embedder {self.name!r} gave vectors of shape {vectors.shape}, not {expected}."
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms).all() and norms.all()):
            raise EmbeddingRejected(f"The embedder {self.name!r} gave a vector that is zero or not finite.")
        unit: Vectors = (vectors / norms).astype(np.float32)
        return unit
