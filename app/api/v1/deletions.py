"""Delete documents, one or many, and the receipts of it."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from app.api.dependencies import CurrentAdmin, CurrentReader, CurrentWriter, GuardedRoute
from app.api.v1.documents import document_id, parse_filter
from app.api.v1.schemas import Identifier, Text, Time
from app.documents.deletion import DeletionNotFound, Selection
from app.ids import decode_id, encode_id

router = APIRouter(tags=["documents"], route_class=GuardedRoute)
DOCUMENTS = "/knowledge-bases/{kb}/documents"
HEADER = "Carrel-Deletion-Id"


class DeletedOut(BaseModel):
    """A deletion of many documents, and how many they were."""

    deletion: str
    deleted: int


class DeletionOut(BaseModel):
    """A receipt; ``finished_at`` is null while originals are still being removed. Searches saw nothing at once."""

    id: str
    documents: int
    chunks: int
    requested_at: Time
    finished_at: Time | None


@router.delete(
    DOCUMENTS + "/{document}",
    status_code=204,
    responses={204: {"headers": {HEADER: {"schema": {"type": "string"}}}, "description": "Gone"}},
)
async def delete_document(kb: str, document: str, tenant: CurrentWriter) -> Response:
    """Out of every search when this answers, whatever it is being done to; rows are gone, the original follows."""
    deletion = await tenant.deletions.delete(kb, document_id(document))
    return Response(status_code=204, headers={HEADER: encode_id("del", deletion)})


@router.delete(DOCUMENTS, status_code=202, response_model=DeletedOut)
async def delete_documents(
    kb: str,
    tenant: CurrentAdmin,
    response: Response,
    ids: Annotated[list[Text] | None, Query(min_length=1, max_length=200)] = None,
    external_id: Identifier | None = None,
    filter: Annotated[Text | None, Query(max_length=65536, description="A metadata filter as JSON")] = None,
    confirm: Annotated[Text | None, Query(max_length=63, description="The knowledge base's name")] = None,
) -> DeletedOut:
    """Delete what `ids`, `external_id` or `filter` means; `filter={}` is everything and needs `confirm`."""
    selection = Selection(
        ids=None if ids is None else _document_ids(ids),
        external_id=external_id,
        filter=parse_filter(filter),
    )
    deletion, deleted = await tenant.deletions.delete_many(kb, selection, confirm=confirm)
    response.headers[HEADER] = encode_id("del", deletion)
    return DeletedOut(deletion=encode_id("del", deletion), deleted=deleted)


def _document_ids(given: Sequence[str]) -> list[UUID]:
    """Named one by one or separated by commas; what is no document's id is none that is there."""
    found = (decode_id("doc", text.strip()) for part in given for text in part.split(","))
    return [one for one in found if one is not None]


@router.get("/deletions/{deletion}", response_model=DeletionOut)
async def get_deletion(deletion: str, tenant: CurrentReader) -> DeletionOut:
    """The receipt of a deletion."""
    key = decode_id("del", deletion)
    if key is None:
        raise DeletionNotFound
    found = await tenant.deletions.receipt(key)
    return DeletionOut(
        id=deletion,
        documents=found.documents,
        chunks=found.chunks,
        requested_at=found.requested_at,
        finished_at=found.finished_at,
    )
