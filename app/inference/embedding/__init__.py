"""Interface of embedders: the protocols for texts and images, their types and errors."""

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
        """Create ``Vectors`` at the first access: the module ``weights`` runs where NumPy is not installed yet."""
        if name != "Vectors":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import numpy as np
        import numpy.typing as npt

        return npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """Identity of an embedding. Two vectors are comparable only if their identities are equal. Search indexes store it.

    Attributes:
        model: Name of the model.
        dimensions: Number of dimensions of a vector, from 1 to 4000.
        precision: Precision of the model, such as ``fp32`` or ``int8``.
        query_prefix: Text that the embedder adds before every query.
        document_prefix: Text that the embedder adds before every text of a document.
    """

    model: str
    dimensions: int
    precision: str
    query_prefix: str
    document_prefix: str

    @classmethod
    def from_index_identity(cls, identity: Mapping[str, Any]) -> Self:
        """Create the identity of a model from the identity of a search index."""
        values: dict[str, Any] = {field.name: identity.get(field.name) for field in fields(cls)}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors with their cost.

    Attributes:
        vectors: Vectors of unit length in the order of the inputs, as a float32 array of the shape (inputs,
            dimensions).
        tokens: Number of tokens of all inputs together, for the usage of the tenant.
    """

    vectors: "Vectors"
    tokens: int


@dataclass(frozen=True, slots=True)
class ImageFile:
    """Image as a model gets it.

    Attributes:
        media_type: ``image/png`` or ``image/jpeg``.
        data: Bytes of the file.
    """

    media_type: str
    data: bytes


class EmbeddingUnavailable(UnavailableError):
    """The embedding model is not answering; try again."""

    code = "embedding_unavailable"


class EmbeddingMismatch(AppError):
    """The embedding model's replies do not have the configured dimension."""

    code = "embedding_mismatch"


class EmbeddingRejected(AppError):
    """The embedding endpoint refuses these texts or images; trying again does not help."""

    code = "embedding_rejected"


class ImageEmbedder(Protocol):
    """Protocol of an embedder of images. Its vectors are comparable with the vectors of its ``Embedder``."""

    async def embed_images(self, images: Sequence[ImageFile], *, interactive: bool = False) -> Embeddings:
        """Embed images.

        Args:
            images: PNG or JPEG images.
            interactive: Whether a caller waits for the result.

        Returns:
            The vectors and their cost. No prefix applies.

        Raises:
            EmbeddingUnavailable: The model does not answer; a retry may help.
            EmbeddingMismatch: The vectors have a wrong number or dimension.
            EmbeddingRejected: The model refuses an image. ``fields["index"]`` is its index.
        """


@runtime_checkable
class HasEndpoint(Protocol):
    """Protocol of an embedder with a circuit breaker."""

    def require_available(self) -> None:
        """Raise EmbeddingUnavailable while the circuit breaker is open."""


class Embedder(Protocol):
    """Protocol of an embedder of texts.

    The embedder adds the prefixes of its identity; callers do not. Without texts, vectors have the shape (0,
    dimensions).
    """

    @property
    def identity(self) -> EmbeddingIdentity:
        """Identity of all vectors of this embedder."""

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens that the model reads of one text, special tokens included."""

    @property
    def special_tokens(self) -> int:
        """Number of tokens that the model adds to every text; ``max_tokens`` includes them."""

    @property
    def image_embedder(self) -> ImageEmbedder | None:
        """The embedder of images, often the embedder itself; None if the model takes no images."""

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        """Embed texts of documents, with ``identity.document_prefix``.

        Args:
            texts: Texts without a prefix.
            interactive: Whether a caller waits for the result. Otherwise the call may be slow, and must not delay
                queries.

        Returns:
            The vectors and their cost.

        Raises:
            EmbeddingUnavailable: The model does not answer; a retry may help.
            EmbeddingMismatch: The vectors have a wrong number or dimension.
            EmbeddingRejected: The model refuses a text. If the model refuses a single text, ``fields["index"]`` is the
                index of the text. ``fields["tokens"]`` is the number of tokens of the other texts so far.
        """

    async def embed_queries(self, texts: Sequence[str]) -> "Vectors":
        """Embed queries, with ``identity.query_prefix``.

        Args:
            texts: Queries without a prefix.

        Returns:
            Vectors of unit length as a float32 array of the shape (queries, dimensions).

        Raises:
            EmbeddingUnavailable: The model does not answer; a retry may help.
            EmbeddingMismatch: The vectors have a wrong number or dimension.
            EmbeddingRejected: The model refuses a query; a retry does not help.
        """

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text without special tokens. The call blocks.

        Args:
            texts: Texts without a prefix.

        Returns:
            The number of tokens of each text, or an upper estimate if the tokenizer is unknown.
        """

    async def check(self) -> None:
        """Check that the model answers with vectors of the right dimension.

        Raises:
            EmbeddingUnavailable: The model does not answer.
            EmbeddingMismatch: The vectors have a wrong dimension.
            EmbeddingRejected: The model refuses the text.
        """

    async def close(self) -> None:
        """Close connections and threads."""
