"""Types of answering: requests, sources, citations and the events of an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.inference.chat import ChatTokens
from app.retrieval.types import Hit, SearchRequest, SearchResult
from app.warnings import ServiceWarning

DEFAULT_CONTEXT_TOKENS = 4000
CitationMethod = Literal["model", "overlap"]


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Request for an answer.

    Attributes:
        search: Search for sources. Its ``top_k`` limits the number of sources; None uses as many as fit.
        max_context_tokens: Maximum number of tokens of all sources, estimated upwards.
        compress_sources: Whether the model first shortens each source to its relevant part.
    """

    search: SearchRequest
    max_context_tokens: int = DEFAULT_CONTEXT_TOKENS
    compress_sources: bool = False


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """Source of an answer.

    Attributes:
        number: Number in the prompt, from 1.
        hit: Hit of the search.
        compressed_text: Relevant part of the text; None if the source is not compressed.
    """

    number: int
    hit: Hit
    compressed_text: str | None = None

    @property
    def text(self) -> str:
        """Text that the model reads."""
        return self.hit.text_span.text if self.compressed_text is None else self.compressed_text


@dataclass(frozen=True, slots=True)
class Citation:
    """Document that supports an answer.

    Attributes:
        sources: Sources of the document that support the answer, in reading order.
        method: Method that found them: ``model`` or ``overlap``.
    """

    sources: Sequence[AnswerSource]
    method: CitationMethod

    @property
    def label(self) -> str:
        """Display name of the source: the name of the document with pages, slides, or sheets and rows."""
        name = self.sources[0].hit.cited_name
        locations = [source.hit.citation.removeprefix(name) for source in self.sources]
        return "".join([name, *dict.fromkeys(locations)])


@dataclass(frozen=True, slots=True)
class QueryResolved:
    """Event with the standalone question and the result of its search."""

    question: str
    search_result: SearchResult


@dataclass(frozen=True, slots=True)
class SourcesFound:
    """Event with the sources of the answer, the best first."""

    sources: Sequence[AnswerSource]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Event with the next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CitationsFound:
    """Event with the citations of the finished answer."""

    citations: Sequence[Citation]


@dataclass(frozen=True, slots=True)
class AnswerFinished:
    """Last event of an answer.

    Attributes:
        abstained: Whether the search found no source, so that the model was not called.
        warnings: Warnings of the search and the answer.
        tokens: Tokens of all calls of the chat model, except those that rewrote the question.
        timings_ms: Milliseconds by step.
    """

    abstained: bool
    warnings: Sequence[ServiceWarning]
    tokens: ChatTokens
    timings_ms: Mapping[str, float]


AnswerEvent = QueryResolved | SourcesFound | TextDelta | CitationsFound | AnswerFinished
