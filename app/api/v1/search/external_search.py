"""Configuration block for agent platforms that call the external-search contract."""

from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.yaml_responses import build_yaml_response, describe_yaml_response, needs_yaml
from app.api.v1.knowledge_bases.sql_view import VARIABLE_PATTERN
from app.api.v1.schemas import AgentPath, StrictRequestModel
from app.api.v1.search.agent_binding import DEFAULT_TOP_K
from app.retrieval.conversation import MAX_MESSAGES

router = APIRouter(tags=["agents"], route_class=AuthenticatedRoute)
DEFAULT_KEY_VARIABLE, DEFAULT_TIMEOUT_SECONDS = "CARREL_API_KEY", 5.0
_PORTS = {"https": 443, "http": 80}
_YAML_EXAMPLE = """type: external
hostname: https://carrel.example.com
port: 443
path: /v1/agent-search
api_key: ${CARREL_API_KEY}
top_k: 5
max_messages: 20
timeout_seconds: 5.0
"""
_RESPONSES = describe_yaml_response("Configuration block", _YAML_EXAMPLE)


def _check_base_url(value: str | None) -> str | None:
    """Check the address of the service. Raises ValueError."""
    if value is None:
        return None
    parts = urlsplit(value)
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in _PORTS or not parts.hostname or not is_plain or parts.port == 0:
        raise ValueError("must be an http or https URL without user, query and fragment")
    return value


class ExternalSearchParams(StrictRequestModel):
    """Fields of the block that the caller may choose."""

    base_url: Annotated[str | None, AfterValidator(_check_base_url)] = Field(
        None,
        max_length=2000,
        description="Address at which the platform reaches the service. Default: the address of this request.",
        examples=["https://carrel.example.com"],
    )
    api_key_variable: str = Field(
        DEFAULT_KEY_VARIABLE,
        pattern=VARIABLE_PATTERN,
        description="Environment variable of the platform that has the API key.",
        examples=[DEFAULT_KEY_VARIABLE],
    )


class ExternalSearchOut(BaseModel):
    """Configuration block for a platform. The API key is a reference to an environment variable."""

    type: Literal["external"] = Field(description="Type of the search.", examples=["external"])
    hostname: str = Field(description="Scheme and host of the service.", examples=["https://carrel.example.com"])
    port: int = Field(description="Port of the service.", examples=[443])
    path: str = Field(description="Path of the search, which begins with `/`.", examples=["/v1/agent-search"])
    api_key: str = Field(
        description="Reference to the environment variable with the API key. The platform sends the key as a Bearer "
        "token.",
        examples=["${CARREL_API_KEY}"],
    )
    top_k: int = Field(description="Number of passages that the platform requests.", examples=[5])
    max_messages: int = Field(description="Number of newest messages that the platform sends.", examples=[20])
    timeout_seconds: float = Field(description="Time limit of the platform in seconds.", examples=[5.0])


def _build_block(
    request: Request,
    params: ExternalSearchParams,
    path: str,
    *,
    top_k: int | None,
    max_messages: int | None = None,
    timeout_seconds: float | None = None,
) -> dict[str, Any]:
    """Return the block for one path of the service; None means the default of the contract."""
    address = urlsplit(params.base_url or str(request.base_url))
    host = address.hostname or ""
    return {
        "type": "external",
        "hostname": f"{address.scheme}://{f'[{host}]' if ':' in host else host}",
        "port": address.port or _PORTS[address.scheme],
        "path": address.path.rstrip("/") + path,
        "api_key": f"${{{params.api_key_variable}}}",
        "top_k": top_k or DEFAULT_TOP_K,
        "max_messages": max_messages or MAX_MESSAGES,
        "timeout_seconds": float(timeout_seconds or DEFAULT_TIMEOUT_SECONDS),
    }


@router.get(
    "/knowledge-bases/{kb}/external-search",
    summary="Get the external search of a knowledge base",
    response_model=ExternalSearchOut,
    responses=_RESPONSES,
)
async def get_knowledge_base_external_search(
    kb: KnowledgeBasePath, params: Annotated[ExternalSearchParams, Query()], tenant: CurrentAdmin, request: Request
) -> Any:
    """Return the block with which an agent platform searches this knowledge base (`POST …/agent-search`).

    With `Accept: application/yaml`, the reply is the same block in YAML.
    """
    view = await tenant.knowledge_bases.find(kb)
    path = f"/v1/knowledge-bases/{quote(view.row.name, safe='')}/agent-search"
    block = _build_block(request, params, path, top_k=view.retrieval.top_k)
    return build_yaml_response(block) if needs_yaml(request) else block


@router.get(
    "/agents/{agent_id}/external-search",
    summary="Get the external search of an agent",
    response_model=ExternalSearchOut,
    responses=_RESPONSES,
)
async def get_agent_external_search(
    agent_id: AgentPath, params: Annotated[ExternalSearchParams, Query()], tenant: CurrentAdmin, request: Request
) -> Any:
    """Return the block with which an agent platform calls `POST /v1/agent-search` for this agent.

    With `Accept: application/yaml`, the reply is the same block in YAML.
    """
    settings = (await tenant.agents.get(agent_id)).settings
    block = _build_block(
        request,
        params,
        "/v1/agent-search",
        top_k=settings.top_k,
        max_messages=settings.max_messages,
        timeout_seconds=settings.timeout_seconds,
    )
    return build_yaml_response(block) if needs_yaml(request) else block
