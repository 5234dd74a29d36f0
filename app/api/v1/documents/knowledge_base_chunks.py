"""Chunks of a whole knowledge base, and one chunk by its id alone."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentPageParams, CurrentReader, encode_cursor
from app.api.http import example_values
from app.api.http.path_parameters import ChunkPath, KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.http.warning_schema import to_warnings_out
from app.api.v1.documents.chunk_includes import IncludeNames, IncludeWarningsOut
from app.api.v1.documents.chunks import (
    ChunkDetailOut,
    ChunkOut,
    decode_chunk_id,
    to_chunk_detail_fields,
    to_chunk_fields,
)
from app.api.v1.documents.documents import parse_filter
from app.api.v1.documents.nodes import OffsetUnit
from app.api.v1.documents.scopes import ChunkScope, SharedLevel
from app.api.v1.schemas import ListResponse
from app.db.models.tenant_data import DocumentRow
from app.documents.content.offsets import OffsetConverter
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import DocumentScope
from app.documents.types import ChunkNotFound, DocumentNotFound
from app.filters import compile_filter
from app.ids import encode_id
from app.knowledge_bases.types import KnowledgeBaseNotFound

router = APIRouter(tags=["documents"], route_class=AuthenticatedRoute)


class ChunkDocumentOut(BaseModel):
    """Document of a chunk."""

    id: str = Field(description="Id of the document.", examples=[example_values.DOCUMENT_ID])
    source: str = Field(description="Name of the document, usually the file name.", examples=["handbook.pdf"])
    title: str = Field(
        description="Title that the uploader gave, else the title in the file, else the name of the document.",
        examples=["Staff handbook"],
    )
    metadata: dict[str, Any] = Field(
        description="Metadata of the document, without that of the chunk.", examples=[{"department": "hr"}]
    )


class ChunkPlaceOut(BaseModel):
    """Knowledge base and document of a chunk."""

    knowledge_base: str = Field(
        description="Name of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    document: ChunkDocumentOut = Field(description="Document of the chunk.")


class KnowledgeBaseChunkOut(ChunkOut, ChunkPlaceOut):
    """Chunk with its document."""


class KnowledgeBaseChunkList(ListResponse[KnowledgeBaseChunkOut], IncludeWarningsOut):
    """Page of chunks of several documents."""


class PlacedChunkOut(ChunkDetailOut, ChunkPlaceOut):
    """Chunk with its position on the pages, its neighbours and its document."""


def _to_place_fields(document: DocumentRow, knowledge_base: str) -> dict[str, Any]:
    fields = ChunkDocumentOut(
        id=encode_id("doc", document.id),
        source=document.source,
        title=document.title or document.source,
        metadata=document.attributes,
    )
    return {"knowledge_base": knowledge_base, "document": fields}


@router.get(
    "/knowledge-bases/{kb}/chunks", summary="List the chunks of a knowledge base", response_model=KnowledgeBaseChunkList
)
async def list_knowledge_base_chunks(
    kb: KnowledgeBasePath,
    page: CurrentPageParams,
    tenant: CurrentReader,
    scope: ChunkScope,
    include: IncludeNames,
    filter: Annotated[
        Text | None,
        Query(
            max_length=65536,
            description="Metadata filter as JSON, at most 65,536 characters, as in a search. `$document_id` and "
            "`$page` select the chunks of a document or a page.",
            examples=['{"department": "hr"}'],
        ),
    ] = None,
    level: SharedLevel = None,
) -> KnowledgeBaseChunkList:
    """Return the chunks of the live versions of all documents, document by document in the order of their ids.

    Offsets count code points. Without scope parameters, the list has the chunks of all levels that the key may read.
    """
    scope = replace(scope, shared=level is not None)
    filters = DocumentRowFilters(scope_key=scope.to_key(loc=("query",)) if scope != DocumentScope() else None)
    compiled = compile_filter(parse_filter(filter), loc=("query", "filter"))
    name, chunks = await tenant.catalog.list_chunks(
        kb, filters, compiled, after=page.parse_chunk_cursor(), limit=page.row_limit
    )
    listed = chunks[: page.limit]
    included = await tenant.chunk_includes.load(include, [item.chunk for item in listed])
    items = [
        KnowledgeBaseChunkOut(
            **to_chunk_fields(item.chunk, item.document, OffsetConverter(), included),
            **_to_place_fields(item.document, name),
        )
        for item in listed
    ]
    cursor = encode_cursor(listed[-1].document.id, listed[-1].chunk.ordinal) if chunks[page.limit :] else None
    reply = KnowledgeBaseChunkList(items=items, next_cursor=cursor, **page.build_count_fields())
    reply.warnings += to_warnings_out(included.warnings)
    return reply


@router.get("/chunks/{chunk}", summary="Get a chunk by its id", response_model=PlacedChunkOut)
async def get_chunk_by_id(
    chunk: ChunkPath, tenant: CurrentReader, include: IncludeNames, offsets: OffsetUnit = None
) -> PlacedChunkOut:
    """Return a chunk of a live version, in any knowledge base that the key may read."""
    chunk_id = decode_chunk_id(chunk)
    try:
        kb, document_id = await tenant.catalog.locate_chunk(chunk_id)
        view = await tenant.content.get_chunk(kb, document_id, chunk_id, utf16=offsets == "utf16")
        name = (await tenant.knowledge_bases.find(kb)).row.name
        included = await tenant.chunk_includes.load(include, [view.chunk])
    except (DocumentNotFound, KnowledgeBaseNotFound) as exc:
        raise ChunkNotFound from exc
    return PlacedChunkOut(
        **to_chunk_fields(view.chunk, view.document, view.offsets, included),
        **to_chunk_detail_fields(view),
        warnings=to_warnings_out(included.warnings),
        **_to_place_fields(view.document, name),
    )
