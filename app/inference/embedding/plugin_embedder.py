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
    ImageEmbedder,
    ImageFile,
    Vectors,
)
from app.plugins import EMBEDDERS, load_provider
from app.settings import EmbeddingSettings

MAX_DIMENSIONS = 4000
MIN_TOKENS = 16

InputT = TypeVar("InputT")
ResultT = TypeVar("ResultT")


class EmbedderMissing(AppError):
    """No installed plugin brings the embedder that CARREL_EMBEDDING_PROVIDER names."""

    code = "embedder_missing"


class EmbedderRefused(AppError):
    """The embedder that CARREL_EMBEDDING_PROVIDER names cannot be made."""

    code = "embedder_refused"


def create_plugin_embedder(name: str, settings: EmbeddingSettings) -> Embedder:
    """Create the plugin's embedder from the settings; blocking. Raises EmbedderMissing, EmbedderRefused."""
    embedder = load_provider(
        EMBEDDERS,
        name,
        settings,
        find_problem=_find_problem,
        missing_error=EmbedderMissing,
        invalid_error=EmbedderRefused,
        setting_name="CARREL_EMBEDDING_PROVIDER",
    )
    return PluginEmbedder(name, embedder)


def _find_problem(embedder: Any) -> str:
    """Return the problem of an embedder, or an empty text."""
    if not isinstance(embedder.identity, EmbeddingIdentity):
        return "has no EmbeddingIdentity"
    if not 1 <= embedder.identity.dimensions <= MAX_DIMENSIONS:
        return f"makes vectors of no length between 1 and {MAX_DIMENSIONS}"
    if embedder.max_tokens - embedder.special_tokens < MIN_TOKENS:
        return f"reads fewer than {MIN_TOKENS} tokens"
    image_embedder = getattr(embedder, "image_embedder", None)
    if image_embedder is not None and not callable(getattr(image_embedder, "embed_images", None)):
        return "has an image_embedder without embed_images"
    return ""


@dataclass(frozen=True, slots=True)
class PluginEmbedder:
    """An Embedder around another's: errors become ours, vectors are checked and brought to unit length."""

    name: str
    inner: Embedder

    @property
    def identity(self) -> EmbeddingIdentity:
        """The identity of the plugin's model."""
        return self.inner.identity

    @property
    def max_tokens(self) -> int:
        """The maximum input of the plugin's model, in tokens."""
        return self.inner.max_tokens

    @property
    def special_tokens(self) -> int:
        """The number of special tokens of the plugin's model."""
        return self.inner.special_tokens

    @property
    def image_embedder(self) -> ImageEmbedder | None:
        """Itself, where the plugin has something there."""
        return self if self._inner_image_embedder else None

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:  # noqa: ARG002
        """Embed texts as bulk work, the only kind of plugins.

        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected.
        """
        return self._check_embeddings(await self._call_plugin(self.inner.embed_documents, texts), len(texts))

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected."""
        return self._normalize_vectors(await self._call_plugin(self.inner.embed_queries, texts), len(texts))

    async def embed_images(self, images: Sequence[ImageFile], *, interactive: bool = False) -> Embeddings:
        """Embed images; needs an ``image_embedder``. Raises as ``embed_documents``."""
        if (inner := self._inner_image_embedder) is None:
            raise EmbeddingRejected(f"The embedder {self.name!r} takes no images.")
        embed = partial(inner.embed_images, interactive=interactive)
        return self._check_embeddings(await self._call_plugin(embed, images), len(images))

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
        """Close the plugin's embedder."""
        await self.inner.close()

    @property
    def _inner_image_embedder(self) -> ImageEmbedder | None:
        """A plugin may leave the attribute out."""
        embedder: ImageEmbedder | None = getattr(self.inner, "image_embedder", None)
        return embedder

    async def _call_plugin(
        self, embed: Callable[[Sequence[InputT]], Awaitable[ResultT]], inputs: Sequence[InputT]
    ) -> ResultT:
        try:
            return await embed(inputs)
        except AppError:
            raise
        except Exception as exc:
            raise EmbeddingUnavailable(f"The embedder {self.name!r} failed.") from exc

    def _check_embeddings(self, result: Any, count: int) -> Embeddings:
        if not isinstance(result, Embeddings) or not isinstance(result.tokens, int):
            raise EmbeddingRejected(f"The embedder {self.name!r} gave no Embeddings.")
        return Embeddings(self._normalize_vectors(result.vectors, count), max(result.tokens, 0))

    def _normalize_vectors(self, result: Any, count: int) -> Vectors:
        try:
            vectors = np.asarray(result, np.float64)
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
