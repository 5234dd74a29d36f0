"""What a chunker is: its sizes, its options, the tools it gets and what it gives back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel

from app.errors import InvalidInputError
from app.inference.embedding import Vectors
from app.ingestion.types import ChunkDraft, DocumentTree, TreeNode

MIN_TOKENS = 16
MAX_TOKENS = 8192

# Counts the tokens of each text.
TokenCounter = Callable[[Sequence[str]], list[int]]

OptionsT = TypeVar("OptionsT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Sizes in tokens of the embedding model. Raises InvalidInputError where they make no sense."""

    max_tokens: int = 170
    overlap_tokens: int = 0

    def __post_init__(self) -> None:
        if not MIN_TOKENS <= self.max_tokens <= MAX_TOKENS:
            raise InvalidInputError(f"must be between {MIN_TOKENS} and {MAX_TOKENS}", loc=("max_tokens",))
        if not 0 <= self.overlap_tokens < self.max_tokens:
            raise InvalidInputError("must be at least 0 and less than max_tokens", loc=("overlap_tokens",))


@dataclass(frozen=True, slots=True)
class ChunkTools:
    """What a chunker may ask of the embedding model; both calls block.

    ``max_tokens`` is what the model reads of a passage. ``embed`` gives vectors of unit length, in order; it raises the
    embedder's errors, and CancelledError once nobody waits for the chunks any more.
    """

    count_tokens: TokenCounter
    embed: Callable[[Sequence[str]], Vectors]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ChunkerOutput:
    """Drafts in reading order, and the topics they name: nodes with a path, each a further child of what is there."""

    drafts: list[ChunkDraft]
    topics: list[TreeNode] = field(default_factory=list)


class NoChunkerOptions(BaseModel, extra="forbid"):
    """A chunker without options."""


@dataclass(frozen=True, slots=True)
class ChunkerSpec(Generic[OptionsT]):
    """A way to cut a document tree into chunks, by name; ``checking`` has the rules that its chunks keep.

    ``needs_sentences`` asks for a tree whose paragraphs have sentences as children.
    """

    name: str
    description: str
    options: type[OptionsT]
    chunk: Callable[[DocumentTree, ChunkSizes, OptionsT, ChunkTools], ChunkerOutput]
    needs_sentences: bool = False
