"""The files of a vector store, which are its knowledge base's documents: attach, list, update, content, detach."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentWriter
from app.api.http.request_models import Text
from app.api.openai.errors import ERROR_RESPONSES
from app.api.openai.schemas import (
    POLL_HEADERS,
    Attributes,
    ChunkingStrategyRequest,
    CurrentListParams,
    ListParams,
    OpenAiDeletedOut,
    OpenAiListResponse,
    OpenAiRequestModel,
    StaticChunkingSizes,
    StaticChunkingStrategyOut,
    decode_path_id,
    to_unix_seconds,
)
from app.api.openai.vector_stores import IN_PROGRESS_STATUSES, check_chunking
from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.types import DocumentNotFound
from app.files.attachment_repository import AttachmentListParams
from app.files.attachments import format_attachment_id
from app.files.service import FileNotFound
from app.ids import encode_id
from app.knowledge_bases.types import KnowledgeBaseView

router = APIRouter(
    prefix="/vector_stores/{kb}/files",
    tags=["openai vector stores"],
    route_class=AuthenticatedRoute,
    responses=ERROR_RESPONSES,
)
VectorStoreFileStatus = Literal["in_progress", "completed", "failed", "cancelled"]
DOCUMENT_STATUSES: Mapping[str, tuple[str, ...]] = {
    "in_progress": IN_PROGRESS_STATUSES,
    "completed": ("ready",),
    "failed": ("failed",),
    "cancelled": (),
}
_FILE_STATUSES: Mapping[str, VectorStoreFileStatus] = {"ready": "completed", "failed": "failed"}
# What ingestion says of a file, in the three words that there are here.
_UNSUPPORTED_CODES = frozenset({"unsupported_media_type"})
_INVALID_CODES = frozenset({"encrypted", "corrupt", "empty", "no_text", "too_large", "too_many_pages"})


class VectorStoreFileCreate(OpenAiRequestModel):
    """A file to attach."""

    file_id: Text
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategyRequest | None = None


class VectorStoreFileUpdate(OpenAiRequestModel):
    """What can be changed: all attributes together."""

    attributes: Attributes | None


class VectorStoreFileErrorOut(BaseModel):
    """Why a file failed; ``reason`` is the word of the other doors."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str
    reason: str


class VectorStoreFileOut(BaseModel):
    """A file of a vector store; ``document`` is its name at the other doors."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    vector_store_id: str
    created_at: int
    status: VectorStoreFileStatus
    last_error: VectorStoreFileErrorOut | None
    usage_bytes: int
    attributes: dict[str, Any]
    chunking_strategy: StaticChunkingStrategyOut
    filename: str
    document: str | None


class VectorStoreFileList(OpenAiListResponse[VectorStoreFileOut]):
    """A page of files of a vector store."""


class TextContentOut(BaseModel):
    """A text."""

    type: Literal["text"] = "text"
    text: str


class VectorStoreFileContentOut(BaseModel):
    """What was read of a file; there is one page."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[TextContentOut]
    has_more: Literal[False] = False
    next_page: None = None


def to_file_error(error: Mapping[str, Any] | None) -> VectorStoreFileErrorOut | None:
    """What ingestion, or the upload, said."""
    if error is None:
        return None
    reason = str(error.get("code", ""))
    code: Literal["server_error", "unsupported_file", "invalid_file"] = "server_error"
    if reason in _UNSUPPORTED_CODES:
        code = "unsupported_file"
    elif reason in _INVALID_CODES:
        code = "invalid_file"
    return VectorStoreFileErrorOut(code=code, message=str(error.get("message", "")), reason=reason)


def flatten_attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes are flat: what is nested in metadata is told as its JSON."""
    return {
        name: value if isinstance(value, str | int | float | bool) else json.dumps(value, ensure_ascii=False)
        for name, value in metadata.items()
        if value is not None
    }


def to_chunking_strategy(view: KnowledgeBaseView) -> StaticChunkingStrategyOut:
    """How its files are cut."""
    chunking = view.chunking
    return StaticChunkingStrategyOut(
        static=StaticChunkingSizes.model_construct(
            max_chunk_size_tokens=chunking.max_tokens, chunk_overlap_tokens=chunking.overlap_tokens
        )
    )


def to_file_status(document: DocumentRow) -> VectorStoreFileStatus:
    """In the words of this door."""
    return _FILE_STATUSES.get(document.status, "in_progress")


def to_vector_store_file_out(document: DocumentRow, view: KnowledgeBaseView) -> VectorStoreFileOut:
    """The wire form of a document as a file."""
    return VectorStoreFileOut(
        id=format_attachment_id(document),
        vector_store_id=encode_id("kb", view.row.id),
        created_at=to_unix_seconds(document.created_at),
        status=to_file_status(document),
        last_error=to_file_error(document.error) if document.status == "failed" else None,
        usage_bytes=document.bytes,
        attributes=flatten_attributes(document.attributes),
        chunking_strategy=to_chunking_strategy(view),
        filename=document.source,
        document=encode_id("doc", document.id),
    )


@router.post("", response_model=VectorStoreFileOut)
async def create_vector_store_file(
    kb: str, body: VectorStoreFileCreate, tenant: CurrentWriter, response: Response
) -> VectorStoreFileOut:
    """Attach a file: it becomes a document of the knowledge base."""
    view = await tenant.knowledge_bases.find(kb)
    check_chunking(view, body.chunking_strategy)
    file_id = decode_path_id("file", body.file_id, FileNotFound)
    document = await tenant.vector_store_files.attach(kb, file_id, body.attributes)
    response.headers.update(POLL_HEADERS)
    return to_vector_store_file_out(document, view)


async def resolve_cursor(tenant: TenantServices, kb: str, params: ListParams) -> DocumentRow | None:
    """The document that the cursor names. Raises InvalidInputError, also for one that is gone."""
    if params.cursor is None:
        return None
    try:
        return await tenant.vector_store_files.get(kb, params.cursor)
    except DocumentNotFound:
        params.raise_invalid_cursor()


@router.get("", response_model=VectorStoreFileList)
async def list_vector_store_files(
    kb: str,
    params: CurrentListParams,
    tenant: CurrentReader,
    filter: Annotated[VectorStoreFileStatus | None, Query(description="Files that are so far")] = None,
) -> dict[str, Any]:
    """All documents of the knowledge base, by default the newest first."""
    view = await tenant.knowledge_bases.find(kb)
    cursor_document = await resolve_cursor(tenant, kb, params)
    page = AttachmentListParams(
        statuses=None if filter is None else DOCUMENT_STATUSES[filter],
        cursor_id=None if cursor_document is None else cursor_document.id,
        newest_first=params.newest_first,
        limit=params.limit + 1,
    )
    rows = await tenant.vector_store_files.list_documents(kb, page)
    return params.to_list_response(
        [to_vector_store_file_out(document, view) for document in rows], lambda file: file.id
    )


@router.get("/{vector_store_file}", response_model=VectorStoreFileOut)
async def get_vector_store_file(
    kb: str, vector_store_file: str, tenant: CurrentReader, response: Response
) -> VectorStoreFileOut:
    """One file with how far it is."""
    document = await tenant.vector_store_files.get(kb, vector_store_file)
    response.headers.update(POLL_HEADERS)
    return to_vector_store_file_out(document, await tenant.knowledge_bases.find(kb))


@router.post("/{vector_store_file}", response_model=VectorStoreFileOut)
async def update_vector_store_file(
    kb: str, vector_store_file: str, body: VectorStoreFileUpdate, tenant: CurrentWriter
) -> VectorStoreFileOut:
    """Change its attributes as a whole; searches see it at once."""
    document = await tenant.vector_store_files.update(kb, vector_store_file, body.attributes or {})
    return to_vector_store_file_out(document, await tenant.knowledge_bases.find(kb))


@router.get("/{vector_store_file}/content", response_model=VectorStoreFileContentOut)
async def get_vector_store_file_content(
    kb: str, vector_store_file: str, tenant: CurrentReader
) -> VectorStoreFileContentOut:
    """The text that was read of it; nothing before it is ready."""
    _, text = await tenant.vector_store_files.read_text(kb, vector_store_file)
    return VectorStoreFileContentOut(data=[TextContentOut(text=text)] if text else [])


@router.delete("/{vector_store_file}", response_model=OpenAiDeletedOut)
async def delete_vector_store_file(kb: str, vector_store_file: str, tenant: CurrentWriter) -> OpenAiDeletedOut:
    """Take a file out of the vector store; one that was uploaded for itself is kept."""
    await tenant.vector_store_files.detach(kb, vector_store_file)
    return OpenAiDeletedOut(id=vector_store_file, object="vector_store.file.deleted")
