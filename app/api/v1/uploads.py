"""Upload a document: a file as a form, or a text as JSON."""

import json
from collections.abc import Mapping
from email.message import Message
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, StringConstraints, ValidationError, field_validator

from app.api.dependencies import CurrentResources, CurrentWriter, GuardedRoute
from app.api.middleware import MAX_JSON_BYTES
from app.api.problems import PROBLEM
from app.api.v1.documents import DocumentOut, document_out
from app.api.v1.schemas import STORABLE, GivenTime, Identifier, Input, Metadata, ScopeId, Title, WebAddress
from app.bootstrap import TenantServices
from app.documents.scopes import Scope
from app.documents.types import DocumentFacts, Uploaded, UploadTooLarge
from app.documents.uploads import OVERHEAD
from app.errors import Unsupported

router = APIRouter(prefix="/knowledge-bases/{kb}/documents", tags=["documents"], route_class=GuardedRoute)
ModelT = TypeVar("ModelT", bound=BaseModel)


class Facts(Input):
    """What a caller may say about a document."""

    metadata: Metadata | None = None
    title: Title | None = None
    external_id: Identifier | None = None
    source_uri: WebAddress | None = None
    source_created_at: GivenTime | None = None
    user_id: ScopeId | None = None
    chat_id: ScopeId | None = None
    agent_id: ScopeId | None = None

    def facts(self) -> DocumentFacts:
        """The room's form of it. Raises InvalidInput for a combination of ids that names no scope."""
        given = self.model_dump(exclude={"user_id", "chat_id", "agent_id", "text", "media_type"})
        scope = Scope(self.user_id, self.chat_id, self.agent_id)
        scope.level()
        return DocumentFacts(**given, scope=scope)


class UploadForm(Facts):
    """The fields beside the file; ``metadata`` is JSON."""

    encoding: Annotated[str, StringConstraints(max_length=40), STORABLE] | None = None

    @field_validator("metadata", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("must be a JSON object") from None

    @field_validator("encoding")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                b"".decode(value)
                "".encode(value)
            except (LookupError, UnicodeError):
                raise ValueError("is not an encoding that is known here") from None
        return value


class TextDocument(Facts):
    """A document whose text comes in the body."""

    text: str = Field(min_length=1)
    media_type: Literal["text/plain", "text/markdown", "text/html"] | None = None


def _checked(model: type[ModelT], value: Mapping[str, str] | bytes) -> ModelT:
    try:
        return model.model_validate_json(value) if isinstance(value, bytes) else model.model_validate(value)
    except ValidationError as exc:
        found = exc.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in found]) from None


def _read_form(fields: Mapping[str, str]) -> DocumentFacts:
    """A field that was left empty counts as not sent."""
    return _checked(UploadForm, {name: value for name, value in fields.items() if value != ""}).facts()


def _content_type(request: Request) -> tuple[str, bytes]:
    """Media type and multipart boundary of the request."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    boundary = header.get_boundary("")
    return header.get_content_type(), boundary.encode("latin-1", "replace")


async def _read_json(request: Request, limit: int) -> TextDocument:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise _too_large(limit)
    return _checked(TextDocument, bytes(body))


def _too_large(limit: int) -> UploadTooLarge:
    return UploadTooLarge(f"The upload is larger than {limit} bytes.", limit=limit)


async def _receive(kb: str, request: Request, tenant: TenantServices, limit: int) -> Uploaded:
    """A form goes to disk, as large as the settings allow; a text stays in memory, limited as JSON is anywhere."""
    kind, boundary = _content_type(request)
    await tenant.knowledge_bases.find(kb)
    most = limit + OVERHEAD if kind == "multipart/form-data" else min(limit, MAX_JSON_BYTES)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(min(limit, most))
    if kind == "multipart/form-data" and boundary:
        return await tenant.uploads.upload(kb, request.stream(), boundary, _read_form)
    if kind != "application/json":
        raise Unsupported("Send multipart/form-data with a part named 'file', or application/json with 'text'.")
    body = await _read_json(request, most)
    return await tenant.uploads.upload_text(kb, body.text, body.facts(), media_type=body.media_type)


_UPLOAD_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "metadata": {"type": "string", "description": "A JSON object"},
                        **{name: {"type": "string"} for name in UploadForm.model_fields if name != "metadata"},
                    },
                }
            },
            "application/json": {"schema": TextDocument.model_json_schema(ref_template="#/components/schemas/{model}")},
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
        409: {"description": "The knowledge base belongs to another embedding model", **PROBLEM},
        415: {"description": "No parser reads this kind of file", **PROBLEM},
    },
)
async def upload_document(
    kb: str,
    request: Request,
    tenant: CurrentWriter,
    resources: CurrentResources,
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for it to be ready")] = 0,
) -> Response:
    """Store a file, or a text, and queue it for ingestion."""
    uploaded = await _receive(kb, request, tenant, resources.settings.server.max_upload_bytes)
    document = uploaded.document
    if wait:
        document = await tenant.documents.wait(kb, document.id, wait)
    status = 200 if not uploaded.created else 201 if document.status == "ready" else 202
    out = document_out(document, uploaded.knowledge_base_name)
    location = f"/v1/knowledge-bases/{out.knowledge_base}/documents/{out.id}"
    return JSONResponse(out.model_dump(mode="json"), status, {"Location": location})
