"""Vector stores, which are knowledge bases: create, list, retrieve, update, delete."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints

from app.api.bodies import STORABLE, Text
from app.api.dependencies import CurrentAdmin, CurrentReader, GuardedRoute
from app.api.openai.envelope import RESPONSES
from app.api.openai.shapes import Asked, ChunkingStrategy, CurrentWalk, Deleted, FileCounts, Labels, Page, seconds
from app.documents.file_batches import MOST_BATCH_FILES
from app.documents.files import FileNotFound
from app.errors import Forbidden, InvalidInput
from app.ids import decode_id, encode_id
from app.knowledge_bases.stores import Store
from app.knowledge_bases.types import Chunking, KnowledgeBaseView, NewKnowledgeBase

router = APIRouter(
    prefix="/vector_stores", tags=["openai vector stores"], route_class=GuardedRoute, responses=RESPONSES
)
Name = Annotated[str, StringConstraints(max_length=300), STORABLE]
IN_PROGRESS = ("queued", "parsing", "chunking", "embedding")


class ExpiresAfter(Asked):
    """A knowledge base does not expire: this is read to be refused by name."""

    anchor: Text
    days: int


class VectorStoreIn(Asked):
    """A new vector store; all has defaults."""

    name: Name | None = None
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = None
    metadata: Labels | None = None
    file_ids: list[Text] = Field([], max_length=MOST_BATCH_FILES)
    chunking_strategy: ChunkingStrategy | None = None
    expires_after: ExpiresAfter | None = None


class VectorStoreChanges(Asked):
    """What can be changed."""

    name: Name | None = None
    metadata: Labels | None = None
    expires_after: ExpiresAfter | None = None


class VectorStoreOut(BaseModel):
    """A knowledge base as a vector store; ``knowledge_base`` is its name at the other doors."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    name: str
    description: str | None
    created_at: int
    last_active_at: int
    status: Literal["completed", "in_progress"]
    usage_bytes: int
    file_counts: FileCounts
    metadata: dict[str, str]
    expires_after: None = None
    expires_at: None = None
    knowledge_base: str


def counts_of(states: Mapping[str, int]) -> FileCounts:
    """By the status of documents."""
    in_progress = sum(states.get(status, 0) for status in IN_PROGRESS)
    return FileCounts(
        in_progress=in_progress,
        completed=states.get("ready", 0),
        failed=states.get("failed", 0),
        cancelled=0,
        total=sum(states.values()),
    )


def _out(store: Store) -> VectorStoreOut:
    row, counts = store.view.row, counts_of(store.states)
    return VectorStoreOut(
        id=encode_id("kb", row.id),
        name=row.title or row.name,
        description=row.description,
        created_at=seconds(row.created_at),
        last_active_at=seconds(row.updated_at),
        status="in_progress" if counts.in_progress else "completed",
        usage_bytes=store.bytes,
        file_counts=counts,
        metadata=dict(store.labels),
        knowledge_base=row.name,
    )


def _refuse_expiry(given: ExpiresAfter | None) -> None:
    if given is not None:
        raise InvalidInput("A vector store does not expire here: delete it.", loc=("body", "expires_after"))


def _chunking(given: ChunkingStrategy | None) -> Chunking:
    """What is said of a new vector store holds for all its files. Raises InvalidInput."""
    if given is None or given.static is None:
        return Chunking()
    sizes = given.static
    return Chunking(max_tokens=sizes.max_chunk_size_tokens, overlap_tokens=sizes.chunk_overlap_tokens)


def require_chunking(view: KnowledgeBaseView, given: ChunkingStrategy | None) -> None:
    """A file is cut as its vector store cuts. Raises InvalidInput for another wish."""
    if given is None or given.static is None:
        return
    own = view.chunking
    if (own.max_tokens, own.overlap_tokens) != tuple(given.static.model_dump().values()):
        message = (
            f"This vector store cuts at {own.max_tokens} tokens with an overlap of {own.overlap_tokens}; a file cannot "
            "have another chunking_strategy than its vector store."
        )
        raise InvalidInput(message, loc=("body", "chunking_strategy"))


@router.post("", response_model=VectorStoreOut)
async def create_vector_store(body: VectorStoreIn, tenant: CurrentAdmin) -> VectorStoreOut:
    """Make a vector store: a knowledge base whose name is made from the given one."""
    if tenant.principal.knowledge_base_ids is not None:
        raise Forbidden("A key that is narrowed to knowledge bases cannot make others.")
    _refuse_expiry(body.expires_after)
    ids = [decode_id("file", one) for one in body.file_ids]
    files = [one for one in ids if one is not None]
    if len(files) < len(ids):
        raise FileNotFound
    await tenant.files.get_all(files)
    new = NewKnowledgeBase(
        "",  # made from the title
        title=body.name or None,
        description=body.description,
        chunking=_chunking(body.chunking_strategy),
    )
    store = await tenant.stores.create(new, body.metadata or {})
    if files:
        reference = encode_id("kb", store.view.row.id)
        await tenant.file_batches.create(reference, [(one, None) for one in files])
        store = await tenant.stores.get(reference)
    return _out(store)


@router.get("", response_model=Page[VectorStoreOut])
async def list_vector_stores(walk: CurrentWalk, tenant: CurrentReader) -> dict[str, Any]:
    """Vector stores that the key may see, by default the newest first."""
    found = await tenant.stores.page(beyond=walk.beyond("kb"), newest_first=walk.newest_first, limit=walk.limit + 1)
    return walk.page([_out(store) for store in found], lambda store: store.id)


@router.get("/{kb}", response_model=VectorStoreOut)
async def get_vector_store(kb: str, tenant: CurrentReader) -> VectorStoreOut:
    """One vector store, by id or by the knowledge base's name."""
    return _out(await tenant.stores.get(kb))


@router.post("/{kb}", response_model=VectorStoreOut)
async def update_vector_store(kb: str, body: VectorStoreChanges, tenant: CurrentAdmin) -> VectorStoreOut:
    """Change what it is called, and its metadata as a whole; null takes either away."""
    _refuse_expiry(body.expires_after)
    changes = {"title": body.name or None} if "name" in body.model_fields_set else {}
    labels = (body.metadata or {}) if "metadata" in body.model_fields_set else None
    return _out(await tenant.stores.update(kb, changes, labels))


@router.delete("/{kb}", response_model=Deleted)
async def delete_vector_store(kb: str, tenant: CurrentAdmin) -> Deleted:
    """Delete a vector store with what is in it; files that were uploaded for themselves are kept."""
    found = await tenant.knowledge_bases.find(kb)
    await tenant.knowledge_bases.delete(kb)
    return Deleted(id=encode_id("kb", found.row.id), object="vector_store.deleted")
