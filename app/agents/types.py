"""The nouns of agents: a binding, and what it says of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.errors import NotFoundError
from app.prompts.types import PromptSettings

CitationStyle = Literal["none", "prefix"]


class AgentNotFound(NotFoundError):
    """No agent of that id is bound."""

    code = "agent_not_found"


@dataclass(frozen=True, slots=True)
class BindingSettings(PromptSettings):
    """How an agent searches; None is as for one without a binding.

    ``session_scope`` opens the documents of the chat that the caller names. ``top_k`` is for a caller that names none,
    ``max_top_k`` the most that any gets; of a conversation the newest ``max_messages`` are read. Each of
    ``transformers`` is ``{"name", "options"}``. All of its knowledge bases are searched, or ``route_top_n`` of each
    embedding model. Without ``rerank`` it has the reranker, where one is configured.
    """

    session_scope: bool = False
    strategy: str | None = None
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    transformers: Sequence[Mapping[str, Any]] | None = None
    filter: Mapping[str, Any] | None = None
    top_k: int | None = None
    max_top_k: int | None = None
    score_threshold: float | None = None
    max_messages: int | None = None
    timeout_seconds: float | None = None
    citations: CitationStyle = "none"
    route_top_n: int | None = None
    rerank: bool | None = None
    max_snippet_chars: int | None = None


@dataclass(frozen=True, slots=True)
class BoundAgent:
    """An agent, by the id that its platform gives it, and what it is bound to.

    Without knowledge bases nothing is searched.
    """

    id: UUID
    agent_id: str
    knowledge_base_ids: Sequence[UUID]
    settings: BindingSettings
    created_at: datetime
    updated_at: datetime
