"""Search settings of an evaluation, as they are stored: a search request without its query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from pydantic import TypeAdapter

from app.documents.scopes import DocumentScope
from app.evaluations.types import GoldenItem
from app.inference.embedding.search_defaults import RequestedThreshold
from app.retrieval.routes import RoutingOptions
from app.retrieval.types import (
    Combination,
    Expansion,
    Message,
    NamedTransformer,
    Query,
    RepeatPolicy,
    SearchRequest,
)

# The default number of hits of an evaluation. A document has the rank of its best chunk.
DEFAULT_TOP_K = 100
# The default time limit of a search, so that nothing is left out for time.
DEFAULT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Fields of ``SearchRequest`` that do not depend on the query."""

    knowledge_bases: Sequence[str] | None = None
    top_k: int | None = None
    score_threshold: RequestedThreshold | None = None
    strategy: str | None = None
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    transformers: Sequence[NamedTransformer] | None = None
    conversation: bool | None = None
    filter: Mapping[str, Any] | None = None
    scope: DocumentScope = field(default_factory=DocumentScope)
    routing: RoutingOptions | None = None
    exclude_dynamic: bool = False
    expansion: Expansion | None = None
    rerank: bool = False
    repeat: RepeatPolicy = "demote"
    combine: Combination | None = None
    collapse: bool = False
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS

    @classmethod
    def from_request(cls, request: SearchRequest) -> Self:
        """Return the settings of a search request."""
        return cls(**{name.name: getattr(request, name.name) for name in fields(cls)})

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return settings from their JSON in the database."""
        settings: Self = _ADAPTER.validate_python(stored)
        return settings

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON for the database."""
        stored: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return stored

    def to_request(self, item: GoldenItem) -> SearchRequest:
        """Return the search request of an item."""
        values = {name.name: getattr(self, name.name) for name in fields(self)}
        messages = [Message(message["role"], message["content"]) for message in item.messages or ()]
        return SearchRequest(queries=[] if item.query is None else [Query(item.query)], messages=messages, **values)


_ADAPTER: TypeAdapter[Any] = TypeAdapter(SearchSettings)
