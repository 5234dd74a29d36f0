"""File batches of a vector store: create, retrieve, list files, cancel."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, model_validator

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentWriter
from app.api.http import example_values
from app.api.http.path_parameters import FileBatchPath, VectorStorePath
from app.api.http.request_models import Text
from app.api.openai.chunking_strategy import check_file_chunking
from app.api.openai.errors import ERROR_RESPONSES
from app.api.openai.schemas import (
    POLL_HEADERS,
    Attributes,
    ChunkingStrategyRequest,
    CurrentListParams,
    FileCountsOut,
    ListParams,
    OpenAiRequestModel,
    decode_path_id,
    to_unix_seconds,
)
from app.api.openai.vector_store_files import (
    VectorStoreFileCreate,
    VectorStoreFileList,
    VectorStoreFileOut,
    VectorStoreFileStatus,
    flatten_attributes,
    to_chunking_strategy,
    to_file_error,
    to_file_status,
    to_vector_store_file_out,
)
from app.api.openai.vector_stores import to_file_counts
from app.files.batches import MAX_BATCH_FILES, BatchFileState, FileBatchFiles, FileBatchNotFound, FileBatchView
from app.files.service import FileNotFound
from app.ids import encode_id
from app.knowledge_bases.types import KnowledgeBaseView

router = APIRouter(
    prefix="/vector_stores/{kb}/file_batches",
    tags=["openai vector stores"],
    route_class=AuthenticatedRoute,
    responses=ERROR_RESPONSES,
)


class FileBatchCreate(OpenAiRequestModel):
    """Files to attach together: ``file_ids`` with attributes for all, or ``files`` with attributes for each."""

    file_ids: list[Text] | None = Field(
        None,
        min_length=1,
        max_length=MAX_BATCH_FILES,
        description="Ids of files, 1 to 500.",
        examples=[[example_values.FILE_ID]],
    )
    files: list[VectorStoreFileCreate] | None = Field(
        None,
        min_length=1,
        max_length=MAX_BATCH_FILES,
        description="Files with separate attributes, 1 to 500, in place of `file_ids`.",
    )
    attributes: Attributes | None = Field(
        None, description="Metadata of all documents, for `file_ids`.", examples=[{"department": "hr"}]
    )
    chunking_strategy: ChunkingStrategyRequest | None = Field(
        None, description="Chunking; it must be that of the vector store.", examples=[{"type": "auto"}]
    )

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if (self.file_ids is None) == (self.files is None):
            raise ValueError("send either file_ids or files")
        return self

    def list_requested_files(self) -> Sequence[VectorStoreFileCreate]:
        """Return the files to attach, each with its attributes and chunking strategy."""
        if self.files is not None:
            return self.files
        return [
            VectorStoreFileCreate(file_id=file_id, attributes=self.attributes, chunking_strategy=self.chunking_strategy)
            for file_id in self.file_ids or []
        ]


class FileBatchOut(BaseModel):
    """Files that are attached together."""

    id: str = Field(description="Id of the file batch.", examples=[example_values.FILE_BATCH_ID])
    object: Literal["vector_store.files_batch"] = Field(
        "vector_store.files_batch", description="Type of the object.", examples=["vector_store.files_batch"]
    )
    vector_store_id: str = Field(description="Id of the vector store.", examples=[example_values.KNOWLEDGE_BASE_ID])
    created_at: int = Field(
        description="Time of creation, in seconds since 1970.", examples=[example_values.UNIX_CREATED_AT]
    )
    status: Literal["in_progress", "completed", "cancelled"] = Field(
        description="State of the file batch.", examples=["completed"]
    )
    file_counts: FileCountsOut = Field(description="Number of files in each state.")


def _to_batch_file_status(file: BatchFileState) -> VectorStoreFileStatus:
    if file.document is not None:
        return to_file_status(file.document)
    return "in_progress" if file.error is None else "failed"


def _to_file_batch_out(view: FileBatchView) -> FileBatchOut:
    batch, counts = view.batch, to_file_counts(view.status_counts)
    counts.cancelled = batch.cancelled
    counts.total += batch.cancelled
    final_status: Literal["cancelled", "completed"] = "completed" if batch.cancelled_at is None else "cancelled"
    return FileBatchOut(
        id=encode_id("vsfb", batch.id),
        vector_store_id=encode_id("kb", batch.kb_id),
        created_at=to_unix_seconds(batch.created_at),
        status="in_progress" if counts.in_progress and batch.cancelled_at is None else final_status,
        file_counts=counts,
    )


def _to_batch_files_out(view: FileBatchFiles, kb: KnowledgeBaseView) -> list[VectorStoreFileOut]:
    items = []
    for file in view.files:
        if file.document is not None:
            items.append(to_vector_store_file_out(file.document, kb))
            continue
        unattached = VectorStoreFileOut(
            id=encode_id("file", file.file_id),
            vector_store_id=encode_id("kb", view.batch.kb_id),
            created_at=to_unix_seconds(view.batch.created_at),
            status=_to_batch_file_status(file),
            last_error=to_file_error(file.error),
            usage_bytes=0,
            attributes=flatten_attributes(file.attributes or {}),
            chunking_strategy=to_chunking_strategy(kb),
            filename=view.filenames.get(file.file_id, ""),  # the stored file may be deleted
            document=None,
        )
        items.append(unattached)
    return items


def _apply_cursor(params: ListParams, files: Sequence[VectorStoreFileOut]) -> Sequence[VectorStoreFileOut]:
    """Return the files after the cursor, in the order of the database query. Raises InvalidInputError."""
    ordered = list(reversed(files)) if params.newest_first else list(files)
    if params.cursor is None:
        return ordered
    ids = [file.id for file in ordered]
    if params.cursor not in ids:
        params.raise_invalid_cursor()
    return ordered[ids.index(params.cursor) + 1 :]


@router.post("", summary="Attach many files", response_model=FileBatchOut)
async def create_vector_store_file_batch(
    kb: VectorStorePath, body: FileBatchCreate, tenant: CurrentWriter, response: Response
) -> FileBatchOut:
    """Attach many files to a vector store. If a file cannot be attached, only this file fails."""
    view, requested_files = await tenant.knowledge_bases.find(kb), body.list_requested_files()
    embedders = tenant.knowledge_bases.settings.embedders
    for file in requested_files:
        check_file_chunking(view, file.chunking_strategy, embedders)
    files = [(decode_path_id("file", file.file_id, FileNotFound), file.attributes) for file in requested_files]
    batch_view = await tenant.file_batches.create(kb, files)
    response.headers.update(POLL_HEADERS)
    return _to_file_batch_out(batch_view)


@router.get("/{batch}", summary="Get a file batch", response_model=FileBatchOut)
async def get_vector_store_file_batch(
    kb: VectorStorePath, batch: FileBatchPath, tenant: CurrentReader, response: Response
) -> FileBatchOut:
    """Return a file batch with the state of its files."""
    batch_view = await tenant.file_batches.get(kb, decode_path_id("vsfb", batch, FileBatchNotFound))
    response.headers.update(POLL_HEADERS)
    return _to_file_batch_out(batch_view)


@router.get("/{batch}/files", summary="List the files of a file batch", response_model=VectorStoreFileList)
async def list_vector_store_batch_files(
    kb: VectorStorePath,
    batch: FileBatchPath,
    params: CurrentListParams,
    tenant: CurrentReader,
    filter: Annotated[
        VectorStoreFileStatus | None, Query(description="Only files in this state.", examples=["completed"])
    ] = None,
) -> dict[str, Any]:
    """Return the files of a file batch."""
    view = await tenant.knowledge_bases.find(kb)
    batch_view = await tenant.file_batches.list_files(kb, decode_path_id("vsfb", batch, FileBatchNotFound))
    files = [
        file for file in _apply_cursor(params, _to_batch_files_out(batch_view, view)) if filter in (None, file.status)
    ]
    return params.to_list_response(files[: params.limit + 1], lambda file: file.id)


@router.post("/{batch}/cancel", summary="Cancel a file batch", response_model=FileBatchOut)
async def cancel_vector_store_file_batch(
    kb: VectorStorePath, batch: FileBatchPath, tenant: CurrentWriter
) -> FileBatchOut:
    """Stop attaching the files of a batch, and remove its files that are not ready from the vector store."""
    return _to_file_batch_out(await tenant.file_batches.cancel(kb, decode_path_id("vsfb", batch, FileBatchNotFound)))
