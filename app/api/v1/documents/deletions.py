"""Delete documents, one or many, and the receipts of it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, cast
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentReader, CurrentResources, CurrentWriter
from app.api.http.request_models import Text
from app.api.v1.deletion_header import DELETION_HEADER, create_deletion_response, describe_deletion_header
from app.api.v1.documents.documents import decode_document_id, parse_filter
from app.api.v1.schemas import Identifier, Time
from app.db.deletion_receipts import DeletionKind
from app.documents.deletion.residue_repository import RETAINED_BY_KIND
from app.documents.deletion.service import DeletionNotFound, DeletionSelection
from app.ids import decode_id, encode_id

router = APIRouter(tags=["documents"], route_class=AuthenticatedRoute)
DOCUMENTS_PATH = "/knowledge-bases/{kb}/documents"
_FILTER_DESCRIPTION = "A metadata filter as JSON, without `$page`, `$node` and `$suspicious`: no document has them"


class DocumentsDeletedOut(BaseModel):
    """A deletion of many documents, and how many they were."""

    deletion: str
    deleted: int


class DeletionOut(BaseModel):
    """A receipt; ``finished_at`` is null while something is still being removed. Searches saw nothing at once.

    ``object`` is what was deleted, or the knowledge base that documents were deleted from; null in receipts of old.
    ``remaining`` says what was left when all was removed: rows by table, and objects; null before that. ``retained``
    names what is not counted there. ``retained_files`` counts documents made from a file of the OpenAI API; the file
    itself is retained. The receipt is retained until ``retention_until``.
    """

    id: str
    kind: DeletionKind
    object: str | None
    documents: int
    chunks: int
    bytes: int
    requested_at: Time
    finished_at: Time | None
    remaining: dict[str, int] | None
    retained: list[str]
    retained_files: int
    retention_until: Time


@router.delete(DOCUMENTS_PATH + "/{document}", status_code=204, responses=describe_deletion_header(204, "Gone"))
async def delete_document(kb: str, document: str, tenant: CurrentWriter) -> Response:
    """Out of every search when this answers, whatever it is being done to; rows are gone, the original follows."""
    deletion = await tenant.deletions.delete(kb, decode_document_id(document))
    return create_deletion_response(204, deletion)


@router.delete(
    DOCUMENTS_PATH, status_code=202, response_model=DocumentsDeletedOut, responses=describe_deletion_header(202, "Gone")
)
async def delete_documents(
    kb: str,
    tenant: CurrentAdmin,
    response: Response,
    ids: Annotated[list[Text] | None, Query(min_length=1, max_length=200)] = None,
    external_id: Identifier | None = None,
    filter: Annotated[Text | None, Query(max_length=65536, description=_FILTER_DESCRIPTION)] = None,
    confirm: Annotated[Text | None, Query(max_length=63, description="The knowledge base's name")] = None,
) -> DocumentsDeletedOut:
    """Delete what `ids`, `external_id` or `filter` means; `filter={}` is everything and needs `confirm`."""
    selection = DeletionSelection(
        ids=None if ids is None else _decode_document_ids(ids),
        external_id=external_id,
        filter=parse_filter(filter),
    )
    deletion, deleted = await tenant.deletions.delete_many(kb, selection, confirm=confirm)
    response.headers[DELETION_HEADER] = encode_id("del", deletion)
    return DocumentsDeletedOut(deletion=encode_id("del", deletion), deleted=deleted)


def _decode_document_ids(references: Sequence[str]) -> list[UUID]:
    """Named one by one or separated by commas; what is no document's id is none that is there."""
    decoded_ids = (decode_id("doc", text.strip()) for part in references for text in part.split(","))
    return [decoded for decoded in decoded_ids if decoded is not None]


@router.get("/deletions/{deletion}", response_model=DeletionOut)
async def get_deletion(deletion: str, tenant: CurrentReader, resources: CurrentResources) -> DeletionOut:
    """The receipt of a deletion; that of a tenant is read by the operator."""
    deletion_id = decode_id("del", deletion)
    if deletion_id is None:
        raise DeletionNotFound
    receipt = await tenant.deletions.get_receipt(deletion_id)
    return DeletionOut(
        id=deletion,
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
