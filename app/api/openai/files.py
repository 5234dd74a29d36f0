"""Files: upload, list, retrieve, download, delete."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources, CurrentWriter
from app.api.http import example_values
from app.api.http.path_parameters import FilePath
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
    """Form fields of an upload, without the file. ``expires_after`` has two form fields."""

    purpose: Purpose
    anchor: Literal["created_at"] | None = Field(None, alias="expires_after[anchor]")
    lifetime: int | None = Field(None, alias="expires_after[seconds]", ge=3600, le=2_592_000)


class FileOut(BaseModel):
    """File."""

    id: str = Field(description="Id of the file.", examples=[example_values.FILE_ID])
    object: Literal["file"] = Field("file", description="Type of the object.", examples=["file"])
    bytes: int = Field(description="Size in bytes.", examples=[48211])
    created_at: int = Field(
        description="Time of creation, in seconds since 1970.", examples=[example_values.UNIX_CREATED_AT]
    )
    expires_at: int | None = Field(
        description="Time of expiry, in seconds since 1970; null if the file does not expire.", examples=[None]
    )
    filename: str = Field(description="Name of the file.", examples=["handbook.pdf"])
    purpose: str = Field(description="Purpose that the uploader gave.", examples=["assistants"])
    status: Literal["processed"] = Field("processed", description="Always `processed`.", examples=["processed"])
    status_details: None = Field(None, description="Always null.", examples=[None])


class FileList(OpenAiListResponse[FileOut]):
    """Page of files."""


def to_file_out(file: StoredFile) -> FileOut:
    """Return a file in the form of the OpenAI API."""
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
        raise InvalidInputError("expires_after needs both anchor and seconds.", loc=("body", "expires_after"))
    return FileFields(form.purpose, None if form.lifetime is None else timedelta(seconds=form.lifetime))


_BINARY = {"type": "string", "format": "binary"}
_FORM_FIELDS = {
    "file": {**_BINARY, "description": "The file."},
    "purpose": {
        "type": "string",
        "enum": ["assistants", "user_data", "vision", "evals"],
        "description": "Purpose of the file. Carrel stores it and treats all purposes alike.",
        "examples": ["assistants"],
    },
    "expires_after[anchor]": {
        "type": "string",
        "enum": ["created_at"],
        "description": "Start of the time to expiry; needed with `expires_after[seconds]`.",
        "examples": ["created_at"],
    },
    "expires_after[seconds]": {
        "type": "integer",
        "minimum": 3600,
        "maximum": 2_592_000,
        "description": "Time to expiry in seconds, 3,600 (1 hour) to 2,592,000 (30 days).",
        "examples": [86400],
    },
}
_REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART_FORM: {
                "schema": {"type": "object", "required": ["file", "purpose"], "properties": _FORM_FIELDS},
                "example": {"file": "handbook.md", "purpose": "assistants"},
            }
        },
    }
}


@router.post("", summary="Upload a file", response_model=FileOut, openapi_extra=_REQUEST_BODY)
async def create_file(request: Request, tenant: CurrentWriter) -> FileOut:
    """Store a file, to attach it to vector stores later."""
    kind, boundary = parse_content_type(request)
    limit = tenant.quotas.upload_limit_bytes
    reject_oversized_body(request, limit + MAX_FORM_OVERHEAD_BYTES, limit)
    if kind != MULTIPART_FORM or not boundary:
        raise InvalidInputError("Send multipart/form-data with a part named 'file'.", loc=("body", "file"))
    return to_file_out(await tenant.files.store(request.stream(), boundary, _parse_form))


@router.get("", summary="List files", response_model=FileList)
async def list_files(
    tenant: CurrentReader,
    purpose: Annotated[
        Text | None,
        Query(
            max_length=100, description="Only files with this purpose; at most 100 characters.", examples=["assistants"]
        ),
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=10_000, description="Maximum number of files, 1 to 10,000.", examples=[100])
    ] = 10_000,
    order: Annotated[
        Order, Query(description="Order by time of creation: `desc` for newest first.", examples=["desc"])
    ] = "desc",
    after: Annotated[
        Text | None,
        Query(max_length=100, description="Id of the file before the page; at most 100 characters.", examples=[None]),
    ] = None,
) -> dict[str, Any]:
    """Return the files of the tenant; newest first by default."""
    params = ListParams(limit, order, after, None)
    rows = await tenant.files.list_files(
        purpose=purpose, after=params.parse_cursor_id("file"), newest_first=params.newest_first, limit=limit + 1
    )
    return params.to_list_response([to_file_out(file) for file in rows], lambda file: file.id)


@router.get("/{file}", summary="Get a file", response_model=FileOut)
async def get_file(file: FilePath, tenant: CurrentReader) -> FileOut:
    """Return a file without its contents."""
    return to_file_out(await tenant.files.get(decode_path_id("file", file, FileNotFound)))


@router.get(
    "/{file}/content",
    summary="Download a file",
    response_class=StreamingResponse,
    responses={200: {"description": "The file", "content": {"application/octet-stream": {"schema": _BINARY}}}},
)
async def get_file_content(file: FilePath, tenant: CurrentReader, resources: CurrentResources) -> StreamingResponse:
    """Return the contents of a file."""
    stored_file = await tenant.files.get(decode_path_id("file", file, FileNotFound))
    size = await resources.objects.get_size(stored_file.key)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": format_content_disposition(stored_file.filename, inline=False),
        "Content-Security-Policy": "sandbox",
    }
    stream = resources.objects.stream(stored_file.key, start=0, length=size)
    return StreamingResponse(stream, headers=headers, media_type="application/octet-stream")


@router.delete("/{file}", summary="Delete a file", response_model=OpenAiDeletedOut)
async def delete_file(file: FilePath, tenant: CurrentWriter) -> OpenAiDeletedOut:
    """Delete a file, and remove it from every vector store."""
    file_id = decode_path_id("file", file, FileNotFound)
    await tenant.files.delete(file_id)
    return OpenAiDeletedOut(id=encode_id("file", file_id), object="file")
