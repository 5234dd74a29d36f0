"""The native REST door, version 1."""

from typing import Any

from fastapi import FastAPI

from app.api.http.problems import PROBLEM_RESPONSE
from app.api.v1.admin import api_keys, audit_events, capabilities, status, tenants, usage, webhooks
from app.api.v1.agents import agents
from app.api.v1.answers import answers
from app.api.v1.documents import chunks, deletions, document_events, documents, images, nodes, preview, uploads
from app.api.v1.knowledge_bases import knowledge_bases, prompts, reindex, sql_view, transfers
from app.api.v1.search import agent_search, search

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
    sql_view,
    agents,
    prompts,
    uploads,
    documents,
    deletions,
    document_events,
    chunks,
    nodes,
    images,
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
