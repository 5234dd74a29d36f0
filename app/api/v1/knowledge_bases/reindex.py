"""Reindex and rollback of knowledge bases."""

from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentResources
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.v1.knowledge_bases.knowledge_base_schemas import ChunkingRequest, EmbeddingModelRequest, KnowledgeBaseOut
from app.api.v1.knowledge_bases.knowledge_bases import to_knowledge_base_out
from app.api.v1.schemas import StrictRequestModel
from app.knowledge_bases.types import ReindexOptions

router = APIRouter(
    prefix="/knowledge-bases/{kb}/reindex",
    tags=["knowledge bases"],
    route_class=AuthenticatedRoute,
)


class ReindexRequest(StrictRequestModel):
    """Settings of the next search index. Fields left out do not change, except in ``chunking``: there, fields left out
    get their default.
    """

    embedding: EmbeddingModelRequest = Field(
        default_factory=EmbeddingModelRequest, description="Embedding model of the next search index.", examples=[{}]
    )
    chunking: ChunkingRequest | None = Field(
        None, description="Chunking of the next search index.", examples=[{"strategy": "headered", "max_tokens": 300}]
    )
    language: Text | None = Field(None, description="Language of the lexical analysis.", examples=["english"])


@router.post("", summary="Reindex a knowledge base", status_code=202, response_model=KnowledgeBaseOut)
async def reindex_knowledge_base(
    kb: KnowledgeBasePath, tenant: CurrentAdmin, resources: CurrentResources, body: ReindexRequest | None = None
) -> dict[str, Any]:
    """Build another search index from the stored documents. Searches use the live index until the new index is
    complete.

    The same request during the reindex changes nothing; after a failure, it continues the reindex.
    """
    body = body or ReindexRequest()
    options = ReindexOptions(
        model=body.embedding.model,
        dimensions=body.embedding.dimensions,
        chunking=None if body.chunking is None else body.chunking.to_chunking(),
        language=body.language,
    )
    return to_knowledge_base_out(await tenant.reindexing.start(kb, options), resources)


@router.delete("", summary="Cancel a reindex", status_code=204)
async def cancel_reindex(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> Response:
    """Cancel the reindex of a knowledge base. The live search index does not change."""
    await tenant.reindexing.cancel(kb)
    return Response(status_code=204)


@router.post("/rollback", summary="Roll back a reindex", status_code=202, response_model=KnowledgeBaseOut)
async def roll_back_reindex(kb: KnowledgeBasePath, tenant: CurrentAdmin, resources: CurrentResources) -> dict[str, Any]:
    """Make the former search index, with its settings, live again. It is first updated with the changes of the
    documents since then.
    """
    return to_knowledge_base_out(await tenant.reindexing.rollback(kb), resources)
