"""Batches of a vector store's files: create, retrieve, list files, cancel."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field, model_validator

from app.api.bodies import Text
from app.api.dependencies import CurrentReader, CurrentWriter, GuardedRoute
from app.api.openai.envelope import RESPONSES
from app.api.openai.shapes import (
    POLL_AFTER_MS,
    Asked,
    Attributes,
    ChunkingStrategy,
    CurrentWalk,
    FileCounts,
    Page,
    Walk,
    path_id,
    seconds,
)
from app.api.openai.store_files import (
    Status,
    StoreFileIn,
    StoreFileOut,
    last_error,
    plain,
    status_of,
    store_file_out,
    strategy_of,
)
from app.api.openai.vector_stores import counts_of, require_chunking
from app.documents.file_batches import MOST_BATCH_FILES, BatchList, BatchView, FileBatchNotFound, FileState
from app.documents.files import FileNotFound
from app.ids import encode_id
from app.knowledge_bases.types import KnowledgeBaseView

router = APIRouter(
    prefix="/vector_stores/{kb}/file_batches",
    tags=["openai vector stores"],
    route_class=GuardedRoute,
    responses=RESPONSES,
)


class FileBatchIn(Asked):
    """``file_ids``, with attributes for all, or ``files`` with attributes for each."""

    file_ids: list[Text] | None = Field(None, min_length=1, max_length=MOST_BATCH_FILES)
    files: list[StoreFileIn] | None = Field(None, min_length=1, max_length=MOST_BATCH_FILES)
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.file_ids is None) == (self.files is None):
            raise ValueError("send either file_ids or files")
        return self

    def wanted(self) -> Sequence[StoreFileIn]:
        """Each file with what is said of it."""
        if self.files is not None:
            return self.files
        return [
            StoreFileIn(file_id=one, attributes=self.attributes, chunking_strategy=self.chunking_strategy)
            for one in self.file_ids or []
        ]


class FileBatchOut(BaseModel):
    """Files that were attached together."""

    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    vector_store_id: str
    created_at: int
    status: Literal["in_progress", "completed", "cancelled"]
    file_counts: FileCounts


def _status(file: FileState) -> Status:
    if file.document is not None:
        return status_of(file.document)
    return "in_progress" if file.error is None else "failed"


def _out(view: BatchView) -> FileBatchOut:
    batch, counts = view.batch, counts_of(view.states)
    counts.cancelled = batch.cancelled
    counts.total += batch.cancelled
    ended: Literal["cancelled", "completed"] = "completed" if batch.cancelled_at is None else "cancelled"
    return FileBatchOut(
        id=encode_id("vsfb", batch.id),
        vector_store_id=encode_id("kb", batch.kb_id),
        created_at=seconds(batch.created_at),
        status="in_progress" if counts.in_progress and batch.cancelled_at is None else ended,
        file_counts=counts,
    )


def _files_out(view: BatchList, kb: KnowledgeBaseView) -> list[StoreFileOut]:
    found = []
    for file in view.files:
        if file.document is not None:
            found.append(store_file_out(file.document, kb))
            continue
        without = StoreFileOut(
            id=encode_id("file", file.file_id),
            vector_store_id=encode_id("kb", view.batch.kb_id),
            created_at=seconds(view.batch.created_at),
            status=_status(file),
            last_error=last_error(file.error),
            usage_bytes=0,
            attributes=plain(file.attributes or {}),
            chunking_strategy=strategy_of(kb),
            filename=view.names.get(file.file_id, ""),  # it may be gone by now
            document=None,
        )
        found.append(without)
    return found


def _place(walk: Walk, files: Sequence[StoreFileOut]) -> Sequence[StoreFileOut]:
    """Those behind the cursor, in the order in which they are asked for. Raises InvalidInput."""
    ordered = list(reversed(files)) if walk.newest_first else list(files)
    if walk.cursor is None:
        return ordered
    names = [file.id for file in ordered]
    if walk.cursor not in names:
        walk.refuse()
    return ordered[names.index(walk.cursor) + 1 :]


@router.post("", response_model=FileBatchOut)
async def create_file_batch(kb: str, body: FileBatchIn, tenant: CurrentWriter, response: Response) -> FileBatchOut:
    """Have many files attached; what is wrong with one is told of it alone."""
    view, wanted = await tenant.knowledge_bases.find(kb), body.wanted()
    for one in wanted:
        require_chunking(view, one.chunking_strategy)
    files = [(path_id("file", one.file_id, FileNotFound), one.attributes) for one in wanted]
    made = await tenant.file_batches.create(kb, files)
    response.headers.update(POLL_AFTER_MS)
    return _out(made)


@router.get("/{batch}", response_model=FileBatchOut)
async def get_file_batch(kb: str, batch: str, tenant: CurrentReader, response: Response) -> FileBatchOut:
    """One batch with how far it is."""
    found = await tenant.file_batches.get(kb, path_id("vsfb", batch, FileBatchNotFound))
    response.headers.update(POLL_AFTER_MS)
    return _out(found)


@router.get("/{batch}/files", response_model=Page[StoreFileOut])
async def list_batch_files(
    kb: str,
    batch: str,
    walk: CurrentWalk,
    tenant: CurrentReader,
    filter: Annotated[Status | None, Query(description="Files that are so far")] = None,
) -> dict[str, Any]:
    """The files of a batch."""
    view = await tenant.knowledge_bases.find(kb)
    found = await tenant.file_batches.files(kb, path_id("vsfb", batch, FileBatchNotFound))
    files = [file for file in _place(walk, _files_out(found, view)) if filter in (None, file.status)]
    return walk.page(files[: walk.limit + 1], lambda file: file.id)


@router.post("/{batch}/cancel", response_model=FileBatchOut)
async def cancel_file_batch(kb: str, batch: str, tenant: CurrentWriter) -> FileBatchOut:
    """Attach no more of it, and take what is not ready yet out of the vector store."""
    return _out(await tenant.file_batches.cancel(kb, path_id("vsfb", batch, FileBatchNotFound)))
