"""The numbered versions of the prompts of knowledge bases and agents."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, PageParams, encode_cursor
from app.api.v1.schemas import ListResponse, ScopeId, Time
from app.ids import encode_id
from app.prompts.types import PromptName, PromptVersionInfo

router = APIRouter(tags=["prompts"], route_class=AuthenticatedRoute)
PromptFilter = Annotated[PromptName | None, Query(description="Only this one; without it both")]
VersionNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


class PromptVersionOut(BaseModel):
    """A text that the prompt has, or had. ``in_use`` is what searches and answers are given now.

    ``key`` is the key that brought it; null for the operator's, and for one that was there before versions were kept.
    """

    prompt: PromptName
    number: int
    text: str
    in_use: bool
    created_at: Time
    key: str | None = Field(description="The id of an API key")


class PromptVersionList(ListResponse[PromptVersionOut]):
    """A page of prompt versions."""


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
    return {"items": [_to_version_out(version, in_use=version.in_use) for version in items], "next_cursor": cursor}


@router.get("/knowledge-bases/{kb}/prompts", response_model=PromptVersionList)
async def list_knowledge_base_prompts(
    kb: str, page: CurrentPageParams, tenant: CurrentAdmin, prompt: PromptFilter = None
) -> dict[str, Any]:
    """The versions of `retrieval.rewrite_prompt` and `retrieval.answer_prompt`, newest first.

    Setting a prompt makes a version with the next number, unless the same text was there before: then it has the number
    of that.
    """
    return _to_list_response(
        await tenant.prompts.list_versions(kb, prompt, after=page.parse_cursor(), limit=page.limit + 1), page
    )


@router.post("/knowledge-bases/{kb}/prompts/{prompt}/{number}/pin", response_model=PromptVersionOut)
async def pin_knowledge_base_prompt(
    kb: str, prompt: PromptName, number: VersionNumber, tenant: CurrentAdmin
) -> dict[str, Any]:
    """Use this version from now on: the same as setting its text again."""
    return _to_version_out(await tenant.prompts.pin_version(kb, prompt, number), in_use=True)


@router.get("/agents/{agent_id}/prompts", response_model=PromptVersionList)
async def list_agent_prompts(
    agent_id: ScopeId, page: CurrentPageParams, tenant: CurrentAdmin, prompt: PromptFilter = None
) -> dict[str, Any]:
    """The versions of `rewrite_prompt` and `answer_prompt` of an agent's binding, newest first."""
    return _to_list_response(
        await tenant.agents.list_prompt_versions(agent_id, prompt, after=page.parse_cursor(), limit=page.limit + 1),
        page,
    )


@router.post("/agents/{agent_id}/prompts/{prompt}/{number}/pin", response_model=PromptVersionOut)
async def pin_agent_prompt(
    agent_id: ScopeId, prompt: PromptName, number: VersionNumber, tenant: CurrentAdmin
) -> dict[str, Any]:
    """Use this version from now on: the same as setting its text again."""
    return _to_version_out(await tenant.agents.pin_prompt(agent_id, prompt, number), in_use=True)
