"""Uploads: a file as a form, many files as one form, a text or chunks as JSON."""

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentWriter
from app.api.http.json_limits import CHUNKS_JSON_LIMIT, MAX_JSON_BYTES
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.problems import get_http_status
from app.api.http.streaming_body import MULTIPART_FORM, parse_content_type, read_json_body, reject_oversized_body
from app.api.v1.documents.chunk_changes import (
    ChunkedDocumentOut,
    WaitSeconds,
    to_chunked_document_out,
    wait_for_document,
)
from app.api.v1.documents.documents import DocumentOut, to_document_out
from app.api.v1.documents.upload_schemas import TextDocumentCreate, UploadForm, parse_form
from app.bootstrap import TenantServices
from app.documents.types import BatchItemResult, UploadResult, build_chunk_ids
from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from app.errors import UnsupportedMediaTypeError

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=AuthenticatedRoute)


async def _receive_upload(kb: str, request: Request, tenant: TenantServices, upload_limit: int) -> UploadResult:
    """Receive an upload. A form is written to the disk, up to the upload limit of the settings. A JSON body stays in
    memory, up to the limit of JSON bodies.
    """
    kind, boundary = parse_content_type(request)
    knowledge_base = await tenant.knowledge_bases.find(kb)
    max_bytes = upload_limit + MAX_FORM_OVERHEAD_BYTES if kind == MULTIPART_FORM else min(upload_limit, MAX_JSON_BYTES)
    reject_oversized_body(request, max_bytes, upload_limit)
    if kind == MULTIPART_FORM and boundary:
        return await tenant.uploads.upload(knowledge_base, request.stream(), boundary, parse_form)
    if kind != "application/json":
        raise UnsupportedMediaTypeError(
            "Send multipart/form-data with a part named 'file', or application/json with 'text'."
        )
    body = await read_json_body(request, TextDocumentCreate, max_bytes=max_bytes, limit=CHUNKS_JSON_LIMIT)
    if body.chunks is not None:
        return await tenant.uploads.upload_chunks(
            knowledge_base, [chunk.to_provided_chunk() for chunk in body.chunks], body.to_document_fields()
        )
    return await tenant.uploads.upload_text(
        knowledge_base, body.text or "", body.to_document_fields(), media_type=body.media_type
    )


def _build_form_schema(file: dict[str, Any], *, excluded: tuple[str, ...] = ()) -> dict[str, Any]:
    fields = {
        name: {"type": "string", "description": field.description, "examples": [_to_form_value(field.examples)]}
        for name, field in UploadForm.model_fields.items()
        if name not in excluded
    }
    return {"type": "object", "required": ["file"], "properties": {"file": file, **fields}}


def _to_form_value(examples: list[Any] | None) -> str:
    """Return the first example of a field as the text of a form field."""
    (value, *_) = examples or [""]
    return value if isinstance(value, str) else json.dumps(value)


_BINARY = {"type": "string", "format": "binary"}
_FILE = {**_BINARY, "description": "The file. Its name is taken from the form."}
_FILES = {"type": "array", "items": _BINARY, "description": "The files, each as a part with this name."}
_FORM_EXAMPLE = {
    "file": "handbook.pdf",
    "title": "Staff handbook",
    "external_id": "handbook-2026",
    "metadata": '{"department": "hr"}',
}
_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART_FORM: {"schema": _build_form_schema(_FILE), "example": _FORM_EXAMPLE},
            "application/json": {"schema": {"$ref": "#/components/schemas/TextDocumentCreate"}},
        },
    }
}
_BATCH_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART_FORM: {
                "schema": _build_form_schema(_FILES, excluded=("external_id", "title")),
                "example": {"file": ["handbook.pdf", "faq.md"], "metadata": '{"department": "hr"}'},
            }
        },
    }
}


@router.post(
    "",
    summary="Upload a document",
    status_code=202,
    response_model=ChunkedDocumentOut,
    openapi_extra=_UPLOAD_BODY,
    responses={
        200: {"model": ChunkedDocumentOut, "description": "The document exists: the same bytes were uploaded before"},
        201: {"model": ChunkedDocumentOut, "description": "The document is ready"},
    },
)
async def upload_document(
    kb: KnowledgeBasePath,
    request: Request,
    tenant: CurrentWriter,
    wait: WaitSeconds = 0,
) -> Response:
    """Store a file, a text or chunks, and queue the document for ingestion.

    If the same bytes are uploaded again, the response is the existing document (200), and other metadata or another
    title is applied to it. Other bytes with the same `external_id` become a new version of the document. Searches use
    the former version until the new version is ready. With `wait`, the response has status 201 if the document is ready
    in time.
    """
    uploaded = await _receive_upload(kb, request, tenant, tenant.quotas.upload_limit_bytes)
    count = uploaded.provided_chunks
    chunk_ids = None if count is None else build_chunk_ids(uploaded.document, range(count))
    document = await wait_for_document(request, tenant, uploaded.document, wait)
    status = 200 if not uploaded.created else 201 if document.status == "ready" else 202
    out = to_chunked_document_out(document, uploaded.knowledge_base_name, chunk_ids)
    location = f"/v1/knowledge-bases/{out['knowledge_base']}/documents/{out['id']}"
    return JSONResponse(out, status, {"Location": location})


class UploadErrorOut(BaseModel):
    """Reason why a file was refused."""

    code: str = Field(description="Stable error code.", examples=["empty"])
    message: str = Field(description="What is wrong, for people.", examples=["The file is empty."])


class UploadBatchItemOut(BaseModel):
    """Outcome for one file of a batch."""

    filename: str = Field(description="Name of the file.", examples=["handbook.pdf"])
    status: int = Field(description="HTTP status that an upload of this file alone would get.", examples=[202])
    document: DocumentOut | None = Field(description="Document of the file; null if the file was refused.")
    error: UploadErrorOut | None = Field(
        description="Reason why the file was refused; null otherwise.", examples=[None]
    )


class UploadBatchOut(BaseModel):
    """Outcome for each file of a batch."""

    items: list[UploadBatchItemOut] = Field(description="Outcomes in the order of the files.")


def _to_batch_item_out(result: BatchItemResult) -> UploadBatchItemOut:
    error, uploaded = result.error, result.result
    if error is not None or uploaded is None:
        reason = UploadErrorOut(code=error.code, message=error.message) if error else None
        return UploadBatchItemOut(
            filename=result.filename, status=get_http_status(error) if error else 500, document=None, error=reason
        )
    document = to_document_out(uploaded.document, uploaded.knowledge_base_name)
    status = 202 if uploaded.created else 200
    return UploadBatchItemOut(filename=result.filename, status=status, document=document, error=None)


@router.post(
    "/batch",
    summary="Upload many documents",
    response_model=UploadBatchOut,
    openapi_extra=_BATCH_BODY,
)
async def upload_document_batch(
    kb: KnowledgeBasePath, request: Request, tenant: CurrentWriter
) -> dict[str, list[UploadBatchItemOut]]:
    """Store many files in one request, and queue a document for each.

    The response has an outcome for each file. All files get the same fields. Single uploads are ingested before the
    files of a batch.
    """
    kind, boundary = parse_content_type(request)
    knowledge_base = await tenant.knowledge_bases.find(kb)
    limit = tenant.quotas.upload_limit_bytes
    reject_oversized_body(request, limit + MAX_FORM_OVERHEAD_BYTES, limit)
    if kind != MULTIPART_FORM or not boundary:
        raise UnsupportedMediaTypeError("Send multipart/form-data with parts named 'file'.")
    results = await tenant.uploads.upload_many(knowledge_base, request.stream(), boundary, parse_form)
    return {"items": [_to_batch_item_out(result) for result in results]}
