"""Numbered versions of the prompts of knowledge bases and agents."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, PageParams, encode_cursor
from app.api.http import example_values
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.v1.schemas import AgentPath, ListResponse, Time
from app.ids import encode_id
from app.prompts.types import PromptName, PromptVersionInfo

router = APIRouter(tags=["prompts"], route_class=AuthenticatedRoute)
PromptPath = Annotated[PromptName, Path(description="Name of the prompt: `rewrite` or `answer`.", examples=["answer"])]
PromptFilter = Annotated[
    PromptName | None, Query(description="Only versions of this prompt. Default: both prompts.", examples=["answer"])
]
VersionNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the version, from 1.", examples=[1])]


class PromptVersionOut(BaseModel):
    """Version of a prompt."""

    prompt: PromptName = Field(description="Name of the prompt: `rewrite` or `answer`.", examples=["answer"])
    number: int = Field(description="Number of the version, from 1.", examples=[2])
    text: str = Field(description="Text of the prompt.", examples=["Answer briefly and politely."])
    in_use: bool = Field(description="Whether searches and answers use this version.", examples=[True])
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    key: str | None = Field(
        description="Id of the API key that created the version; null if the operator did, or if the version is "
        "older than this record.",
        examples=[example_values.API_KEY_ID],
    )


class PromptVersionList(ListResponse[PromptVersionOut]):
    """Page of prompt versions."""


def _to_version_out(version: PromptVersionInfo, *, in_use: bool) -> dict[str, Any]:
    return {
        "prompt": version.name,
        "number": version.number,
        "text": version.text,
        "in_use": in_use,
        "created_at": version.created_at,
        "key": None if version.key_id is None else encode_id("key", version.key_id),
    }


def _to_list_response(versions: Sequence[PromptVersionInfo], page: PageParams) -> dict[str, Any]:
    items = versions[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if versions[page.limit :] else None
    return page.build_reply([_to_version_out(version, in_use=version.in_use) for version in items], cursor)


@router.get(
    "/knowledge-bases/{kb}/prompts", summary="List the prompts of a knowledge base", response_model=PromptVersionList
)
async def list_knowledge_base_prompts(
    kb: KnowledgeBasePath, page: CurrentPageParams, tenant: CurrentAdmin, prompt: PromptFilter = None
) -> dict[str, Any]:
    """Return the versions of `retrieval.rewrite_prompt` and `retrieval.answer_prompt`, newest first.

    A new text gets the next number. A text that was used before keeps its number.
    """
    return _to_list_response(
        await tenant.prompts.list_versions(kb, prompt, after=page.parse_cursor(), limit=page.row_limit), page
    )


@router.post(
    "/knowledge-bases/{kb}/prompts/{prompt}/{number}/pin",
    summary="Pin a prompt of a knowledge base",
    response_model=PromptVersionOut,
)
async def pin_knowledge_base_prompt(
    kb: KnowledgeBasePath, prompt: PromptPath, number: VersionNumber, tenant: CurrentAdmin
) -> dict[str, Any]:
    """Use a version of a prompt again, as if its text were set again."""
    return _to_version_out(await tenant.prompts.pin_version(kb, prompt, number), in_use=True)


@router.get("/agents/{agent_id}/prompts", summary="List the prompts of an agent", response_model=PromptVersionList)
async def list_agent_prompts(
    agent_id: AgentPath, page: CurrentPageParams, tenant: CurrentAdmin, prompt: PromptFilter = None
) -> dict[str, Any]:
    """Return the versions of `rewrite_prompt` and `answer_prompt` of an agent's binding, newest first."""
    return _to_list_response(
        await tenant.agents.list_prompt_versions(agent_id, prompt, after=page.parse_cursor(), limit=page.row_limit),
        page,
    )


@router.post(
    "/agents/{agent_id}/prompts/{prompt}/{number}/pin",
    summary="Pin a prompt of an agent",
    response_model=PromptVersionOut,
)
async def pin_agent_prompt(
    agent_id: AgentPath, prompt: PromptPath, number: VersionNumber, tenant: CurrentAdmin
) -> dict[str, Any]:
    """Use a version of a prompt again, as if its text were set again."""
    return _to_version_out(await tenant.agents.pin_prompt(agent_id, prompt, number), in_use=True)
