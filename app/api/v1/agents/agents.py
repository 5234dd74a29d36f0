"""Agent bindings: knowledge bases and settings of the agents of a platform."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.agents.types import BindingSettings, BoundAgent, CitationStyle
from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
from app.api.http import example_values
from app.api.http.etags import CurrentPrecondition
from app.api.http.request_models import Text
from app.api.v1.knowledge_bases.retrieval_settings import PromptText
from app.api.v1.knowledge_bases.transformers import TransformerConfig, TransformerConfigs, to_stored_transformers
from app.api.v1.option_aliases import AliasedRequestModel
from app.api.v1.schemas import AgentPath, ListResponse, Options, Time
from app.api.v1.search.score_threshold import AUTO_DESCRIPTION, ScoreThreshold
from app.bootstrap import TenantServices
from app.errors import InvalidInputError
from app.filters import compile_filter
from app.ids import encode_id
from app.retrieval.conversation import MAX_MESSAGES
from app.retrieval.strategies import find_strategy, parse_strategy_options

router = APIRouter(prefix="/agents", tags=["agents"], route_class=AuthenticatedRoute)
KnowledgeBaseReferences = Annotated[list[Text], Field(max_length=100)]
_DEFAULT_SETTINGS = BindingSettings()


class _AgentSettingsRequest(AliasedRequestModel):
    """Settings of an agent's searches. If a setting is null, the default applies."""

    session_scope: bool | None = Field(
        _DEFAULT_SETTINGS.session_scope,
        description="Search the documents of the chat in `session_id` too.",
        examples=[False],
    )
    strategy: Text | None = Field(
        None, description="Strategy; null for that of the knowledge base.", examples=["hybrid"]
    )
    strategy_options: Options | None = Field(
        default_factory=dict, description="Options of `strategy`; needs `strategy`.", examples=[{"dense_weight": 0.6}]
    )
    transformers: TransformerConfigs | None = Field(
        None,
        description="Transformers in place of those of the knowledge base, at most 8. They run after the default "
        "`reformulate`, which `conversation` controls.",
        examples=[["reformulate"]],
    )
    conversation: bool | None = Field(
        None,
        description="Whether the messages before the last question are used, by `reformulate`. `false` searches the "
        "last question as it is. Null for the setting of the knowledge base.",
        examples=[True],
    )
    rewrite_prompt: PromptText | None = Field(
        None,
        description="Instruction of `reformulate` and `prompt_rewrite` for the chat model, 1 to 4,000 characters.",
        examples=["Rewrite the question for a car rental help center."],
    )
    answer_prompt: PromptText | None = Field(
        None,
        description="Instruction for answers of the chat model, 1 to 4,000 characters.",
        examples=["Answer briefly and politely."],
    )
    filter: dict[str, Any] | None = Field(
        None, description="Metadata filter of every search of the agent.", examples=[{"audience": "customers"}]
    )
    top_k: int | None = Field(
        None, ge=1, le=500, description="Number of passages if the caller gives no `top_k`, 1 to 500.", examples=[5]
    )
    max_top_k: int | None = Field(
        None, ge=1, le=500, description="Maximum number of passages for any caller, 1 to 500.", examples=[10]
    )
    score_threshold: ScoreThreshold | None = Field(
        None,
        description=f"Minimum cosine similarity of a passage, -1 to 1, or `auto`. {AUTO_DESCRIPTION}",
        examples=[0.3, "auto"],
    )
    max_messages: int | None = Field(
        None,
        ge=1,
        le=MAX_MESSAGES,
        description=f"Number of newest messages that are read, 1 to {MAX_MESSAGES}.",
        examples=[20],
    )
    timeout_seconds: float | None = Field(
        None, gt=0, le=60, description="Time budget of a search in seconds, above 0, at most 60.", examples=[3.0]
    )
    citations: CitationStyle | None = Field(
        _DEFAULT_SETTINGS.citations, description="`prefix` puts the citation before each passage.", examples=["prefix"]
    )
    max_snippet_chars: int | None = Field(
        None,
        ge=50,
        le=100_000,
        description="Maximum length of a passage in characters, 50 to 100,000.",
        examples=[2000],
    )
    route_top_n: int | None = Field(
        None,
        ge=1,
        le=100,
        description="Number of the agent's knowledge bases to search, 1 to 100: those that are most similar to "
        "the question. Null searches all.",
        examples=[2],
    )
    combine: Literal["best", "sum"] | None = Field(
        None,
        description="How a passage counts that several queries found, as in a search; null for the setting of the "
        "knowledge base.",
        examples=["sum"],
    )
    collapse: bool | None = Field(
        _DEFAULT_SETTINGS.collapse,
        description="Merge passages with identical texts of one knowledge base.",
        examples=[True],
    )
    rerank: bool | None = Field(
        None,
        description="Reorder the best candidates with the configured reranker; null does so if one is configured.",
        examples=[True],
    )

    def validate_settings(self) -> dict[str, Any]:
        """Validate the settings, and return those that the caller provided.

        Raises:
            InvalidInputError: A strategy, option, transformer or filter is invalid.
        """
        provided = self.model_dump(include=self.model_fields_set - {"knowledge_bases"})
        settings = {
            name: getattr(_DEFAULT_SETTINGS, name) if value is None else value for name, value in provided.items()
        }
        if self.strategy is not None:
            strategy = find_strategy(self.strategy, loc=("body", "strategy"))
            parse_strategy_options(strategy, self.strategy_options or {}, loc=("body", "strategy_options"))
            settings["strategy"] = strategy.name
        elif self.strategy_options:
            raise InvalidInputError("strategy_options need a strategy. Send both.", loc=("body", "strategy_options"))
        if "strategy" in settings:  # options of the former strategy do not fit the new one
            settings["strategy_options"] = self.strategy_options or {}
        if "transformers" in settings:
            settings["transformers"] = to_stored_transformers(self.transformers, loc=("body", "transformers"))
        compile_filter(self.filter, loc=("body", "filter"))
        return settings


class AgentBindingRequest(_AgentSettingsRequest):
    """Binding of an agent."""

    knowledge_bases: KnowledgeBaseReferences = Field(
        description="Ids or names of the knowledge bases that the agent searches, at most 100. Without any, its "
        "searches are empty.",
        examples=[["handbook"]],
    )


class AgentBindingUpdate(_AgentSettingsRequest):
    """Changes of a binding. Fields left out do not change. A strategy and its options are changed together."""

    knowledge_bases: KnowledgeBaseReferences = Field(
        default_factory=list,
        description="Ids or names of the knowledge bases that the agent searches, at most 100.",
        examples=[["handbook"]],
    )


class AgentBindingOut(BaseModel):
    """Binding of an agent."""

    etag_fields: ClassVar = frozenset(AgentBindingUpdate.model_fields)

    id: str = Field(description="Id of the binding, as in audit events.", examples=[example_values.BINDING_ID])
    agent_id: str = Field(description="Id of the agent on its platform.", examples=[example_values.AGENT_ID])
    knowledge_bases: list[str] = Field(
        description="Ids of the knowledge bases that the agent searches.", examples=[[example_values.KNOWLEDGE_BASE_ID]]
    )
    session_scope: bool = Field(
        description="Whether documents of the chat in `session_id` are searched too.", examples=[False]
    )
    strategy: str | None = Field(description="Strategy; null for that of the knowledge base.", examples=["hybrid"])
    strategy_options: dict[str, Any] = Field(description="Options of the strategy.", examples=[{"dense_weight": 0.6}])
    transformers: list[TransformerConfig] | None = Field(
        description="Transformers with all options; null for those of the knowledge base.",
        examples=[[{"name": "reformulate", "options": {}}]],
    )
    conversation: bool | None = Field(
        description="Whether the messages before the last question are used; null for the setting of the "
        "knowledge base.",
        examples=[True],
    )
    rewrite_prompt: str | None = Field(
        description="Instruction of `reformulate` and `prompt_rewrite`; null without one.", examples=[None]
    )
    answer_prompt: str | None = Field(
        description="Instruction for answers of the chat model; null without one.",
        examples=["Answer briefly and politely."],
    )
    filter: dict[str, Any] | None = Field(
        description="Metadata filter of every search of the agent; null without one.",
        examples=[{"audience": "customers"}],
    )
    top_k: int | None = Field(
        description="Number of passages if the caller gives no `top_k`; null for 5.", examples=[5]
    )
    max_top_k: int | None = Field(
        description="Maximum number of passages for any caller; null without a limit.", examples=[10]
    )
    score_threshold: float | Literal["auto"] | None = Field(
        description="Minimum cosine similarity of a passage, or `auto` for the calibrated threshold of each embedding "
        "model; null without one.",
        examples=[0.3],
    )
    max_messages: int | None = Field(
        description="Number of newest messages that are read; null without a limit.", examples=[20]
    )
    timeout_seconds: float | None = Field(description="Time budget of a search in seconds; null for 5.", examples=[3.0])
    citations: CitationStyle = Field(
        description="`prefix`: the citation is put before each passage.", examples=["prefix"]
    )
    max_snippet_chars: int | None = Field(
        description="Maximum length of a passage in characters; null without a limit.", examples=[2000]
    )
    route_top_n: int | None = Field(
        description="Number of the agent's knowledge bases to search; null for all.", examples=[2]
    )
    combine: Literal["best", "sum"] | None = Field(
        description="How a passage counts that several queries found; null for the setting of the knowledge base.",
        examples=["sum"],
    )
    collapse: bool = Field(
        description="Whether passages with identical texts of one knowledge base are merged.", examples=[True]
    )
    rerank: bool | None = Field(
        description="Whether the reranker is used; null: if one is configured.", examples=[True]
    )
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    updated_at: Time = Field(description="Time of the last change, in UTC.", examples=[example_values.UPDATED_AT])


class AgentBindingList(ListResponse[AgentBindingOut]):
    """Page of agent bindings."""


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
    """Return the ids of knowledge bases. Raises ForbiddenError, KnowledgeBaseNotFound."""
    tenant.agents.require_unrestricted_key()
    return [(await tenant.knowledge_bases.find(reference)).row.id for reference in references]


@router.put(
    "/{agent_id}",
    summary="Bind an agent",
    response_model=AgentBindingOut,
    responses={201: {"description": "The binding is new", "model": AgentBindingOut}},
)
async def bind_agent(
    agent_id: AgentPath, body: AgentBindingRequest, tenant: CurrentAdmin, response: Response
) -> dict[str, Any]:
    """Create the binding of an agent, or replace it as a whole.

    The agent is named by the id that its platform sends as `agent_id`.
    """
    settings = BindingSettings(**body.validate_settings())
    binding, is_new = await tenant.agents.upsert(
        agent_id, await _resolve_knowledge_bases(tenant, body.knowledge_bases), settings
    )
    response.status_code = 201 if is_new else 200
    return _to_agent_binding_out(binding)


@router.get("", summary="List agents", response_model=AgentBindingList)
async def list_agents(page: CurrentPageParams, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return the agents that have a binding, newest first."""
    bindings = await tenant.agents.list_bindings(after=page.parse_cursor(), limit=page.row_limit)
    items = bindings[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if bindings[page.limit :] else None
    return page.build_reply([_to_agent_binding_out(binding) for binding in items], cursor)


@router.get("/{agent_id}", summary="Get an agent", response_model=AgentBindingOut)
async def get_agent(agent_id: AgentPath, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return the binding of an agent."""
    return _to_agent_binding_out(await tenant.agents.get(agent_id))


@router.patch("/{agent_id}", summary="Update an agent", response_model=AgentBindingOut)
async def update_agent(
    agent_id: AgentPath, body: AgentBindingUpdate, tenant: CurrentAdmin, precondition: CurrentPrecondition
) -> dict[str, Any]:
    """Change some settings of the binding of an agent."""
    changes = body.validate_settings()
    has_knowledge_bases = "knowledge_bases" in body.model_fields_set
    knowledge_bases = await _resolve_knowledge_bases(tenant, body.knowledge_bases) if has_knowledge_bases else None
    check = precondition.build_check(AgentBindingOut, _to_agent_binding_out)
    return _to_agent_binding_out(await tenant.agents.update(agent_id, knowledge_bases, changes, check=check))


@router.delete("/{agent_id}", summary="Unbind an agent", status_code=204)
async def unbind_agent(agent_id: AgentPath, tenant: CurrentAdmin) -> Response:
    """Delete the binding of an agent. The agent then searches all knowledge bases that the key may read."""
    await tenant.agents.delete(agent_id)
    return Response(status_code=204)
