"""REST API, version 1."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from app.api.v1.admin import api_keys, audit_events, capabilities, jobs, status, tenants, usage, webhooks
from app.api.v1.agents import agents
from app.api.v1.answers import answers
from app.api.v1.documents import (
    chunk_changes,
    chunks,
    deletions,
    document_details,
    document_events,
    documents,
    images,
    knowledge_base_chunks,
    knowledge_base_events,
    nodes,
    page_images,
    preview,
    uploads,
)
from app.api.v1.documents.preview import TextPreviewRequest
from app.api.v1.documents.upload_schemas import ProvidedChunkRequest, TextDocumentCreate
from app.api.v1.entities import corrections, entities
from app.api.v1.evaluations import evaluations, golden_sets
from app.api.v1.knowledge_bases import enrichment, knowledge_bases, prompts, reindex, sql_view, transfers
from app.api.v1.search import agent_search, external_search, search

# With this placeholder, FastAPI adds no response 422 to the OpenAPI document. ``app.api.api_docs`` replaces the
# placeholder by one response per status.
_RESPONSES: dict[int | str, dict[str, Any]] = {"default": {"description": "Error"}}

# Routes are tried in this order: the ones with the most requests come first.
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
    external_search,
    prompts,
    enrichment,
    uploads,
    documents,
    document_details,
    deletions,
    document_events,
    chunks,
    chunk_changes,
    knowledge_base_chunks,
    knowledge_base_events,
    nodes,
    corrections,
    entities,
    images,
    page_images,
    preview,
    usage,
    jobs,
    status,
    capabilities,
    audit_events,
    webhooks,
    golden_sets,
    evaluations,
)


def build_body_schemas() -> dict[str, Any]:
    """Return the schemas, by name, of JSON bodies that routes parse themselves. FastAPI does not know these schemas."""
    _, definitions = models_json_schema(
        [
            (TextDocumentCreate, "validation"),
            (ProvidedChunkRequest, "validation"),
            (TextPreviewRequest, "validation"),
        ],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas


def include_routers(app: FastAPI) -> None:
    """Include the routes of each module directly. With nested routers, FastAPI would try every route at every level."""
    for module in _ROUTE_MODULES:
        app.include_router(module.router, prefix="/v1", responses=dict(_RESPONSES))
