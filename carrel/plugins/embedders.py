"""Interface for embedder plugins: the protocols of text and image embedders, types, settings and errors.

Type aliases:
    Vectors: NumPy array of float32 with the shape (inputs, dimensions).
"""

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
from app.settings.embedding import EmbeddingSettings

__all__ = [
    "Embedder",
    "EmbeddingIdentity",
    "EmbeddingMismatch",
    "EmbeddingRejected",
    "EmbeddingSettings",
    "EmbeddingUnavailable",
    "Embeddings",
    "ImageEmbedder",
    "ImageFile",
    "Vectors",
]
