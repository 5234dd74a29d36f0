"""Upload documents: a file as a form, many files as one form, a text or ready chunks as JSON."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from app.api.dependencies import AuthenticatedRoute, CurrentWriter
from app.api.http.admission import release_slots
from app.api.http.json_limits import CHUNKS_JSON_LIMIT, MAX_JSON_BYTES
from app.api.http.problems import PROBLEM_RESPONSE, get_http_status
from app.api.http.streaming_body import MULTIPART_FORM, parse_content_type, read_json_body, reject_oversized_body
from app.api.v1.documents.documents import DocumentOut, to_document_out
from app.api.v1.documents.upload_schemas import TextDocumentCreate, UploadForm, parse_form
from app.bootstrap import TenantServices
from app.documents.types import BatchItemResult, UploadResult
from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from app.errors import UnsupportedMediaTypeError
from app.quotas.types import RateLimitExceeded

WAIT_DESCRIPTION = (
    "Seconds to wait for it to be ready. A waiting request counts as an event stream: "
    "over the quota of these the reply is sent at once"
)

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=AuthenticatedRoute)


async def _receive_upload(kb: str, request: Request, tenant: TenantServices, upload_limit: int) -> UploadResult:
    """A form goes to disk, as large as the settings allow; a text stays in memory, limited as JSON is anywhere."""
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
    names = [name for name in UploadForm.model_fields if name != "metadata" and name not in excluded]
    metadata = {"type": "string", "description": "A JSON object"}
    fields = {name: {"type": "string"} for name in names}
    return {"type": "object", "required": ["file"], "properties": {"file": file, "metadata": metadata, **fields}}


def _build_text_schema() -> dict[str, Any]:
    """Without references: nothing of it is a component of the description that one could lead to."""
    schema = TextDocumentCreate.model_json_schema()
    chunk = schema.pop("$defs")["ProvidedChunkRequest"]
    schema["properties"]["chunks"]["anyOf"][0]["items"] = chunk
    return schema


_BINARY = {"type": "string", "format": "binary"}
_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART_FORM: {"schema": _build_form_schema(_BINARY)},
            "application/json": {"schema": _build_text_schema()},
        },
    }
}
_BATCH_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART_FORM: {
                "schema": _build_form_schema({"type": "array", "items": _BINARY}, excluded=("external_id", "title"))
            }
        },
    }
}


@router.post(
    "",
    status_code=202,
    response_model=DocumentOut,
    openapi_extra=_UPLOAD_BODY,
    responses={
        200: {"model": DocumentOut, "description": "The same bytes are there already"},
        201: {"model": DocumentOut, "description": "Ready within `wait`"},
        409: {"description": "The knowledge base's embedding model is not configured", **PROBLEM_RESPONSE},
        415: {"description": "No parser reads this kind of file", **PROBLEM_RESPONSE},
    },
)
async def upload_document(
    kb: str,
    request: Request,
    tenant: CurrentWriter,
    wait: Annotated[float, Query(ge=0, le=60, description=WAIT_DESCRIPTION)] = 0,
) -> Response:
    """Store a file, or a text, and queue it for ingestion.

    The same bytes again change what else is said of the document, as a PATCH does.
    """
    uploaded = await _receive_upload(kb, request, tenant, tenant.quotas.upload_limit_bytes)
    document = uploaded.document
    if wait:
        await release_slots(request)
        with suppress(RateLimitExceeded), tenant.quotas.track_stream():
            document = await tenant.documents.wait_until_final(document, wait)
    status = 200 if not uploaded.created else 201 if document.status == "ready" else 202
    out = to_document_out(document, uploaded.knowledge_base_name)
    location = f"/v1/knowledge-bases/{out.knowledge_base}/documents/{out.id}"
    return JSONResponse(out.model_dump(mode="json"), status, {"Location": location})


class UploadErrorOut(BaseModel):
    """Why a file was not taken in."""

    code: str
    message: str


class UploadBatchItemOut(BaseModel):
    """What became of one file; ``status`` is what a request with it alone would have got."""

    filename: str
    status: int
    document: DocumentOut | None
    error: UploadErrorOut | None


class UploadBatchOut(BaseModel):
    """One verdict for each file, in their order."""

    items: list[UploadBatchItemOut]


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
    response_model=UploadBatchOut,
    openapi_extra=_BATCH_BODY,
    responses={415: {"description": "Not multipart/form-data", **PROBLEM_RESPONSE}},
)
async def upload_document_batch(
    kb: str, request: Request, tenant: CurrentWriter
) -> dict[str, list[UploadBatchItemOut]]:
    """Store many files in one request; each gets a verdict of its own, and interactive uploads go first."""
    kind, boundary = parse_content_type(request)
    knowledge_base = await tenant.knowledge_bases.find(kb)
    limit = tenant.quotas.upload_limit_bytes
    reject_oversized_body(request, limit + MAX_FORM_OVERHEAD_BYTES, limit)
    if kind != MULTIPART_FORM or not boundary:
        raise UnsupportedMediaTypeError("Send multipart/form-data with parts named 'file'.")
    results = await tenant.uploads.upload_many(knowledge_base, request.stream(), boundary, parse_form)
    return {"items": [_to_batch_item_out(result) for result in results]}
