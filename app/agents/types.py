"""Types of agents: a binding and its search settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.errors import NotFoundError
from app.inference.embedding.search_defaults import RequestedThreshold
from app.prompts.types import PromptSettings

CitationStyle = Literal["none", "prefix"]


class AgentNotFound(NotFoundError):
    """The agent has no binding; create one first."""

    code = "agent_not_found"


@dataclass(frozen=True, slots=True)
class BindingSettings(PromptSettings):
    """Search settings of an agent. None means the default of an agent without a binding.

    With ``session_scope`` a search includes the documents of the caller's chat. ``top_k`` is the default number of
    results, and ``max_top_k`` the maximum. A search reads the newest ``max_messages`` of a conversation. Each item of
    ``transformers`` is ``{"name", "options"}``. With ``route_top_n`` a search selects that number of knowledge bases
    for each embedding model, otherwise all knowledge bases of the binding. A configured reranker is used unless
    ``rerank`` is false. ``combine`` says how several queries count. With ``collapse``, identical texts of one knowledge
    base become one passage.
    """

    session_scope: bool = False
    strategy: str | None = None
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    transformers: Sequence[Mapping[str, Any]] | None = None
    conversation: bool | None = None
    filter: Mapping[str, Any] | None = None
    top_k: int | None = None
    max_top_k: int | None = None
    score_threshold: RequestedThreshold | None = None
    max_messages: int | None = None
    timeout_seconds: float | None = None
    citations: CitationStyle = "none"
    route_top_n: int | None = None
    rerank: bool | None = None
    max_snippet_chars: int | None = None
    combine: Literal["best", "sum"] | None = None
    collapse: bool = False


@dataclass(frozen=True, slots=True)
class BoundAgent:
    """Binding of an agent to knowledge bases and search settings. ``agent_id`` is the agent's ID on its platform.

    If the binding has no knowledge base, searches return nothing.
    """

    id: UUID
    agent_id: str
    knowledge_base_ids: Sequence[UUID]
    settings: BindingSettings
    created_at: datetime
    updated_at: datetime
