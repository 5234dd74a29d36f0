"""The external-search contract: a conversation in, a bare array of passages out, inside the caller's budget."""

from itertools import islice
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.v1.searching import admitted_search
from app.bootstrap import TenantServices
from app.retrieval.rewriting import ASKING, MAX_MESSAGES
from app.retrieval.types import Message, SearchRequest, SearchUnavailable

router = APIRouter(tags=["agent search"], route_class=GuardedRoute)
DEFAULT_TOP_K = 5


class AgentMessage(BaseModel):
    """A turn as agent platforms send it: other fields are ignored, content that is not text counts as none."""

    model_config = ConfigDict(extra="ignore")

    role: str = ""
    content: str = ""

    @field_validator("role", "content", mode="before")
    @classmethod
    def _text(cls, value: Any) -> str:
        if isinstance(value, list):
            parts = [part.get("text") if isinstance(part, dict) else part for part in value]
            value = "\n".join(part for part in parts if isinstance(part, str))
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _asks(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") in tuple(ASKING) and bool(message.get("content"))


class AgentSearchIn(BaseModel):
    """The conversation, most recent message last; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    messages: list[AgentMessage] = []
    top_k: int | None = Field(None, ge=1, le=500)

    @field_validator("messages", mode="before")
    @classmethod
    def _newest(cls, value: Any) -> Any:
        """The newest ones, and the newest question if it is none of them."""
        if not isinstance(value, list):
            return value or []
        older = (one for one in reversed(value[:-MAX_MESSAGES]) if _asks(one))
        return [*islice(older, 1), *value[-MAX_MESSAGES:]]


async def _answer(
    tenant: TenantServices, body: AgentSearchIn, response: Response, knowledge_bases: list[str] | None
) -> list[str]:
    request = SearchRequest(
        messages=[Message(message.role, message.content) for message in body.messages],
        knowledge_bases=knowledge_bases,
        top_k=body.top_k or DEFAULT_TOP_K,
    )
    result = await admitted_search(tenant, request, response)
    if not result.hits and not result.whole:  # nothing found does not mean nothing there
        raise SearchUnavailable
    texts = [_unjoined(hit.chunk.content) for hit in result.hits]
    return [text for text in texts if text.strip()]


def _unjoined(text: str) -> str:
    """The text with a dash for every line of three hyphens or more: with such lines the caller joins snippets."""
    lines = text.splitlines(keepends=True)
    return "".join(line.replace(line.strip(), "\u2014") if _is_rule(line.strip()) else line for line in lines)


def _is_rule(line: str) -> bool:
    return len(line) >= 3 and not line.strip("-")


@router.post("/agent-search", response_model=list[str])
async def agent_search(body: AgentSearchIn, tenant: CurrentReader, response: Response) -> list[str]:
    """The passages that answer the conversation's last question, from everything the key may read."""
    return await _answer(tenant, body, response, None)


@router.post("/knowledge-bases/{kb}/agent-search", response_model=list[str])
async def agent_search_in(kb: str, body: AgentSearchIn, tenant: CurrentReader, response: Response) -> list[str]:
    """The same in one knowledge base."""
    return await _answer(tenant, body, response, [kb])
