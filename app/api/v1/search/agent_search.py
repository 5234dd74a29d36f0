"""External-search contract: the request is a conversation, and the response is an array of passages within the caller's
time budget.
"""

import time
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.agents.service import LOOKUP_TIMEOUT_SECONDS
from app.agents.types import BindingSettings
from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http import example_values
from app.api.http.large_responses import LoopYielder
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.search_quota import search_with_quota
from app.api.v1.search.agent_binding import DEFAULT_TOP_K, apply_binding, cut_snippet, format_snippet
from app.api.v1.search.messages import ROLES, extract_texts
from app.bootstrap import TenantServices
from app.documents.scopes import MAX_SCOPE_ID_LENGTH, DocumentScope
from app.retrieval.conversation import ASKING_ROLES, list_newest_positions
from app.retrieval.quota import require_complete
from app.retrieval.repeated_texts import REPEATING_ROLES
from app.retrieval.types import Message, SearchRequest

router = APIRouter(tags=["agent search"], route_class=AuthenticatedRoute)
# Minimum time of the search, even if authentication and the lookup of the binding took the whole budget.
MIN_SEARCH_TIMEOUT_SECONDS = 0.1


_PASSAGES_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Passages, best first",
        "content": {"application/json": {"example": ["You can cancel one-way rentals up to 48 hours before pickup."]}},
    }
}


class AgentMessage(BaseModel):
    """Message of a conversation as agent platforms send it. Other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    role: str = Field(
        "",
        description="Author of the message: `customer` and `user` ask; `agent`, `assistant`, `tool` and `system` "
        "do not.",
        examples=["customer"],
    )
    content: str = Field(
        "",
        description="Text of the message. Parts of a list that are no text are ignored.",
        examples=["And for one-way rentals?"],
    )

    @field_validator("role", "content", mode="before")
    @classmethod
    def _to_text(cls, value: Any) -> str:
        return _join_texts(value)


def _join_texts(content: Any) -> str:
    """Return the text of a message's content; parts that are not understood are left out."""
    return "\n".join(text for text in extract_texts(content) if text).encode("utf-8", "replace").decode()


def _is_question(message: Any) -> bool:
    """Return whether a message is a question for the search: its role asks, and it has a text."""
    if not isinstance(message, dict) or message.get("role") not in tuple(ASKING_ROLES):
        return False
    return bool(_join_texts(message.get("content")).strip())


def _find_message_fault(message: Any) -> str | None:
    """Return the fault of a message; None if it has none."""
    if not isinstance(message, dict):
        return "is no object"
    if message.get("role") not in ROLES:
        return f"has none of the roles {', '.join(ROLES)}"
    return "has a content that is no text" if None in extract_texts(message.get("content")) else None


class AgentSearchRequest(BaseModel):
    """Conversation to answer. Unknown fields are ignored.

    Messages that are not understood are ignored if the conversation has a question. Without a question such messages
    make the request invalid, so that a mistake does not look like an empty result.
    """

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {
                    "session_id": example_values.CHAT_ID,
                    "agent_id": example_values.AGENT_ID,
                    "top_k": 5,
                    "messages": [
                        {"role": "customer", "content": "What is your cancellation policy?"},
                        {"role": "agent", "content": "Free cancellation up to 24 hours before pickup."},
                        {"role": "customer", "content": "And for one-way rentals?"},
                    ],
                }
            ]
        },
    )

    messages: list[AgentMessage] = Field(
        description="Messages of the conversation, newest last. Its last question is searched for. Passages that "
        "are already in messages of the agent or of a tool, alone or among others, come last.",
        examples=[[{"role": "customer", "content": "What is your cancellation policy?"}]],
    )
    top_k: int | None = Field(
        None,
        ge=1,
        le=500,
        description="Maximum number of passages, 1 to 500. Default: `top_k` of the agent's binding, else 5. "
        "`max_top_k` of the binding limits it.",
        examples=[5],
    )
    agent_id: str | None = Field(
        None,
        description="Id of the agent on its platform. It selects the agent's binding. A value that cannot be an "
        "id counts as null.",
        examples=[example_values.AGENT_ID],
    )
    session_id: str | None = Field(
        None,
        description="Id of the chat. If the binding has `session_scope`, documents of this chat are searched too. "
        "Without `user_id`, the chat belongs to no user. A value that cannot be an id counts as null.",
        examples=[example_values.CHAT_ID],
    )
    user_id: str | None = Field(
        None,
        description="Id of the user to whom the chat belongs. If the binding has `session_scope`, documents of this "
        "user are searched too. A value that cannot be an id counts as null.",
        examples=[None],
    )

    @field_validator("agent_id", "session_id", "user_id", mode="before")
    @classmethod
    def _normalize_id(cls, value: Any) -> str | None:
        if not isinstance(value, str) or not 0 < len(value) <= MAX_SCOPE_ID_LENGTH or "\0" in value:
            return None
        return value if value.encode("utf-8", "ignore").decode() == value else None

    @field_validator("messages", mode="before")
    @classmethod
    def _select_newest(cls, value: Any) -> Any:
        """Return the newest messages, one of them the newest question. Before them stand the older messages that may
        contain passages of earlier searches.
        """
        if not isinstance(value, list):
            return value
        positions = list_newest_positions([*map(_is_question, value)])
        answers = [
            message
            for position, message in enumerate(value)
            if position not in positions and isinstance(message, dict) and message.get("role") in tuple(REPEATING_ROLES)
        ]
        newest = [value[position] for position in positions]
        if not any(map(_is_question, newest)):
            for number, message in enumerate(value):
                if (reason := _find_message_fault(message)) is not None:
                    raise ValueError(f"no message is a question, and message {number} {reason}")
        return [*answers, *newest]


async def _search_snippets(
    tenant: TenantServices,
    body: AgentSearchRequest,
    http_request: Request,
    response: Response,
    knowledge_bases: list[str] | None,
) -> list[str]:
    request = SearchRequest(
        messages=[Message(message.role, message.content) for message in body.messages],
        knowledge_bases=knowledge_bases,
        top_k=body.top_k,
        accepts_graph_text=True,
        # The contract has no field for the reranker. If a reranker is configured, the search uses it.
        rerank=tenant.retrieval.reranker is not None,
    )
    settings = BindingSettings()
    binding = None
    if body.agent_id is not None:
        elapsed_seconds = time.monotonic() - http_request.state.started_at
        binding = await tenant.agents.resolve_binding(
            body.agent_id, timeout_seconds=max(LOOKUP_TIMEOUT_SECONDS - elapsed_seconds, MIN_SEARCH_TIMEOUT_SECONDS)
        )
    if binding is None:
        request = replace(request, top_k=body.top_k or DEFAULT_TOP_K)
    else:
        settings = binding.settings
        if settings.session_scope:
            request = replace(request, scope=DocumentScope(body.user_id))
        request = apply_binding(request, binding, tenant.principal, session_id=body.session_id)
        request = replace(
            request,
            max_text_characters=settings.max_snippet_chars,
            has_citation_prefix=settings.citations == "prefix",
        )
        if not binding.knowledge_base_ids or not request.knowledge_bases:
            return []  # no knowledge base to search
    # The budget is that of the whole request: authentication and the lookup of the binding use some of it.
    elapsed_seconds = time.monotonic() - http_request.state.started_at
    request = replace(
        request, timeout_seconds=max(request.timeout_seconds - elapsed_seconds, MIN_SEARCH_TIMEOUT_SECONDS)
    )
    result = require_complete(await search_with_quota(tenant, request, response))
    texts = [] if result.graph_text is None else [cut_snippet(result.graph_text, settings)]
    yielder = LoopYielder()
    for hit in result.hits:
        texts.append(format_snippet(hit, settings))
        await yielder.add_bytes(hit.size_bytes)
    return [text for text in texts if text.strip()]


@router.post("/agent-search", summary="Search for an agent", response_model=list[str], responses=_PASSAGES_RESPONSE)
async def search_for_agent(
    body: AgentSearchRequest, tenant: CurrentReader, request: Request, response: Response
) -> list[str]:
    """Return the passages that answer the last question of a conversation, best first.

    The search runs in the knowledge bases of the agent's binding (`PUT /v1/agents/{agent_id}`). Without a binding, the
    search is routed among all knowledge bases that the key may read. Passages that are already in messages of the
    agent or of a tool come last. An empty array means that nothing matched. If a part of the search fails, the request
    fails with `search_unavailable`.
    """
    return await _search_snippets(tenant, body, request, response, None)


@router.post(
    "/knowledge-bases/{kb}/agent-search",
    summary="Search a knowledge base for an agent",
    response_model=list[str],
    responses=_PASSAGES_RESPONSE,
)
async def search_knowledge_base_for_agent(
    kb: KnowledgeBasePath, body: AgentSearchRequest, tenant: CurrentReader, request: Request, response: Response
) -> list[str]:
    """Return the passages of one knowledge base that answer the last question of a conversation, best first.

    The knowledge base replaces the knowledge bases of the agent's binding. The other settings of the binding apply.
    Passages that are already in messages of the agent or of a tool come last.
    """
    return await _search_snippets(tenant, body, request, response, [kb])
