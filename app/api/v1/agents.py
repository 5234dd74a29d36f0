"""Agent bindings: which knowledge bases and limits an agent gets."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.agents.types import AgentBinding, BindingSettings, Citations
from app.api.bodies import Text
from app.api.dependencies import CurrentAdmin, CurrentPage, GuardedRoute, next_cursor
from app.api.v1.retrieval_settings import Prompt
from app.api.v1.schemas import Input, Listing, Options, ScopeId, Time
from app.api.v1.transformers import TransformerIn, TransformersIn, kept
from app.bootstrap import TenantServices
from app.errors import InvalidInput
from app.filters import compile_filter
from app.ids import encode_id
from app.retrieval.strategies import find_strategy, strategy_options

router = APIRouter(prefix="/agents", tags=["agents"], route_class=GuardedRoute)
KnowledgeBases = Annotated[list[Text], Field(max_length=100)]
_DEFAULTS = BindingSettings()


class _Settings(Input):
    """How an agent searches; what is null is as for an agent without a binding."""

    session_scope: bool | None = Field(
        _DEFAULTS.session_scope, description="Open the documents of the chat in session_id"
    )
    strategy: Text | None = None
    strategy_options: Options | None = Field(default_factory=dict)
    transformers: TransformersIn | None = Field(None, description="In place of the knowledge base's; `[]` for none")
    rewrite_prompt: Prompt | None = Field(None, description="What `prompt_rewrite` tells the chat model")
    answer_prompt: Prompt | None = Field(None, description="What the chat model is told when it answers")
    filter: dict[str, Any] | None = None
    top_k: int | None = Field(None, ge=1, le=500, description="For a caller that names none")
    max_top_k: int | None = Field(None, ge=1, le=500, description="The most that any caller gets")
    score_threshold: float | None = Field(None, ge=-1, le=1, description="The least cosine similarity of a passage")
    max_messages: int | None = Field(None, ge=1, le=1000, description="So many of the newest messages are read")
    timeout_seconds: float | None = Field(None, gt=0, le=60)
    citations: Citations | None = Field(
        _DEFAULTS.citations, description="Whether a passage begins with where it is from"
    )
    max_snippet_chars: int | None = Field(None, ge=50, le=100_000)
    route_top_n: int | None = Field(
        None,
        ge=1,
        le=100,
        description="Search so many of its knowledge bases, those most like the question; null for all",
    )

    rerank: bool | None = Field(
        None, description="Have the configured reranker order the best; null where one is configured"
    )

    def given(self) -> dict[str, Any]:
        """What the caller says of the settings, checked. Raises InvalidInput."""
        said = self.model_dump(include=self.model_fields_set - {"knowledge_bases"})
        given = {name: getattr(_DEFAULTS, name) if value is None else value for name, value in said.items()}
        if self.strategy is not None:
            strategy = find_strategy(self.strategy, loc=("body", "strategy"))
            strategy_options(strategy, self.strategy_options or {}, loc=("body", "strategy_options"))
        elif self.strategy_options:
            raise InvalidInput("Options are given together with a strategy.", loc=("body", "strategy_options"))
        if "strategy" in given:  # those of another one would not fit
            given["strategy_options"] = self.strategy_options or {}
        if "transformers" in given:
            given["transformers"] = kept(self.transformers, loc=("body", "transformers"))
        compile_filter(self.filter, loc=("body", "filter"))
        return given


class AgentIn(_Settings):
    """A binding; ``knowledge_bases`` by id or name, none at all means that nothing is searched."""

    knowledge_bases: KnowledgeBases


class AgentChanges(_Settings):
    """What is to be another; what is left out stays. Options are given together with their strategy."""

    knowledge_bases: KnowledgeBases = Field(default_factory=list)


class AgentOut(BaseModel):
    """An agent with what it is bound to; ``id`` is the binding's, by which the audit names it."""

    id: str
    agent_id: str
    knowledge_bases: list[str]
    session_scope: bool
    strategy: str | None
    strategy_options: dict[str, Any]
    transformers: list[TransformerIn] | None
    rewrite_prompt: str | None
    answer_prompt: str | None
    filter: dict[str, Any] | None
    top_k: int | None
    max_top_k: int | None
    score_threshold: float | None
    max_messages: int | None
    timeout_seconds: float | None
    citations: Citations
    max_snippet_chars: int | None
    route_top_n: int | None
    rerank: bool | None
    created_at: Time
    updated_at: Time


def _out(binding: AgentBinding) -> dict[str, Any]:
    return {
        **asdict(binding.settings),
        "id": encode_id("bnd", binding.id),
        "agent_id": binding.agent_id,
        "knowledge_bases": [encode_id("kb", one) for one in binding.knowledge_base_ids],
        "created_at": binding.created_at,
        "updated_at": binding.updated_at,
    }


async def _found(tenant: TenantServices, references: Sequence[str]) -> list[UUID]:
    """Raises Forbidden, KnowledgeBaseNotFound."""
    tenant.agents.require_whole()
    return [(await tenant.knowledge_bases.find(one)).row.id for one in references]


@router.put("/{agent_id}", response_model=AgentOut, responses={201: {"description": "Bound", "model": AgentOut}})
async def bind_agent(agent_id: ScopeId, body: AgentIn, tenant: CurrentAdmin, response: Response) -> dict[str, Any]:
    """Bind an agent, by the id that its platform sends; what it was bound to before is replaced as a whole."""
    settings = BindingSettings(**body.given())
    binding, is_new = await tenant.agents.put(agent_id, await _found(tenant, body.knowledge_bases), settings)
    response.status_code = 201 if is_new else 200
    return _out(binding)


@router.get("", response_model=Listing[AgentOut])
async def list_agents(page: CurrentPage, tenant: CurrentAdmin) -> dict[str, Any]:
    """Agents that are bound, newest first."""
    found = await tenant.agents.page(after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if found[page.limit :] else None
    return {"items": [_out(binding) for binding in items], "next_cursor": cursor}


@router.get("/{agent_id}", response_model=AgentOut)
async def get_agent(agent_id: ScopeId, tenant: CurrentAdmin) -> dict[str, Any]:
    """What an agent is bound to."""
    return _out(await tenant.agents.get(agent_id))


@router.patch("/{agent_id}", response_model=AgentOut)
async def update_agent(agent_id: ScopeId, body: AgentChanges, tenant: CurrentAdmin) -> dict[str, Any]:
    """Change some of it."""
    changes = body.given()
    named = "knowledge_bases" in body.model_fields_set
    knowledge_bases = await _found(tenant, body.knowledge_bases) if named else None
    return _out(await tenant.agents.change(agent_id, knowledge_bases, changes))


@router.delete("/{agent_id}", status_code=204)
async def unbind_agent(agent_id: ScopeId, tenant: CurrentAdmin) -> Response:
    """From now on the agent searches as one without a binding."""
    await tenant.agents.delete(agent_id)
    return Response(status_code=204)
