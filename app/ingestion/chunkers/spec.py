"""Interface of chunkers: the specification of a chunker, its sizes, options, tools and result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, Field

from app.errors import InvalidInputError
from app.inference.embedding import Vectors
from app.ingestion.types import ChunkDraft, DocumentTree, TreeNode

MIN_TOKENS = 16
MAX_TOKENS = 8192
PAGES_OPTION = "pages"

TokenCounter = Callable[[Sequence[str]], list[int]]
"""Function that returns the number of tokens of each text."""

OptionsT = TypeVar("OptionsT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Sizes of chunks, in tokens of the embedding model.

    Attributes:
        max_tokens: Maximum size of a chunk, from 16 to 8192.
        overlap_tokens: Number of tokens that a chunk repeats of the chunk before it, less than ``max_tokens``.

    Raises:
        InvalidInputError: A size is out of its range.
    """

    max_tokens: int = 170
    overlap_tokens: int = 0

    def __post_init__(self) -> None:
        if not MIN_TOKENS <= self.max_tokens <= MAX_TOKENS:
            raise InvalidInputError(f"must be between {MIN_TOKENS} and {MAX_TOKENS}", loc=("max_tokens",))
        if not 0 <= self.overlap_tokens < self.max_tokens:
            raise InvalidInputError("must be at least 0 and less than max_tokens", loc=("overlap_tokens",))


@dataclass(frozen=True, slots=True)
class ChunkTools:
    """Functions of the embedding model that a chunker may call. Both functions block the thread.

    Attributes:
        count_tokens: Returns the number of tokens of each text.
        embed: Returns vectors of unit length in the order of the texts. It raises the errors of the embedder, and
            ``CancelledError`` after the job was cancelled; a chunker does not catch them.
        max_tokens: Maximum number of tokens that the model reads of one text.
    """

    count_tokens: TokenCounter
    embed: Callable[[Sequence[str]], Vectors]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ChunkerOutput:
    """Result of a chunker.

    Attributes:
        drafts: Chunks in reading order.
        topics: Topic nodes that the chunks name in ``ChunkDraft.node_path``. The path of each topic is behind the paths
            of the other children of its section. ``pack_topics`` builds them.
    """

    drafts: list[ChunkDraft]
    topics: list[TreeNode] = field(default_factory=list)


class NoChunkerOptions(BaseModel, extra="forbid"):
    """Options of a chunker without options."""


class PageOptions(BaseModel, extra="forbid"):
    """Option of every chunker: whether chunks may cross pages."""

    pages: bool | None = Field(
        None,
        description="Whether no chunk crosses a page. By default, chunks stay on one page in documents without "
        "headings.",
    )


@dataclass(frozen=True, slots=True)
class ChunkerSpec(Generic[OptionsT]):
    """Specification of a chunker. ``validate_chunks`` states the rules for its chunks.

    Attributes:
        name: Name in ``chunking.strategy`` of a knowledge base: small letters, digits, ``_`` and ``-``.
        description: One sentence for ``GET /v1/capabilities``.
        options: Pydantic model of the options.
        chunk: Function that divides a document tree into chunks. It runs in a thread of the worker.
        needs_sentences: Whether the paragraphs of the tree have sentences as children.
    """

    name: str
    description: str
    options: type[OptionsT]
    chunk: Callable[[DocumentTree, ChunkSizes, OptionsT, ChunkTools], ChunkerOutput]
    needs_sentences: bool = False
