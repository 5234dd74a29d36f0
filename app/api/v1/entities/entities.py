"""Entities of a knowledge base: list, one entity, and the graph of a document."""

from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from app.api.dependencies import AuthenticatedRoute, CurrentReader, PageParams, encode_cursor
from app.api.http.path_parameters import DocumentPath, EntityPath, KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.v1.documents.documents import decode_document_id
from app.api.v1.documents.scopes import ChunkScope, SharedLevel
from app.api.v1.entities.entity_schemas import (
    DocumentGraphOut,
    EntityDetailOut,
    EntityList,
    build_graph_warnings,
    to_document_graph_out,
    to_entity_detail_out,
    to_entity_out,
)
from app.documents.scopes import DocumentScope
from app.graph.entities.types import EntityNotFound
from app.graph.entity_ids import decode_entity_id

router = APIRouter(tags=["entities"], route_class=AuthenticatedRoute)
MAX_CURSOR_CHARACTERS = 4096
NamePart = Annotated[Text, Query(max_length=200)]


def _get_name_page_params(
    limit: Annotated[int, Query(ge=1, le=200, description="Maximum number of items, 1 to 200.", examples=[50])] = 50,
    cursor: Annotated[
        str | None,
        Query(
            max_length=MAX_CURSOR_CHARACTERS,
            description=f"`next_cursor` of the page before; at most {MAX_CURSOR_CHARACTERS:,} characters.",
            examples=["WyJzdGVwaGVuIHdhcmJlY2siLCAxMDY3MDYwNjc5XQ=="],
        ),
    ] = None,
) -> PageParams:
    return PageParams(limit, cursor)


CurrentNamePage = Annotated[PageParams, Depends(_get_name_page_params)]


def _build_scope_key(scope: DocumentScope) -> UUID | None:
    """Return the key of a scope, or None if the request names no scope. Raises InvalidInputError."""
    return scope.to_key(loc=("query",)) if scope != DocumentScope() else None


def decode_entity_path(entity: str) -> int:
    """Decode the id of an entity in a path. Raises EntityNotFound."""
    key = decode_entity_id(entity)
    if key is None:
        raise EntityNotFound
    return key


@router.get("/knowledge-bases/{kb}/entities", summary="List entities", response_model=EntityList)
async def list_entities(
    kb: KnowledgeBasePath,
    page: CurrentNamePage,
    scope: ChunkScope,
    tenant: CurrentReader,
    prefix: Annotated[NamePart, Query(description="Beginning of the name.", examples=["steph"])] = "",
    q: Annotated[
        NamePart, Query(description="Words of the name, each from its beginning, in any order.", examples=["warbeck"])
    ] = "",
    level: SharedLevel = None,
) -> EntityList:
    """Return the entities that readable chunks name, by name.

    Names are compared without case, accents and punctuation. Without scope parameters, the list has the entities of
    all levels that the key may read.
    """
    entities = await tenant.entities.list_entities(
        kb,
        _build_scope_key(replace(scope, shared=level is not None)),
        prefix=prefix,
        words=q,
        after=page.parse_name_cursor(),
        limit=page.limit + 1,
    )
    items = entities.entities[: page.limit]
    cursor = encode_cursor(items[-1].sort_name, items[-1].key) if entities.entities[page.limit :] else None
    return EntityList(
        items=[to_entity_out(entity) for entity in items],
        next_cursor=cursor,
        warnings=build_graph_warnings(has_graph=entities.has_graph),
    )


@router.get("/knowledge-bases/{kb}/entities/{entity}", summary="Get an entity", response_model=EntityDetailOut)
async def get_entity(
    kb: KnowledgeBasePath, entity: EntityPath, page: CurrentNamePage, scope: ChunkScope, tenant: CurrentReader
) -> EntityDetailOut:
    """Return an entity with its chunks, page by page, and with the entities that share chunks with it.

    If the entity was merged into another, the response is about the other.
    """
    detail = await tenant.entities.get_entity(
        kb, decode_entity_path(entity), _build_scope_key(scope), after=page.parse_chunk_cursor(), limit=page.limit + 1
    )
    chunks = detail.chunks[: page.limit]
    has_more = len(detail.chunks) > page.limit
    cursor = encode_cursor(chunks[-1].document_id, chunks[-1].ordinal) if has_more else None
    return to_entity_detail_out(detail, chunks, cursor)


@router.get(
    "/knowledge-bases/{kb}/documents/{document}/graph",
    summary="Get the graph of a document",
    response_model=DocumentGraphOut,
)
async def get_document_graph(kb: KnowledgeBasePath, document: DocumentPath, tenant: CurrentReader) -> DocumentGraphOut:
    """Return the entities that the live version of a document names, the chunks that name them, and relations."""
    return to_document_graph_out(await tenant.entities.get_document_graph(kb, decode_document_id(document)))
