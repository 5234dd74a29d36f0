"""Changes of single uploaded chunks, and deletion of the chunks of a document that is kept."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from app.api.dependencies import AuthenticatedRoute, CurrentWriter
from app.api.http import example_values
from app.api.http.admission import release_slots
from app.api.http.json_limits import CHUNKS_JSON_LIMIT, MAX_JSON_BYTES
from app.api.http.path_parameters import ChunkPath, DocumentPath, KnowledgeBasePath
from app.api.http.streaming_body import read_json_body
from app.api.v1.documents.chunks import decode_chunk_id
from app.api.v1.documents.documents import DocumentOut, decode_document_id, to_document_out
from app.api.v1.documents.upload_schemas import ProvidedChunkRequest
from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.chunk_service import ChangedChunks
from app.ids import encode_id
from app.quotas.types import RateLimitExceeded

WAIT_DESCRIPTION = (
    "Seconds to wait for the document to be ready, 0 to 60. A waiting request counts as an event stream: if the quota "
    "of event streams is used up, the response is sent at once."
)
WaitSeconds = Annotated[float, Query(ge=0, le=60, description=WAIT_DESCRIPTION, examples=[30])]

router = APIRouter(
    prefix="/knowledge-bases/{kb}/documents/{document}", tags=["documents"], route_class=AuthenticatedRoute
)
_CHUNK_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/ProvidedChunkRequest"},
                "example": {
                    "text": "Parents may take up to 16 months of parental leave.",
                    "metadata": {"paragraph": 7},
                },
            }
        },
    }
}


class ChunkedDocumentOut(DocumentOut):
    """Document, with the ids of its chunks if they were uploaded."""

    chunk_ids: list[str] | None = Field(
        None,
        description="Ids of the uploaded chunks, in order; only in the response to an upload or a change of chunks. "
        "The chunks can be read when the document is ready.",
        examples=[[example_values.CHUNK_ID]],
    )


def to_chunked_document_out(
    document: DocumentRow, knowledge_base: str, chunk_ids: Sequence[UUID] | None
) -> dict[str, Any]:
    """Return a document as JSON, with the ids of uploaded chunks.

    Args:
        document: Row of the document.
        knowledge_base: Name of its knowledge base.
        chunk_ids: Ids of the chunks; None if the service makes them.
    """
    fields = to_document_out(document, knowledge_base).model_dump(mode="json")
    return fields if chunk_ids is None else {**fields, "chunk_ids": [encode_id("chk", id_) for id_ in chunk_ids]}


async def wait_for_document(
    request: Request, tenant: TenantServices, document: DocumentRow, seconds: float
) -> DocumentRow:
    """Wait until a document is ready or has failed, and return its state.

    Args:
        request: The request, whose slots are released.
        tenant: Services of the caller.
        document: The document.
        seconds: The maximum wait; 0 returns at once.
    """
    if seconds:
        await release_slots(request)
        with suppress(RateLimitExceeded), tenant.quotas.track_stream():
            return await tenant.documents.wait_until_final(document, seconds)
    return document


async def _create_response(
    request: Request, tenant: TenantServices, changed: ChangedChunks, seconds: float
) -> JSONResponse:
    document = await wait_for_document(request, tenant, changed.document, seconds)
    content = to_chunked_document_out(document, changed.knowledge_base_name, changed.chunk_ids)
    return JSONResponse(content, 200 if document.status == "ready" else 202)


@router.put(
    "/chunks/{chunk}",
    summary="Replace a chunk",
    status_code=202,
    response_model=ChunkedDocumentOut,
    openapi_extra=_CHUNK_BODY,
    responses={200: {"model": ChunkedDocumentOut, "description": "The document is ready"}},
)
async def put_chunk(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    chunk: ChunkPath,
    request: Request,
    tenant: CurrentWriter,
    wait: WaitSeconds = 0,
) -> Response:
    """Replace one chunk of a document whose chunks were uploaded, or restore a deleted one.

    All chunks keep their ids. Searches see the former chunk until the document is ready. With `wait`, the response has
    status 200 if the document is ready in time.
    """
    ids = decode_document_id(document), decode_chunk_id(chunk)
    body = await read_json_body(request, ProvidedChunkRequest, max_bytes=MAX_JSON_BYTES, limit=CHUNKS_JSON_LIMIT)
    changed = await tenant.document_chunks.put_chunk(kb, *ids, body.to_provided_chunk())
    return await _create_response(request, tenant, changed, wait)


@router.delete(
    "/chunks/{chunk}",
    summary="Delete a chunk",
    status_code=202,
    response_model=ChunkedDocumentOut,
    responses={200: {"model": ChunkedDocumentOut, "description": "The document is ready"}},
)
async def delete_chunk(
    kb: KnowledgeBasePath,
    document: DocumentPath,
    chunk: ChunkPath,
    request: Request,
    tenant: CurrentWriter,
    wait: WaitSeconds = 0,
) -> Response:
    """Delete one chunk of a document whose chunks were uploaded.

    The other chunks keep their ids and indexes. Searches see the chunk until the document is ready. With `wait`, the
    response has status 200 if the document is ready in time.
    """
    ids = decode_document_id(document), decode_chunk_id(chunk)
    changed = await tenant.document_chunks.delete_chunk(kb, *ids)
    return await _create_response(request, tenant, changed, wait)


@router.post("/prepare-reindex", summary="Delete the chunks of a document", response_model=DocumentOut)
async def prepare_reindex(kb: KnowledgeBasePath, document: DocumentPath, tenant: CurrentWriter) -> DocumentOut:
    """Delete all chunks of a document, and keep the document with its original, text and tree.

    Searches do not find the document until it is ingested again, for example with `POST .../reindex`. A warning says
    so.
    """
    row = await tenant.document_chunks.delete_all_chunks(kb, decode_document_id(document))
    return to_document_out(row, (await tenant.knowledge_bases.find(kb)).row.name)
