"""Corrections of entities: merge, split, list and undo."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field, StringConstraints

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
from app.api.http import example_values
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.request_models import STORABLE
from app.api.v1.documents.documents import decode_document_id
from app.api.v1.entities.entities import decode_entity_path
from app.api.v1.schemas import Identifier, ListResponse, StrictRequestModel, Time
from app.graph.entities.correction_service import CorrectionNotFound
from app.graph.entity_ids import encode_entity_id
from app.ids import decode_id, encode_id

router = APIRouter(prefix="/knowledge-bases/{kb}/entities", tags=["entities"], route_class=AuthenticatedRoute)
CorrectionPath = Annotated[str, Path(description="Id of the correction.", examples=[example_values.CORRECTION_ID])]


class EntityMergeRequest(StrictRequestModel):
    """Entities to merge into another."""

    entities: list[Identifier] = Field(
        min_length=1,
        max_length=100,
        description="Ids of the entities to merge, 1 to 100.",
        examples=[[example_values.OTHER_ENTITY_ID]],
    )
    into: Identifier = Field(description="Id of the entity that remains.", examples=[example_values.ENTITY_ID])


class EntitySplitRequest(StrictRequestModel):
    """Entity that means another in some documents."""

    entity: Identifier = Field(description="Id of the entity.", examples=[example_values.ENTITY_ID])
    documents: list[Identifier] = Field(
        min_length=1,
        max_length=100,
        description="Ids of the documents that mean another entity, 1 to 100.",
        examples=[[example_values.DOCUMENT_ID]],
    )
    name: Annotated[str, StringConstraints(min_length=1, max_length=200), STORABLE] = Field(
        description="Name of the other entity, 1 to 200 characters.", examples=["Stephen Warbeck (the painter)"]
    )


class CorrectedEntityOut(BaseModel):
    """Entity that a correction leads to."""

    entity: str = Field(description="Id of the entity.", examples=[example_values.ENTITY_ID])


class CorrectionOut(BaseModel):
    """Correction of an entity: a merge, or with a document a split."""

    id: str = Field(description="Id of the correction.", examples=[example_values.CORRECTION_ID])
    entity: str = Field(description="Id of the corrected entity.", examples=[example_values.OTHER_ENTITY_ID])
    target: str = Field(description="Id of the entity that counts instead.", examples=[example_values.ENTITY_ID])
    document: str | None = Field(description="Id of the document of a split; null for a merge.", examples=[None])
    name: str | None = Field(description="Name of the target of a split; null for a merge.", examples=[None])
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])


class CorrectionList(ListResponse[CorrectionOut]):
    """Page of corrections."""


@router.post("/merge", summary="Merge entities", response_model=CorrectedEntityOut)
async def merge_entities(kb: KnowledgeBasePath, body: EntityMergeRequest, tenant: CurrentAdmin) -> dict[str, Any]:
    """Let entities count as another in the whole knowledge base. Merging again changes nothing."""
    keys = [decode_entity_path(entity) for entity in body.entities]
    target = await tenant.corrections.merge(kb, keys, decode_entity_path(body.into))
    return {"entity": encode_entity_id(target)}


@router.post("/split", summary="Split an entity", response_model=CorrectedEntityOut)
async def split_entity(kb: KnowledgeBasePath, body: EntitySplitRequest, tenant: CurrentAdmin) -> dict[str, Any]:
    """Let an entity count as another in some documents. A split disappears with its document."""
    documents = [decode_document_id(document) for document in body.documents]
    target = await tenant.corrections.split(kb, decode_entity_path(body.entity), documents, body.name)
    return {"entity": encode_entity_id(target)}


@router.get("/corrections", summary="List corrections of entities", response_model=CorrectionList)
async def list_corrections(kb: KnowledgeBasePath, page: CurrentPageParams, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return the merges and splits of a knowledge base, newest first."""
    corrections = await tenant.corrections.list_corrections(kb, after=page.parse_cursor(), limit=page.row_limit)
    items = [
        {
            "id": encode_id("cor", row.id),
            "entity": encode_entity_id(row.key),
            "target": encode_entity_id(row.target_key),
            "document": None if row.document_id is None else encode_id("doc", row.document_id),
            "name": row.target_name,
            "created_at": row.created_at,
        }
        for row in corrections[: page.limit]
    ]
    last = corrections[page.limit - 1] if len(corrections) > page.limit else None
    return {
        "items": items,
        "next_cursor": None if last is None else encode_cursor(last.created_at, last.id),
        **page.build_count_fields(),
    }


@router.delete("/corrections/{correction}", summary="Undo a correction", status_code=204)
async def delete_correction(kb: KnowledgeBasePath, correction: CorrectionPath, tenant: CurrentAdmin) -> None:
    """Delete a merge or a split. Entities that a later merge moved along stay with its target."""
    correction_id = decode_id("cor", correction)
    if correction_id is None:
        raise CorrectionNotFound
    await tenant.corrections.delete(kb, correction_id)
