"""Types of HTTP sources: source, query, result and error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from app.errors import UnavailableError

HeaderValue = str | Mapping[Literal["secret"], str]
"""Literal value of a header, or the name of a secret of the operator."""


class SourceUnavailable(UnavailableError):
    """The endpoint returns no results. The message contains no content of the response."""

    code = "http_source_unavailable"


@dataclass(frozen=True, slots=True)
class ResponsePaths:
    """JMESPath expressions: ``items`` selects the results of a response, the other paths select fields of a result."""

    items: str
    text: str
    title: str | None = None
    url: str | None = None
    score: str | None = None


@dataclass(frozen=True, slots=True)
class HttpSource:
    """HTTP source: request template and response paths of an external search service.

    Values of ``params`` and strings of ``body`` may contain the placeholders ``{query}`` and ``{top_k}``. With
    ``domains`` only results count whose URL is in one of the domains or their subdomains.
    """

    kind: ClassVar[str] = "http"
    # Most search services find little for a whole sentence.
    default_transformers: ClassVar[Sequence[str]] = ("keywords",)
    takes_conversation: ClassVar[bool] = False
    embedding_model: ClassVar[None] = None
    embedding_dimensions: ClassVar[None] = None

    url: str
    response: ResponsePaths
    method: Literal["GET", "POST"] = "GET"
    params: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    body: Any = None
    domains: Sequence[str] = ()
    timeout_seconds: float = 3.0

    @classmethod
    def from_stored(cls, source: Mapping[str, Any]) -> Self:
        """Create a source from its stored JSON."""
        return cls(**{**source, "response": ResponsePaths(**source["response"])})


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """Query of a source.

    Attributes:
        query: Text of the query.
        top_k: Maximum number of results.
        messages: Role and content of each message of the conversation, for sources that take conversations.
        vector: Vector of the query, for sources that take vectors.
    """

    query: str
    top_k: int
    messages: Sequence[tuple[str, str]] = ()
    vector: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class SourceResult:
    """Result of a source. A better result has a higher ``score``; None if the endpoint returns no score.

    ``flags`` mark signs of prompt injection: text that addresses a model instead of a reader.
    """

    text: str
    title: str | None
    url: str | None
    score: float | None
    flags: Sequence[str] = ()
