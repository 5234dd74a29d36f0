"""Files of a vector store, which are documents of its knowledge base: attach, list, read, update, detach."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentWriter
from app.api.http import example_values
from app.api.http.path_parameters import VectorStoreFilePath, VectorStorePath
from app.api.http.request_models import Text
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.openai.chunking_strategy import check_file_chunking
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
from app.api.openai.vector_stores import IN_PROGRESS_STATUSES
from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.documents.types import DocumentNotFound
from app.files.attachment_repository import AttachmentListParams
from app.files.attachments import format_attachment_id
from app.files.service import FileNotFound
from app.ids import encode_id
from app.knowledge_bases.types import KnowledgeBaseView
from app.warnings import ServiceWarning

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
# Codes of ingestion errors that the OpenAI API calls ``unsupported_file`` and ``invalid_file``.
_UNSUPPORTED_CODES = frozenset({"unsupported_media_type"})
_INVALID_CODES = frozenset({"encrypted", "corrupt", "empty", "no_text", "too_large", "too_many_pages"})


class VectorStoreFileCreate(OpenAiRequestModel):
    """File to attach to a vector store."""

    file_id: Text = Field(description="Id of the file.", examples=[example_values.FILE_ID])
    attributes: Attributes | None = Field(
        None,
        description="Metadata of the document, at most 16 values. Names have at most 64 characters, texts at most 512.",
        examples=[{"department": "hr"}],
    )
    chunking_strategy: ChunkingStrategyRequest | None = Field(
        None, description="Chunking; it must be that of the vector store.", examples=[{"type": "auto"}]
    )


class VectorStoreFileUpdate(OpenAiRequestModel):
    """Changes of a file of a vector store."""

    attributes: Attributes | None = Field(
        description="Metadata of the document, replaced as a whole; null removes it.", examples=[{"department": "hr"}]
    )


class VectorStoreFileErrorOut(BaseModel):
    """Error of a file that failed."""

    code: Literal["server_error", "unsupported_file", "invalid_file"] = Field(
        description="Error code of the OpenAI API.", examples=["invalid_file"]
    )
    message: str = Field(
        description="What is wrong, for people.", examples=["The file is encrypted. Upload a copy without a password."]
    )
    reason: str = Field(description="Error code of the other APIs.", examples=["encrypted"])


class VectorStoreFileOut(BaseModel):
    """File of a vector store: a document."""

    id: str = Field(
        description="Id of the uploaded file, or that of the document if there is no such file.",
        examples=[example_values.FILE_ID],
    )
    object: Literal["vector_store.file"] = Field(
        "vector_store.file", description="Type of the object.", examples=["vector_store.file"]
    )
    vector_store_id: str = Field(description="Id of the vector store.", examples=[example_values.KNOWLEDGE_BASE_ID])
    created_at: int = Field(
        description="Time of creation, in seconds since 1970.", examples=[example_values.UNIX_CREATED_AT]
    )
    status: VectorStoreFileStatus = Field(description="State of the ingestion.", examples=["completed"])
    last_error: VectorStoreFileErrorOut | None = Field(
        description="Error of a file that failed; null otherwise.", examples=[None]
    )
    usage_bytes: int = Field(description="Size of the original in bytes.", examples=[48211])
    attributes: dict[str, Any] = Field(
        description="Metadata of the document. Nested values are JSON as text.", examples=[{"department": "hr"}]
    )
    chunking_strategy: StaticChunkingStrategyOut = Field(description="Chunking of the vector store.")
    filename: str = Field(description="Name of the file.", examples=["handbook.pdf"])
    document: str | None = Field(
        description="Id of the document in the other APIs; null for a file of a batch that is not attached yet.",
        examples=[example_values.DOCUMENT_ID],
    )
    warnings: list[WarningOut] = Field(
        [],
        description="Parts of the request that were changed, such as chunk sizes that the model cannot read. Only the "
        "response to the request has it.",
        examples=[[]],
    )


class VectorStoreFileList(OpenAiListResponse[VectorStoreFileOut]):
    """Page of files of a vector store."""


class TextContentOut(BaseModel):
    """Piece of text."""

    type: Literal["text"] = Field("text", description="Type of the content.", examples=["text"])
    text: str = Field(description="The text.", examples=["Parents may take up to 14 months of parental leave."])


class VectorStoreFileContentOut(BaseModel):
    """Parsed text of a file, on one page."""

    object: Literal["vector_store.file_content.page"] = Field(
        "vector_store.file_content.page", description="Type of the object.", examples=["vector_store.file_content.page"]
    )
    data: list[TextContentOut] = Field(description="Text of the file; empty before it is ready.")
    has_more: Literal[False] = Field(False, description="Always false: there is one page.", examples=[False])
    next_page: None = Field(None, description="Always null: there is one page.", examples=[None])


def to_file_error(error: Mapping[str, Any] | None) -> VectorStoreFileErrorOut | None:
    """Return the error of a file in the form of the OpenAI API.

    Args:
        error: Error of the ingestion or of the upload, with ``code`` and ``message``.

    Returns:
        The error; None without an error. Unknown codes become ``server_error``.
    """
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
    """Return metadata as flat attributes. Nested values become JSON text, and nulls are left out."""
    return {
        name: value if isinstance(value, str | int | float | bool) else json.dumps(value, ensure_ascii=False)
        for name, value in metadata.items()
        if value is not None
    }


def to_chunking_strategy(view: KnowledgeBaseView) -> StaticChunkingStrategyOut:
    """Return the chunking of a knowledge base in the form of the OpenAI API."""
    chunking = view.chunking
    return StaticChunkingStrategyOut(
        static=StaticChunkingSizes.model_construct(
            max_chunk_size_tokens=chunking.max_tokens, chunk_overlap_tokens=chunking.overlap_tokens
        )
    )


def to_file_status(document: DocumentRow) -> VectorStoreFileStatus:
    """Return the status of a document in the form of the OpenAI API."""
    return _FILE_STATUSES.get(document.status, "in_progress")


def to_vector_store_file_out(
    document: DocumentRow, view: KnowledgeBaseView, warnings: Sequence[ServiceWarning] = ()
) -> VectorStoreFileOut:
    """Return a document as a file of a vector store.

    Args:
        document: The document.
        view: Knowledge base of the document.
        warnings: Warnings about the request.
    """
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
        warnings=to_warnings_out(warnings),
    )


@router.post("", summary="Attach a file", response_model=VectorStoreFileOut)
async def create_vector_store_file(
    kb: VectorStorePath, body: VectorStoreFileCreate, tenant: CurrentWriter, response: Response
) -> VectorStoreFileOut:
    """Attach a file to a vector store: it becomes a document of the knowledge base."""
    view = await tenant.knowledge_bases.find(kb)
    warnings = check_file_chunking(view, body.chunking_strategy, tenant.knowledge_bases.settings.embedders)
    file_id = decode_path_id("file", body.file_id, FileNotFound)
    document = await tenant.vector_store_files.attach(kb, file_id, body.attributes)
    response.headers.update(POLL_HEADERS)
    return to_vector_store_file_out(document, view, warnings)


async def resolve_cursor(tenant: TenantServices, kb: str, params: ListParams) -> DocumentRow | None:
    """Return the document that the cursor of a list names.

    Args:
        tenant: Services of the caller.
        kb: Id or name of the knowledge base.
        params: Pagination parameters.

    Returns:
        The document; None for the first page.

    Raises:
        InvalidInputError: The document does not exist.
    """
    if params.cursor is None:
        return None
    try:
        return await tenant.vector_store_files.get(kb, params.cursor)
    except DocumentNotFound:
        params.raise_invalid_cursor()


@router.get("", summary="List the files of a vector store", response_model=VectorStoreFileList)
async def list_vector_store_files(
    kb: VectorStorePath,
    params: CurrentListParams,
    tenant: CurrentReader,
    filter: Annotated[
        VectorStoreFileStatus | None, Query(description="Only files in this state.", examples=["completed"])
    ] = None,
) -> dict[str, Any]:
    """Return the documents of the knowledge base as files; newest first by default."""
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


@router.get("/{vector_store_file}", summary="Get a file of a vector store", response_model=VectorStoreFileOut)
async def get_vector_store_file(
    kb: VectorStorePath, vector_store_file: VectorStoreFilePath, tenant: CurrentReader, response: Response
) -> VectorStoreFileOut:
    """Return a file of a vector store with the state of its ingestion."""
    document = await tenant.vector_store_files.get(kb, vector_store_file)
    response.headers.update(POLL_HEADERS)
    return to_vector_store_file_out(document, await tenant.knowledge_bases.find(kb))


@router.post("/{vector_store_file}", summary="Update a file of a vector store", response_model=VectorStoreFileOut)
async def update_vector_store_file(
    kb: VectorStorePath, vector_store_file: VectorStoreFilePath, body: VectorStoreFileUpdate, tenant: CurrentWriter
) -> VectorStoreFileOut:
    """Replace the attributes of a file. Searches see them at once."""
    document = await tenant.vector_store_files.update(kb, vector_store_file, body.attributes or {})
    return to_vector_store_file_out(document, await tenant.knowledge_bases.find(kb))


@router.get("/{vector_store_file}/content", summary="Get the text of a file", response_model=VectorStoreFileContentOut)
async def get_vector_store_file_content(
    kb: VectorStorePath, vector_store_file: VectorStoreFilePath, tenant: CurrentReader
) -> VectorStoreFileContentOut:
    """Return the parsed text of a file."""
    _, text = await tenant.vector_store_files.read_text(kb, vector_store_file)
    return VectorStoreFileContentOut(data=[TextContentOut(text=text)] if text else [])


@router.delete("/{vector_store_file}", summary="Detach a file", response_model=OpenAiDeletedOut)
async def delete_vector_store_file(
    kb: VectorStorePath, vector_store_file: VectorStoreFilePath, tenant: CurrentWriter
) -> OpenAiDeletedOut:
    """Remove a file from a vector store. A file that was uploaded to `/files` is retained."""
    await tenant.vector_store_files.detach(kb, vector_store_file)
    return OpenAiDeletedOut(id=vector_store_file, object="vector_store.file.deleted")
