"""Deletion of documents, one or many, and the receipts of deletions."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from app.api.dependencies import (
    AuthenticatedRoute,
    CurrentAdmin,
    CurrentPageParams,
    CurrentReader,
    CurrentResources,
    CurrentWriter,
    encode_cursor,
)
from app.api.http import example_values
from app.api.http.path_parameters import DeletionPath, DocumentPath, KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.v1.deletion_header import DELETION_HEADER, create_deletion_response, describe_deletion_header
from app.api.v1.documents.documents import decode_document_id, parse_filter
from app.api.v1.schemas import Identifier, ListResponse, Time
from app.bootstrap import Resources
from app.db.deletion_receipts import DeletionKind
from app.db.models.ingestion_state import DeletionRow
from app.documents.deletion.receipt_repository import DeletionState
from app.documents.deletion.residue_repository import RETAINED_BY_KIND
from app.documents.deletion.service import DeletionNotFound, DeletionSelection
from app.ids import decode_id, encode_id

router = APIRouter(tags=["documents"], route_class=AuthenticatedRoute)
DOCUMENTS_PATH = "/knowledge-bases/{kb}/documents"
_FILTER_DESCRIPTION = (
    "Metadata filter as JSON, at most 65,536 characters. It cannot use `$page`, `$node` and `$suspicious`."
)


class DocumentsDeletedOut(BaseModel):
    """Deletion of several documents."""

    deletion: str = Field(description="Id of the deletion, for its receipt.", examples=[example_values.DELETION_ID])
    deleted: int = Field(description="Number of deleted documents.", examples=[12])


class DeletionOut(BaseModel):
    """Receipt of a deletion. Searches stop seeing the contents at once; the receipt proves that nothing is left."""

    id: str = Field(description="Id of the deletion.", examples=[example_values.DELETION_ID])
    kind: DeletionKind = Field(
        description="Kind of object: `document`, `documents`, `knowledge_base` or `tenant`.", examples=["document"]
    )
    object: str | None = Field(
        description="Id of the deleted object, or of the knowledge base that documents were deleted from; null in "
        "receipts of old versions.",
        examples=[example_values.DOCUMENT_ID],
    )
    documents: int = Field(description="Number of deleted documents.", examples=[1])
    chunks: int = Field(description="Number of deleted chunks.", examples=[40])
    bytes: int = Field(description="Size of the deleted originals in bytes.", examples=[48211])
    requested_at: Time = Field(description="Time of the request, in UTC.", examples=[example_values.CREATED_AT])
    finished_at: Time | None = Field(
        description="Time at which everything was removed, in UTC; null before that.",
        examples=[example_values.UPDATED_AT],
    )
    remaining: dict[str, int] | None = Field(
        description="Number of rows left in each table and of objects left in the object store, counted at the "
        "end; null before that.",
        examples=[{"chunk": 0, "document": 0, "objects": 0}],
    )
    retained: list[str] = Field(
        description="Tables that the count leaves out on purpose, such as audit events.", examples=[["audit_event"]]
    )
    retained_files: int = Field(
        description="Number of documents that were made from a file of the OpenAI API; the file itself is retained.",
        examples=[0],
    )
    retention_until: Time = Field(
        description="Time until which the receipt is retained, in UTC.", examples=["2027-03-02T09:30:00.000Z"]
    )


class DeletionList(ListResponse[DeletionOut]):
    """Page of receipts."""


@router.delete(
    DOCUMENTS_PATH + "/{document}",
    summary="Delete a document",
    status_code=204,
    responses=describe_deletion_header(204, "The document is deleted"),
)
async def delete_document(kb: KnowledgeBasePath, document: DocumentPath, tenant: CurrentWriter) -> Response:
    """Delete a document. Searches no longer see it when the response arrives; rows and the original are removed in the
    background.

    The header `Carrel-Deletion-Id` names the receipt.
    """
    deletion = await tenant.deletions.delete(kb, decode_document_id(document))
    return create_deletion_response(204, deletion)


@router.delete(
    DOCUMENTS_PATH,
    summary="Delete several documents",
    status_code=202,
    response_model=DocumentsDeletedOut,
    responses=describe_deletion_header(202, "The documents are deleted"),
)
async def delete_documents(
    kb: KnowledgeBasePath,
    tenant: CurrentAdmin,
    response: Response,
    ids: Annotated[
        list[Text] | None,
        Query(
            min_length=1,
            max_length=200,
            description="Ids of documents, at most 200, repeated or separated by commas. Unknown ids are ignored.",
            examples=[[example_values.DOCUMENT_ID]],
        ),
    ] = None,
    external_id: Annotated[
        Identifier | None, Query(description="Document with this `external_id`.", examples=["handbook-2026"])
    ] = None,
    filter: Annotated[
        Text | None, Query(max_length=65536, description=_FILTER_DESCRIPTION, examples=['{"department": "hr"}'])
    ] = None,
    confirm: Annotated[
        Text | None,
        Query(
            max_length=63,
            description="Name of the knowledge base, to confirm the deletion of all documents.",
            examples=[example_values.KNOWLEDGE_BASE_NAME],
        ),
    ] = None,
) -> DocumentsDeletedOut:
    """Delete the documents that `ids`, `external_id` or `filter` select. One of the three parameters is required.

    `filter={}` selects all documents and needs `confirm`. The header `Carrel-Deletion-Id` names the receipt.
    """
    selection = DeletionSelection(
        ids=None if ids is None else _decode_document_ids(ids),
        external_id=external_id,
        filter=parse_filter(filter),
    )
    deletion, deleted = await tenant.deletions.delete_many(kb, selection, confirm=confirm)
    response.headers[DELETION_HEADER] = encode_id("del", deletion)
    return DocumentsDeletedOut(deletion=encode_id("del", deletion), deleted=deleted)


def _decode_document_ids(references: Sequence[str]) -> list[UUID]:
    """Decode ids that are repeated or separated by commas; a text that is no id is ignored."""
    decoded_ids = (decode_id("doc", text.strip()) for part in references for text in part.split(","))
    return [decoded for decoded in decoded_ids if decoded is not None]


@router.get("/deletions/{deletion}", summary="Get the receipt of a deletion", response_model=DeletionOut)
async def get_deletion(deletion: DeletionPath, tenant: CurrentReader, resources: CurrentResources) -> DeletionOut:
    """Return the receipt of a deletion. Only the operator can read the receipt of a tenant's deletion."""
    deletion_id = decode_id("del", deletion)
    if deletion_id is None:
        raise DeletionNotFound
    return to_deletion_out(await tenant.deletions.get_receipt(deletion_id), resources)


@router.get("/deletions", summary="List the receipts of deletions", response_model=DeletionList)
async def list_deletions(
    page: CurrentPageParams,
    tenant: CurrentAdmin,
    resources: CurrentResources,
    state: Annotated[
        DeletionState | None,
        Query(
            description="`unfinished`: only deletions whose contents are still being removed.", examples=["finished"]
        ),
    ] = None,
    knowledge_base: Annotated[
        Text | None,
        Query(
            max_length=63,
            description="Only deletions of this knowledge base, and of documents in it: name or id. After the deletion "
            "of a knowledge base only its id is known.",
            examples=[example_values.KNOWLEDGE_BASE_ID],
        ),
    ] = None,
) -> dict[str, Any]:
    """Return the receipts of deletions, newest first.

    An admin gets the receipts of the tenant. The operator gets the receipts of deleted tenants. A restricted key gets
    the receipts that it can also read one by one.
    """
    receipts = await tenant.deletions.list_receipts(
        state=state, knowledge_base=knowledge_base, after=page.parse_cursor(), limit=page.row_limit
    )
    items = receipts[: page.limit]
    cursor = encode_cursor(items[-1].requested_at, items[-1].id) if receipts[page.limit :] else None
    return page.build_reply([to_deletion_out(receipt, resources) for receipt in items], cursor)


def to_deletion_out(receipt: DeletionRow, resources: Resources) -> DeletionOut:
    """Return a receipt as the API shows it."""
    return DeletionOut(
        id=encode_id("del", receipt.id),
        kind=cast(DeletionKind, receipt.kind),
        object=None if receipt.object_id is None else encode_id(_OBJECT_ID_PREFIXES[receipt.kind], receipt.object_id),
        documents=receipt.documents,
        chunks=receipt.chunks,
        bytes=receipt.bytes,
        requested_at=receipt.requested_at,
        finished_at=receipt.finished_at,
        remaining=receipt.remaining,
        retained=sorted(RETAINED_BY_KIND[receipt.kind]),
        retained_files=receipt.retained_files,
        retention_until=receipt.requested_at + timedelta(days=resources.settings.deletion.receipt_retention_days),
    )


_OBJECT_ID_PREFIXES = {"document": "doc", "documents": "kb", "knowledge_base": "kb", "tenant": "ten"}
