"""Delete documents, one or many, and the receipts of it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, cast
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from app.api.bodies import Text
from app.api.dependencies import CurrentAdmin, CurrentReader, CurrentResources, CurrentWriter, GuardedRoute
from app.api.v1.deletion_header import DELETION_HEADER, gone, told_by_header
from app.api.v1.documents import document_id, parse_filter
from app.api.v1.schemas import Identifier, Time
from app.db.receipts import Kind
from app.documents.deletion import DeletionNotFound, Selection
from app.documents.remains import KEPT_BY_KIND
from app.ids import decode_id, encode_id

router = APIRouter(tags=["documents"], route_class=GuardedRoute)
DOCUMENTS = "/knowledge-bases/{kb}/documents"
_FILTER = "A metadata filter as JSON, without `$page`, `$node` and `$suspicious`: no document has them"


class DeletedOut(BaseModel):
    """A deletion of many documents, and how many they were."""

    deletion: str
    deleted: int


class DeletionOut(BaseModel):
    """A receipt; ``finished_at`` is null while something is still being removed. Searches saw nothing at once.

    ``object`` is what was deleted, or the knowledge base that documents were deleted from; null in receipts of old.
    ``remaining`` says what was left when all was removed: rows by table, and objects; null before that. ``kept`` names
    what is not among it, ``kept_files`` counts documents that were made of a file of OpenAI's door, which stays there.
    The receipt itself is kept until ``retention_until``.
    """

    id: str
    kind: Kind
    object: str | None
    documents: int
    chunks: int
    bytes: int
    requested_at: Time
    finished_at: Time | None
    remaining: dict[str, int] | None
    kept: list[str]
    kept_files: int
    retention_until: Time


@router.delete(DOCUMENTS + "/{document}", status_code=204, responses=told_by_header(204, "Gone"))
async def delete_document(kb: str, document: str, tenant: CurrentWriter) -> Response:
    """Out of every search when this answers, whatever it is being done to; rows are gone, the original follows."""
    deletion = await tenant.deletions.delete(kb, document_id(document))
    return gone(204, deletion)


@router.delete(DOCUMENTS, status_code=202, response_model=DeletedOut, responses=told_by_header(202, "Gone"))
async def delete_documents(
    kb: str,
    tenant: CurrentAdmin,
    response: Response,
    ids: Annotated[list[Text] | None, Query(min_length=1, max_length=200)] = None,
    external_id: Identifier | None = None,
    filter: Annotated[Text | None, Query(max_length=65536, description=_FILTER)] = None,
    confirm: Annotated[Text | None, Query(max_length=63, description="The knowledge base's name")] = None,
) -> DeletedOut:
    """Delete what `ids`, `external_id` or `filter` means; `filter={}` is everything and needs `confirm`."""
    selection = Selection(
        ids=None if ids is None else _document_ids(ids),
        external_id=external_id,
        filter=parse_filter(filter),
    )
    deletion, deleted = await tenant.deletions.delete_many(kb, selection, confirm=confirm)
    response.headers[DELETION_HEADER] = encode_id("del", deletion)
    return DeletedOut(deletion=encode_id("del", deletion), deleted=deleted)


def _document_ids(given: Sequence[str]) -> list[UUID]:
    """Named one by one or separated by commas; what is no document's id is none that is there."""
    found = (decode_id("doc", text.strip()) for part in given for text in part.split(","))
    return [one for one in found if one is not None]


@router.get("/deletions/{deletion}", response_model=DeletionOut)
async def get_deletion(deletion: str, tenant: CurrentReader, resources: CurrentResources) -> DeletionOut:
    """The receipt of a deletion; that of a tenant is read by the operator."""
    key = decode_id("del", deletion)
    if key is None:
        raise DeletionNotFound
    found = await tenant.deletions.receipt(key)
    return DeletionOut(
        id=deletion,
        kind=cast(Kind, found.kind),
        object=None if found.object_id is None else encode_id(_PREFIXES[found.kind], found.object_id),
        documents=found.documents,
        chunks=found.chunks,
        bytes=found.bytes,
        requested_at=found.requested_at,
        finished_at=found.finished_at,
        remaining=found.remaining,
        kept=sorted(KEPT_BY_KIND[found.kind]),
        kept_files=found.kept_files,
        retention_until=found.requested_at + timedelta(days=resources.settings.deletion.receipt_retention_days),
    )


_PREFIXES = {"document": "doc", "documents": "kb", "knowledge_base": "kb", "tenant": "ten"}
