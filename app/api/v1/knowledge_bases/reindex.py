"""Indexing a knowledge base anew, with other settings or the same."""

from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentResources
from app.api.http.problems import PROBLEM_RESPONSE
from app.api.http.request_models import Text
from app.api.v1.knowledge_bases.knowledge_bases import (
    ChunkingRequest,
    EmbeddingModelRequest,
    KnowledgeBaseOut,
    to_knowledge_base_out,
)
from app.api.v1.schemas import StrictRequestModel
from app.knowledge_bases.types import ReindexOptions

router = APIRouter(
    prefix="/knowledge-bases/{kb}/reindex",
    tags=["knowledge bases"],
    route_class=AuthenticatedRoute,
    responses={409: {"description": "Another one is under way, or there is nothing to go back to", **PROBLEM_RESPONSE}},
)


class ReindexRequest(StrictRequestModel):
    """What is to be another; what is left out stays. Of chunking, what is left out is as by default."""

    embedding: EmbeddingModelRequest = Field(default_factory=EmbeddingModelRequest)
    chunking: ChunkingRequest | None = None
    language: Text | None = None


@router.post("", status_code=202, response_model=KnowledgeBaseOut)
async def reindex_knowledge_base(
    kb: str, tenant: CurrentAdmin, resources: CurrentResources, body: ReindexRequest | None = None
) -> dict[str, Any]:
    """Build another index from what is stored of the documents; the live one answers until the new one is whole.

    The same again while it is being built changes nothing, and makes one go on that has failed.
    """
    body = body or ReindexRequest()
    options = ReindexOptions(
        model=body.embedding.model,
        dimensions=body.embedding.dimensions,
        chunking=None if body.chunking is None else body.chunking.to_chunking(),
        language=body.language,
    )
    return to_knowledge_base_out(await tenant.reindexing.start(kb, options), resources)


@router.delete("", status_code=204)
async def cancel_reindex(kb: str, tenant: CurrentAdmin) -> Response:
    """Build it no further; the live index stays."""
    await tenant.reindexing.cancel(kb)
    return Response(status_code=204)


@router.post("/rollback", status_code=202, response_model=KnowledgeBaseOut)
async def roll_back_reindex(kb: str, tenant: CurrentAdmin, resources: CurrentResources) -> dict[str, Any]:
    """Go back to the index of before, with its settings: it is brought up to date, then it is the live one again."""
    return to_knowledge_base_out(await tenant.reindexing.rollback(kb), resources)
