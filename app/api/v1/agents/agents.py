"""Agent bindings: which knowledge bases and limits an agent gets."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.agents.types import BindingSettings, BoundAgent, CitationStyle
from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
from app.api.http.request_models import Text
from app.api.v1.knowledge_bases.retrieval_settings import PromptText
from app.api.v1.knowledge_bases.transformers import TransformerConfig, TransformerConfigs, to_stored_transformers
from app.api.v1.schemas import ListResponse, Options, ScopeId, StrictRequestModel, Time
from app.bootstrap import TenantServices
from app.errors import InvalidInputError
from app.filters import compile_filter
from app.ids import encode_id
from app.retrieval.strategies import find_strategy, parse_strategy_options

router = APIRouter(prefix="/agents", tags=["agents"], route_class=AuthenticatedRoute)
KnowledgeBaseReferences = Annotated[list[Text], Field(max_length=100)]
_DEFAULT_SETTINGS = BindingSettings()


class _AgentSettingsRequest(StrictRequestModel):
    """How an agent searches; what is null is as for an agent without a binding."""

    session_scope: bool | None = Field(
        _DEFAULT_SETTINGS.session_scope, description="Open the documents of the chat in session_id"
    )
    strategy: Text | None = None
    strategy_options: Options | None = Field(default_factory=dict)
    transformers: TransformerConfigs | None = Field(None, description="In place of the knowledge base's; `[]` for none")
    rewrite_prompt: PromptText | None = Field(None, description="What `prompt_rewrite` tells the chat model")
    answer_prompt: PromptText | None = Field(None, description="What the chat model is told when it answers")
    filter: dict[str, Any] | None = None
    top_k: int | None = Field(None, ge=1, le=500, description="For a caller that names none")
    max_top_k: int | None = Field(None, ge=1, le=500, description="The most that any caller gets")
    score_threshold: float | None = Field(None, ge=-1, le=1, description="The least cosine similarity of a passage")
    max_messages: int | None = Field(None, ge=1, le=1000, description="So many of the newest messages are read")
    timeout_seconds: float | None = Field(None, gt=0, le=60)
    citations: CitationStyle | None = Field(
        _DEFAULT_SETTINGS.citations, description="Whether a passage begins with where it is from"
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

    def validate_settings(self) -> dict[str, Any]:
        """What the caller says of the settings, checked. Raises InvalidInputError."""
        provided = self.model_dump(include=self.model_fields_set - {"knowledge_bases"})
        settings = {
            name: getattr(_DEFAULT_SETTINGS, name) if value is None else value for name, value in provided.items()
        }
        if self.strategy is not None:
            strategy = find_strategy(self.strategy, loc=("body", "strategy"))
            parse_strategy_options(strategy, self.strategy_options or {}, loc=("body", "strategy_options"))
            settings["strategy"] = strategy.name
        elif self.strategy_options:
            raise InvalidInputError("Options are given together with a strategy.", loc=("body", "strategy_options"))
        if "strategy" in settings:  # those of another one would not fit
            settings["strategy_options"] = self.strategy_options or {}
        if "transformers" in settings:
            settings["transformers"] = to_stored_transformers(self.transformers, loc=("body", "transformers"))
        compile_filter(self.filter, loc=("body", "filter"))
        return settings


class AgentBindingRequest(_AgentSettingsRequest):
    """A binding; ``knowledge_bases`` by id or name, none at all means that nothing is searched."""

    knowledge_bases: KnowledgeBaseReferences


class AgentBindingUpdate(_AgentSettingsRequest):
    """What is to be another; what is left out stays. Options are given together with their strategy."""

    knowledge_bases: KnowledgeBaseReferences = Field(default_factory=list)


class AgentBindingOut(BaseModel):
    """An agent with what it is bound to; ``id`` is the binding's, by which the audit names it."""

    id: str
    agent_id: str
    knowledge_bases: list[str]
    session_scope: bool
    strategy: str | None
    strategy_options: dict[str, Any]
    transformers: list[TransformerConfig] | None
    rewrite_prompt: str | None
    answer_prompt: str | None
    filter: dict[str, Any] | None
    top_k: int | None
    max_top_k: int | None
    score_threshold: float | None
    max_messages: int | None
    timeout_seconds: float | None
    citations: CitationStyle
    max_snippet_chars: int | None
    route_top_n: int | None
    rerank: bool | None
    created_at: Time
    updated_at: Time


class AgentBindingList(ListResponse[AgentBindingOut]):
    """A page of agent bindings."""


def _to_agent_binding_out(binding: BoundAgent) -> dict[str, Any]:
    return {
        **asdict(binding.settings),
        "id": encode_id("bnd", binding.id),
        "agent_id": binding.agent_id,
        "knowledge_bases": [encode_id("kb", kb_id) for kb_id in binding.knowledge_base_ids],
        "created_at": binding.created_at,
        "updated_at": binding.updated_at,
    }


async def _resolve_knowledge_bases(tenant: TenantServices, references: Sequence[str]) -> list[UUID]:
    """Raises ForbiddenError, KnowledgeBaseNotFound."""
    tenant.agents.require_unrestricted_key()
    return [(await tenant.knowledge_bases.find(reference)).row.id for reference in references]


@router.put(
    "/{agent_id}", response_model=AgentBindingOut, responses={201: {"description": "Bound", "model": AgentBindingOut}}
)
async def bind_agent(
    agent_id: ScopeId, body: AgentBindingRequest, tenant: CurrentAdmin, response: Response
) -> dict[str, Any]:
    """Bind an agent, by the id that its platform sends; what it was bound to before is replaced as a whole."""
    settings = BindingSettings(**body.validate_settings())
    binding, is_new = await tenant.agents.upsert(
        agent_id, await _resolve_knowledge_bases(tenant, body.knowledge_bases), settings
    )
    response.status_code = 201 if is_new else 200
    return _to_agent_binding_out(binding)


@router.get("", response_model=AgentBindingList)
async def list_agents(page: CurrentPageParams, tenant: CurrentAdmin) -> dict[str, Any]:
    """Agents that are bound, newest first."""
    bindings = await tenant.agents.list_bindings(after=page.parse_cursor(), limit=page.limit + 1)
    items = bindings[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if bindings[page.limit :] else None
    return {"items": [_to_agent_binding_out(binding) for binding in items], "next_cursor": cursor}


@router.get("/{agent_id}", response_model=AgentBindingOut)
async def get_agent(agent_id: ScopeId, tenant: CurrentAdmin) -> dict[str, Any]:
    """What an agent is bound to."""
    return _to_agent_binding_out(await tenant.agents.get(agent_id))


@router.patch("/{agent_id}", response_model=AgentBindingOut)
async def update_agent(agent_id: ScopeId, body: AgentBindingUpdate, tenant: CurrentAdmin) -> dict[str, Any]:
    """Change some of it."""
    changes = body.validate_settings()
    has_knowledge_bases = "knowledge_bases" in body.model_fields_set
    knowledge_bases = await _resolve_knowledge_bases(tenant, body.knowledge_bases) if has_knowledge_bases else None
    return _to_agent_binding_out(await tenant.agents.update(agent_id, knowledge_bases, changes))


@router.delete("/{agent_id}", status_code=204)
async def unbind_agent(agent_id: ScopeId, tenant: CurrentAdmin) -> Response:
    """From now on the agent searches as one without a binding."""
    await tenant.agents.delete(agent_id)
    return Response(status_code=204)
