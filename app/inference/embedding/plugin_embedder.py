"""Embedders of plugins: created by the name of their entry point; every result is checked."""

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
from app.settings.embedding import ENDPOINT_MAX_TOKENS

MAX_DIMENSIONS = 4000
MIN_TOKENS = 16

InputT = TypeVar("InputT")
ResultT = TypeVar("ResultT")


class EmbedderMissing(AppError):
    """No installed plugin has the embedder that CARREL_EMBEDDING_PROVIDER names; install the plugin."""

    code = "embedder_missing"


class EmbedderRefused(AppError):
    """The embedder that CARREL_EMBEDDING_PROVIDER names cannot be created."""

    code = "embedder_refused"


def create_plugin_embedder(name: str, settings: EmbeddingSettings) -> Embedder:
    """Create the embedder of a plugin. The call blocks.

    Args:
        name: Name of the entry point.
        settings: Settings of the embedder.

    Raises:
        EmbedderMissing: No installed plugin has the embedder.
        EmbedderRefused: The embedder cannot be created, or has a fault.
    """
    embedder = load_provider(
        EMBEDDERS,
        name,
        _complete_settings(settings),
        find_problem=_find_problem,
        missing_error=EmbedderMissing,
        invalid_error=EmbedderRefused,
        setting_name="CARREL_EMBEDDING_PROVIDER",
    )
    return PluginEmbedder(name, embedder)


def _complete_settings(settings: EmbeddingSettings) -> EmbeddingSettings:
    """Return the settings with the defaults of an endpoint instead of values that are not set."""
    defaults = {"query_prefix": "", "document_prefix": "", "max_tokens": ENDPOINT_MAX_TOKENS}
    missing = {name: value for name, value in defaults.items() if getattr(settings, name) is None}
    return settings.model_copy(update=missing)


def _find_problem(embedder: Any) -> str:
    """Return the reason why an embedder is not usable, or an empty text if it is usable."""
    if not isinstance(embedder.identity, EmbeddingIdentity):
        return "has no EmbeddingIdentity"
    if not 1 <= embedder.identity.dimensions <= MAX_DIMENSIONS:
        return f"has a number of dimensions that is not between 1 and {MAX_DIMENSIONS}"
    if embedder.max_tokens - embedder.special_tokens < MIN_TOKENS:
        return f"reads fewer than {MIN_TOKENS} tokens"
    image_embedder = getattr(embedder, "image_embedder", None)
    if image_embedder is not None and not callable(getattr(image_embedder, "embed_images", None)):
        return "has an image_embedder without embed_images"
    return ""


@dataclass(frozen=True, slots=True)
class PluginEmbedder:
    """Embedder that wraps the embedder of a plugin: it translates errors, checks vectors and makes them unit length."""

    name: str
    inner: Embedder

    @property
    def identity(self) -> EmbeddingIdentity:
        """Identity of the plugin's model."""
        return self.inner.identity

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens that the plugin's model reads."""
        return self.inner.max_tokens

    @property
    def special_tokens(self) -> int:
        """Number of special tokens of the plugin's model."""
        return self.inner.special_tokens

    @property
    def image_embedder(self) -> ImageEmbedder | None:
        """The embedder itself if the plugin has an embedder of images, otherwise None."""
        return self if self._inner_image_embedder else None

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:  # noqa: ARG002
        """Embed texts as ``Embedder.embed_documents`` does; plugins have no interactive priority."""
        return self._check_embeddings(await self._call_plugin(self.inner.embed_documents, texts), len(texts))

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries as ``Embedder.embed_queries`` does."""
        return self._normalize_vectors(await self._call_plugin(self.inner.embed_queries, texts), len(texts))

    async def embed_images(self, images: Sequence[ImageFile], *, interactive: bool = False) -> Embeddings:
        """Embed images; the plugin must have an ``image_embedder``. Raises the errors of ``embed_documents``."""
        if (inner := self._inner_image_embedder) is None:
            raise EmbeddingRejected(f"The embedder {self.name!r} takes no images.")
        embed = partial(inner.embed_images, interactive=interactive)
        return self._check_embeddings(await self._call_plugin(embed, images), len(images))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text with the plugin.

        Args:
            texts: Texts without a prefix.

        Raises:
            EmbeddingRejected: The plugin fails, or returns no valid number for each text.
        """
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
        """Embedder of images of the plugin; None if the plugin omits the attribute."""
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
            raise EmbeddingRejected(f"The embedder {self.name!r} did not return Embeddings.")
        return Embeddings(self._normalize_vectors(result.vectors, count), max(result.tokens, 0))

    def _normalize_vectors(self, result: Any, count: int) -> Vectors:
        try:
            vectors = np.asarray(result, np.float64)
        except (ValueError, TypeError) as exc:
            raise EmbeddingMismatch(f"The embedder {self.name!r} did not return vectors.") from exc
        expected = (count, self.identity.dimensions)
        if vectors.shape != expected:
            raise EmbeddingMismatch(
                f"The embedder {self.name!r} returned vectors of shape {vectors.shape}, not {expected}."
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms).all() and norms.all()):
            raise EmbeddingRejected(f"The embedder {self.name!r} returned a vector that is zero or not finite.")
        unit: Vectors = (vectors / norms).astype(np.float32)
        return unit
