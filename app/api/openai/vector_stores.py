"""Vector stores, which are knowledge bases: create, list, retrieve, update, delete."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentReader
from app.api.http import example_values
from app.api.http.path_parameters import VectorStorePath
from app.api.http.request_models import STORABLE, Text
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.openai.chunking_strategy import to_chunking
from app.api.openai.errors import ERROR_RESPONSES
from app.api.openai.schemas import (
    ChunkingStrategyRequest,
    CurrentListParams,
    FileCountsOut,
    Labels,
    OpenAiDeletedOut,
    OpenAiListResponse,
    OpenAiRequestModel,
    to_unix_seconds,
)
from app.errors import ForbiddenError, InvalidInputError
from app.files.batches import MAX_BATCH_FILES
from app.files.service import FileNotFound
from app.ids import decode_id, encode_id
from app.knowledge_bases.types import NewKnowledgeBase
from app.knowledge_bases.vector_stores import VectorStore
from app.warnings import ServiceWarning

router = APIRouter(
    prefix="/vector_stores", tags=["openai vector stores"], route_class=AuthenticatedRoute, responses=ERROR_RESPONSES
)
Name = Annotated[str, StringConstraints(max_length=300), STORABLE]
IN_PROGRESS_STATUSES = ("queued", "parsing", "chunking", "embedding")


class ExpiresAfterRequest(OpenAiRequestModel):
    """Expiry of a vector store. Carrel does not support it and refuses the request."""

    anchor: Text = Field(description="Start of the time.", examples=["last_active_at"])
    days: int = Field(description="Number of days.", examples=[7])


class VectorStoreCreate(OpenAiRequestModel):
    """New vector store. All fields have defaults."""

    name: Name | None = Field(
        None,
        description="Name for people, at most 300 characters. The name of the knowledge base is made from it.",
        examples=["Support FAQ"],
    )
    description: Annotated[str, StringConstraints(max_length=4000), STORABLE] | None = Field(
        None,
        description="Description for people, at most 4,000 characters.",
        examples=["Answers to questions of customers."],
    )
    metadata: Labels | None = Field(
        None,
        description="Labels, at most 16: names of at most 64 and values of at most 512 characters.",
        examples=[{"team": "support"}],
    )
    file_ids: list[Text] = Field(
        [],
        max_length=MAX_BATCH_FILES,
        description="Ids of files to attach, at most 500.",
        examples=[[example_values.FILE_ID]],
    )
    chunking_strategy: ChunkingStrategyRequest | None = Field(
        None,
        description="Chunking of all files of the vector store.",
        examples=[{"type": "static", "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 50}}],
    )
    expires_after: ExpiresAfterRequest | None = Field(
        None, description="Not supported: a value makes the request invalid.", examples=[None]
    )


class VectorStoreUpdate(OpenAiRequestModel):
    """Changes of a vector store. Fields left out do not change."""

    name: Name | None = Field(
        None, description="Name for people, at most 300 characters; null removes it.", examples=["Support FAQ"]
    )
    metadata: Labels | None = Field(
        None, description="Labels, replaced as a whole; null removes them.", examples=[{"team": "support"}]
    )
    expires_after: ExpiresAfterRequest | None = Field(
        None, description="Not supported: a value makes the request invalid.", examples=[None]
    )


class VectorStoreOut(BaseModel):
    """Vector store: a knowledge base."""

    id: str = Field(
        description="Id of the vector store, which is that of the knowledge base.",
        examples=[example_values.KNOWLEDGE_BASE_ID],
    )
    object: Literal["vector_store"] = Field(
        "vector_store", description="Type of the object.", examples=["vector_store"]
    )
    name: str = Field(
        description="Name for people: the title of the knowledge base, else its name.", examples=["Staff handbook"]
    )
    description: str | None = Field(
        description="Description for people; null without one.", examples=["Rules for leave, travel and expenses."]
    )
    created_at: int = Field(
        description="Time of creation, in seconds since 1970.", examples=[example_values.UNIX_CREATED_AT]
    )
    last_active_at: int = Field(
        description="Time of the last change, in seconds since 1970.", examples=[example_values.UNIX_CREATED_AT]
    )
    status: Literal["completed", "in_progress"] = Field(
        description="`in_progress` while files are being ingested, else `completed`.", examples=["completed"]
    )
    usage_bytes: int = Field(description="Size of the stored originals in bytes.", examples=[48211])
    file_counts: FileCountsOut = Field(description="Number of files in each state.")
    metadata: dict[str, str] = Field(description="Labels.", examples=[{"team": "support"}])
    expires_after: None = Field(None, description="Always null: vector stores do not expire.", examples=[None])
    expires_at: None = Field(None, description="Always null: vector stores do not expire.", examples=[None])
    knowledge_base: str = Field(
        description="Name of the knowledge base in the other APIs.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    warnings: list[WarningOut] = Field(
        [],
        description="Parts of the request that were changed, such as chunk sizes that the model cannot read. Only the "
        "response to the request has it.",
        examples=[[]],
    )


class VectorStoreList(OpenAiListResponse[VectorStoreOut]):
    """Page of vector stores."""


def to_file_counts(states: Mapping[str, int]) -> FileCountsOut:
    """Return the number of files in each state of the OpenAI API.

    Args:
        states: Number of documents by status.
    """
    in_progress = sum(states.get(status, 0) for status in IN_PROGRESS_STATUSES)
    return FileCountsOut(
        in_progress=in_progress,
        completed=states.get("ready", 0),
        failed=states.get("failed", 0),
        cancelled=0,
        total=sum(states.values()),
    )


def _to_vector_store_out(store: VectorStore, warnings: Sequence[ServiceWarning] = ()) -> VectorStoreOut:
    row, counts = store.view.row, to_file_counts(store.status_counts)
    return VectorStoreOut(
        id=encode_id("kb", row.id),
        name=row.title or row.name,
        description=row.description,
        created_at=to_unix_seconds(row.created_at),
        last_active_at=to_unix_seconds(row.updated_at),
        status="in_progress" if counts.in_progress else "completed",
        usage_bytes=store.bytes,
        file_counts=counts,
        metadata=dict(store.labels),
        knowledge_base=row.name,
        warnings=to_warnings_out(warnings),
    )


def _reject_expiry(expires_after: ExpiresAfterRequest | None) -> None:
    if expires_after is not None:
        message = "Vector stores do not expire. Leave out expires_after, and delete the vector store when it is unused."
        raise InvalidInputError(message, loc=("body", "expires_after"))


@router.post("", summary="Create a vector store", response_model=VectorStoreOut)
async def create_vector_store(body: VectorStoreCreate, tenant: CurrentAdmin) -> VectorStoreOut:
    """Create a vector store, which is a knowledge base. The name of the knowledge base is derived from the name of the
    vector store.
    """
    if tenant.principal.knowledge_base_ids is not None:
        raise ForbiddenError(
            "A key that is restricted to knowledge bases cannot create others. Use an unrestricted key."
        )
    _reject_expiry(body.expires_after)
    ids = [decode_id("file", file_id) for file_id in body.file_ids]
    files = [file_id for file_id in ids if file_id is not None]
    if len(files) < len(ids):
        raise FileNotFound
    await tenant.files.get_all(files)
    chunking, warnings = to_chunking(body.chunking_strategy, tenant.knowledge_bases.settings.embedders)
    new = NewKnowledgeBase(
        "",  # made from the title
        title=body.name or None,
        description=body.description,
        chunking=chunking,
    )
    store = await tenant.vector_stores.create(new, body.metadata or {})
    if files:
        reference = encode_id("kb", store.view.row.id)
        await tenant.file_batches.create(reference, [(file_id, None) for file_id in files])
        store = await tenant.vector_stores.get(reference)
    return _to_vector_store_out(store, warnings)


@router.get("", summary="List vector stores", response_model=VectorStoreList)
async def list_vector_stores(params: CurrentListParams, tenant: CurrentReader) -> dict[str, Any]:
    """Return the vector stores that the key may see; newest first by default."""
    rows = await tenant.vector_stores.list_stores(
        cursor_id=params.parse_cursor_id("kb"), newest_first=params.newest_first, limit=params.limit + 1
    )
    return params.to_list_response([_to_vector_store_out(store) for store in rows], lambda store: store.id)


@router.get("/{kb}", summary="Get a vector store", response_model=VectorStoreOut)
async def get_vector_store(kb: VectorStorePath, tenant: CurrentReader) -> VectorStoreOut:
    """Return a vector store."""
    return _to_vector_store_out(await tenant.vector_stores.get(kb))


@router.post("/{kb}", summary="Update a vector store", response_model=VectorStoreOut)
async def update_vector_store(kb: VectorStorePath, body: VectorStoreUpdate, tenant: CurrentAdmin) -> VectorStoreOut:
    """Change name and labels of a vector store."""
    _reject_expiry(body.expires_after)
    changes = {"title": body.name or None} if "name" in body.model_fields_set else {}
    labels = (body.metadata or {}) if "metadata" in body.model_fields_set else None
    return _to_vector_store_out(await tenant.vector_stores.update(kb, changes, labels))


@router.delete("/{kb}", summary="Delete a vector store", response_model=OpenAiDeletedOut)
async def delete_vector_store(kb: VectorStorePath, tenant: CurrentAdmin) -> OpenAiDeletedOut:
    """Delete a vector store with its documents. Files that were uploaded to `/files` are retained."""
    view = await tenant.knowledge_bases.find(kb)
    await tenant.knowledge_bases.delete(kb)
    return OpenAiDeletedOut(id=encode_id("kb", view.row.id), object="vector_store.deleted")
