"""The files of a vector store, which are its knowledge base's documents: attach, list, update, content, detach."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from app.api.bodies import Text
from app.api.dependencies import CurrentReader, CurrentWriter, GuardedRoute
from app.api.openai.envelope import RESPONSES
from app.api.openai.shapes import (
    POLL_AFTER_MS,
    Asked,
    Attributes,
    ChunkingStrategy,
    CurrentWalk,
    Deleted,
    Page,
    StaticSizes,
    StaticStrategy,
    Walk,
    path_id,
    seconds,
)
from app.api.openai.vector_stores import IN_PROGRESS, require_chunking
from app.bootstrap import TenantServices
from app.db.models.tenant_data import Document
from app.documents.attachment_repository import AttachmentPage
from app.documents.attachments import name_of
from app.documents.files import FileNotFound
from app.documents.types import DocumentNotFound
from app.ids import encode_id
from app.knowledge_bases.types import KnowledgeBaseView

router = APIRouter(
    prefix="/vector_stores/{kb}/files", tags=["openai vector stores"], route_class=GuardedRoute, responses=RESPONSES
)
Status = Literal["in_progress", "completed", "failed", "cancelled"]
STATUSES: Mapping[str, tuple[str, ...]] = {
    "in_progress": IN_PROGRESS,
    "completed": ("ready",),
    "failed": ("failed",),
    "cancelled": (),
}
_STATUS: Mapping[str, Status] = {"ready": "completed", "failed": "failed"}
# What ingestion says of a file, in the three words that there are here.
_UNSUPPORTED = frozenset({"unsupported_media_type"})
_INVALID = frozenset({"encrypted", "corrupt", "empty", "no_text", "too_large", "too_many_pages"})


class StoreFileIn(Asked):
    """A file to attach."""

    file_id: Text
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


class StoreFileChanges(Asked):
    """What can be changed: all attributes together."""

    attributes: Attributes | None


class LastError(BaseModel):
    """Why a file failed; ``reason`` is the word of the other doors."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str
    reason: str


class StoreFileOut(BaseModel):
    """A file of a vector store; ``document`` is its name at the other doors."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    vector_store_id: str
    created_at: int
    status: Status
    last_error: LastError | None
    usage_bytes: int
    attributes: dict[str, Any]
    chunking_strategy: StaticStrategy
    filename: str
    document: str | None


class TextPart(BaseModel):
    """A text."""

    type: Literal["text"] = "text"
    text: str


class ContentPage(BaseModel):
    """What was read of a file; there is one page."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[TextPart]
    has_more: Literal[False] = False
    next_page: None = None


def last_error(error: Mapping[str, Any] | None) -> LastError | None:
    """What ingestion, or the upload, said."""
    if error is None:
        return None
    reason = str(error.get("code", ""))
    code: Literal["server_error", "unsupported_file", "invalid_file"] = "server_error"
    if reason in _UNSUPPORTED:
        code = "unsupported_file"
    elif reason in _INVALID:
        code = "invalid_file"
    return LastError(code=code, message=str(error.get("message", "")), reason=reason)


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes are flat: what is nested in metadata is told as its JSON."""
    return {
        name: value if isinstance(value, str | int | float | bool) else json.dumps(value, ensure_ascii=False)
        for name, value in metadata.items()
        if value is not None
    }


def strategy_of(view: KnowledgeBaseView) -> StaticStrategy:
    """How its files are cut."""
    own = view.chunking
    return StaticStrategy(
        static=StaticSizes.model_construct(
            max_chunk_size_tokens=own.max_tokens, chunk_overlap_tokens=own.overlap_tokens
        )
    )


def status_of(document: Document) -> Status:
    """In the words of this door."""
    return _STATUS.get(document.status, "in_progress")


def store_file_out(document: Document, view: KnowledgeBaseView) -> StoreFileOut:
    """The wire form of a document as a file."""
    return StoreFileOut(
        id=name_of(document),
        vector_store_id=encode_id("kb", view.row.id),
        created_at=seconds(document.created_at),
        status=status_of(document),
        last_error=last_error(document.error) if document.status == "failed" else None,
        usage_bytes=document.bytes,
        attributes=plain(document.attributes),
        chunking_strategy=strategy_of(view),
        filename=document.source,
        document=encode_id("doc", document.id),
    )


@router.post("", response_model=StoreFileOut)
async def attach_file(kb: str, body: StoreFileIn, tenant: CurrentWriter, response: Response) -> StoreFileOut:
    """Attach a file: it becomes a document of the knowledge base."""
    view = await tenant.knowledge_bases.find(kb)
    require_chunking(view, body.chunking_strategy)
    file_id = path_id("file", body.file_id, FileNotFound)
    document = await tenant.attachments.attach(kb, file_id, body.attributes)
    response.headers.update(POLL_AFTER_MS)
    return store_file_out(document, view)


async def beyond(tenant: TenantServices, kb: str, walk: Walk) -> Document | None:
    """The document that the cursor names. Raises InvalidInput, also for one that is gone."""
    if walk.cursor is None:
        return None
    try:
        return await tenant.attachments.get(kb, walk.cursor)
    except DocumentNotFound:
        walk.refuse()


@router.get("", response_model=Page[StoreFileOut])
async def list_store_files(
    kb: str,
    walk: CurrentWalk,
    tenant: CurrentReader,
    filter: Annotated[Status | None, Query(description="Files that are so far")] = None,
) -> dict[str, Any]:
    """All documents of the knowledge base, by default the newest first."""
    view = await tenant.knowledge_bases.find(kb)
    place = await beyond(tenant, kb, walk)
    page = AttachmentPage(
        statuses=None if filter is None else STATUSES[filter],
        beyond=None if place is None else place.id,
        newest_first=walk.newest_first,
        limit=walk.limit + 1,
    )
    found = await tenant.attachments.page(kb, page)
    return walk.page([store_file_out(document, view) for document in found], lambda file: file.id)


@router.get("/{attached}", response_model=StoreFileOut)
async def get_store_file(kb: str, attached: str, tenant: CurrentReader, response: Response) -> StoreFileOut:
    """One file with how far it is."""
    document = await tenant.attachments.get(kb, attached)
    response.headers.update(POLL_AFTER_MS)
    return store_file_out(document, await tenant.knowledge_bases.find(kb))


@router.post("/{attached}", response_model=StoreFileOut)
async def update_store_file(kb: str, attached: str, body: StoreFileChanges, tenant: CurrentWriter) -> StoreFileOut:
    """Change its attributes as a whole; searches see it at once."""
    document = await tenant.attachments.update(kb, attached, body.attributes or {})
    return store_file_out(document, await tenant.knowledge_bases.find(kb))


@router.get("/{attached}/content", response_model=ContentPage)
async def get_store_file_content(kb: str, attached: str, tenant: CurrentReader) -> ContentPage:
    """The text that was read of it; nothing before it is ready."""
    _, text = await tenant.attachments.text(kb, attached)
    return ContentPage(data=[TextPart(text=text)] if text else [])


@router.delete("/{attached}", response_model=Deleted)
async def detach_file(kb: str, attached: str, tenant: CurrentWriter) -> Deleted:
    """Take a file out of the vector store; one that was uploaded for itself is kept."""
    await tenant.attachments.detach(kb, attached)
    return Deleted(id=attached, object="vector_store.file.deleted")
