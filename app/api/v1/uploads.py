"""Upload documents: a file as a form, many files as one form, a text or ready chunks as JSON."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from app.api.admission import leave_place
from app.api.dependencies import CurrentWriter, GuardedRoute
from app.api.json_limits import CHUNKS_LIMIT, MAX_JSON_BYTES
from app.api.problems import PROBLEM, status_of
from app.api.streamed import FORM, content_type, read_json, refuse_large
from app.api.v1.documents import DocumentOut, document_out
from app.api.v1.upload_forms import TextDocument, UploadForm, read_form
from app.bootstrap import TenantServices
from app.documents.types import Uploaded, Verdict
from app.documents.uploads import OVERHEAD
from app.errors import Unsupported
from app.quotas.types import RateLimited

WAIT = (
    "Seconds to wait for it to be ready. A waiting request counts as an event stream: "
    "over the quota of these the reply is sent at once"
)

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=GuardedRoute)


async def _receive(kb: str, request: Request, tenant: TenantServices, limit: int) -> Uploaded:
    """A form goes to disk, as large as the settings allow; a text stays in memory, limited as JSON is anywhere."""
    kind, boundary = content_type(request)
    found = await tenant.knowledge_bases.find(kb)
    most = limit + OVERHEAD if kind == FORM else min(limit, MAX_JSON_BYTES)
    refuse_large(request, most, limit)
    if kind == FORM and boundary:
        return await tenant.uploads.upload(found, request.stream(), boundary, read_form)
    if kind != "application/json":
        raise Unsupported("Send multipart/form-data with a part named 'file', or application/json with 'text'.")
    body = await read_json(request, TextDocument, most=most, limit=CHUNKS_LIMIT)
    if body.chunks is not None:
        return await tenant.uploads.upload_chunks(found, [chunk.given() for chunk in body.chunks], body.facts())
    return await tenant.uploads.upload_text(found, body.text or "", body.facts(), media_type=body.media_type)


def _form_schema(file: dict[str, Any], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    names = [name for name in UploadForm.model_fields if name != "metadata" and name not in without]
    metadata = {"type": "string", "description": "A JSON object"}
    fields = {name: {"type": "string"} for name in names}
    return {"type": "object", "required": ["file"], "properties": {"file": file, "metadata": metadata, **fields}}


def _text_schema() -> dict[str, Any]:
    """Without references: nothing of it is a component of the description that one could lead to."""
    schema = TextDocument.model_json_schema()
    chunk = schema.pop("$defs")["ChunkIn"]
    schema["properties"]["chunks"]["anyOf"][0]["items"] = chunk
    return schema


_BINARY = {"type": "string", "format": "binary"}
_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {"schema": _form_schema(_BINARY)},
            "application/json": {"schema": _text_schema()},
        },
    }
}
_BATCH_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {"schema": _form_schema({"type": "array", "items": _BINARY}, without=("external_id", "title"))}
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
        409: {"description": "The knowledge base's embedding model is not configured", **PROBLEM},
        415: {"description": "No parser reads this kind of file", **PROBLEM},
    },
)
async def upload_document(
    kb: str,
    request: Request,
    tenant: CurrentWriter,
    wait: Annotated[float, Query(ge=0, le=60, description=WAIT)] = 0,
) -> Response:
    """Store a file, or a text, and queue it for ingestion.

    The same bytes again change what else is said of the document, as a PATCH does.
    """
    uploaded = await _receive(kb, request, tenant, tenant.quotas.upload_bytes)
    document = uploaded.document
    if wait:
        await leave_place(request)
        with suppress(RateLimited), tenant.quotas.streaming():
            document = await tenant.documents.wait(document, wait)
    status = 200 if not uploaded.created else 201 if document.status == "ready" else 202
    out = document_out(document, uploaded.knowledge_base_name)
    location = f"/v1/knowledge-bases/{out.knowledge_base}/documents/{out.id}"
    return JSONResponse(out.model_dump(mode="json"), status, {"Location": location})


class ReasonOut(BaseModel):
    """Why a file was not taken in."""

    code: str
    message: str


class VerdictOut(BaseModel):
    """What became of one file; ``status`` is what a request with it alone would have got."""

    filename: str
    status: int
    document: DocumentOut | None
    error: ReasonOut | None


class VerdictsOut(BaseModel):
    """One verdict for each file, in their order."""

    items: list[VerdictOut]


def _verdict_out(verdict: Verdict) -> VerdictOut:
    error, uploaded = verdict.error, verdict.uploaded
    if error is not None or uploaded is None:
        reason = ReasonOut(code=error.code, message=error.message) if error else None
        return VerdictOut(
            filename=verdict.filename, status=status_of(error) if error else 500, document=None, error=reason
        )
    document = document_out(uploaded.document, uploaded.knowledge_base_name)
    status = 202 if uploaded.created else 200
    return VerdictOut(filename=verdict.filename, status=status, document=document, error=None)


@router.post(
    "/batch",
    response_model=VerdictsOut,
    openapi_extra=_BATCH_BODY,
    responses={415: {"description": "Not multipart/form-data", **PROBLEM}},
)
async def upload_batch(kb: str, request: Request, tenant: CurrentWriter) -> dict[str, list[VerdictOut]]:
    """Store many files in one request; each gets a verdict of its own, and interactive uploads go first."""
    kind, boundary = content_type(request)
    found = await tenant.knowledge_bases.find(kb)
    limit = tenant.quotas.upload_bytes
    refuse_large(request, limit + OVERHEAD, limit)
    if kind != FORM or not boundary:
        raise Unsupported("Send multipart/form-data with parts named 'file'.")
    verdicts = await tenant.uploads.upload_many(found, request.stream(), boundary, read_form)
    return {"items": [_verdict_out(verdict) for verdict in verdicts]}
