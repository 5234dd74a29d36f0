"""Files: upload, list, retrieve, content, delete."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources, CurrentWriter
from app.api.http.request_models import Text
from app.api.http.streaming_body import MULTIPART_FORM, parse_content_type, reject_oversized_body, validate_body
from app.api.openai.errors import ERROR_RESPONSES
from app.api.openai.schemas import (
    ListParams,
    OpenAiDeletedOut,
    OpenAiListResponse,
    OpenAiRequestModel,
    Order,
    decode_path_id,
    to_unix_seconds,
)
from app.db.models.files import StoredFile
from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from app.errors import InvalidInputError
from app.files.service import FileFields, FileNotFound
from app.ids import encode_id
from app.object_store.content_disposition import format_content_disposition

router = APIRouter(prefix="/files", tags=["openai files"], route_class=AuthenticatedRoute, responses=ERROR_RESPONSES)
Purpose = Literal["assistants", "user_data", "vision", "evals"]


class FileUploadForm(OpenAiRequestModel):
    """The fields beside the file; those of ``expires_after`` come one by one."""

    purpose: Purpose
    anchor: Literal["created_at"] | None = Field(None, alias="expires_after[anchor]")
    lifetime: int | None = Field(None, alias="expires_after[seconds]", ge=3600, le=2_592_000)


class FileOut(BaseModel):
    """A file; its bytes are kept as they came."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileList(OpenAiListResponse[FileOut]):
    """A page of files."""


def to_file_out(file: StoredFile) -> FileOut:
    """The wire form of a file."""
    return FileOut(
        id=encode_id("file", file.id),
        bytes=file.bytes,
        created_at=to_unix_seconds(file.created_at),
        expires_at=None if file.expires_at is None else to_unix_seconds(file.expires_at),
        filename=file.filename,
        purpose=file.purpose,
    )


def _parse_form(fields: Mapping[str, str]) -> FileFields:
    form = validate_body(FileUploadForm, fields)
    if (form.anchor is None) != (form.lifetime is None):
        raise InvalidInputError("expires_after has an anchor and seconds.", loc=("body", "expires_after"))
    return FileFields(form.purpose, None if form.lifetime is None else timedelta(seconds=form.lifetime))


_FORM_FIELDS = {
    "file": {"type": "string", "format": "binary"},
    "purpose": {"type": "string", "enum": ["assistants", "user_data", "vision", "evals"]},
    "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
    "expires_after[seconds]": {"type": "integer", "minimum": 3600, "maximum": 2_592_000},
}
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART_FORM: {"schema": {"type": "object", "required": ["file", "purpose"], "properties": _FORM_FIELDS}}
        },
    }
}


@router.post("", response_model=FileOut, openapi_extra=_REQUEST_BODY)
async def create_file(request: Request, tenant: CurrentWriter) -> FileOut:
    """Keep a file, to attach it to vector stores later."""
    kind, boundary = parse_content_type(request)
    limit = tenant.quotas.upload_limit_bytes
    reject_oversized_body(request, limit + MAX_FORM_OVERHEAD_BYTES, limit)
    if kind != MULTIPART_FORM or not boundary:
        raise InvalidInputError("Send multipart/form-data with a part named 'file'.", loc=("body", "file"))
    return to_file_out(await tenant.files.store(request.stream(), boundary, _parse_form))


@router.get("", response_model=FileList)
async def list_files(
    tenant: CurrentReader,
    purpose: Annotated[Text | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Order = "desc",
    after: Annotated[Text | None, Query(max_length=100)] = None,
) -> dict[str, Any]:
    """Files, by default the newest first."""
    params = ListParams(limit, order, after, None)
    rows = await tenant.files.list_files(
        purpose=purpose, after=params.parse_cursor_id("file"), newest_first=params.newest_first, limit=limit + 1
    )
    return params.to_list_response([to_file_out(file) for file in rows], lambda file: file.id)


@router.get("/{file}", response_model=FileOut)
async def get_file(file: str, tenant: CurrentReader) -> FileOut:
    """One file."""
    return to_file_out(await tenant.files.get(decode_path_id("file", file, FileNotFound)))


@router.get(
    "/{file}/content",
    response_class=StreamingResponse,
    responses={200: {"description": "The bytes as they came", "content": {"application/octet-stream": {}}}},
)
async def get_file_content(file: str, tenant: CurrentReader, resources: CurrentResources) -> StreamingResponse:
    """The bytes."""
    stored_file = await tenant.files.get(decode_path_id("file", file, FileNotFound))
    size = await resources.objects.get_size(stored_file.key)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": format_content_disposition(stored_file.filename, inline=False),
        "Content-Security-Policy": "sandbox",
    }
    stream = resources.objects.stream(stored_file.key, start=0, length=size)
    return StreamingResponse(stream, headers=headers, media_type="application/octet-stream")


@router.delete("/{file}", response_model=OpenAiDeletedOut)
async def delete_file(file: str, tenant: CurrentWriter) -> OpenAiDeletedOut:
    """Delete a file, and take it out of every vector store."""
    file_id = decode_path_id("file", file, FileNotFound)
    await tenant.files.delete(file_id)
    return OpenAiDeletedOut(id=encode_id("file", file_id), object="file")
