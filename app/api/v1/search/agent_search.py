"""The external-search contract: a conversation in, a bare array of passages out, inside the caller's budget."""

import time
from dataclasses import replace
from itertools import islice
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.agents.service import LOOKUP_TIMEOUT_SECONDS
from app.agents.types import BindingSettings
from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http.large_responses import LoopYielder
from app.api.http.search_quota import search_with_quota
from app.api.v1.search.agent_binding import DEFAULT_TOP_K, apply_binding, format_snippet
from app.api.v1.search.messages import ROLES, extract_texts
from app.bootstrap import TenantServices
from app.documents.scopes import MAX_SCOPE_ID_LENGTH
from app.retrieval.conversation import ASKING_ROLES, MAX_MESSAGES
from app.retrieval.quota import require_complete
from app.retrieval.types import Message, SearchRequest

router = APIRouter(tags=["agent search"], route_class=AuthenticatedRoute)
# What is left to the search, however long it took to learn who asks.
MIN_SEARCH_TIMEOUT_SECONDS = 0.1


class AgentMessage(BaseModel):
    """A turn as agent platforms send it: other fields are ignored, content that is not text counts as none."""

    model_config = ConfigDict(extra="ignore")

    role: str = ""
    content: str = ""

    @field_validator("role", "content", mode="before")
    @classmethod
    def _to_text(cls, value: Any) -> str:
        return _join_texts(value)


def _join_texts(content: Any) -> str:
    """As far as it is understood."""
    return "\n".join(text for text in extract_texts(content) if text).encode("utf-8", "replace").decode()


def _is_question(message: Any) -> bool:
    """Whether it is a question: as the search sees it, for which one without words is none."""
    if not isinstance(message, dict) or message.get("role") not in tuple(ASKING_ROLES):
        return False
    return bool(_join_texts(message.get("content")).strip())


def _find_message_fault(message: Any) -> str | None:
    """Why a message was not understood, if it was not."""
    if not isinstance(message, dict):
        return "is no object"
    if message.get("role") not in ROLES:
        return f"has none of the roles {', '.join(ROLES)}"
    return "has a content that is no text" if None in extract_texts(message.get("content")) else None


class AgentSearchRequest(BaseModel):
    """The conversation, most recent message last; unknown fields are ignored.

    A message that is not understood is ignored beside a question. Where nothing asks it is refused: a mistake is not to
    be told as nothing found.
    ``agent_id`` chooses the agent's binding, and ``session_id`` names the chat whose documents a binding may open; what
    cannot be such an id names nothing.
    """

    model_config = ConfigDict(extra="ignore")

    messages: list[AgentMessage]
    top_k: int | None = Field(None, ge=1, le=500)
    agent_id: str | None = None
    session_id: str | None = None

    @field_validator("agent_id", "session_id", mode="before")
    @classmethod
    def _normalize_id(cls, value: Any) -> str | None:
        if not isinstance(value, str) or not 0 < len(value) <= MAX_SCOPE_ID_LENGTH or "\0" in value:
            return None
        return value if value.encode("utf-8", "ignore").decode() == value else None

    @field_validator("messages", mode="before")
    @classmethod
    def _select_newest(cls, value: Any) -> Any:
        """The newest ones, and the newest question if it is none of them."""
        if not isinstance(value, list):
            return value
        newest = value[-MAX_MESSAGES:]
        older = [*islice((message for message in reversed(value[:-MAX_MESSAGES]) if _is_question(message)), 1)]
        if not older and not any(map(_is_question, newest)):
            for number, message in enumerate(value):
                if (reason := _find_message_fault(message)) is not None:
                    raise ValueError(f"nothing in it asks, and message {number} {reason}")
        return [*older, *newest]


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
        # The contract has no word for it: who configures a reranker wants it to be used.
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
        request = apply_binding(request, binding, tenant.principal, session_id=body.session_id)
        if not binding.knowledge_base_ids or not request.knowledge_bases:
            return []  # there is nothing to ask
    # Of the budget, which is that of the whole request: to learn whose key it is and what the agent is bound to.
    elapsed_seconds = time.monotonic() - http_request.state.started_at
    request = replace(
        request, timeout_seconds=max(request.timeout_seconds - elapsed_seconds, MIN_SEARCH_TIMEOUT_SECONDS)
    )
    result = require_complete(await search_with_quota(tenant, request, response))
    texts, yielder = [], LoopYielder()
    for hit in result.hits:
        texts.append(format_snippet(hit, settings))
        await yielder.add_bytes(hit.size_bytes)
    return [text for text in texts if text.strip()]


@router.post("/agent-search", response_model=list[str])
async def search_for_agent(
    body: AgentSearchRequest, tenant: CurrentReader, request: Request, response: Response
) -> list[str]:
    """The passages that answer the conversation's last question.

    From what its agent is bound to (PUT /v1/agents/{agent_id}), else from everything the key may read.
    """
    return await _search_snippets(tenant, body, request, response, None)


@router.post("/knowledge-bases/{kb}/agent-search", response_model=list[str])
async def search_knowledge_base_for_agent(
    kb: str, body: AgentSearchRequest, tenant: CurrentReader, request: Request, response: Response
) -> list[str]:
    """The same in one knowledge base, in place of those that its agent is bound to."""
    return await _search_snippets(tenant, body, request, response, [kb])
