"""Embedding: the protocol between the rooms and whatever turns text into vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from app.errors import AppError, UnavailableError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]
else:

    def __getattr__(name: str) -> Any:
        """Make ``Vectors`` when it is asked for: ``weights``, next door, runs before anything is installed."""
        if name != "Vectors":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import numpy as np
        import numpy.typing as npt

        return npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """The identity of an embedding model: vectors are comparable if it is equal. Each search index stores it."""

    model: str
    dimensions: int
    precision: str
    query_prefix: str
    document_prefix: str

    @classmethod
    def from_index_identity(cls, identity: Mapping[str, Any]) -> Self:
        """Take the identity of the model from that of a search index."""
        values: dict[str, Any] = {field.name: identity.get(field.name) for field in fields(cls)}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Unit-length vectors of shape (inputs, dimensions), float32, in order, and the tokens that they cost."""

    vectors: "Vectors"
    tokens: int


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A picture as a model gets it: the bytes of a PNG or a JPEG."""

    media_type: str
    data: bytes


class EmbeddingUnavailable(UnavailableError):
    """The embedding model is not answering; try again."""

    code = "embedding_unavailable"


class EmbeddingMismatch(AppError):
    """The embedding model's replies do not have the configured dimension."""

    code = "embedding_mismatch"


class EmbeddingRejected(AppError):
    """The embedding endpoint refuses these texts or pictures; trying again does not help."""

    code = "embedding_rejected"


class ImageEmbedder(Protocol):
    """Turns pictures into vectors that can be compared with those of an Embedder's texts: of the same identity."""

    async def embed_images(self, images: Sequence[ImageFile], *, interactive: bool = False) -> Embeddings:
        """Bulk work, or ``interactive`` for a query that somebody waits for. Without prefixes, which are for texts.

        Raises as ``Embedder.embed_documents``.
        """


@runtime_checkable
class HasEndpoint(Protocol):
    """An embedder that leaves its endpoint alone for a while when it has failed."""

    def require_available(self) -> None:
        """Raise EmbeddingUnavailable while the endpoint is left alone."""


class Embedder(Protocol):
    """Turns texts into unit-length vectors of shape (len(texts), identity.dimensions), float32, in the order given.

    Prefixes are added here, not by callers. Empty input gives shape (0, dimensions).
    """

    @property
    def identity(self) -> EmbeddingIdentity:
        """The identity of every vector it makes."""

    @property
    def max_tokens(self) -> int:
        """The longest input the model reads, in its own tokens, special tokens included."""

    @property
    def special_tokens(self) -> int:
        """How many tokens the model adds to every text (already inside ``max_tokens``)."""

    @property
    def image_embedder(self) -> ImageEmbedder | None:
        """The embedder of images, often the embedder itself; None if the model takes no images."""

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        """Bulk work: may be slow, never delays a query; ``interactive`` are a few texts that somebody waits for.

        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected (with ``fields["index"]`` for one bad text,
        and ``fields["tokens"]`` that the others have cost until then).
        """

    async def embed_queries(self, texts: Sequence[str]) -> "Vectors":
        """Interactive work. Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text without special tokens, or an upper estimate where its tokenizer is unknown. Blocking."""

    async def check(self) -> None:
        """Embed one word, compare the dimension. Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected."""

    async def close(self) -> None:
        """Let go of connections and threads."""
