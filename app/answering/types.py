"""The nouns of answering: what is asked, what it rests on, and the events in which an answer comes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.errors import UnavailableError
from app.inference.chat import ChatTokens
from app.retrieval.types import Hit, SearchRequest, SearchResult
from app.warnings import ServiceWarning

DEFAULT_CONTEXT_TOKENS = 4000
CitationMethod = Literal["model", "overlap"]


class ChatNotConfigured(UnavailableError):
    """Answers need a chat model: CARREL_CHAT_BASE_URL and CARREL_CHAT_MODEL are not set."""

    code = "chat_not_configured"


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A question, as a search asks it. ``search.top_k`` is the most passages that are read; None: as many as fit.

    What the model reads of the sources has at most ``max_context_tokens``, estimated upwards; with ``compress_sources``
    it reads what matters of each, not the whole.
    """

    search: SearchRequest
    max_context_tokens: int = DEFAULT_CONTEXT_TOKENS
    compress_sources: bool = False


@dataclass(frozen=True, slots=True)
class AnswerSource:
    """A passage with the number that the model knows it by, from 1.

    ``compressed_text`` is what the model reads in its place.
    """

    number: int
    hit: Hit
    compressed_text: str | None = None

    @property
    def text(self) -> str:
        """What the model reads."""
        return self.hit.text_span.text if self.compressed_text is None else self.compressed_text


@dataclass(frozen=True, slots=True)
class Citation:
    """A document that the answer rests on, and its passages that do; ``method`` is how that was found out."""

    sources: Sequence[AnswerSource]
    method: CitationMethod

    @property
    def label(self) -> str:
        """For people: the document and the places in it."""
        name = self.sources[0].hit.document.source
        locations = [source.hit.citation.removeprefix(name).removeprefix(", ") for source in self.sources]
        return ", ".join([name, *dict.fromkeys(location for location in locations if location)])


@dataclass(frozen=True, slots=True)
class QueryResolved:
    """The question as it was understood, and the search that it came to."""

    question: str
    search_result: SearchResult


@dataclass(frozen=True, slots=True)
class SourcesFound:
    """What the answer is written from, the best first."""

    sources: Sequence[AnswerSource]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CitationsFound:
    """What the finished answer rests on."""

    citations: Sequence[Citation]


@dataclass(frozen=True, slots=True)
class AnswerFinished:
    """The end. ``tokens`` are those of all calls of the chat model but for rewriting the question."""

    abstained: bool
    warnings: Sequence[ServiceWarning]
    tokens: ChatTokens
    timings_ms: Mapping[str, float]


AnswerEvent = QueryResolved | SourcesFound | TextDelta | CitationsFound | AnswerFinished
