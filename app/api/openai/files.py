"""Files: upload, list, retrieve, content, delete."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from app.api.bodies import Text
from app.api.dependencies import CurrentReader, CurrentResources, CurrentWriter, GuardedRoute
from app.api.openai.envelope import RESPONSES
from app.api.openai.shapes import Asked, Deleted, Order, Page, Walk, path_id, seconds
from app.api.streamed import FORM, checked, content_type, refuse_large
from app.db.models.openai import KeptFile
from app.documents.files import FileFacts, FileNotFound
from app.documents.uploads import OVERHEAD
from app.errors import InvalidInput
from app.ids import encode_id
from app.object_store.disposition import content_disposition

router = APIRouter(prefix="/files", tags=["openai files"], route_class=GuardedRoute, responses=RESPONSES)
Purpose = Literal["assistants", "user_data", "vision", "evals"]


class FileForm(Asked):
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


def file_out(file: KeptFile) -> FileOut:
    """The wire form of a file."""
    return FileOut(
        id=encode_id("file", file.id),
        bytes=file.bytes,
        created_at=seconds(file.created_at),
        expires_at=None if file.expires_at is None else seconds(file.expires_at),
        filename=file.filename,
        purpose=file.purpose,
    )


def _read_form(fields: Mapping[str, str]) -> FileFacts:
    form = checked(FileForm, fields)
    if (form.anchor is None) != (form.lifetime is None):
        raise InvalidInput("expires_after has an anchor and seconds.", loc=("body", "expires_after"))
    return FileFacts(form.purpose, None if form.lifetime is None else timedelta(seconds=form.lifetime))


_FIELDS = {
    "file": {"type": "string", "format": "binary"},
    "purpose": {"type": "string", "enum": ["assistants", "user_data", "vision", "evals"]},
    "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
    "expires_after[seconds]": {"type": "integer", "minimum": 3600, "maximum": 2_592_000},
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {FORM: {"schema": {"type": "object", "required": ["file", "purpose"], "properties": _FIELDS}}},
    }
}


@router.post("", response_model=FileOut, openapi_extra=_BODY)
async def create_file(request: Request, tenant: CurrentWriter) -> FileOut:
    """Keep a file, to attach it to vector stores later."""
    kind, boundary = content_type(request)
    limit = tenant.quotas.upload_bytes
    refuse_large(request, limit + OVERHEAD, limit)
    if kind != FORM or not boundary:
        raise InvalidInput("Send multipart/form-data with a part named 'file'.", loc=("body", "file"))
    return file_out(await tenant.files.keep(request.stream(), boundary, _read_form))


@router.get("", response_model=Page[FileOut])
async def list_files(
    tenant: CurrentReader,
    purpose: Annotated[Text | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Order = "desc",
    after: Annotated[Text | None, Query(max_length=100)] = None,
) -> dict[str, Any]:
    """Files, by default the newest first."""
    walk = Walk(limit, order, after, None)
    found = await tenant.files.page(
        purpose=purpose, after=walk.beyond("file"), newest_first=walk.newest_first, limit=limit + 1
    )
    return walk.page([file_out(file) for file in found], lambda file: file.id)


@router.get("/{file}", response_model=FileOut)
async def get_file(file: str, tenant: CurrentReader) -> FileOut:
    """One file."""
    return file_out(await tenant.files.get(path_id("file", file, FileNotFound)))


@router.get(
    "/{file}/content",
    response_class=StreamingResponse,
    responses={200: {"description": "The bytes as they came", "content": {"application/octet-stream": {}}}},
)
async def get_file_content(file: str, tenant: CurrentReader, resources: CurrentResources) -> StreamingResponse:
    """The bytes."""
    found = await tenant.files.get(path_id("file", file, FileNotFound))
    size = await resources.objects.size(found.key)
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": content_disposition(found.filename, inline=False),
        "Content-Security-Policy": "sandbox",
    }
    stream = resources.objects.stream(found.key, start=0, length=size)
    return StreamingResponse(stream, headers=headers, media_type="application/octet-stream")


@router.delete("/{file}", response_model=Deleted)
async def delete_file(file: str, tenant: CurrentWriter) -> Deleted:
    """Delete a file, and take it out of every vector store."""
    file_id = path_id("file", file, FileNotFound)
    await tenant.files.delete(file_id)
    return Deleted(id=encode_id("file", file_id), object="file")
