"""The native REST door, version 1."""

from typing import Any

from fastapi import FastAPI

from app.api.problems import PROBLEM_RESPONSE
from app.api.v1 import (
    agent_search,
    agents,
    answers,
    api_keys,
    audit_events,
    capabilities,
    chunks,
    deletions,
    documents,
    events,
    knowledge_bases,
    media,
    nodes,
    preview,
    prompts,
    publication,
    reindex,
    search,
    status,
    tenants,
    transfers,
    uploads,
    usage,
    webhooks,
)

_RESPONSES: dict[int | str, dict[str, Any]] = {
    str(status): {"description": text, **PROBLEM_RESPONSE}
    for status, text in {
        401: "No key, or one that is not valid",
        403: "The key's role is too low",
        404: "Nothing there that this key may see",
        413: "Too large",
        422: "Not valid",
        429: "Too many requests; try again after Retry-After",
        431: "The address or a header is too long",
        503: "A dependency is down; try again",
    }.items()
}

# Routes are tried in this order: first what is asked most.
_ROUTE_MODULES = (
    search,
    agent_search,
    answers,
    tenants,
    api_keys,
    knowledge_bases,
    reindex,
    transfers,
    publication,
    agents,
    prompts,
    uploads,
    documents,
    deletions,
    events,
    chunks,
    nodes,
    media,
    preview,
    usage,
    status,
    capabilities,
    audit_events,
    webhooks,
)


def include_routers(app: FastAPI) -> None:
    """Each module by itself: of routers within routers the framework looks at all of them, at every level again."""
    for module in _ROUTE_MODULES:
        app.include_router(module.router, prefix="/v1", responses=dict(_RESPONSES))
