"""The nouns of HTTP sources: how an endpoint is asked, what it has found, and that it could not answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from app.errors import UnavailableError

HeaderValue = str | Mapping[Literal["secret"], str]
"""As it is sent, or the name of a secret of the operator's."""


class SourceUnavailable(UnavailableError):
    """The endpoint gives no results; its message holds no content."""

    code = "http_source_unavailable"


@dataclass(frozen=True, slots=True)
class ResponsePaths:
    """Where a reply has what it has found, as JMESPath: ``items`` from its top, the others from each item."""

    items: str
    text: str
    title: str | None = None
    url: str | None = None
    score: str | None = None


@dataclass(frozen=True, slots=True)
class HttpSource:
    """How an endpoint is asked; ``{query}`` and ``{top_k}`` stand in values of ``params`` and strings of ``body``.

    With ``domains`` only results count whose url is on one of them, or below.
    """

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
        """Typed form of what is stored."""
        return cls(**{**source, "response": ResponsePaths(**source["response"])})


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """What is put into a template."""

    query: str
    top_k: int


@dataclass(frozen=True, slots=True)
class SourceResult:
    """A result; ``score`` is greater for a better one, None where the endpoint gives none.

    ``flags`` say what in the text speaks to a model and not to a reader.
    """

    text: str
    title: str | None
    url: str | None
    score: float | None
    flags: Sequence[str] = ()
