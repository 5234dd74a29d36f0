"""Embedder of a local model that is loaded when it is first used."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from app.inference.embedding import EmbeddingIdentity, Embeddings, EmbeddingUnavailable, Vectors
from app.inference.embedding.local_embedder import LocalEmbedder
from app.inference.embedding.local_models import LocalModel
from app.inference.embedding.weights import WeightsDamaged
from app.logging import get_logger

logger = get_logger(__name__)

# All pinned models add one token at the beginning and one at the end.
_SPECIAL_TOKENS = 2


class LazyEmbedder:
    """Embedder of a pinned local model. It takes memory only after its first use."""

    def __init__(self, model: LocalModel, identity: EmbeddingIdentity, load: Callable[[], LocalEmbedder]) -> None:
        """Create the embedder without loading the model.

        Args:
            model: The model.
            identity: Identity of the vectors.
            load: Function that loads the model. It blocks.
        """
        self._model = model
        self._identity = identity
        self._load = load
        self._lock = threading.Lock()
        self._loaded: LocalEmbedder | None = None
        self._is_closed = False

    @property
    def identity(self) -> EmbeddingIdentity:
        """Identity of all vectors of this embedder."""
        return self._identity

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text, special tokens included."""
        return self._model.max_tokens

    @property
    def special_tokens(self) -> int:
        """Number of special tokens of a text, and of the tokens of its prefix."""
        return _SPECIAL_TOKENS + self._model.prefix_tokens

    @property
    def image_embedder(self) -> None:
        """None, because the model reads only text."""

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        """Embed texts, and load the model first if necessary. Raises EmbeddingUnavailable."""
        return await (await self._get()).embed_documents(texts, interactive=interactive)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, and load the model first if necessary. Raises EmbeddingUnavailable."""
        return await (await self._get()).embed_queries(texts)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text without special tokens. The call blocks, and loads the model if necessary.

        Args:
            texts: Texts without a prefix.
        """
        return self._require_loaded().count_tokens(texts)

    async def check(self) -> None:
        """Check the model if it is loaded. A model that was not used yet is not loaded."""
        if self._loaded is not None:
            await self._loaded.check()

    async def close(self) -> None:
        """Close the model if it is loaded. A load that has begun ends first, so that its threads are ended too."""
        loaded = await asyncio.to_thread(self._end_loading)
        if loaded is not None:
            await loaded.close()

    async def _get(self) -> LocalEmbedder:
        return self._loaded if self._loaded is not None else await asyncio.to_thread(self._require_loaded)

    def _end_loading(self) -> LocalEmbedder | None:
        """Stop all loads from now on, and return the loaded model."""
        with self._lock:
            self._is_closed = True
            return self._loaded

    def _require_loaded(self) -> LocalEmbedder:
        with self._lock:
            if self._loaded is None:
                if self._is_closed:
                    raise EmbeddingUnavailable("The embedding model has been closed.")
                try:
                    self._loaded = self._load()
                except WeightsDamaged as exc:
                    raise EmbeddingUnavailable(exc.message) from exc
                logger.info("embedding.loaded", model=self._identity.model, precision=self._identity.precision)
            return self._loaded
